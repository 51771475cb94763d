"""Executors of tasks: local processes, shares of a batch system, and Dask clusters."""
