"""The fields of many frames as the one-frame decoder has them, each field's values one behind the other.

Layers are gathered by their formats first, and each format's attributes are read from all of its layers at
once: what a frame has not, nobody asks it for, and what it has is read from its own typed value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from ecmproto.codec.frame import Frame, encapsulated
from ecmproto.errors import SpecError
from ecmproto.filter.evaluation import Captured, FrameReader, Reader, part_of, values_in_frame, values_of
from ecmproto.filter.fields import Field, Source, find
from ecmproto.formats.base import Layer


class Listed(NamedTuple):
    """The values of a field: ``rows`` says which frame each is of, ascending; of a frame, outermost first."""

    rows: list[int]
    values: list[Any]


NOWHERE = Listed([], [])
"""A field that no frame has."""


class _Gathered(NamedTuple):
    """All layers of a format in a batch, and for each its place among the layers of all formats."""

    places: list[int]
    layers: list[Layer]


_Read = Callable[[Layer], Sequence[Any]]


class FieldValues:
    """Reads fields of records; SpecError for a name that is none."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._of_record: list[tuple[str, Reader]] = []
        self._outer, self._inner = _OfFrames(), _OfFrames()
        for name in self.names:
            field = _known(name)
            if field.origin == "record" or field.kind == "layer":
                self._of_record.append((name, values_of(field)))
            else:
                (self._inner if field.inner else self._outer).add(field)

    def of(self, records: Sequence[Captured]) -> dict[str, Listed]:
        """Return the fields that some frame has."""
        found = {name: _listed(records, read) for name, read in self._of_record}
        frames = [record.frame for record in records]
        found |= self._outer.of(frames)
        if self._inner:
            shown = [(row, inner) for row, frame in enumerate(frames) if (inner := encapsulated(frame))]
            rows = [row for row, _ in shown]
            for name, listed in self._inner.of([inner for _, inner in shown]).items():
                found[name] = Listed([rows[row] for row in listed.rows], listed.values)
        return {name: listed for name, listed in found.items() if listed.rows}


class _OfFrames:
    """The fields of frames, or of those that messages show."""

    def __init__(self) -> None:
        self._whole: list[tuple[str, FrameReader]] = []
        self._layered: list[Field] = []

    def __bool__(self) -> bool:
        return bool(self._whole or self._layered)

    def add(self, field: Field) -> None:
        """Read ``field`` too."""
        if field.origin == "frame":
            self._whole.append((field.name, values_in_frame(field)))
        else:
            self._layered.append(field)

    def of(self, frames: Sequence[Frame]) -> dict[str, Listed]:
        """Return every field's values in ``frames``."""
        found = {name: _listed(frames, read) for name, read in self._whole}
        gathered, rows = _gathered(frames)
        for field in self._layered:
            sources = [source for source in field.sources if source.format in gathered]
            if len(sources) == 1:
                places, values = _read(field, sources[0], gathered[sources[0].format])
            elif sources:
                places, values = _merged([_read(field, each, gathered[each.format]) for each in sources])
            else:
                continue
            found[field.name] = Listed([rows[place] for place in places], values)
        return found


def _known(name: str) -> Field:
    field = find(name)
    if field is None:
        raise SpecError(where="fields", needed="the name of a field", got=repr(name))
    return field


def _listed(items: Sequence[Any], read: Callable[[Any], Sequence[Any]]) -> Listed:
    found = [(row, value) for row, item in enumerate(items) for value in read(item)]
    return Listed([row for row, _ in found], [value for _, value in found])


def _gathered(frames: Sequence[Frame]) -> tuple[Mapping[type[Layer], _Gathered], list[int]]:
    """Return the layers of each format, and for each place among all layers the frame that it is in."""
    gathered: dict[type[Layer], _Gathered] = {}
    rows: list[int] = []
    for row, frame in enumerate(frames):
        for layer in frame.layers:
            cls = type(layer)
            if cls not in gathered:
                gathered[cls] = _Gathered([], [])
            places, layers = gathered[cls]
            places.append(len(rows))
            layers.append(layer)
            rows.append(row)
    return gathered, rows


def _read(field: Field, source: Source, gathered: _Gathered) -> tuple[list[int], list[Any]]:
    """Return the values of ``field`` in the layers of one source, and their places."""
    if source.part == "whole" and field.kind != "octets":
        return gathered.places, list(map(attrgetter(source.key), gathered.layers))
    parts = list(map(part_of(source), gathered.layers))
    places = [place for place, part in zip(gathered.places, parts, strict=True) for _ in part]
    return places, list(chain.from_iterable(parts))


def _merged(read: Sequence[tuple[list[int], list[Any]]]) -> tuple[list[int], list[Any]]:
    """Return values of several sources in the order of their places; in one layer, in that of the sources."""
    entries: Iterator[tuple[int, Any]] = chain.from_iterable(
        zip(places, values, strict=True) for places, values in read
    )
    ordered = sorted(entries, key=_place)
    return [place for place, _ in ordered], [value for _, value in ordered]


def _place(entry: tuple[int, Any]) -> int:
    return entry[0]
