"""The system calls that Python's own socket module does not have."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any


def send_messages(descriptor: int, messages: int, count: int, flags: int) -> int:
    """Send ``count`` messages (struct mmsghdr) from the address ``messages`` on; return how many were taken.

    OSError where the kernel did not take the first of them (sendmmsg(2)).
    """
    return _checked(_libc().sendmmsg(descriptor, messages, count, flags))


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
