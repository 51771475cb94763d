"""Decoding of octets into frames with typed layers, and encoding of frames.

`decode` raises an error for a malformed frame; `decode_lax` stores the error in the `Frame`. `encode` writes
the fields unchanged, or with the computed fields corrected (`fixed`).
"""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

from ecmproto.errors import DecodeError, did_you_mean
from ecmproto.values import dataclass
from ecmproto.wire.formats.base import UNBOUNDED, Layer
from ecmproto.wire.formats.ethernet import Data, Ethernet, ITag
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.ip import IPv4, IPv6
from ecmproto.wire.formats.registry import dispatch
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.wrapper import Part, inner_frames

T = TypeVar("T", bound=Layer)

MIN_OCTETS = 60
"""Minimum length of a frame without the FCS, in octets (802.3 4A.4.2). Shorter frames are padded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Position of a field: the octets ``start`` to ``stop`` (exclusive) of the frame, and the bits.

    ``bit_start`` and ``bit_stop`` count from the frame's first bit, most significant bit first.
    """

    start: int
    stop: int
    bit_start: int
    bit_stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Field of a layer in a frame, with the field's value and position."""

    layer: int
    """Index of the layer in ``Frame.layers``."""
    field: Field
    value: int | bytes
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Frame as typed layers, from the outermost header to the payload.

    Two frames are equal when their layers, padding, trailers and FCS are equal.
    """

    layers: tuple[Layer, ...]
    padding: bytes = b""
    """Zero octets after the last layer that pad the frame to 60 octets (``eth.padding``)."""
    trailer: bytes = b""
    """Other octets after the last layer (``eth.trailer``)."""
    fcs: bytes = b""
    """Frame check sequence (``eth.fcs``), empty if the capture has none."""
    starts: tuple[int, ...] = dataclasses.field(default=(), compare=False, init=False)
    """Offset of each decoded layer, then the end of the last layer. Other frames have no offsets."""
    cut: int = dataclasses.field(default=0, compare=False)
    """Number of octets that the capture's snap length removed from the end of the frame."""
    error: DecodeError | None = dataclasses.field(default=None, compare=False)
    """Error of a malformed frame. Only lax decoding sets the error."""
    ethertypes: EtherTypes = dataclasses.field(default=DEFAULT, compare=False)
    """EtherType map that was used to decode the frame."""

    def __contains__(self, key: type[Layer] | str) -> bool:
        return next(self._matches(key), None) is not None

    @overload
    def __getitem__(self, key: type[T]) -> T: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: type[Layer] | str) -> Any:
        """Return the first layer of a format, or the first value of a field.

        The key is a format (``frame[CNM]``, ``frame["cnm"]``) or a field name (``frame["cnm.qntz_fb"]``).
        Raises KeyError if the frame has no such layer or field; the error suggests the nearest name in the
        frame.
        """
        for match in self._matches(key):
            return match
        raise KeyError(self._missing(key if isinstance(key, str) else key.prefix))

    def _missing(self, name: str) -> str:
        names = [field.name for layer in self.layers for field in layer.layout]
        hint = did_you_mean(name, [*names, *(layer.prefix for layer in self.layers)])
        return f"{name}: not in the frame" + (f" ({hint})" if hint else "")

    @overload
    def get(self, key: type[T]) -> T | None: ...
    @overload
    def get(self, key: str) -> Any: ...
    def get(self, key: type[Layer] | str) -> Any:
        """Return the layer or value of ``frame[key]``, or ``None`` if there is no such layer or field."""
        return next(self._matches(key), None)

    def _matches(self, key: type[Layer] | str) -> Iterator[Layer | int | bytes]:
        """Yield the layers of a format, given by class or name, or the values of a field, given by name."""
        if not isinstance(key, str):
            yield from (value for value in self.layers if isinstance(value, key))
            return
        for value in self.layers:
            if value.prefix == key:
                yield value
            for field in value.layout:
                got: int | bytes = getattr(value, field.key)
                if field.name_for(got) == key or f"{value.prefix}.{field.key}" == key:
                    yield got

    def inner_frames(self) -> list[int]:
        """Return the index of the first layer of each wrapped frame, outermost first."""
        return inner_frames([type(value) for value in self.layers])

    def padded_at(self) -> tuple[int, bool]:
        """Return the Ethernet header's index in the padded frame, and whether wrappers contain the trailer.

        The length in the outermost IP header determines whether the trailer is inside.
        """
        inner = [index for index in self.inner_frames() if type(self.layers[index]) is Ethernet]
        if not inner:
            return 0, False
        index = next((i for i, value in enumerate(self.layers) if isinstance(value, IPv4 | IPv6)), inner[-1])
        value = self.layers[index]
        length = value.len if isinstance(value, IPv4) else getattr(value, "plen", 0) + value.fixed_octets
        octets = sum(len(each.build()) for each in self.layers[index:]) + len(self.padding)
        return inner[-1], length == octets + len(self.trailer)

    def all(self, cls: type[T]) -> tuple[T, ...]:
        """Return all layers of a format, outermost first."""
        return tuple(value for value in self.layers if isinstance(value, cls))

    def fields(self) -> Iterator[Placed]:
        """Yield all fields of all layers in wire order."""
        boundaries = self.boundaries()
        for index in range(len(self.layers)):
            yield from self._placed(index, boundaries[index] * 8)

    def fields_of(self, index: int) -> Iterator[Placed]:
        """Yield the fields of layer ``index`` in wire order."""
        return self._placed(index, self.boundaries()[index] * 8)

    def _placed(self, index: int, base: int) -> Iterator[Placed]:
        value, first = self.layers[index], base
        for field in value.layout:
            got: int | bytes = getattr(value, field.key)
            bits = field.bits if field.bits is not None else 8 * len(got)  # type: ignore[arg-type]
            span = Span(
                start=first // 8, stop=-(-(first + bits) // 8), bit_start=first, bit_stop=first + bits
            )
            yield Placed(layer=index, field=field, value=got, span=span)
            first += bits

    def spans(self, name: str) -> tuple[Span, ...]:
        """Return the positions of the fields named ``name`` (``cnm.qntz_fb``), outermost first."""
        return tuple(placed.span for placed in self.fields() if placed.field.name_for(placed.value) == name)

    def boundaries(self) -> tuple[int, ...]:
        """Return the offset of each layer, then the end of the last layer."""
        if len(self.starts) == len(self.layers) + 1:
            return self.starts
        boundaries = [0]
        for value in self.layers:
            boundaries.append(boundaries[-1] + len(value.build()))
        return tuple(boundaries)


