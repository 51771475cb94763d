"""Frame templates: values and checksums are written into copies of an encoded frame.

The encoder lists the fields that it computes from the template (`Layer.computed`). A computed field is the
same for all frames of a template, with two exceptions. A checksum is computed for each frame. The EtherType
or length of the next layer depends on the former value of the field.

The encoder computes only the checksums of IPv4 headers. This module adds the checksums with a pseudo header
(TCP and UDP, but not a UDP checksum of 0 over IPv4), and computes all checksums over many frames (RFC 1071).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.wire.codec.frame import Frame, encode, fixed
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.gre import GREChecksum
from ecmproto.wire.formats.ip import (
    PROTO_TCP,
    PROTO_UDP,
    TCP,
    UDP,
    Extension,
    FragmentHeader,
    IPv4,
    IPv6,
    Routing,
)
from ecmproto.wire.formats.registry import dispatch
from ecmproto.wire.formats.wrapper import Part

Octets = NDArray[np.uint8]

_WORDS = (8, 16, 32, 64)

_BLOCK_OCTETS = 1 << 18
"""Bytes of a matrix filled at a time, small enough to stay in the cache for all columns."""

Source: TypeAlias = Callable[[Any], NDArray[Any]]
"""Function that returns the values (numbers or rows of octets) of the frames at a slice or at indices."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameTemplate:
    """The octets of a frame, the bit ranges overwritten in each copy, and the checksums over the octets."""

    octets: Octets
    bit_ranges: tuple[BitRange, ...] = ()
    checksums: tuple[Checksum | Covering, ...] = ()

    def fill(self, out: Octets, rows: Any, sources: Sequence[Source]) -> None:
        """Fill ``out`` (n × length) with one copy of the frame per row, and with the values for ``rows``.

        ``rows`` is the index of the first of n consecutive frames, or an array of n indices. ``sources`` has
        one source for each bit range.
        """
        step = max(1, _BLOCK_OCTETS // max(1, len(self.octets)))
        for low in range(0, len(out), step):
            block = out[low : low + step]
            chosen = (
                rows[low : low + step]
                if isinstance(rows, np.ndarray)
                else slice(rows + low, rows + low + len(block))
            )
            block[:] = self.octets
            for bit_range, source in zip(self.bit_ranges, sources, strict=True):
                bit_range.put(block, source(chosen))
            for checksum in self.checksums:
                checksum.write(block)


def frame_template(
    frame: Frame,
    bit_ranges: Iterable[BitRange],
    given: Sequence[Collection[str]],
    *,
    checksums: bool = True,
    transport: bool = True,
) -> FrameTemplate:
    """Return the template of ``frame``, which is finished except for the contents of ``bit_ranges``.

    The template has the checksums of ``frame`` that cover a bit range or another recomputed checksum.
    Checksums in ``given`` are left out. With ``checksums`` False, the template has no checksums.
    """
    bit_ranges = tuple(bit_ranges)
    written = [bit_range.octets for bit_range in bit_ranges]
    covering: list[Checksum | Covering] = []
    for checksum in checksums_of(frame, given, transport=transport) if checksums else ():
        if checksum.covers(written):
            covering.append(checksum)
            written.append(range(checksum.at, checksum.at + checksum.octets))
    octets = np.frombuffer(encode(frame), np.uint8)
    return FrameTemplate(octets=octets, bit_ranges=bit_ranges, checksums=tuple(covering))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Settings for the completion of frames.

    ``fix`` computes the same fields as ``encode(frame, fix=True)``. ``transport`` also computes the checksums
    of TCP, UDP and GRE. ``keep`` contains, for each layer, the keys of the fields left unchanged.
    """

    fix: bool = True
    transport: bool = False
    keep: tuple[frozenset[str], ...] = ()

    def given(self, frame: Frame) -> tuple[frozenset[str], ...]:
        """Return ``keep`` with an entry for each layer of ``frame``."""
        return self.keep or (frozenset(),) * len(frame.layers)


def finished(frame: Frame, finish: Finish) -> Frame:
    """Return ``frame`` completed according to ``finish``."""
    if not finish.fix:
        return frame
    given = finish.given(frame)
    frame = fixed(frame, given)
    # A computed header checksum is already correct, unless a given field is wrong.
    is_summed = not finish.transport and not any(given)
    return frame if is_summed else summed(frame, given, transport=finish.transport)


def summed(frame: Frame, given: Sequence[Collection[str]], *, transport: bool) -> Frame:
    """Return ``frame`` with its checksums computed, except the checksums in ``given``."""
    checksums = checksums_of(frame, given, transport=transport)
    if not checksums:
        return frame
    octets = np.frombuffer(encode(frame), dtype=np.uint8).reshape(1, -1).copy()
    layers = list(frame.layers)
    for checksum in checksums:
        checksum.write(octets)
        number = int.from_bytes(octets[0, checksum.at : checksum.at + checksum.octets].tobytes(), "big")
        layers[checksum.layer] = layers[checksum.layer].replace(**{checksum.key: number})
    return dataclasses.replace(frame, layers=tuple(layers))


class Computing:
    """The computed fields of the layers of a finished frame."""

    def __init__(self, frame: Frame, finish: Finish) -> None:
        self._layers = frame.layers
        self._given = finish.given(frame)
        self._formats = dispatch(frame.ethertypes)
        builds = [layer.build() for layer in frame.layers]
        inner_at, ends_inside = frame.padded_at()
        builds.append(frame.padding + frame.trailer * ends_inside)
        stops = [None if index < inner_at else -1 for index in range(len(frame.layers))]
        self._rests = [b"".join(builds[index + 1 : stop]) for index, stop in enumerate(stops)]
        self._is_fixed = finish.fix

    def of(self, index: int, layer: Layer | None = None) -> dict[str, int]:
        """Return the computed fields of layer ``index``, or of ``layer`` in place of that layer."""
        if not self._is_fixed:
            return {}
        layer = self._layers[index] if layer is None else layer
        following = next((each for each in self._layers[index + 1 :] if not isinstance(each, Part)), None)
        computed = layer.computed(self._rests[index], following, self._formats)
        return {key: value for key, value in computed.items() if key not in self._given[index]}

    def announcing(self, index: int, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the EtherTypes or lengths that announce the layer after layer ``index``, after ``fix``."""
        layer = self._layers[index]
        key = layer.next_key
        if not self._is_fixed or key in self._given[index]:
            return numbers
        used, inverse = np.unique(numbers, return_inverse=True)
        becomes = [
            self.of(index, layer.replace(**{key: number})).get(key, number) for number in used.tolist()
        ]
        return np.array(becomes, np.uint16)[inverse.reshape(-1)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BitRange:
    """A range of ``bits`` bits of the frame that starts at bit ``bit``; bit 0 is the most significant."""

    bit: int
    bits: int

    @property
    def octets(self) -> range:
        """Range of the octets that contain any of the bits."""
        return range(self.bit // 8, -(-(self.bit + self.bits) // 8))

    def put(self, frames: Octets, values: NDArray[np.integer]) -> None:
        """Write a number into each row of ``frames`` (n × length), in two's complement.

        Numbers of more than 64 bits are passed as rows of octets (n × width).
        """
        if values.ndim == 2:
            self.put_octets(frames, values.astype(np.uint8, copy=False))
        elif self.bits in _WORDS and self.bit % 8 == 0:
            # one store per row; a store per octet takes twice the time
            word = frames[:, self.octets.start : self.octets.stop].view(f">u{self.bits // 8}")
            np.copyto(word[:, 0], values, casting="unsafe")
        else:
            self._put_bits(frames, values)

    def put_octets(self, frames: Octets, rows: Octets) -> None:
        """Write a row of whole octets into each row of ``frames``."""
        if not rows.shape[1]:
            return
        whole = f"V{rows.shape[1]}"
        target = frames[:, self.octets.start : self.octets.stop].view(whole)
        target[:, 0] = np.ascontiguousarray(rows).view(whole)[:, 0]

    def _put_bits(self, frames: Octets, values: NDArray[np.integer]) -> None:
        """Write the bits of a field without changing other bits of the same octets."""
        span = self.octets
        shift = 8 * span.stop - self.bit - self.bits
        mask = ((1 << self.bits) - 1) << shift
        numbers = values.astype(np.uint64, casting="unsafe", copy=False)
        for octet in span:
            # number of bits between the lowest bit of the number and the lowest bit of this octet
            above = 8 * (span.stop - 1 - octet) - shift
            part = (numbers >> np.uint64(above) if above >= 0 else numbers << np.uint64(-above)).astype(
                np.uint8
            )
            own = mask >> 8 * (span.stop - 1 - octet) & 0xFF
            if own == 0xFF:
                frames[:, octet] = part
            else:
                frames[:, octet] = frames[:, octet] & np.uint8(~own & 0xFF) | part & np.uint8(own)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """A checksum: its offset, the octet ranges that it covers, and the constant part of its sum."""

    layer: int
    at: int
    ranges: tuple[tuple[int, int], ...]
    constant: int = 0
    never_zero: bool = False
    """Whether a sum of 0 is written as 0xFFFF, as in UDP, where 0 means no checksum (RFC 768)."""
    key: ClassVar[str] = "checksum"
    octets: ClassVar[int] = 2

    def covers(self, written: Iterable[range]) -> bool:
        """Return whether the checksum covers any of the octets ``written``."""
        return any(start < part.stop and part.start < stop for part in written for start, stop in self.ranges)

    def write(self, frames: Octets) -> None:
        """Compute and write the checksum of each row of ``frames`` (n × length)."""
        frames[:, self.at : self.at + 2] = 0
        total = np.full(len(frames), self.constant, dtype=np.uint64)
        for start, stop in self.ranges:
            words = frames[:, start : stop - (stop - start) % 2].view(">u2")
            total += words.sum(axis=1, dtype=np.uint64)
            if (stop - start) % 2:
                total += frames[:, stop - 1].astype(np.uint64) << np.uint64(8)
        for _ in range(4):
            total = (total & np.uint64(0xFFFF)) + (total >> np.uint64(16))
        result = ~total & np.uint64(0xFFFF)
        if self.never_zero:
            result[result == 0] = 0xFFFF
        frames[:, self.at] = result >> np.uint64(8)
        frames[:, self.at + 1] = result & np.uint64(0xFF)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Covering:
    """A field that its format computes from all preceding octets (`Layer.covering`)."""

    layer: int
    at: int
    key: str
    octets: int
    compute: Callable[[bytes], int]

    def covers(self, written: Iterable[range]) -> bool:
        """Return whether the field may cover any of the octets ``written``."""
        return any(part.start < self.at for part in written)

    def write(self, frames: Octets) -> None:
        """Compute and write the field in each row of ``frames`` (n × length)."""
        for row in frames:
            value = self.compute(row.tobytes())
            row[self.at : self.at + self.octets] = np.frombuffer(value.to_bytes(self.octets, "big"), np.uint8)


def checksums_of(
    frame: Frame, given: Sequence[Collection[str]], *, transport: bool = True
) -> tuple[Checksum | Covering, ...]:
    """Return the checksums to compute, innermost first.

    The checksums of TCP, UDP and GRE are included only with ``transport``.
    """
    starts = frame.boundaries()
    inner_at, ends_inside = frame.padded_at()
    contained = len(frame.padding) + len(frame.trailer) * ends_inside
    checksums: list[Checksum | Covering] = []
    for index, value in enumerate(frame.layers):
        if (value.covers or Checksum.key) in given[index]:
            continue
        start, stop = starts[index], starts[index + 1]
        if value.covers:
            checksums += _covering(frame, starts, index)
        if isinstance(value, IPv4):
            checksums.append(Checksum(layer=index, at=start + 10, ranges=((start, stop),)))
        end = starts[-1] + contained * (index < inner_at)
        if transport and isinstance(value, TCP | UDP) and index:
            outer = _transport(frame, starts, index, end)
            checksums += [outer] if outer else []
        elif transport and isinstance(value, GREChecksum) and index:
            checksums.append(Checksum(layer=index, at=start, ranges=((starts[index - 1], end),)))
    return tuple(reversed(checksums))


def _covering(frame: Frame, starts: tuple[int, ...], index: int) -> Iterator[Covering]:
    value = frame.layers[index]
    compute = value.covering(frame.layers[:index], starts[: index + 1])
    field = next(field for field in value.layout if field.key == value.covers)
    if compute is not None:
        at, octets = starts[index] + field.bit_offset // 8, (field.bits or 0) // 8
        yield Covering(layer=index, at=at, key=field.key, octets=octets, compute=compute)


def _transport(frame: Frame, starts: tuple[int, ...], index: int, end: int) -> Checksum | None:
    """Return the checksum of a segment up to ``end``, with its pseudo header (RFC 9293 3.1, RFC 8200 8.1)."""
    value, start = frame.layers[index], starts[index]
    under = index - 1
    while under and isinstance(frame.layers[under], Extension):
        # The final destination of a routing header and the other fragments are not known here.
        if isinstance(frame.layers[under], Routing | FragmentHeader):
            return None
        under -= 1
    below, ip = frame.layers[under], starts[under]
    is_tcp = isinstance(value, TCP)
    has_none = isinstance(value, UDP) and value.checksum == 0
    if isinstance(below, IPv4) and not has_none:
        addresses = (ip + 12, ip + 20)
    elif isinstance(below, IPv6):
        addresses = (ip + 8, ip + 40)
    else:
        return None
    return Checksum(
        layer=index,
        at=start + (16 if is_tcp else 6),
        ranges=((start, end), addresses),
        constant=(PROTO_TCP if is_tcp else PROTO_UDP) + end - start,
        never_zero=not is_tcp,
    )
