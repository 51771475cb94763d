"""DBP (S002): destinations send rate reports to sources, and switches on the path lower the rate."""
