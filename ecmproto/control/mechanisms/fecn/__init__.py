"""FECN (S003): explicit rates, carried forward in RD tags and turned round by the receiver."""
