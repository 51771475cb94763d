"""Capture records rewritten with other octets, lengths or times of frames.

All other data of a record are kept, including pcapng options and comments, and the extra words of old pcap
files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError, RecordError
from ecmproto.frames.batch.headers import fixed
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.capture.batch import ENHANCED_PACKET, SIMPLE_PACKET, ByteOrder
from ecmproto.frames.columns.octets import copy_octets
from ecmproto.tools.edit.assignments import put_rows, rows_at
from ecmproto.units import NS_PER_S, in_64_bits, parse_time

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_BLOCK_HEAD = 28
_TOTAL_AT, _INTERFACE_AT, _TICKS_AT, _CAPTURED_AT, _ORIGINAL_AT = 4, 8, 12, 20, 24
_PCAP_LENGTHS_AT = 8
_MAX_SECONDS = (1 << 32) - 1
_CLOCK = "what the interface's clock can show"


def own_records(batch: Batch) -> tuple[Batch, Octets]:
    """Return a batch with a writable copy of its records, and the buffer with the copy."""
    low = int(batch.record_offset.min()) if len(batch) else 0
    high = int((batch.record_offset + batch.record_length).max()) if len(batch) else 0
    buffer = batch.buffer[low:high].copy()
    return (
        dataclasses.replace(
            batch, buffer=buffer, offset=batch.offset - low, record_offset=batch.record_offset - low
        ),
        buffer,
    )


def with_frames(batch: Batch, frames: Batch, *, swapped: bool = False) -> Batch:
    """Return the records of ``batch`` with the octets and lengths of ``frames``.

    Both batches have the same number of frames. With ``swapped``, the length on the wire is the first length
    in pcap records. A simple packet block whose length changes is replaced by an enhanced packet block at
    time 0, because a simple packet block has no field for the captured length.
    """
    head = batch.offset - batch.record_offset
    records = batch.records
    assert records is not None
    order = records.byte_order
    captured, original = frames.captured, frames.original
    if records.format == "pcap":
        total = head + captured
        start, out = _laid_out(total)
        _copy(batch.buffer, batch.record_offset, head, start, out)
        _copy(frames.buffer, frames.offset, captured, start + head, out)
        pair = (original, captured) if swapped else (captured, original)
        _put_uint32s(out, start + _PCAP_LENGTHS_AT, pair, order)
        return _made(frames, out, start, head, total)
    simple = _uint32s(batch.buffer, batch.record_offset, order) == SIMPLE_PACKET
    changed = (captured != batch.captured) | (original != batch.original)
    turned = simple & changed
    padding = np.where(simple, 4, batch.record_length - head - (batch.captured + 3 & ~np.int64(3)))
    padding_at = batch.record_offset + batch.record_length - padding
    new_head = np.where(turned, _BLOCK_HEAD, head)
    total = new_head + (captured + 3 & ~np.int64(3)) + padding
    start, out = _laid_out(total)
    _copy(batch.buffer, batch.record_offset, np.where(turned, 0, head), start, out)
    _copy(frames.buffer, frames.offset, captured, start + new_head, out)
    _copy(batch.buffer, padding_at, padding, start + total - padding, out)
    _put_uint32s(out, start + _TOTAL_AT, (total,), order)
    _put_uint32s(out, start + total - 4, (total,), order)
    fresh = start[turned]
    _put_uint32s(out, fresh, (np.full(len(fresh), ENHANCED_PACKET),), order)
    enhanced = ~simple | turned
    _put_uint32s(out, start[enhanced] + _CAPTURED_AT, (captured[enhanced], original[enhanced]), order)
    return _made(frames, out, start, new_head, total)


def unwrapped_records(batch: Batch) -> tuple[Batch, NDArray[np.bool_]]:
    """Return the records of a batch with its frames and interfaces, and a mask of the unwrapped frames.

    The records are enhanced packet blocks from an `InnerReader`.
    """
    records = batch.records
    assert records is not None
    order, at = records.byte_order, batch.record_offset
    captured, original = (_uint32s(batch.buffer, at + each, order) for each in (_CAPTURED_AT, _ORIGINAL_AT))
    wrapped = dataclasses.replace(batch, offset=at + _BLOCK_HEAD, captured=captured, original=original)
    made = with_frames(wrapped, batch)
    _put_uint32s(made.buffer, made.record_offset + _INTERFACE_AT, (batch.interface,), order)
    return made, batch.offset != wrapped.offset


def _laid_out(total: Int64) -> tuple[Int64, Octets]:
    ends = np.cumsum(total)
    return ends - total, np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)


def _made(frames: Batch, out: Octets, start: Int64, head: Int64, total: Int64) -> Batch:
    return dataclasses.replace(
        frames, buffer=out, offset=start + head, record_offset=start, record_length=total
    )


def _copy(buffer: Octets, start: Int64, octets: Int64, to: Int64, out: Octets) -> None:
    copy_octets(fixed(buffer), fixed(start), fixed(octets), fixed(to + octets), out)


def _uint32s(buffer: Octets, at: Int64, order: ByteOrder) -> Int64:
    numbers = rows_at(buffer, at, 4).view("<u4" if order == "little" else ">u4").reshape(-1)
    return numbers.astype(np.int64)


def _put_uint32s(out: Octets, at: Int64, numbers: Sequence[Int64], order: ByteOrder) -> None:
    rows = np.stack(numbers, axis=1).astype("<u4" if order == "little" else ">u4").view(np.uint8)
    put_rows(out, at, rows)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A change of times.

    The time since the first frame is multiplied by ``numerator / denominator``. Then ``shift_ns`` is added.
    """

    shift_ns: int = 0
    numerator: int = 1
    denominator: int = 1

    @property
    def scales(self) -> bool:
        """Whether the times between frames change."""
        return self.numerator != self.denominator

    def moved(self, time_ns: Int64, first_ns: int) -> Int64:
        """Return the changed times, limited to 64 bits."""
        if not len(time_ns):
            return time_ns
        ends = [int(time_ns.min()), int(time_ns.max())]
        if all(in_64_bits(moved) == moved for moved in (self.moved_one(each, first_ns) for each in ends)):
            if not self.scales:
                return time_ns + self.shift_ns
            if max(abs(each - first_ns) for each in ends) * self.numerator < 1 << 62:
                scaled = (time_ns - first_ns) * self.numerator // self.denominator
                return scaled + (first_ns + self.shift_ns)
        return np.array([in_64_bits(self.moved_one(each, first_ns)) for each in time_ns.tolist()], np.int64)

    def moved_one(self, time_ns: int, first_ns: int) -> int:
        """Return the changed time."""
        return first_ns + (time_ns - first_ns) * self.numerator // self.denominator + self.shift_ns


