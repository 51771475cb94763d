"""CSIG (draft-ravi-ippm-csig): what the most congested hop of a path has, written into tags on their way."""
