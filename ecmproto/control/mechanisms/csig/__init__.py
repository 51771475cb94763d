"""CSIG (draft-ravi-ippm-csig): a tag in a frame collects the state of the most congested hop of the path."""
