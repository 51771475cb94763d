"""The values that a captured frame has for a field, outermost first, and the octets of its layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Protocol, TypeAlias

from ecmproto.codec.frame import Frame, encapsulated
from ecmproto.errors import DecodeError
from ecmproto.filter.fields import Field, Source
from ecmproto.filter.tree import Value
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import MAX_LENGTH


class Captured(Protocol):
    """A frame of a capture as a filter sees it: `ecmproto.dissect.Record` is one."""

    @property
    def number(self) -> int:
        """Number in the capture, from 1."""

    @property
    def time_ns(self) -> int | None:
        """Time of capture since 1970; None where the capture has none."""

    @property
    def octets(self) -> bytes:
        """What was captured."""

    @property
    def original_octets(self) -> int:
        """Length on the wire."""

    @property
    def interface_id(self) -> int:
        """Interface of its section of the capture, from 0."""

    @property
    def frame(self) -> Frame:
        """What the octets mean."""


Reader: TypeAlias = Callable[[Captured], Sequence[Value]]

FrameReader: TypeAlias = Callable[[Frame], Sequence[Value]]

_OF_RECORD: dict[str, Reader] = {
    "frame": lambda captured: (captured.octets,),
    "frame.number": lambda captured: (captured.number,),
    "frame.time_epoch": lambda captured: () if captured.time_ns is None else (captured.time_ns,),
    "frame.len": lambda captured: (captured.original_octets,),
    "frame.cap_len": lambda captured: (len(captured.octets),),
    "frame.interface_id": lambda captured: (captured.interface_id,),
}
_OF_FRAME: dict[str, FrameReader] = {
    "frame.protocols": lambda frame: (protocols(frame),),
    "frame.error": lambda frame: _told(frame.error),
    "eth.padding": lambda frame: (frame.padding,) if frame.padding else (),
    "eth.trailer": lambda frame: (frame.trailer,) if frame.trailer else (),
    "eth.fcs": lambda frame: (frame.fcs,) if frame.fcs else (),
}


def protocols(frame: Frame) -> str:
    """Return the names of the layers, outermost first, colon-separated; a run of LLDP TLVs counts once."""
    names: list[str] = []
    for value in frame.layers:
        if value.prefix != "lldp" or names[-1:] != ["lldp"]:
            names.append(value.prefix)
    return ":".join(names)


def _told(error: DecodeError | None) -> tuple[str, ...]:
    return () if error is None else (str(error),)


def values_of(field: Field) -> Reader:
    """Return what reads the values of ``field``; of a layer, its own octets."""
    if field.origin == "record":
        return _OF_RECORD[field.name]
    if field.kind == "layer":
        return _of(field, _own_octets(field))
    return _of(field, values_in_frame(field) if field.origin == "frame" else _of_layers(field))


def values_in_frame(field: Field) -> FrameReader:
    """Return what reads a field of frames as a whole, from the frame that has it."""
    return _OF_FRAME[field.name.removeprefix("encapsulated.")]


def octets_from(field: Field) -> Reader:
    """Return what reads the octets from the first of a layer to the end of the frame's last layer.

    ``frame`` is all of it, ``encapsulated`` all layers of the frame that a message shows.
    """
    return _OF_RECORD["frame"] if field.origin == "record" else _of(field, _octets_from(field))


def is_there(field: Field) -> Callable[[Captured], bool]:
    """Return what tells whether a frame has ``field``, which may be a layer."""
    if field.kind != "layer":
        read = values_of(field)
        return lambda captured: len(read(captured)) > 0
    if field.origin == "record":
        return lambda captured: True
    if field.origin == "frame":
        return lambda captured: encapsulated(captured.frame) is not None
    wanted = frozenset(field.formats)
    if not field.inner:
        return lambda captured: any(type(value) in wanted for value in captured.frame.layers)

    def inside(captured: Captured) -> bool:
        frame = encapsulated(captured.frame)
        return frame is not None and any(type(value) in wanted for value in frame.layers)

    return inside


def _of(field: Field, read: FrameReader) -> Reader:
    """Read from the frame, or from the one that it shows."""
    if not field.inner:
        return lambda captured: read(captured.frame)

    def inside(captured: Captured) -> Sequence[Value]:
        frame = encapsulated(captured.frame)
        return () if frame is None else read(frame)

    return inside


def _own_octets(field: Field) -> FrameReader:
    wanted = frozenset(field.formats)
    return lambda frame: [value.build() for value in frame.layers if type(value) in wanted]


def _octets_from(field: Field) -> FrameReader:
    if field.origin == "frame":
        return lambda frame: (b"".join(value.build() for value in frame.layers),)
    wanted = frozenset(field.formats)

    def read(frame: Frame) -> list[bytes]:
        layers = frame.layers
        return [
            b"".join(value.build() for value in layers[index:])
            for index, first in enumerate(layers)
            if type(first) in wanted
        ]

    return read


def _of_layers(field: Field) -> FrameReader:
    sources = field.sources
    if len(sources) == 1 and sources[0].part == "whole" and field.kind != "octets":
        wanted, get = sources[0].format, attrgetter(sources[0].key)
        return lambda frame: [get(value) for value in frame.layers if type(value) is wanted]
    parts: dict[type[Layer], list[Callable[[Layer], Sequence[Value]]]] = {}
    for source in sources:
        parts.setdefault(source.format, []).append(part_of(source))

    def read(frame: Frame) -> list[Value]:
        return [got for value in frame.layers for part in parts.get(type(value), ()) for got in part(value)]

    return read


def part_of(source: Source) -> Callable[[Layer], Sequence[Value]]:
    """Return what reads the values, one or none, of a field from a layer of its source."""
    get, bit = attrgetter(source.key), source.bit
    match source.part:
        case "bit":
            return lambda value: (get(value) >> bit & 1,)
        case "length":
            return lambda value: (get(value),) if get(value) <= MAX_LENGTH else ()
        case "type":
            return lambda value: (get(value),) if get(value) > MAX_LENGTH else ()
    # an empty octet string is no value
    return lambda value: () if get(value) == b"" else (get(value),)
