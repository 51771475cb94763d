"""Execution of tasks: by processes of this machine, parts of a batch system, or a Dask cluster."""
