"""A decoded frame: its layers from the outside in, where each one stands, and what was wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeVar

from ecmproto.errors import DecodeError
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.layer import Layer
from ecmproto.formats.layout import Field

T = TypeVar("T", bound=Layer)

MIN_OCTETS = 60
"""The least octets of a frame without its FCS (802.3 4A.4.2); shorter ones are padded."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Where a field stands: octets ``start`` to ``stop`` (exclusive) of the frame, and the bits in them.

    ``bit_start`` and ``bit_stop`` count from the frame's first bit, most significant first.
    """

    start: int
    stop: int
    bit_start: int
    bit_stop: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One field of one layer of a frame, with its value and place."""

    layer: int
    """Index of the layer in ``Frame.layers``."""
    field: Field
    value: int | bytes
    span: Span


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame as typed layers, from the outermost header to the payload.

    Two frames are equal when their layers, padding, trailer and FCS are.
    """

    layers: tuple[Layer, ...]
    padding: bytes = b""
    """Zero octets behind the last layer that fill the frame up to 60 octets (``eth.padding``)."""
    trailer: bytes = b""
    """Any other octets behind the last layer (``eth.trailer``)."""
    fcs: bytes = b""
    """Frame check sequence where the capture says that frames carry one (``eth.fcs``), else empty."""
    starts: tuple[int, ...] = dataclasses.field(default=(), compare=False, init=False)
    """Where the decoder found each layer to start, then the last to end; empty in a frame made otherwise."""
    cut: int = dataclasses.field(default=0, compare=False)
    """Octets that the capture's snap length cut off the end."""
    error: DecodeError | None = dataclasses.field(default=None, compare=False)
    """What is malformed (lax decoding only)."""
    ethertypes: EtherTypes = dataclasses.field(default=DEFAULT, compare=False)
    """The EtherType map it was decoded with."""

    def __contains__(self, cls: type[Layer]) -> bool:
        return any(isinstance(value, cls) for value in self.layers)

    def __getitem__(self, cls: type[T]) -> T:
        for value in self.layers:
            if isinstance(value, cls):
                return value
        raise KeyError(cls.prefix)

    def get(self, cls: type[T]) -> T | None:
        """Return the first layer of a format, None when there is none."""
        return next((value for value in self.layers if isinstance(value, cls)), None)

    def all(self, cls: type[T]) -> tuple[T, ...]:
        """Return every layer of a format, outermost first."""
        return tuple(value for value in self.layers if isinstance(value, cls))

    def fields(self) -> Iterator[Placed]:
        """Yield every field of every layer in wire order."""
        boundaries = self.boundaries()
        for index in range(len(self.layers)):
            yield from self._placed(index, boundaries[index] * 8)

    def fields_of(self, index: int) -> Iterator[Placed]:
        """Yield the fields of layer ``index`` in wire order."""
        return self._placed(index, self.boundaries()[index] * 8)

    def _placed(self, index: int, base: int) -> Iterator[Placed]:
        value = self.layers[index]
        for field in value.layout:
            got: int | bytes = getattr(value, field.key)
            bits = field.bits if field.bits is not None else 8 * len(got)  # type: ignore[arg-type]
            first = base + field.bit_offset
            span = Span(
                start=first // 8, stop=-(-(first + bits) // 8), bit_start=first, bit_stop=first + bits
            )
            yield Placed(layer=index, field=field, value=got, span=span)

    def spans(self, name: str) -> tuple[Span, ...]:
        """Return where the fields called ``name`` (``cnm.qntz_fb``) stand, outermost first."""
        return tuple(placed.span for placed in self.fields() if placed.field.name_for(placed.value) == name)

    def boundaries(self) -> tuple[int, ...]:
        """Return the octet at which each layer starts, then the one at which the last ends."""
        if len(self.starts) == len(self.layers) + 1:
            return self.starts
        boundaries = [0]
        for value in self.layers:
            boundaries.append(boundaries[-1] + len(value.build()))
        return tuple(boundaries)


_SETTERS = tuple(getattr(Frame, field.name).__set__ for field in dataclasses.fields(Frame))


def assembled(*values: object) -> Frame:
    """Return a `Frame` from the values of all its fields in order: a decoder's shortcut.

    Setting the slots directly takes a quarter of the time of the frozen dataclass's constructor.
    """
    frame = object.__new__(Frame)
    for set_value, value in zip(_SETTERS, values, strict=True):
        set_value(frame, value)
    return frame
