"""Time stamps that taps and switches add to frames.

The stamps are read, checked and removed, and become the times of the frames.

The offset and the fields of a stamp are declared per device. A stamp fits a frame if the octets match the
declaration and the time is within a day of the capture's time. A stamp at the end of a frame requires a frame
that is not truncated. A device can have several layouts, with and without an FCS. The layout that fits most
of the first thousand frames is used.

A counter does not contain an absolute time. The counter of a device starts at the capture's time of its first
frame. Each wrap is resolved so that the times are closest to the times of the capture. Key frames relate a
counter to UTC. Times after a key frame are relative to this key frame. Times before the first key frame of an
interface are relative to the first key frame. The length of a tick is the mean since the previous key frame.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError, counted
from ecmproto.frames.batch.derived import DerivedReader, Deriving
from ecmproto.frames.batch.headers import HEADER_OCTETS, TYPE_AT, fixed, two_octets
from ecmproto.frames.batch.inner import PROTO_GRE, gre_content
from ecmproto.frames.batch.packets import NOWHERE, packet_at
from ecmproto.frames.batch.parse_tables import ParseTables, parse_tables
from ecmproto.frames.capture.batch import ETHERNET, Batch
from ecmproto.frames.capture.reader import CaptureReader
from ecmproto.kernels.kernel import over_batches
from ecmproto.units import NS_PER_S, format_time
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.gre import ERSPAN_3_TYPE
from ecmproto.wire.formats.keyframe import KeyFrame

Int64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
Octets = NDArray[np.uint8]

AUTO = "auto"
"""Name that selects the device whose stamp each of the first thousand frames has."""
_TRIED_FRAMES = 1000
_FRAMES_TO_KEY = 1 << 17
"""Maximum number of frames in which the first key frame is searched. A key frame is sent once per second."""
_DAY_NS = 86400 * NS_PER_S
_FCS_OCTETS = 4


class Part(NamedTuple):
    """A number in a stamp, big-endian."""

    at: int
    """Offset from the start of the stamp."""
    octets: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stamp:
    """The layout of a time stamp."""

    octets: int
    seconds: Part | None = None
    """Position of the seconds, or ``None`` for a counter."""
    fraction: Part
    """Position of the fraction of a second, or of the counter."""
    keys: tuple[Key, ...] = ()
    """Variants of the key frames that contain values of a counter and their times."""
    fraction_bits: int | None = None
    """Number of bits of a binary fraction. ``None`` means that the fraction is in ns."""
    tick_ns: float = 0.0
    """Length of a counter tick in ns."""
    counter_bits: int = 32
    at: Literal["end", "addresses", "erspan"] = "end"
    """Position of the stamp: end of the frame, after the addresses, or the ERSPAN III header, which stays."""
    start: bytes = b""
    """Octets at the start of the stamp."""
    fixed: tuple[tuple[Part, int, int], ...] = ()
    """Numbers with fixed bits in this layout: position, mask of the fixed bits, and their value."""
    checksum: Part | None = None
    """Position of the Internet checksum. The checksum covers all octets of the stamp before the checksum."""
    fcs_at: int | None = None
    """Offset of the original FCS of the frame."""
    fcs_valid: tuple[Part, int] | None = None
    """Number and bit that indicate whether the original FCS is present; ``None`` for always."""
    source: tuple[Part, ...] = ()
    """Positions of the device and the port on which the frame arrived."""


class Key(NamedTuple):
    """A variant of key frames: offset of the content, and numbers in the frame with their values."""

    at: int
    fixed: tuple[tuple[Part, int], ...]


_KEY_OCTETS = KeyFrame.fixed_octets
_COUNTER, _UTC = (Part(field.bit_offset // 8, 8) for field in KeyFrame.layout[:2])
_KEYS = (
    Key(14, ((Part(12, 2), 0x88B5),)),
    Key(18, ((Part(12, 2), 0x8100), (Part(16, 2), 0x88B5))),
    # UDP on any port, in IPv4 without options and in IPv6 without extension headers
    Key(42, ((Part(12, 2), 0x0800), (Part(14, 1), 0x45), (Part(23, 1), 17), (Part(38, 2), 8 + _KEY_OCTETS))),
    Key(62, ((Part(12, 2), 0x86DD), (Part(20, 1), 17), (Part(58, 2), 8 + _KEY_OCTETS))),
)
STAMPS: Mapping[str, Sequence[Stamp]] = {
    # Metamako, Arista 7130: if bit 1 of the flags is set, extensions precede the seconds.
    "metamako": (
        Stamp(
            octets=16, seconds=Part(4, 4), fraction=Part(8, 4), fixed=((Part(12, 1), 2, 0),), fcs_at=0,
            fcs_valid=(Part(12, 1), 1), source=(Part(13, 2), Part(15, 1)),
        ),
    ),
    # Exablaze, Cisco Nexus 3550-T
    "exablaze": (
        Stamp(
            octets=16, seconds=Part(6, 4), fraction=Part(10, 5), fraction_bits=40, fcs_at=0,
            source=(Part(4, 1), Part(5, 1)),
        ),
    ),
    # Arista 7280 and 7500 (TAP aggregation): EtherType, subtype 1 and version (TAI, or UTC if 0x100 is set)
    "arista7280": tuple(
        Stamp(
            octets=6 + octets + 4, seconds=Part(6, octets), fraction=Part(6 + octets, 4), at="addresses",
            start=bytes.fromhex("d28b0001") + version.to_bytes(2),
        )
        for octets, version in ((4, 0x10), (4, 0x110), (2, 0x20), (2, 0x120))
    ),
    # Arista 7150: a 31-bit counter with 350 MHz replaces or precedes the FCS. The first bit of the last octet
    # is unused.
    "arista7150": (
        Stamp(
            octets=4, fraction=Part(0, 4), tick_ns=20 / 7, counter_bits=31, fixed=((Part(3, 1), 0x80, 0),),
            keys=_KEYS,
        ),
    ),
    # Ixia's network visibility: type 3 to 7 (its clock), length, time, length, 0xAF12, checksum
    "ixia": tuple(
        Stamp(
            octets=15, seconds=Part(2, 4), fraction=Part(6, 4), start=bytes((clock, 8)),
            fixed=((Part(10, 3), 0xFFFFFF, 0x0AAF12),), checksum=Part(13, 2),
        )
        for clock in range(3, 8)
    ),
    "ixia-counter": (Stamp(octets=4, fraction=Part(0, 4), tick_ns=5.0),),
    # ERSPAN III: units of 100 µs, 100 ns and 1 ns (IEEE 1588) by two bits of its last octet; version 2
    "erspan3": tuple(
        Stamp(
            octets=12, fraction=Part(4, 4), tick_ns=tick_ns, at="erspan", source=(Part(10, 2),),
            fixed=((Part(0, 1), 0xF0, 0x20), (Part(11, 1), 6, granularity << 1)),
        )
        for granularity, tick_ns in enumerate((100_000.0, 100.0, 1.0))
    ),
}  # fmt: skip
"""Layouts of the stamps of each device."""


class Stamped(NamedTuple):
    """The stamps of a batch of frames in one layout. Each array has one entry per frame."""

    stamp: Stamp
    fits: Mask
    at: Int64
    """Offset of the stamp in the buffer."""
    trailing: int
    """Number of octets of a new FCS after a stamp at the end of the frame."""
    time_ns: Int64
    key_at: Int64
    """Offset of the key frame's content in the buffer, or 0 for any other frame."""


