"""Sending of frames: many frames in one system call, without copies in user space.

`Sendable` selects the frames of a capture that can be sent. `repeated` repeats batches.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import InterfaceError
from ecmproto.frames.capture.batch import ETHERNET, Batch, Int64, Octets
from ecmproto.frames.capture.linux.interface import ETHERNET_HEADER_OCTETS, TAG_OCTETS, InterfaceFacts
from ecmproto.frames.capture.linux.packet_socket import (
    C_TAG,
    DOWN_ERRORS,
    MESSAGE,
    PacketSocket,
    SocketUser,
    message_array,
    send_messages,
)
from ecmproto.frames.capture.reader import CaptureReader

FRAMES = 1024
"""Maximum number of frames in one call; the limit of the kernel is UIO_MAXIOV."""
_FEW = 4
_FULL = frozenset({errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM})
_REFUSED = frozenset({errno.EMSGSIZE, errno.EINVAL})


class FrameSender(SocketUser):
    """A sender of unchanged frames on an interface, from the destination address to the last octet before the
    FCS.

    ``bypass_queues`` sends frames directly to the driver, without the queueing discipline
    (PACKET_QDISC_BYPASS). The counters never decrease: ``sent`` counts frames, and ``octets`` counts their
    octets. ``refused`` counts frames that the kernel never accepts. ``full`` counts calls with a full buffer,
    and ``down`` counts calls with the interface down.

    Raises InterfaceError if the interface cannot be opened.
    """

    def __init__(self, interface: str, *, bypass_queues: bool = False) -> None:
        self._socket = PacketSocket(interface)
        self._socket.bind(0)
        self.facts: InterfaceFacts = self._socket.facts
        self.bypasses: bool = bypass_queues and self._socket.bypass_queues()
        """Whether the queueing discipline is bypassed."""
        self.messages: Messages = Messages(FRAMES)
        self.sent: int = 0
        self.octets: int = 0
        self.refused: int = 0
        self.full: int = 0
        self.down: int = 0

    def fileno(self) -> int:
        """Return the descriptor for polling: writable when the buffer has space."""
        return self._socket.socket.fileno()

    def send(self, buffer: Octets, offset: Int64, captured: Int64) -> int:
        """Send the frames at ``offset`` in ``buffer`` with ``captured`` octets; return their number.

        A smaller number than requested means that the buffer is full (`full`) or that the interface is down
        (`down`). The call never waits. Refused frames (`refused`) count as sent: frames longer than the MTU,
        and frames with an incomplete Ethernet header. Raises InterfaceError when the interface was removed.
        """
        if len(offset) <= _FEW:
            return self._send_few(buffer, offset, captured)
        done = 0
        while done < len(offset):
            part = slice(done, done + FRAMES)
            loaded, first = self.messages.load(buffer, offset[part], captured[part]), 0
            while first < loaded:
                accepted, error = self.take(first, loaded - first)
                first += accepted
                if error:
                    if not self.failed(error):
                        return done + first
                    first += 1
            done += loaded
        return done

    def _send_few(self, buffer: Octets, offset: Int64, captured: Int64) -> int:
        """Send few frames with one system call each, which is faster than preparing messages."""
        octets, done = memoryview(buffer.data), 0
        for start, length in zip(offset.tolist(), captured.tolist(), strict=True):
            try:
                self._socket.socket.send(octets[start : start + length], socket.MSG_DONTWAIT)
            except OSError as error:
                if not self.failed(error.errno or errno.EIO):
                    break
            else:
                self.sent += 1
                self.octets += length
            done += 1
        return done

    def take(self, first: int, count: int) -> tuple[int, int]:
        """Send ``count`` of the prepared frames from index ``first``; return the number that the kernel
        accepted.

        If the kernel accepted fewer frames, the second value is the error of the next frame, for `failed`.
        """
        done = 0
        while done < count:
            address = self.messages.address + (first + done) * MESSAGE.itemsize
            try:
                accepted = send_messages(self.fileno(), address, count - done, socket.MSG_DONTWAIT)
            except OSError as error:
                return done, error.errno or errno.EIO
            self.count(self.messages, first + done, accepted)
            done += accepted
        return done, 0

    def count(self, messages: Messages, first: int, accepted: int) -> None:
        """Count ``accepted`` frames of ``messages``, from index ``first``, as sent."""
        self.sent += accepted
        if accepted == 1:  # reading an array with one element is faster than its sum
            self.octets += int(messages.length[first])
        else:
            self.octets += int(messages.length[first : first + accepted].sum())

    def failed(self, error: int) -> bool:
        """Count the reason for an unsent frame; return whether to skip the frame, not to send it again."""
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
        """Return a mask of the frames that the kernel would refuse: too long, or with an incomplete header.

        A frame whose first tag is a C-TAG may be 4 octets longer than other frames. Other tags count in the
        MTU.
        """
        limit = np.full(len(offset), self.facts.longest_octets)
        whole = captured >= ETHERNET_HEADER_OCTETS
        at = offset[whole] + 12
        tagged = (octets[at] == C_TAG >> 8) & (octets[at + 1] == C_TAG & 0xFF)
        limit[whole] += tagged * TAG_OCTETS
        return ~whole | (captured > limit)


class Messages:
    """Messages to the kernel (struct mmsghdr) at ``address``; ``length`` contains the frame lengths."""

    def __init__(self, capacity: int) -> None:
        self._messages, parts = message_array(capacity)
        # computing the address of an array takes as long as sending a frame
        self.address: int = self._messages.ctypes.data
        self.capacity = capacity
        self._base = parts["base"]
        self.length: NDArray[np.int64] = parts["octets"]

    def load(self, buffer: Octets, offset: Int64, captured: Int64) -> int:
        """Prepare messages for all frames that fit; return their number.

        ``buffer`` must stay valid.
        """
        count = min(len(offset), self.capacity)
        self._base[:count] = offset[:count] + buffer.ctypes.data
        self.length[:count] = captured[:count]
        return count


@dataclasses.dataclass(slots=True)
class Sendable:
    """A selection of the frames in a capture that can be sent, with counts of frames that differ."""

    foreign: int = 0
    """Number of skipped frames of other link types."""
    cut: int = 0
    """Number of frames that were truncated in the capture and are sent truncated."""

    def of(self, reader: CaptureReader) -> Iterator[Batch]:
        """Yield the Ethernet frames of ``reader``."""
        for batch in reader:
            selected = batch
            ethernet = [each.linktype == ETHERNET for each in reader.interfaces]
            if not all(ethernet):
                mask = np.array(ethernet)[batch.interface]
                self.foreign += int((~mask).sum())
                selected = batch.select(mask)
            selected = _without_fcs(selected, [each.fcs_octets for each in reader.interfaces])
            self.cut += int((selected.captured < selected.original).sum())
            yield selected


def _without_fcs(batch: Batch, fcs_octets: Sequence[int]) -> Batch:
    """Return the frames without the captured part of the FCS; a truncated frame may have no FCS."""
    lengths = np.array(fcs_octets, dtype=np.int64)
    if not lengths.any():
        return batch
    original = np.maximum(batch.original - lengths[batch.interface], 0)
    return dataclasses.replace(batch, original=original, captured=np.minimum(batch.captured, original))


_CACHED_OCTETS = 64 << 20
_TILED_FRAMES = 16_384


def repeated(source: Callable[[], Iterable[Batch]], *, frames: int | None = None) -> Iterator[Batch]:
    """Yield the batches of ``source()`` repeatedly, up to ``frames`` frames in total.

    ``None`` means without end. The times increase from round to round; the interval between two rounds is the
    mean interval of the frames. A small source is called only once, and its frames are stored. The iteration
    ends if ``source()`` yields no frame.
    """
    pass_ = _Pass(source)
    yielded = 0
    while pass_.begin():
        for batch in pass_.batches():
            if frames is not None and yielded + len(batch) >= frames:
                yield batch.select(range(frames - yielded))
                return
            yielded += len(batch)
            yield batch


class _Pass:
    """The state of repeated batches, which are yielded in rounds."""

    def __init__(self, source: Callable[[], Iterable[Batch]]) -> None:
        self._source = source
        self._stored: list[Batch] | None = []
        self._rounds = 0
        self._frames = 0
        self._first_ns = self._last_ns = 0
        self._shift_ns = 0

    def begin(self) -> bool:
        """Prepare the next round; return False if there is nothing to repeat."""
        if not self._rounds:
            return True
        if not self._frames:
            return False
        self._shift_ns += self._period_ns
        if self._stored is not None and self._rounds == 1 and self._frames < _TILED_FRAMES:
            self._stored = [self._tiled(self._stored, _TILED_FRAMES // self._frames)]
        return True

    @property
    def _period_ns(self) -> int:
        span = self._last_ns - self._first_ns
        return span + (span // (self._frames - 1) if self._frames > 1 else 0)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the current round."""
        again = self._rounds > 0
        self._rounds += 1
        self._frames = 0
        for batch in self._stored if again and self._stored is not None else self._source():
            if len(batch):
                if not again:
                    self._keep(batch)
                self._note(batch)
                yield dataclasses.replace(batch, time_ns=batch.time_ns + self._shift_ns)

    def _keep(self, batch: Batch) -> None:
        if self._stored is not None:
            self._stored.append(batch)
            if sum(len(each.buffer) for each in self._stored) > _CACHED_OCTETS:
                self._stored = None

    def _note(self, batch: Batch) -> None:
        if not self._frames:
            self._first_ns = self._last_ns = int(batch.time_ns[0])
        self._frames += len(batch)
        self._last_ns = max(self._last_ns, int(batch.time_ns.max()))

    def _tiled(self, batches: list[Batch], times: int) -> Batch:
        """Return ``times`` rounds in one batch, so that a small batch needs no more time per frame."""
        buffer = (
            np.concatenate([batch.buffer for batch in batches]) if len(batches) > 1 else batches[0].buffer
        )
        starts = np.cumsum([0, *(len(batch.buffer) for batch in batches[:-1])])
        offset = np.concatenate([each.offset + start for each, start in zip(batches, starts, strict=True)])
        shifts = np.repeat(np.arange(times, dtype=np.int64) * self._period_ns, self._frames)

        def joined(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.tile(np.concatenate([getattr(batch, name) for batch in batches]), times)

        captured = joined("captured")
        return Batch(
            buffer=buffer, offset=np.tile(offset, times), captured=captured, original=joined("original"),
            time_ns=joined("time_ns") + shifts, interface=joined("interface"),
            record_offset=np.tile(offset, times), record_length=captured, picked=joined("numbers"),
        )  # fmt: skip
