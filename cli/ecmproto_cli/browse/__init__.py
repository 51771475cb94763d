"""The window of ``ecmproto browse``: a terminal application over `ecmproto.tools.browse`."""
