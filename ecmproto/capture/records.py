"""Records of frames, built many at a time by array operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import ENHANCED_PACKET, ByteOrder, Format
from ecmproto.errors import EncodeError
from ecmproto.units import NS_PER_S

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]
Resolution = Literal["ns", "us"]

TICK_NS = {"ns": 1, "us": 1000}
_FEW = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBuilder:
    """Builds pcap records or enhanced packet blocks, in one byte order and one resolution of time."""

    format: Format = "pcap"
    byte_order: ByteOrder = "little"
    resolution: Resolution = "ns"

    @property
    def header_octets(self) -> int:
        """Octets of a record in front of the frame."""
        return 16 if self.format == "pcap" else 28

    def record_octets(self, captured: Int64) -> Int64:
        """Return the lengths of the records of frames of ``captured`` octets."""
        if self.format == "pcap":
            return captured + 16
        return (captured + 3 & ~np.int64(3)) + 32

    def from_matrix(
        self,
        matrix: Octets,
        time_ns: ArrayLike,
        *,
        original: ArrayLike | None = None,
        interface: ArrayLike = 0,
    ) -> Octets:
        """Return the records of the rows of ``matrix`` (n × length) as an array (n × record length).

        ``time_ns``, ``original`` (None: the length) and ``interface`` are one value or one a row.
        Raises EncodeError for a time the format cannot hold.
        """
        count, length = matrix.shape
        captured = np.full(count, length, dtype=np.int64)
        total = int(self.record_octets(captured[:1])[0]) if count else self.header_octets + length
        out = np.empty((count, total), dtype=np.uint8)
        wire = captured if original is None else np.broadcast_to(np.asarray(original, dtype=np.int64), count)
        times = np.broadcast_to(np.asarray(time_ns, dtype=np.int64), count)
        ports = np.broadcast_to(np.asarray(interface, dtype=np.int64), count)
        heads = self._heads(times, captured, wire, ports)
        start = self.header_octets
        out[:, :start] = heads
        out[:, start : start + length] = matrix
        if self.format == "pcapng":
            out[:, start + length : -4] = 0
            out[:, -4:] = heads[:, 4:8]
        return out

    def from_batch(self, batch: Batch) -> Octets:
        """Return the records of the frames of ``batch``, one after the other.

        Raises EncodeError for a time the format cannot hold.
        """
        totals = self.record_octets(batch.captured)
        starts = np.cumsum(totals) - totals
        # Padding is what stays zero.
        out = np.zeros(int(totals.sum()), dtype=np.uint8)
        heads = self._heads(batch.time_ns, batch.captured, batch.original, batch.interface)
        _put(out, starts, heads)
        if self.format == "pcapng":
            _put(out, starts + totals - 4, np.ascontiguousarray(heads[:, 4:8]))
        _copy_frames(out, starts + self.header_octets, batch)
        return out

    def _heads(self, time_ns: Int64, captured: Int64, original: Int64, interface: Int64) -> Octets:
        _check("original length", original, (1 << 32) - 1)
        rows = (
            self._pcap_rows(time_ns)
            if self.format == "pcap"
            else self._pcapng_rows(time_ns, captured, interface)
        )
        rows[:, -2] = captured
        rows[:, -1] = original
        return rows.view(np.uint8)

    def _rows(self, count: int, width: int) -> NDArray[np.uint32]:
        return np.empty((count, width), dtype="<u4" if self.byte_order == "little" else ">u4")

    def _pcap_rows(self, time_ns: Int64) -> NDArray[np.uint32]:
        _check("time in ns", time_ns, (1 << 32) * NS_PER_S - 1)
        rows = self._rows(len(time_ns), 4)
        seconds = time_ns // NS_PER_S
        rows[:, 0] = seconds
        rows[:, 1] = (time_ns - seconds * NS_PER_S) // TICK_NS[self.resolution]
        return rows

    def _pcapng_rows(self, time_ns: Int64, captured: Int64, interface: Int64) -> NDArray[np.uint32]:
        _check("time in ns", time_ns, (1 << 63) - 1)
        rows = self._rows(len(time_ns), 7)
        ticks = time_ns // TICK_NS[self.resolution]
        rows[:, 0] = ENHANCED_PACKET
        rows[:, 1] = self.record_octets(captured)
        rows[:, 2] = interface
        rows[:, 3] = ticks >> 32
        rows[:, 4] = ticks & 0xFFFFFFFF
        return rows


def _check(field: str, values: Int64, highest: int) -> None:
    if len(values) and (int(values.min()) < 0 or int(values.max()) > highest):
        wrong = values[(values < 0) | (values > highest)][0]
        raise EncodeError(layer="capture record", field=field, needed=f"0 to {highest}", got=str(wrong))


def _put(out: Octets, starts: Int64, rows: Octets) -> None:
    """Write each row (n × width) at its start; a void item at every octet lets numpy copy whole rows."""
    if len(starts):
        width = rows.shape[1]
        target = np.ndarray((len(out) - width + 1,), dtype=f"V{width}", buffer=out, strides=(1,))
        target[starts] = rows.view(f"V{width}")[:, 0]


def _copy_frames(out: Octets, targets: Int64, batch: Batch) -> None:
    """Copy the frames of ``batch`` to ``targets``, those of a length at once unless they are few."""
    order = np.argsort(batch.captured, kind="stable")
    lengths, firsts = np.unique(batch.captured[order], return_index=True)
    bounds = np.append(firsts, len(order))
    source, view = batch.buffer, out.data
    for length, low, high in zip(lengths.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        group = order[low:high]
        if length and high - low >= _FEW:
            items = np.ndarray((len(source) - length + 1,), dtype=f"V{length}", buffer=source, strides=(1,))
            space = np.ndarray((len(out) - length + 1,), dtype=f"V{length}", buffer=out, strides=(1,))
            space[targets[group]] = items[batch.offset[group]]
            continue
        for start, target in zip(batch.offset[group].tolist(), targets[group].tolist(), strict=True):
            view[target : target + length] = source.data[start : start + length]
