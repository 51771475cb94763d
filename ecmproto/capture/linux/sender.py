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

_FEW = 4

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
        # asking an array for its address takes as long as a frame does
        self._address = self._messages.ctypes.data
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
        if len(offset) <= _FEW:
            return self._send_few(buffer, offset, captured)
        done = 0
        while done < len(offset):
            part = slice(done, done + FRAMES)
            count = self.load(buffer, offset[part], captured[part])
            pushed = self.push(0, count)
            done += pushed
            if pushed < count:
                break
        return done

    def _send_few(self, buffer: Octets, offset: Int64, captured: Int64) -> int:
        """Send frames by a system call each: less than messages to the kernel take to prepare."""
        octets, done = memoryview(buffer.data), 0
        for start, length in zip(offset.tolist(), captured.tolist(), strict=True):
            try:
                self._socket.socket.send(octets[start : start + length], socket.MSG_DONTWAIT)
            except OSError as error:
                if not self._failed(error.errno or errno.EIO):
                    break
            else:
                self.sent += 1
                self.octets += length
            done += 1
        return done

    def load(self, buffer: Octets, offset: Int64, captured: Int64) -> int:
        """Prepare frames for `push`, at most `FRAMES`, and return how many; ``buffer`` must stay."""
        count = min(len(offset), FRAMES)
        self._base[:count] = offset[:count] + buffer.ctypes.data
        self._length[:count] = captured[:count]
        return count

    def push(self, first: int, count: int) -> int:
        """Send ``count`` of the frames loaded, from ``first`` on, as `send` does; return how many."""
        done = 0
        while done < count:
            taken, error = self._take(first + done, count - done)
            done += taken
            if error:
                if not self._failed(error):
                    break
                done += 1
        return done

    def _take(self, first: int, count: int) -> tuple[int, int]:
        """Give messages to the kernel once; return how many it took, and its error where it took none."""
        try:
            address = self._address + first * self._messages.itemsize
            taken = send_messages(self.fileno(), address, count, socket.MSG_DONTWAIT)
        except OSError as error:
            return 0, error.errno or errno.EIO
        self.sent += taken
        # summing up an array of one takes longer than looking
        one = taken == 1
        self.octets += int(self._length[first] if one else self._length[first : first + taken].sum())
        return taken, 0

    def _failed(self, error: int) -> bool:
        """Count why a frame was not taken; return whether it is to be left out, not tried again."""
        if error in _REFUSED:
            self.refused += 1
            return True
        if error in _FULL:
            self.full += 1
        elif error in DOWN_ERRORS:
            self.down += 1
            if self._socket.gone:
                raise self._socket.vanished()
        elif error != errno.EINTR:
            raise InterfaceError(interface=self.facts.name, needed="to send frames", got=os.strerror(error))
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