_SETTERS = tuple(getattr(Frame, field.name).__set__ for field in dataclasses.fields(Frame))


def assembled(*values: object) -> Frame:
    """Return a `Frame` with the values of all its fields, in declaration order.

    The decoder calls this function instead of the constructor: setting the slots directly takes a quarter of
    the time of a frozen dataclass's constructor.
    """
    frame = object.__new__(Frame)
    for set_value, value in zip(_SETTERS, values, strict=True):
        set_value(frame, value)
    return frame


def frame_check_sequence(octets: bytes | memoryview) -> bytes:
    """Return the FCS of a frame, four octets in wire order.

    ``octets`` is the frame from the DA to the end, without FCS.
    """
    return zlib.crc32(octets).to_bytes(4, "little")


def decode(
    data: bytes | bytearray | memoryview,
    *,
    original_octets: int | None = None,
    fcs_octets: int = 0,
    ethertypes: EtherTypes = DEFAULT,
    first: type[Layer] = Ethernet,
) -> Frame:
    """Decode one frame, which starts with the destination address.

    ``original_octets`` is the frame's length on the wire if a snap length may have truncated the frame. The
    number of missing octets is then ``frame.cut``, and the frame is not malformed.

    ``fcs_octets`` is the length of the FCS at the end of ``data``. ``first`` is the first format, for octets
    that do not start with an Ethernet header.

    Octets of an unknown type are decoded as `Data`. Raises DecodeError for a malformed layer.
    """
    frame = decode_lax(
        data, original_octets=original_octets, fcs_octets=fcs_octets, ethertypes=ethertypes, first=first
    )
    if frame.error is not None:
        raise frame.error
    return frame


def decode_lax(
    data: bytes | bytearray | memoryview,
    *,
    original_octets: int | None = None,
    fcs_octets: int = 0,
    ethertypes: EtherTypes = DEFAULT,
    first: type[Layer] = Ethernet,
) -> Frame:
    """Decode one frame as far as possible, and store the error of a malformed frame in ``frame.error``.

    The layers before the error are decoded, and the remaining octets are `Data`. Encoding the frame returns
    the original octets.

    `decode` describes the arguments. The function raises no error for any octets.
    """
    octets = bytes(data)
    captured = len(octets)
    cut = max(0, (original_octets or 0) - captured)
    # the FCS is last on the wire, so a truncated frame loses its FCS first
    last = captured - max(0, min(fcs_octets - cut, captured))
    return _decode(octets, first, last, last + max(0, cut - fcs_octets), cut, ethertypes)


