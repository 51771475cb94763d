"""The formats: one class each, which says all about it and which everything else reads."""
