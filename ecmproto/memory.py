"""Memory that a process has freed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""glibc's numbers of these mallopt parameters."""
_MAPPED_OCTETS, _RETAINED_OCTETS = 1 << 25, 1 << 28
"""Minimum size of mapped allocations, at its allowed maximum, and size of free memory that is kept."""


def keep_freed_memory() -> None:
    """Configure this process to keep freed memory for its next batch of frames.

    Batches allocate and free tens of megabytes. The system fills returned memory with zeros, page by page,
    when the memory is allocated again. This takes up to a fifth of the time of statistics. Without glibc,
    this function has no effect.
    """
    with suppress(OSError, AttributeError):
        settle = ctypes.CDLL(None).mallopt
        settle(_M_MMAP_THRESHOLD, _MAPPED_OCTETS)
        settle(_M_TRIM_THRESHOLD, _RETAINED_OCTETS)
