"""Traffic: the flows of an experiment as compiled sources, including TCP."""
