"""Kernels: compilation by numba, the cache of compiled code, the library of compiled code, and calls."""