def protocols(layers: Iterable[Layer | type[Layer]]) -> str:
    """Return the names of layers, outermost first, separated by colons.

    The name ``lldp`` is listed once for consecutive LLDP TLVs.
    """
    names: list[str] = []
    for each in layers:
        if each.prefix != "lldp" or names[-1:] != ["lldp"]:
            names.append(each.prefix)
    return ":".join(names)


def encapsulated(frame: Frame) -> Frame | None:
    """Return the sampled frame inside a CNM, ECM, BCN or E²CM message, or ``None`` for other frames.

    The sampled frame is decoded laxly, because the message truncates the frame. In a CNM, the sampled frame
    starts with an `MSDU` layer, because the CNM's own fields contain the addresses.
    """
    message = frame.layers[-1] if frame.layers else None
    if message is None or message.shows is None:
        return None
    octets: bytes = getattr(message, message.layout[-1].key)
    return _decode(octets, message.shows, len(octets), UNBOUNDED, 0, frame.ethertypes) if octets else None


SUSPICIOUS = "its source is not the message's destination"
"""Warning for a sampled frame whose source does not receive the message (wire-formats 1.2)."""


def is_suspicious(frame: Frame, shown: Frame) -> bool:
    """Return whether the source of the sampled frame ``shown`` differs from the destination of ``frame``.

    The result is False for a CNM, which does not contain the source, and for a frame with incomplete headers.
    """
    sampled = shown.layers[0] if shown.layers else None
    header = next((one for one in reversed(frame.layers) if isinstance(one, Ethernet | ITag)), None)
    if header is None or not isinstance(sampled, Ethernet):
        return False
    return sampled.src != (header.cdst if isinstance(header, ITag) else header.dst)


def _decode(
    data: bytes, cls: type[Layer] | None, last: int, reach: int, cut: int, ethertypes: EtherTypes
) -> Frame:
    """Decode the layers, starting with the format ``cls``.

    ``data[:last]`` is the frame without the FCS. ``reach`` is the end of the frame on the wire, at least
    ``last``. ``cut`` is the number of missing octets.

    Lengths in inner headers reduce ``stop`` and ``reach``. A layer that exceeds ``stop`` is malformed only if
    the layer also exceeds ``reach``.
    """
    formats = dispatch(ethertypes)
    layers: list[Layer] = []
    starts = [0]
    error: DecodeError | None = None
    pos, stop = 0, last
    # the next formats, which the first layer of a packet determines, and the limits of the last format
    awaited: tuple[type[Layer], ...] = ()
    whole = stop, reach
    # the layers that contain the current layer, with the limits of each
    around: list[tuple[Layer, int, int]] = []
    # the wrapper of the current part, the remaining parts, and the start of the innermost Ethernet header
    wrapper: Layer | None = None
    parts: Sequence[type[Layer]] = ()
    wrapped, ethernet_at = False, 0
    while cls is not None and (pos < stop or cls is not Data):
        if cls.otherwise is not None and cls.cannot_be(data, pos, stop, reach):
            cls = cls.otherwise
        parsed = cls.parse(data, pos, stop)
        if parsed is None:
            error = error or cls.short(data, pos, stop, reach)
            pos = _rest(data, pos, last, layers, starts)
            break
        value, end, missing = parsed
        layers.append(value)
        starts.append(end)
        wrong = value.check(pos, reach)
        if wrong is None and end + missing > reach:
            wrong = _short(cls.prefix, pos, end + missing - pos, end - pos)
        error = error or wrong
        if missing or wrong is not None:
            pos = _rest(data, end, last, layers, starts)
            break
        if cls.closed_by is not None:
            awaited, whole = (*value.following_headers(), Data, cls.closed_by), (stop, reach)
            reach -= cls.closed_by.fixed_octets
            if reach < end:
                error = error or _short(cls.closed_by.prefix, end, cls.closed_by.fixed_octets, stop - end)
                pos = _rest(data, end, last, layers, starts)
                break
            stop = min(stop, reach)
        if awaited:
            pos = end
            cls, *others = awaited[1:] if awaited[0] is Data and pos >= stop else awaited
            awaited = tuple(others)
            if not awaited:
                stop, reach = whole
                if stop == pos < reach:
                    break  # the snap length removed the whole layer
            continue
        if wrapper is None and value.wraps and not value.holds:
            wrapper, parts = value, value.following_headers()
        if wrapper is not None:
            pos = end
            if parts:
                cls, *parts = parts
                continue
            value, wrapper = wrapper, None
        if value.holds:
            around.append((value, stop, reach))
            cls, bound = value.inside(data, pos, end, stop)
        else:
            cls, bound = value.following(formats, data, end, stop)
        # a bound at the end of the captured octets is either set by a length or inherited: with one octet
        # less, only an inherited bound changes
        if stop < reach and bound == stop:
            shorter = (
                value.inside(data, pos, end, stop - 1)
                if value.holds
                else value.following(formats, data, end, stop - 1)
            )
            bounded = shorter[1] == stop
        else:
            bounded = bound != stop
        if bounded:
            if bound > reach and wrapped:
                reach = bound  # the mirror truncated the frame
            elif bound > reach:
                error = error or _short(value.prefix, pos, bound - pos, reach - pos)
            stop, reach = min(stop, bound), min(reach, bound)
        while cls is None and around:
            value, stop, reach = around.pop()
            cls, _ = value.following(formats, data, end, stop)
        pos = end
        if value.wraps:
            wrapped, ethernet_at = True, end if cls is Ethernet else ethernet_at
    tail = data[pos:last]
    split = max(0, ethernet_at + MIN_OCTETS - pos)
    if tail[:split].strip(b"\0"):
        split = 0
    return assembled(
        tuple(layers), tail[:split], tail[split:], data[last:], tuple(starts), cut, error, ethertypes
    )


