"""Sending frames: many by one system call, from where they lie, nothing copied on this side of the kernel."""

from __future__ import annotations

import errno
import os
import socket

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Int64, Octets
from ecmproto.capture.linux import abi
from ecmproto.capture.linux.calls import send_messages
from ecmproto.capture.linux.packet_socket import DOWN_ERRORS, PacketSocket
from ecmproto.errors import InterfaceError

FRAMES = 1024
"""Most frames by one call; the kernel takes no more than UIO_MAXIOV."""

_FULL = frozenset({errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM})
_REFUSED = frozenset({errno.EMSGSIZE, errno.EINVAL})


class FrameSender:
    """Sends frames out of an interface as they are, from the destination address to the last octet, no FCS.

    ``bypass_queues`` hands them to the driver past the queueing discipline (PACKET_QDISC_BYPASS).  Counters
    only grow: ``sent`` frames and ``octets``, ``refused`` ones that the kernel takes in no case, ``full``
    times that there was no room, ``down`` times that the interface was.  Raises InterfaceError.
    """

    def __init__(self, interface: str, *, bypass_queues: bool = False) -> None:
        self._socket = PacketSocket(interface)
        self._socket.bind(0)
        self.facts = self._socket.facts
        self.bypasses = bypass_queues and self._socket.bypass_queues()
        """Whether the queueing discipline is bypassed."""
        self._messages, self._parts = abi.message_array(FRAMES)
        self._base, self._length = self._parts["base"], self._parts["octets"]
        self.sent = 0
        self.octets = 0
        self.refused = 0
        self.full = 0
        self.down = 0

    def fileno(self) -> int:
        """Return the descriptor to wait at: writable when there is room."""
        return self._socket.socket.fileno()

    def send(self, buffer: Octets, offset: Int64, captured: Int64) -> int:
        """Send frames that start at ``offset`` in ``buffer`` and have ``captured`` octets; return how many.

        Fewer than given means that there was no room for the next one (`full`) or that the interface is
        down (`down`); the call never waits.  What the kernel refuses (`refused`: longer than the MTU, no
        whole Ethernet header) counts as done.  InterfaceError when the interface was removed.
        """
        done = 0
        base = buffer.ctypes.data
        while done < len(offset):
            part = slice(done, done + FRAMES)
            count = len(offset[part])
            self._base[:count] = offset[part] + base
            self._length[:count] = captured[part]
            taken = self._take(count)
            self.octets += int(captured[done : done + taken].sum())
            done += taken
            if taken < count and not self._failed():
                break
            done += taken < count
        return done

    def _take(self, count: int) -> int:
        """Give ``count`` messages to the kernel until it takes no more; return how many it took."""
        taken = 0
        self._error = 0
        try:
            while taken < count:
                taken += send_messages(
                    self.fileno(), self._messages, taken, count - taken, socket.MSG_DONTWAIT
                )
        except OSError as error:
            self._error = error.errno or 0
        self.sent += taken
        return taken

    def _failed(self) -> bool:
        """Count why a frame was not taken; return whether it is to be left out, not tried again."""
        if self._error in _REFUSED:
            self.refused += 1
            return True
        if self._error in _FULL:
            self.full += 1
        elif self._error in DOWN_ERRORS:
            self.down += 1
            if self._socket.gone:
                raise self._socket.vanished()
        elif self._error != errno.EINTR:
            raise InterfaceError(
                interface=self.facts.name, needed="to send frames", got=os.strerror(self._error)
            )
        return False

    def unsendable(self, octets: NDArray[np.uint8], offset: Int64, captured: Int64) -> NDArray[np.bool_]:
        """Return which frames the kernel would refuse: too long for the MTU, or without a whole header.

        A frame whose first tag is a C-TAG may be 4 octets longer than others; other tags count in the MTU.
        """
        limit = np.full(len(offset), self.facts.longest_octets)
        whole = captured >= abi.ETHERNET_HEADER_OCTETS
        at = offset[whole] + 12
        tagged = (octets[at] == abi.C_TAG >> 8) & (octets[at + 1] == abi.C_TAG & 0xFF)
        limit[whole] += tagged * abi.TAG_OCTETS
        return ~whole | (captured > limit)

    def close(self) -> None:
        """Stop sending."""
        self._socket.close()

    def __enter__(self) -> FrameSender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
