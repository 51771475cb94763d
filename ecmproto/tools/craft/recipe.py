"""Recipes: frames of a line, a specification or a document, with their number and times.

This module also checks numbers, times and rates, and describes the original capture of a document. The
description of the original capture is needed to write the capture again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import EncodeError, ParameterError, SpecError, hint_on_name, shown
from ecmproto.frames.capture.batch import ETHERNET, Batch, ByteOrder, Format, Interface
from ecmproto.frames.capture.linux.schedule import BitRate
from ecmproto.frames.capture.linux.schedule import rate_of as scheduled_rate
from ecmproto.frames.capture.pcap import HEADER_OCTETS, PcapHeader, byte_order_of, parse_header
from ecmproto.frames.capture.writer import Resolution
from ecmproto.tools.craft.sweep import Plan, Sweep
from ecmproto.units import NO_UNIT, NS_PER_S, parse_time

UNASKED_FRAMES = 100_000_000
"""Maximum number of frames of a recipe without a requested number."""

MAX_TIME_NS = (1 << 63) - 1
_IN_TIME = "times of less than 2^63 ns"


class WireRate(NamedTuple):
    """The rate of a link that sends frames without pauses. Each frame has an FCS, a preamble and a gap."""

    rate_bps: int


Spacing: TypeAlias = "Fraction | WireRate"
"""Interval between frames: exact nanoseconds, or the transmission time at a link rate."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Some frames in order: a matrix with one frame per row, a list of frames, or a batch.

    The other attributes describe the records of the frames. ``time_ns`` contains the times, and ``None``
    means that the times follow from the previous frames. ``original`` contains the lengths on the wire, and
    ``None`` means the captured lengths. ``interface`` is one interface for all frames, or one interface per
    frame. ``linktype`` applies to all frames. Only a chunk of one frame has ``comments``.
    """

    frames: NDArray[np.uint8] | list[bytes] | Batch
    time_ns: NDArray[np.int64] | None
    original: NDArray[np.int64] | None = None
    interface: int | NDArray[np.int64] = 0
    linktype: int = 1
    comments: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.frames)

    def times(self) -> NDArray[np.int64]:
        """Return the time of each frame, or 0 if the time depends on unknown previous frames."""
        return np.zeros(len(self), np.int64) if self.time_ns is None else self.time_ns

    def batch(self, *, first: int = 0) -> Batch:
        """Return the frames and their record data as a batch.

        ``first`` is the number of the first frame, counted from 0.
        """
        if isinstance(self.frames, Batch):
            captured = self.frames.captured
            return dataclasses.replace(
                self.frames,
                time_ns=self.times(),
                original=captured if self.original is None else self.original,
                interface=np.broadcast_to(np.asarray(self.interface, np.int64), len(self)),
                first=first,
            )
        columns: dict[str, Any] = {
            "time_ns": self.times(),
            "original": self.original,
            "interface": self.interface,
        }
        if isinstance(self.frames, list):
            return Batch.from_frames(self.frames, first=first, **columns)
        return Batch.from_matrix(self.frames, first=first, **columns)

    def octets(self) -> Iterator[bytes]:
        """Yield the octets of each frame."""
        if not isinstance(self.frames, np.ndarray):
            yield from self.frames if isinstance(self.frames, list) else self.frames.frames()
            return
        length = self.frames.shape[1]
        joined = self.frames.tobytes()
        for start in range(0, length * len(self.frames), length):
            yield joined[start : start + length]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recipe:
    """A template for frames, with or without swept fields.

    ``count`` is the number of frames. A sweep repeats or stops early to reach ``count``. If ``count`` is
    ``None``, every combination is built once. ``spacing`` is the interval between frames. ``time_ns`` is the
    time of the first frame, and ``None`` means that this frame follows the previous frames. ``where`` is the
    position of the recipe in its specification.
    """

    plan: Plan
    count: int | None = None
    spacing: Spacing | None = None
    time_ns: int | None = None
    comments: tuple[str, ...] = ()
    where: str = "sweep"


def chunks(
    recipes: Iterable[Recipe | Chunk], *, start_ns: int = 0, spacing: Spacing = Fraction(0)
) -> Iterator[Chunk]:
    """Yield the frames of all recipes in order.

    ``spacing`` is the default for recipes without ``spacing``. Chunks are passed through, but a chunk without
    times gets times as a recipe does. Raises SpecError for a sweep of more than ``UNASKED_FRAMES`` frames
    without a count. Raises SpecError for times that no capture format can store.
    """
    clock = _Clock(Fraction(start_ns), spacing)
    for item in recipes:
        if isinstance(item, Chunk):
            if item.time_ns is None:
                clock.check(len(item), "frames")
                item = dataclasses.replace(item, time_ns=clock.times(item))
            yield item
            continue
        start = clock.now if item.time_ns is None else Fraction(item.time_ns)
        own = _Clock(start, spacing if item.spacing is None else item.spacing)
        count = count_of(item)
        own.check(count, item.where)
        for frames in Sweep(item.plan).chunks(count):
            times = own.times(Chunk(frames=frames, time_ns=None))
            yield from _labelled(frames, times, item.comments)
        clock = _Clock(own.now, spacing)


class _Clock:
    """Clock that assigns times to frames, with a fixed spacing from a start time."""

    def __init__(self, first: Fraction, spacing: Spacing) -> None:
        self._first = first
        self._spacing = spacing
        self._frames = 0
        self._wire = BitRate(spacing.rate_bps) if isinstance(spacing, WireRate) else None

    @property
    def now(self) -> Fraction:
        """The time of the next frame."""
        if isinstance(self._spacing, Fraction):
            return self._first + self._spacing * self._frames
        assert self._wire is not None
        return self._first + self._wire.end_ns

    def times(self, chunk: Chunk) -> NDArray[np.int64]:
        """Return the times of the next frames in nanoseconds, rounded down."""
        if isinstance(self._spacing, Fraction):
            times = _times(self.now, self._spacing, len(chunk))
            self._frames += len(chunk)
            return times
        assert self._wire is not None
        due = self._wire.due(chunk.batch())
        if self.now > MAX_TIME_NS:
            raise SpecError(where="rate", needed=_IN_TIME, got=f"{float(self.now):g} ns")
        return int(self._first) + due

    def check(self, count: int, where: str) -> None:
        """Raise SpecError if the next ``count`` frames end after the maximum time of a capture."""
        if isinstance(self._spacing, Fraction) and self.now + self._spacing * count > MAX_TIME_NS:
            got = f"{count:,} frames {float(self._spacing):g} ns apart"
            raise SpecError(where=where, needed=_IN_TIME, got=got)


def _labelled(
    frames: NDArray[np.uint8] | list[bytes], times: NDArray[np.int64], comments: tuple[str, ...]
) -> Iterator[Chunk]:
    if not comments:
        yield Chunk(frames=frames, time_ns=times)
        return
    for row in range(len(frames)):
        yield Chunk(frames=frames[row : row + 1], time_ns=times[row : row + 1], comments=comments)


def count_of(recipe: Recipe) -> int:
    """Return the number of frames of a recipe.

    Raises SpecError with the calculation if the number was not requested and exceeds `UNASKED_FRAMES`.
    """
    if recipe.count is not None:
        return recipe.count
    total = recipe.plan.combinations
    if total > UNASKED_FRAMES:
        counts = [f"{axis.count:,}" for axis in recipe.plan.axes]
        product = f"{' × '.join(counts)} = " if len(counts) > 1 else ""
        raise SpecError(
            where=recipe.where,
            needed=f"at most {UNASKED_FRAMES:,} frames, or a count",
            got=f"{product}{total:,} frames",
            hint="a count of N builds the first N of them",
        )
    return total


def _times(first: Fraction, interval: Fraction, count: int) -> NDArray[np.int64]:
    """Return exactly ⌊first + i·interval⌋ for each i in 0..count−1."""
    denominator = interval.denominator * first.denominator
    start, step = int(first * denominator), int(interval * denominator)
    if start + step * count > MAX_TIME_NS:
        return np.array([(start + step * i) // denominator for i in range(count)], dtype=np.int64)
    result: NDArray[np.int64] = (start + step * np.arange(count, dtype=np.int64)) // denominator
    return result


def check_keys(keys: Iterable[str], known: Collection[str], where: str, needed: str) -> None:
    """Raise SpecError for a key that is not in ``known``."""
    for key in keys:
        if key not in known:
            raise SpecError(where=where, needed=needed, got=repr(key), hint=hint_on_name(str(key), known))


def integer(item: Mapping[str, Any], key: str, default: int, highest: int, where: str) -> int:
    """Return an integer of a document, or the default value.

    Raises SpecError if the value is not an integer in 0..highest.
    """
    value = item.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise SpecError(where=f"{where}.{key}", needed=f"an integer in 0..{highest}", got=shown(value))
    return value


_RATE_CHARACTERS = 24
MAX_TEXT_OCTETS = 65_535
"""Maximum length of a comment or name in pcapng, in octets."""


def is_text(value: object) -> bool:
    """Return whether a value is UTF-8 text that is short enough for a pcapng option."""
    try:
        return isinstance(value, str) and len(value.encode()) <= MAX_TEXT_OCTETS
    except UnicodeEncodeError:  # JSON can contain single surrogates
        return False


def time_of(given: object, where: str) -> int:
    """Return a time such as ``"1us"`` in nanoseconds.

    Raises SpecError for other text, including a number without a unit.
    """
    needed = "a time such as 15ms, 500us or 1s, in whole ns"
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise SpecError(where=where, needed=needed, got=shown(given))
    try:
        value = parse_time(str(given))
    except ParameterError as error:
        needed = error.needed if error.needed.startswith(NO_UNIT) else needed
        raise SpecError(where=where, needed=needed, got=shown(given)) from None
    if value > MAX_TIME_NS:
        raise SpecError(where=where, needed="less than 2^63 ns", got=shown(given))
    return value


def time_text(ns: int) -> str:
    """Return an exact time as text for `time_of`."""
    for factor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns % factor == 0:
            return f"{ns // factor}{unit}"
    return f"{ns}ns"


def is_time(rate: str | None) -> bool:
    """Return whether a rate is the time between frames, such as ``"10us"``."""
    return rate is not None and rate.endswith("s") and not rate.endswith("pps")


def rate_of(given: object) -> Spacing:
    """Return the spacing of frames at a rate such as ``"1000pps"`` (frames/s) or ``"1G"`` (bit/s)."""
    needed = "frames a second such as 1000pps or 1.5Mpps, or bits a second on the line such as 1G"
    refusal = SpecError(where="rate", needed=needed, got=shown(given))
    text = given.strip() if isinstance(given, str) else str(given)
    if isinstance(given, bool) or not isinstance(given, int | str) or len(text) > _RATE_CHARACTERS:
        raise refusal
    try:
        requested = scheduled_rate(text)
    except ParameterError:
        raise refusal from None
    return (
        WireRate(requested.rate_bps) if isinstance(requested, BitRate) else NS_PER_S / requested.frames_per_s
    )


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Add the position in the specification to errors that are raised in a ``with`` block."""
    try:
        yield
    except SpecError as error:
        raise SpecError(
            where=f"{where}: {error.where}", needed=error.needed, got=error.got, hint=error.hint
        ) from None
    except EncodeError as error:
        raise SpecError(
            where=f"{where}: {error.layer}.{error.field}", needed=error.needed, got=error.got
        ) from None


