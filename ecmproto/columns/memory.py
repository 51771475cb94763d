"""Memory for columns, used again when nobody looks at what was in it.

Fresh memory costs more than what is written to it: the system clears every page of it first.
"""

from __future__ import annotations

import sys
import threading

import numpy as np
from numpy.typing import NDArray

Octets = NDArray[np.uint8]

_KEPT_OCTETS = 64 << 20
_PAGE = 1 << 16
_UNUSED = 3
"""References to a store that nobody looks at: the list's, the loop's, and that of the count itself."""

_lock = threading.Lock()
_stores: list[Octets] = []


def borrow(octets: int) -> Octets:
    """Return so many octets of whatever content, for as long as the array or a view of it is held."""
    with _lock:
        for store in _stores:
            if octets <= len(store) <= 4 * octets + _PAGE and sys.getrefcount(store) == _UNUSED:
                return store[:octets]
        store = np.empty(-(-octets // _PAGE) * _PAGE, np.uint8)
        _stores.append(store)
        while sum(map(len, _stores)) > _KEPT_OCTETS:
            del _stores[0]
        return store[:octets]