def _numbers(batch: Batch, start: Int64, part: Part) -> Int64:
    """Return a number from each stamp. ``start`` contains the offsets of the stamps in the buffer."""
    numbers = np.zeros(len(start), np.int64)
    for index in range(part.at, part.at + part.octets):
        numbers = numbers << 8 | batch.buffer[start + index]
    return numbers


def stamps_of(batch: Batch, stamp: Stamp, trailing: int, ethernet: Mask) -> Stamped:
    """Return the stamps of a batch. ``ethernet`` is a mask of the frames that can have a stamp."""
    fits = ethernet & (batch.captured >= HEADER_OCTETS + stamp.octets + trailing)
    if stamp.at == "end":
        at = batch.offset + batch.captured - trailing - stamp.octets
        fits &= batch.captured >= batch.original
    elif stamp.at == "addresses":
        at = batch.offset + TYPE_AT
    else:
        at = _erspan_at(batch)
        fits &= (at > 0) & (at + stamp.octets <= batch.offset + batch.captured)
    key_at = _keys_at(batch, stamp.keys, ethernet)
    fits &= (key_at == 0) | (key_at + _KEY_OCTETS <= at)
    at = np.where(fits, at, 0)
    if not fits.any():
        return Stamped(stamp, fits, at, trailing, batch.time_ns, key_at)
    for index, octet in enumerate(stamp.start):
        fits &= batch.buffer[at + index] == octet
    for part, bits, value in stamp.fixed:
        fits &= _numbers(batch, at, part) & bits == value
    if stamp.checksum is not None:
        offsets = range(0, stamp.checksum.at, 2)
        words = [_numbers(batch, at, Part(index, min(2, stamp.checksum.at - index))) for index in offsets]
        words[-1] = words[-1] << 8 * (stamp.checksum.at & 1)
        fits &= (np.sum(words, axis=0) + _numbers(batch, at, stamp.checksum)) % 0xFFFF == 0
    if stamp.seconds is None:
        if trailing:
            _check_new_fcs(batch, fits)
        return Stamped(stamp, fits, at, trailing, batch.time_ns, key_at)
    seconds, fraction = _numbers(batch, at, stamp.seconds), _numbers(batch, at, stamp.fraction)
    if stamp.fraction_bits is not None:
        # 10^9 is 2^9 · 1953125. With this shift, the product fits into 63 bits.
        fraction = (fraction * 1953125) >> (stamp.fraction_bits - 9)
    bits = 8 * stamp.seconds.octets
    if bits < 32:  # choose the seconds nearest to the capture's time
        here = batch.time_ns // NS_PER_S
        seconds = here + ((seconds - here + (1 << bits - 1)) % (1 << bits)) - (1 << bits - 1)
    time_ns = seconds * NS_PER_S + fraction
    fits &= (fraction < NS_PER_S) & _is_near(batch, time_ns)
    return Stamped(stamp, fits, at, trailing, time_ns, key_at)