MAX_INTERFACES = 65_536
_MAX_WORD = 0xFFFF_FFFF


@dataclasses.dataclass(slots=True, kw_only=True)
class CaptureInfo:
    """The format and interfaces of a capture.

    ``header`` is the header of a pcap file, and ``None`` if new records cannot follow the header.
    ``interfaces`` grows when a frame refers to an unknown interface.
    """

    format: Format = "pcap"
    byte_order: ByteOrder = "little"
    resolution: Resolution = "ns"
    header: PcapHeader | None = None
    interfaces: list[Interface] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    """Differences between the frames that were read and the frames that were written."""

    def describe(self, index: int, linktype: int) -> None:
        """Add default descriptions for unknown interfaces up to ``index``."""
        while len(self.interfaces) <= index:
            fresh = Interface(index=len(self.interfaces), linktype=linktype, ticks_per_second=NS_PER_S)
            self.interfaces.append(fresh)


def capture_info(document: object, *, where: str) -> CaptureInfo:
    """Return the format in a ``capture`` object. Raises SpecError for an invalid object."""
    if not isinstance(document, Mapping):
        raise SpecError(where=where, needed="an object", got=shown(document))
    format = _choice(document, "format", ("pcap", "pcapng"), where)
    byte_order = _choice(document, "byte_order", ("little", "big"), where)
    given = document.get("interfaces", [])
    if not isinstance(given, list) or len(given) > MAX_INTERFACES:
        raise SpecError(where=f"{where}.interfaces", needed="a list of interfaces", got=shown(given))
    interfaces = [_interface(item, i, f"{where}.interfaces[{i}]") for i, item in enumerate(given)]
    ticks = {interface.ticks_per_second for interface in interfaces}
    ticks |= {integer(document, "ticks_per_second", NS_PER_S, _MAX_WORD, where)} if not interfaces else set()
    info = CaptureInfo(
        format="pcapng" if format == "pcapng" else "pcap",
        byte_order="big" if byte_order == "big" else "little",
        resolution="us" if ticks == {1_000_000} else "ns",
        header=_header(document.get("header"), f"{where}.header"),
    )
    info.interfaces = interfaces
    return info


