"""Benchmarks that compare ecmproto with other programs in the same run: ``python -m bench [NAME…]``."""
