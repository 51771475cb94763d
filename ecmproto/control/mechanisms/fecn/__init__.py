"""FECN (S003): explicit rates, carried forward in RD tags and returned by the receiver."""