def _interface(document: object, index: int, where: str) -> Interface:
    if not isinstance(document, Mapping):
        raise SpecError(where=where, needed="an object", got=shown(document))
    name, description = document.get("name", ""), document.get("description", "")
    if not is_text(name) or not is_text(description):
        raise SpecError(
            where=where, needed="a name and a description in text", got=shown([name, description])
        )
    return Interface(
        index=index,
        linktype=integer(document, "linktype", ETHERNET, 0xFFFF, where),
        snaplen=integer(document, "snaplen", 0, _MAX_WORD, where),
        name=str(name),
        description=str(description),
        ticks_per_second=integer(document, "ticks_per_second", NS_PER_S, 1 << 128, where),
        fcs_octets=integer(document, "fcs_octets", 0, 255, where),
    )


def _header(given: object, where: str) -> PcapHeader | None:
    if given is None:
        return None
    try:
        octets = bytes.fromhex(given) if isinstance(given, str) else b""
    except ValueError:
        octets = b""
    if len(octets) != HEADER_OCTETS or byte_order_of(octets) is None:
        raise SpecError(
            where=where, needed=f"the {HEADER_OCTETS} octets of a pcap header in hex", got=shown(given)
        )
    header = parse_header(octets, where)
    # old and modified variants of pcap have records that this module cannot write
    is_plain = header.record_header_octets == 16 and header.lengths == 0
    return header if is_plain else None


def _choice(document: Mapping[str, object], key: str, choices: tuple[str, ...], where: str) -> str:
    value = document.get(key, choices[0])
    if value not in choices:
        raise SpecError(where=f"{where}.{key}", needed=" or ".join(choices), got=shown(value))
    return str(value)