def _is_near(batch: Batch, time_ns: Int64) -> Mask:
    """Return a mask of the frames with a stamp within a day of the capture's time, or without a time."""
    near = (batch.time_ns > time_ns - _DAY_NS) & (batch.time_ns < time_ns + _DAY_NS)
    return near if batch.timed is None else near | ~batch.timed


def _keys_at(batch: Batch, keys: Sequence[Key], ethernet: Mask) -> Int64:
    """Return the offset of the key frame's content in the buffer for each frame, 0 for other frames."""
    result = np.zeros(len(batch), np.int64)
    for key in keys:
        rows = np.flatnonzero(ethernet & (batch.captured >= key.at + _KEY_OCTETS))
        for part, value in key.fixed:
            rows = rows[_numbers(batch, batch.offset[rows], part) == value]
        result[rows] = batch.offset[rows] + key.at
    rows = np.flatnonzero(result)
    result[rows[~_is_near(batch.select(rows), _numbers(batch, result[rows], _UTC))]] = 0
    return result


def _erspan_at(batch: Batch) -> Int64:
    """Return the offset of each frame's ERSPAN III header, or 0 for a frame without such a header."""
    header_at = np.zeros(len(batch), np.int64)
    _find_erspan(
        fixed(batch.buffer), fixed(batch.offset), fixed(batch.captured), fixed(batch.original),
        parse_tables(DEFAULT), header_at,
    )  # fmt: skip
    return header_at


@over_batches
def _find_erspan(
    buffer: Octets, offset: Int64, captured: Int64, original: Int64, tables: ParseTables, header_at: Int64
) -> None:
    for i in range(len(offset)):
        start = offset[i]
        reach = start + max(captured[i], original[i])
        packet = packet_at(buffer, start, start + captured[i], reach, tables)
        if packet.protocol != PROTO_GRE or packet.payload == NOWHERE:
            continue
        at = gre_content(buffer, packet.payload, packet.stop)
        if at != NOWHERE and two_octets(buffer, packet.payload + 2) == ERSPAN_3_TYPE:
            header_at[i] = at


