"""How an algorithm's text becomes machine code: compiled by numba, kept, shipped in wheels, and run."""
