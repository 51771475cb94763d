"""Checks: what must hold of a batch of octets, and what of it does not."""
