"""The values of the fields that stand in frames, from whatever layers have them, read in one go."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.columns.collection import Collected, Want, tail_of
from ecmproto.columns.column import Stretches, Values
from ecmproto.columns.layers import LayersFound
from ecmproto.columns.readers import WORD, how_to_read, typed
from ecmproto.columns.shapes import FCS, PADDING, TRAILER
from ecmproto.columns.transitions import NUMBER_OF, field_of
from ecmproto.filter.fields import Field, Source
from ecmproto.formats.ethertypes import MAX_LENGTH

Found: TypeAlias = "tuple[NDArray[np.int32], Values]"
"""The frames that have a field, and its values."""

_BEHIND = {"eth.padding": PADDING, "eth.trailer": TRAILER, "eth.fcs": FCS}


class _Origin(NamedTuple):
    """Where values of a field come from: a kind of layers, and of it a field or one bit of one."""

    kind: int
    source: Source | None
    """None: the octets of the kind themselves."""
    bit: int | None


@functools.lru_cache(maxsize=1024)
def _origins(field: Field) -> tuple[_Origin, ...]:
    if field.origin == "frame":
        return (_Origin(_BEHIND[field.name.removeprefix("encapsulated.")], None, None),)
    return tuple(
        _Origin(NUMBER_OF[source.format], source, source.bit if source.part == "bit" else None)
        if field_of(source.format, source.key).bits is not None
        else _Origin(tail_of(source.format), None, None)
        for source in field.sources
    )


def kinds_of(field: Field) -> tuple[int, ...]:
    """Return the kinds of layers that have a field; see `ecmproto.columns.collection`."""
    return tuple(dict.fromkeys(origin.kind for origin in _origins(field)))


class ValuesFound:
    """The values of fields, given by the kinds that have them; those of no kind that there is have none."""

    def __init__(self, sought: Mapping[int, list[Field]], found: LayersFound) -> None:
        self._found = found
        count, least_at = found.count.tolist(), found.least_at.tolist()
        self.fields = list(
            {field: None for kind, fields in sought.items() if count[kind] for field in fields}
        )
        """Those that have values, but for EtherTypes and lengths: they may have."""
        self._origins: dict[str, list[_Origin]] = {}
        self._reads: dict[int, dict[tuple[str, int | None], int]] = {}
        wants: dict[int, Want] = {}
        for field in self.fields:
            origins = [origin for origin in _origins(field) if count[origin.kind]]
            self._origins[field.name] = origins
            for kind, source, bit in origins:
                want = wants.setdefault(kind, Want(fields=[]))
                want.places |= source is None or len(origins) > 1
                reads = self._reads.setdefault(kind, {})
                if source is not None and (source.key, bit) not in reads:
                    reads[source.key, bit] = len(reads)
                    want.fields.append(_how_to_read(source, bit, least_at[kind] >= WORD))
        self._collected = found.collect(wants)

    def of(self, field: Field) -> Found:
        """Return the frames that have a field and its values."""
        parts = [self._part(origin) for origin in self._origins[field.name]]
        if len(parts) > 1:
            parts = [part for part in parts if len(part.row)] or parts[:1]
        return (parts[0].row, parts[0].values) if len(parts) == 1 else _in_order(parts, self._found)

    def _part(self, origin: _Origin) -> _Part:
        kind = self._collected[origin.kind]
        source = origin.source
        if source is None:
            octets = Stretches(buffer=self._found.frames.buffer, start=kind.start, octets=kind.octets)
            return _Part(kind.row, kind.start, octets)
        read = kind.values[self._reads[origin.kind][source.key, origin.bit]]
        if origin.bit is not None:
            return _Part(kind.row, kind.start, read)
        field = field_of(source.format, source.key)
        values = typed(field, read) if field.is_number else read.reshape(len(kind.row), -1)
        return _Part(kind.row, kind.start, values) if source.part == "whole" else _named(source, kind, values)


@functools.lru_cache(maxsize=1024)
def _how_to_read(source: Source, bit: int | None, preceded: bool) -> tuple[int, ...]:
    return how_to_read(source.format, field_of(source.format, source.key), bit, preceded=preceded)


class _Part(NamedTuple):
    """Values of a field of one kind, the frames that have them, and where they stand if that was wanted."""

    row: NDArray[np.int32]
    start: NDArray[np.int64]
    values: Values


def _named(source: Source, kind: Collected, values: NDArray[Any]) -> _Part:
    """Return those values that are lengths, or EtherTypes, whichever goes by the name of the source."""
    mask = values <= MAX_LENGTH if source.part == "length" else values > MAX_LENGTH
    if mask.all():
        return _Part(kind.row, kind.start, values)
    start = kind.start[mask] if len(kind.start) else kind.start
    return _Part(kind.row[mask], start, values[mask])


def _in_order(parts: list[_Part], found: LayersFound) -> Found:
    """Return the values of several kinds as they stand in the frames, outermost first."""
    rows = np.concatenate([part.row for part in parts])
    starts = np.concatenate([part.start for part in parts])
    # stable: of one layer, in the order of the sources
    order = np.argsort((rows.astype(np.int64) << 32) + starts - found.frames.offset[rows], kind="stable")
    if isinstance(parts[0].values, Stretches):
        octets = np.concatenate([part.values.octets for part in parts if isinstance(part.values, Stretches)])
        stretches = Stretches(buffer=found.frames.buffer, start=starts[order], octets=octets[order])
        return rows[order], stretches
    joined = np.concatenate([part.values for part in parts if isinstance(part.values, np.ndarray)])
    return rows[order], joined[order]
