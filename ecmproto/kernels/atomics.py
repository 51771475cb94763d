"""Atomic access to arrays that several threads share, as in the memory model of C11."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import instruction


def _loading() -> Any:
    from ecmproto.kernels.struct_types import loading

    return loading


def _storing() -> Any:
    from ecmproto.kernels.struct_types import storing

    return storing


@instruction(_loading)
def load_acquire(words: NDArray[np.int64], index: int) -> int:
    """Return a word; later reads of this thread see all writes that preceded `store_release` of the word."""
    return int(words[index])


@instruction(_storing)
def store_release(words: NDArray[np.int64], index: int, value: int) -> None:
    """Set a word after all earlier writes of this thread."""
    words[index] = value
