"""FECN (S003): frames carry an explicit rate forward in RD tags, and the receiver returns the rate."""
