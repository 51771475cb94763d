"""Many captures: statistics, checks, Parquet and filtered copies of each and of all, on many machines.

A folder takes what comes of each capture, of all together, and a manifest; the same again does what is
missing.
"""