def _check_new_fcs(batch: Batch, fits: Mask) -> None:
    """Clear the mask ``fits`` for each frame that does not end with a correct FCS."""
    view = batch.buffer.data
    for i in np.flatnonzero(fits).tolist():
        start, end = int(batch.offset[i]), int(batch.offset[i] + batch.captured[i] - _FCS_OCTETS)
        fcs = zlib.crc32(view[start:end]).to_bytes(_FCS_OCTETS, "little")
        fits[i] = bytes(view[end : end + _FCS_OCTETS]) == fcs


def wrong_fcs(batch: Batch, stamped: Stamped) -> Mask:
    """Return a mask of the frames with a stamp and an incorrect FCS."""
    stamp, wrong = stamped.stamp, np.zeros(len(batch), np.bool_)
    if stamp.fcs_at is None:
        return wrong
    valid = stamped.fits.copy()
    if stamp.fcs_valid is not None:
        valid &= _numbers(batch, stamped.at, stamp.fcs_valid[0]) & stamp.fcs_valid[1] != 0
    view = batch.buffer.data
    for i in np.flatnonzero(valid).tolist():
        at = int(stamped.at[i])
        fcs = bytes(view[at + stamp.fcs_at : at + stamp.fcs_at + _FCS_OCTETS])
        wrong[i] = zlib.crc32(view[int(batch.offset[i]) : at]).to_bytes(_FCS_OCTETS, "little") != fcs
    return wrong


class StampedReader(DerivedReader):
    """A capture with the times from the stamps in the frames. Each port of a tap is a separate interface.

    ``device`` is a key of `STAMPS`, or AUTO.
    """

    def __init__(self, reader: CaptureReader, device: str) -> None:
        if device != AUTO and device not in STAMPS:
            names = ", ".join((*STAMPS, AUTO))
            raise ParameterError(name="trailer", needed=f"one of {names}", got=device)
        super().__init__(_Stamping(reader, device))


class _Choice(NamedTuple):
    """A device, and the number of octets of a new FCS after its stamps."""

    device: str
    trailing: int


class _Tie(NamedTuple):
    """A value of a counter, its UTC time, its capture time, and the length of a tick."""

    ticks: int
    utc_ns: int
    captured_ns: int
    tick_ns: float

    def times(self, ticks: Int64, captured_ns: Int64, stamp: Stamp) -> Int64:
        """Return the times for values of the counter. The times of the capture resolve counter wraps."""
        apart, wrap = ticks - self.ticks, 2**stamp.counter_bits
        wraps = np.rint((apart - (captured_ns - self.captured_ns) / stamp.tick_ns) / wrap)
        passed_ns: Int64 = np.rint((apart - wrap * wraps.astype(np.int64)) * self.tick_ns).astype(np.int64)
        return self.utc_ns + passed_ns

    def with_ticks_since(self, before: _Tie, stamp: Stamp) -> _Tie:
        """Return this tie with the mean tick length since an earlier tie.

        If this length differs from the nominal length by a thousandth or more, the tick length of the earlier
        tie is used.
        """
        tick_ns = (self.utc_ns - before.utc_ns) / (self.ticks - before.ticks or 1)
        near = abs(tick_ns - stamp.tick_ns) < stamp.tick_ns / 1000
        return self._replace(tick_ns=tick_ns if near else before.tick_ns)


def _tie(batch: Batch, stamped: Stamped, row: int) -> _Tie:
    """Return the tie of a key frame."""
    ticks, utc_ns = (
        int(_numbers(batch, stamped.key_at[row : row + 1], part)[0]) for part in (_COUNTER, _UTC)
    )
    return _Tie(ticks, utc_ns, int(batch.time_ns[row]), stamped.stamp.tick_ns)


