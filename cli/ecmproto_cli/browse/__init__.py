"""The terminal window of ``ecmproto browse``, based on `ecmproto.tools.browse`."""
