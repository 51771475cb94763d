"""Machine code of algorithms: compiled by numba, cached, shipped in a library, and run."""
