"""Checks of batches of octets: each compares two views of them and yields the differences."""
