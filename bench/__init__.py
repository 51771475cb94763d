"""Benchmarks: figures beside peers, measured in the same run.  ``python -m bench [NAME…]``."""
