"""Processing of many captures: statistics, checks, Parquet and filtered copies of each and of all,
distributed.

A folder receives the results of each capture, of all together, and a manifest; a second run does only what is
missing.
"""