def _rest(data: bytes, pos: int, last: int, layers: list[Layer], starts: list[int]) -> int:
    """Append the remaining octets of a malformed or truncated frame as `Data`, and return the frame's end."""
    if pos < last:
        layers.append(Data(data=data[pos:last]))
        starts.append(last)
    return last


def _short(layer: str, start: int, needed: int, got: int) -> DecodeError:
    return DecodeError(layer=layer, offset=start, needed=f"{needed} octets", got=f"{got} octets")


@overload
def encode(frame: Frame, /, *, fix: bool = False) -> bytes: ...
@overload
def encode(layer: Layer, /, *layers: Layer, fix: bool = True) -> bytes: ...
def encode(first: Frame | Layer, /, *layers: Layer, fix: bool | None = None) -> bytes:
    """Return the octets of a frame, or of layers, outermost first: ``encode(ethernet, vlan, cnm)``.

    With ``fix``, types, lengths and checksums are computed first, and the frame is padded to 60 octets.
    Without ``fix``, every field is written unchanged. The default of ``fix`` is False for a `Frame` and True
    for layers.

    Raises EncodeError for a value outside the range of the field, and TypeError for other arguments.
    """
    if isinstance(first, Frame):
        if layers:
            raise TypeError("encode() takes one Frame, or layers")
        frame = fixed(first) if fix else first
    else:
        for value in (first, *layers):
            if not isinstance(value, Layer):
                raise TypeError(f"encode() takes a Frame or layers, got {type(value).__name__}")
        frame = Frame(layers=(first, *layers))
        frame = frame if fix is False else fixed(frame)
    return b"".join([value.build() for value in frame.layers]) + frame.padding + frame.trailer + frame.fcs


def fixed(frame: Frame, given: Sequence[Collection[str]] = ()) -> Frame:
    """Return the frame with computed types, lengths and checksums, padded to 60 octets.

    ``given[i]`` contains the names of the fields of layer i that stay unchanged.
    """
    formats = dispatch(frame.ethertypes)
    layers: list[Layer] = []
    rest = b""
    following: Layer | None = None
    inner_at, ends_inside = frame.padded_at()
    padding = frame.padding
    for index in reversed(range(len(frame.layers))):
        value = frame.layers[index]
        keep = given[index] if index < len(given) else ()
        contained = itertools.takewhile(lambda each: isinstance(each, value.holds), layers)  # noqa: B023
        inside = b"".join([each.build() for each in contained]) if value.holds else rest
        computed = value.computed(inside, following, formats)
        changes = {key: number for key, number in computed.items() if key not in keep}
        if changes:
            value = value.replace(**changes)
        layers.insert(0, value)
        rest = value.build() + rest
        following = following if isinstance(value, Part) else value
        if index == inner_at:
            short = max(0, MIN_OCTETS - len(rest) - len(frame.trailer))
            padding = padding if len(padding) >= short else bytes(short)
            rest += padding + frame.trailer * ends_inside
    if not layers:
        padding = padding.ljust(MIN_OCTETS - len(frame.trailer), b"\0")
    if any(value.covers for value in layers):
        _cover(layers, given)
    return dataclasses.replace(frame, layers=tuple(layers), padding=padding, error=None)


def _cover(layers: list[Layer], given: Sequence[Collection[str]]) -> None:
    """Compute the checksums that cover the octets of earlier layers."""
    octets, starts = b"", [0]
    for index, value in enumerate(layers):
        if value.covers:
            compute = value.covering(layers[:index], starts)
            if compute is not None and not (index < len(given) and value.covers in given[index]):
                layers[index] = value = value.replace(**{value.covers: compute(octets)})
        octets += value.build()
        starts.append(len(octets))
