"""Distributed processing of many captures: statistics, checks, Parquet files and filtered copies.

A folder contains the results of each capture, the results of all captures together, and a manifest. A second
run processes only missing captures.
"""