def clock_from(shift: str | None, scale: str | None) -> Clock | None:
    """Return the change of times for a time such as ``-20ms`` and a factor such as ``1/3``.

    ``None`` means that the times do not change. Raises ParameterError for an invalid time or factor.
    """
    if shift is None and scale is None:
        return None
    shift_ns = 0
    if shift is not None:
        text = shift.strip()
        try:
            shift_ns = parse_time(text.lstrip("+-") if text[:2] not in ("+-", "-+", "--", "++") else text)
        except ParameterError as error:
            raise ParameterError(name="--shift", needed=error.needed, got=repr(shift)) from None
        shift_ns = -shift_ns if text.startswith("-") else shift_ns
    factor = Fraction(1)
    if scale is not None:
        try:
            factor = Fraction(scale.strip())
        except (ValueError, ZeroDivisionError):
            factor = Fraction(0)
        if not 0 < factor < 1 << 32 or factor.denominator >= 1 << 32:
            raise ParameterError(
                name="--scale-time", needed="a factor such as 2, 0.5 or 1/3", got=repr(scale)
            )
    return Clock(shift_ns=shift_ns, numerator=factor.numerator, denominator=factor.denominator)


def move_times(
    batch: Batch,
    buffer: Octets,
    rows: NDArray[np.intp],
    clock: Clock,
    first_ns: int,
    links: Sequence[Interface],
    *,
    in_records: bool = True,
) -> tuple[Batch, int]:
    """Change the times of the frames ``rows`` in ``buffer``; return the batch and the number of rounded
    times.

    Without ``in_records``, only the times of the batch change, because the output has records of another
    format. Raises RecordError for a time that the file cannot hold.
    """
    if batch.timed is not None:
        rows = rows[batch.timed[rows]]
    time_ns = batch.time_ns.copy()
    time_ns[rows] = clock.moved(batch.time_ns[rows], first_ns)
    if not in_records:
        return dataclasses.replace(batch, time_ns=time_ns), 0
    records = batch.records
    assert records is not None
    lost = 0
    at = batch.record_offset[rows]
    if records.format == "pcap":
        tick_ns = NS_PER_S // links[0].ticks_per_second
        seconds, rest = np.divmod(time_ns[rows], NS_PER_S)
        _check(time_ns[rows], 0, _MAX_SECONDS * NS_PER_S + NS_PER_S - 1)
        lost = int((rest % tick_ns != 0).sum())
        _put_uint32s(buffer, at, (seconds, rest // tick_ns), records.byte_order)
        time_ns[rows] -= rest % tick_ns
    else:
        used, which = np.unique(batch.interface[rows], return_inverse=True)
        for index, number in enumerate(used.tolist()):
            mine = rows[which.reshape(-1) == index]
            position = batch.record_offset[mine] + _TICKS_AT
            high, low = (_uint32s(buffer, position + more, records.byte_order) for more in (0, 4))
            before = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
            ticks, missed = _ticks(before, time_ns[mine], clock, first_ns, links[number])
            lost += missed
            halves = (ticks >> np.uint64(32), ticks & np.uint64(0xFFFFFFFF))
            _put_uint32s(buffer, position, [half.astype(np.int64) for half in halves], records.byte_order)
    return dataclasses.replace(batch, time_ns=time_ns), lost


def _ticks(
    before: NDArray[np.uint64], time_ns: Int64, clock: Clock, first_ns: int, link: Interface
) -> tuple[NDArray[np.uint64], int]:
    """Return the ticks of an interface for times, and the number of times that were rounded."""
    per_second = link.ticks_per_second
    delta, between = divmod(clock.shift_ns * per_second, NS_PER_S)
    if not clock.scales and between == 0:
        # fractions of a ns are kept
        bounds = [int(before.min()) + delta, int(before.max()) + delta]
        if min(bounds) < 0 or max(bounds) >= 1 << 64:
            far = max(bounds) >= 1 << 64
            raise _out_of_range(int(time_ns.max() if far else time_ns.min()), _CLOCK)
        return before + np.uint64(delta % (1 << 64)), 0
    offset_ns = link.offset_s * NS_PER_S
    ends = [int(time_ns.min()) - offset_ns, int(time_ns.max()) - offset_ns]
    fits = max(abs(int(time_ns.min())), int(time_ns.max())) < (1 << 63) - 1
    if fits and NS_PER_S % per_second == 0 and min(ends) >= 0 and max(ends) < 1 << 63:
        ticks, rest = np.divmod(time_ns - offset_ns, NS_PER_S // per_second)
        return ticks.astype(np.uint64), int((rest != 0).sum())
    times = [clock.moved_one(tick * NS_PER_S // per_second + offset_ns, first_ns) for tick in before.tolist()]
    exact = [divmod((each - offset_ns) * per_second, NS_PER_S) for each in times]
    for (tick, _), each in zip(exact, times, strict=True):
        if not 0 <= tick < 1 << 64:
            raise _out_of_range(each, _CLOCK)
    return np.array([tick for tick, _ in exact], np.uint64), sum(rest != 0 for _, rest in exact)


def _check(time_ns: Int64, low: int, high: int) -> None:
    if len(time_ns):
        for each in (int(time_ns.min()), int(time_ns.max())):
            if not low <= each <= high:
                raise _out_of_range(each, "0 to 2^32 s since 1970 in pcap")


def _out_of_range(time_ns: int, needed: str) -> RecordError:
    return RecordError(layer="capture record", field="time", needed=needed, got=f"{time_ns} ns")
