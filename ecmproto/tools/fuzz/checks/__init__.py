"""Checks of batches of octets. Each check compares two views of the octets and yields the differences."""
