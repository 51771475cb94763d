"""Traffic: the flows of an experiment as compiled sources, TCP among them."""
