"""The system calls that Python's own socket module does not have."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray


def send_messages(descriptor: int, messages: NDArray[np.void], first: int, count: int, flags: int) -> int:
    """Send ``count`` of ``messages`` (struct mmsghdr) from ``first`` on; return how many the kernel took.

    OSError where it did not take the first of them (sendmmsg(2)).
    """
    address = messages.ctypes.data + first * messages.itemsize
    return _checked(_libc().sendmmsg(descriptor, address, count, flags))


def receive_messages(descriptor: int, messages: int, count: int, flags: int) -> int:
    """Receive up to ``count`` frames into the messages at the address ``messages``; return how many came.

    OSError where none came (recvmmsg(2)).
    """
    return _checked(_libc().recvmmsg(descriptor, messages, count, flags, None))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    number, address, size = ctypes.c_int, ctypes.c_void_p, ctypes.c_uint
    library.sendmmsg.argtypes = [number, address, size, number]
    library.recvmmsg.argtypes = [number, address, size, number, address]
    return library
