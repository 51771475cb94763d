"""DBP (S002): destinations send rate reports to their sources, and the switches on the path lower them."""
