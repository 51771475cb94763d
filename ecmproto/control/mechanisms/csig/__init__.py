"""CSIG (draft-ravi-ippm-csig): the state of the most congested hop of a path, written into passing tags."""
