"""Checks of batches of octets: each holds two views of them against each other and yields the differences."""
