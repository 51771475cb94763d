"""Prefetches: loads of memory into the processor's cache, before a kernel needs the memory."""

from __future__ import annotations

from typing import Any

from ecmproto.kernels.kernel import instruction

CACHE_LINE = 64
"""Number of octets that `prefetch` loads."""


def _typing() -> Any:
    from ecmproto.kernels.struct_types import prefetching

    return prefetching


@instruction(_typing)
def prefetch(part: object, offset: int) -> None:
    """Load the cache line at ``offset`` octets in a row of a struct, in a record or in an array.

    The kernel does not wait for the load. In plain Python, the function has no effect.
    """