class _Stamping(Deriving):
    """The parser of a `StampedReader`."""

    def __init__(self, reader: CaptureReader, device: str) -> None:
        super().__init__(reader)
        self._device = device
        self._choice: _Choice | None = None
        self._stamped = self._wrong = self._seen = 0
        self._counters: dict[tuple[int, ...], tuple[int, float, float]] = {}
        """State of each counter: first capture time, and the unwrapped differences to the capture's times at
        the first and the last frame.
        """
        self._ties: dict[int, _Tie] = {}
        """Last key frame of each interface."""
        self._keys = 0
        self._apart_ns: tuple[int, int] | None = None
        """Minimum and maximum difference in ns between stamps and the capture's times."""

    @property
    def summary(self) -> str:
        """One line about the stamps."""
        if self._choice is None:
            return f"no time stamps of {'any device' if self._device == AUTO else self._device} in the frames"
        texts = [f"{self._choice.device} stamps are the times of {counted(self._stamped, 'frame')}"]
        if self._apart_ns is not None:
            texts.append(f"{' to '.join(map(_signed_time, self._apart_ns))} from the capture's")
        if self._keys:
            texts.append(f"UTC by {counted(self._keys, 'key frame')}")
        if self._seen > self._stamped:
            texts.append(f"{counted(self._seen - self._stamped, 'frame')} without one")
        if self._wrong:
            texts.append(f"the original FCS of {counted(self._wrong, 'frame')} is wrong")
        return ", ".join(texts)

    def derived(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Determine the layout of the stamps, then yield the batches with the times from the stamps."""
        first: list[Batch] = []
        tried = _FRAMES_TO_KEY if self._device != AUTO and STAMPS[self._device][0].keys else _TRIED_FRAMES
        while sum(map(len, first)) < tried and (batch := next(batches, None)) is not None:
            first.append(batch)
        self._choose(first)
        for batch in first:
            for each in () if self._choice is None else self._stamps(batch, self._choice):
                for row in np.flatnonzero(each.key_at).tolist():
                    self._ties.setdefault(int(batch.interface[row]), _tie(batch, each, row))
        for batch in chain(first, batches):
            self._seen += len(batch)
            yield batch if self._choice is None else self._with_times(batch, self._choice)

    def _choose(self, batches: Sequence[Batch]) -> None:
        """Choose the requested device, or the device that fits all frames, and determine whether a new FCS
        follows the stamps.
        """
        frames = min(sum(map(len, batches)), _TRIED_FRAMES)
        best = 0
        known = [device for device, layouts in STAMPS.items() if layouts[0].seconds is not None]
        for device in known if self._device == AUTO else (self._device,):
            for following in (_FCS_OCTETS, 0) if STAMPS[device][0].at == "end" else (0,):
                choice, count, left = _Choice(device, following), 0, _TRIED_FRAMES
                for batch in batches:
                    tried = batch[:left]
                    left -= len(tried)
                    count += sum(
                        int((each.fits & ~wrong_fcs(tried, each)).sum())
                        for each in self._stamps(tried, choice)
                    )
                if count > best and (self._device != AUTO or count == frames):
                    self._choice, best = choice, count

    def _stamps(self, batch: Batch, choice: _Choice) -> list[Stamped]:
        is_ethernet = np.array([each.linktype == ETHERNET for each in self.interfaces], np.bool_)
        ethernet = is_ethernet[batch.interface]
        return [stamps_of(batch, stamp, choice.trailing, ethernet) for stamp in STAMPS[choice.device]]

    def _with_times(self, batch: Batch, choice: _Choice) -> Batch:
        """Return a batch with the times from the stamps and without the stamps."""
        result = self._stamps(batch, choice)
        fits = np.logical_or.reduce([each.fits | (each.key_at > 0) for each in result])
        if not fits.any():
            return batch
        time_ns, interface = batch.time_ns.copy(), batch.interface.copy()
        removed = np.zeros(len(batch), np.int64)
        for each in result:
            time_ns[each.fits | (each.key_at > 0)] = self._times(batch, each)
            if each.stamp.at != "erspan":
                removed[each.fits] = each.stamp.octets + each.trailing
            self._wrong += int(wrong_fcs(batch, each).sum())
            if each.stamp.seconds is not None:
                self._number(batch, each, choice, interface)
        self._stamped += int(fits.sum())
        self._compare(batch, time_ns, fits)
        timed = None if batch.timed is None else batch.timed | fits
        made = dataclasses.replace(batch, time_ns=time_ns, interface=interface, timed=timed, timeline=None)
        if result[0].stamp.at == "addresses":
            made = _addresses_moved(made, fits, removed)
        return dataclasses.replace(made, captured=batch.captured - removed, original=batch.original - removed)

    def _times(self, batch: Batch, stamped: Stamped) -> Int64:
        """Return the times of the frames with a stamp."""
        stamp, rows = stamped.stamp, np.flatnonzero(stamped.fits | (stamped.key_at > 0))
        time_ns = stamped.time_ns[rows]
        if stamp.seconds is not None:
            return time_ns
        ticks = _numbers(batch, stamped.at[rows], stamp.fraction)
        if stamp.counter_bits == 31:
            ticks = ticks >> 8 << 7 | ticks & 0x7F
        ties = {n: _tie(batch, stamped, int(rows[n])) for n in np.flatnonzero(stamped.key_at[rows]).tolist()}
        self._keys += len(ties)
        for n, tie in ties.items():
            self._ties.setdefault(int(batch.interface[rows[n]]), tie)
            if not stamped.fits[rows[n]]:
                ticks[n] = tie.ticks
        parts = [_numbers(batch, stamped.at[rows], part) >> 4 & 63 for part in stamp.source]  # hardware id
        keys = np.column_stack([batch.interface[rows], *parts])
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        for number, key in enumerate(distinct.tolist()):
            own = which.reshape(-1) == number
            if key[0] in self._ties:
                mine, starts = np.flatnonzero(own), [n for n in ties if own[n]]
                for start, part in zip(
                    [None, *starts], np.split(mine, np.searchsorted(mine, starts)), strict=True
                ):
                    if start is not None:
                        self._ties[key[0]] = ties[start].with_ticks_since(self._ties[key[0]], stamp)
                    time_ns[part] = self._ties[key[0]].times(ticks[part], time_ns[part], stamp)
                continue
            named = (*key, int(stamp.tick_ns))
            start_ns, first, last = self._counters.get(named, (int(time_ns[own][0]), None, None))
            lag = (time_ns[own] - start_ns) - ticks[own] * stamp.tick_ns
            if first is None:
                first = last = float(lag[0])
            lag = np.unwrap([last, *lag], period=2**stamp.counter_bits * stamp.tick_ns)[1:]
            self._counters[named] = start_ns, first, float(lag[-1])
            time_ns[own] -= np.rint(lag - first).astype(np.int64)
        return time_ns

    def _number(self, batch: Batch, stamped: Stamped, choice: _Choice, interface: Int64) -> None:
        """Assign frames to the interfaces of the ports of a tap."""
        rows = np.flatnonzero(stamped.fits)
        if not len(rows) or not stamped.stamp.source:
            return
        parts = [_numbers(batch, stamped.at[rows], part) for part in stamped.stamp.source]
        keys = np.column_stack([interface[rows], *parts])
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        numbers = [self._port(choice.device, *each) for each in distinct.tolist()]
        interface[rows] = np.array(numbers, np.int64)[which.reshape(-1)]

    def _port(self, name: str, outside: int, device: int, port: int) -> int:
        """Return the number of the interface for a port of a tap."""
        what = f"{name} {device} port {port}"
        return self.further_interface(outside, (device, port), name, what, fcs_octets=0)

    def _compare(self, batch: Batch, time_ns: Int64, fits: Mask) -> None:
        """Update the minimum and maximum difference between stamps and the capture's times."""
        known = fits if batch.timed is None else fits & batch.timed
        if known.any():
            apart = time_ns[known] - batch.time_ns[known]
            minimum, greatest = int(apart.min()), int(apart.max())
            before = self._apart_ns or (minimum, greatest)
            self._apart_ns = min(before[0], minimum), max(before[1], greatest)


def _addresses_moved(batch: Batch, moved: Mask, octets: Int64) -> Batch:
    """Return a batch in which each frame starts ``octets`` later but keeps its addresses."""
    low, high = int(batch.offset.min()), int((batch.offset + batch.captured).max())
    buffer = batch.buffer[low:high].copy()
    start = batch.offset - low
    addresses = start[moved, None] + np.arange(TYPE_AT)
    buffer[addresses + octets[moved, None]] = buffer[addresses]
    buffer.flags.writeable = False
    return dataclasses.replace(batch, buffer=buffer, offset=start + octets, records=None)


def _signed_time(duration_ns: int) -> str:
    return f"{'−' if duration_ns < 0 else '+'}{format_time(abs(duration_ns))}"
