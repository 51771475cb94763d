"""Field-by-field comparison of pairs of frames, as columns of whole batches.

The fields are the same as in filters and ``-e``. Fields of a quoted frame are ``encapsulated.NAME``. If such
a field differs, the field with the quoted octets is not listed too. A change of named bits is listed as a
change of the number that contains the bits.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture import Batch, Interface, linktype_name
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.columns.column import Column, every_name
from ecmproto.frames.columns.extraction import extract
from ecmproto.frames.filter.fields import find
from ecmproto.tools.diff.digests import Reduced, Reduction
from ecmproto.tools.diff.rules import CAPTURED, INTERFACE, LENGTH, Rules
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.registry import FORMATS, field_of
from ecmproto.wire.formats.text import json_of, text_of

Mask = NDArray[np.bool_]
Value: TypeAlias = "int | bytes | str"

INNER = "encapsulated."
LINKTYPE = "linktype"
_OF_FRAME = ("frame.protocols",)
"""Fields that follow from other fields."""


class Side(NamedTuple):
    """Frames of one capture, and the interfaces of the capture."""

    batch: Batch
    interfaces: Sequence[Interface]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field that differs, and its values in both frames, which are empty for a missing field."""

    name: str
    a: tuple[Value, ...]
    b: tuple[Value, ...]


class ChangedField(NamedTuple):
    """A field that differs in some pairs of frames, and its values in all pairs."""

    name: str
    pairs: Mask
    a: Sequence[Sequence[Value]]
    b: Sequence[Sequence[Value]]


class FieldComparison:
    """Comparison of frames by rules; ignored parts are not listed."""

    def __init__(self, rules: Rules, ethertypes: EtherTypes, pool: ThreadPoolExecutor | None) -> None:
        self._rules = rules
        self._ethertypes = ethertypes
        self._pool = pool
        self._whole = Reduction(rules, ethertypes)
        self._parsed = Reduction(rules, ethertypes, parsed=True)
        exact = [name for name in _compared() if name not in rules.names]
        self._names = [name for name in exact if not name.startswith("frame.")] + ["frame.error"]
        self._names += [name for name in rules.tolerances if name in _compared()]
        self._order = {name: index for index, name in enumerate((*_RECORD, *_compared()))}

    def changes(self, a: Side, b: Side) -> list[ChangedField]:
        """Return the fields that differ between the n-th frames of two batches, in the order of fields."""
        changes_ = list(self._recorded(a, b))
        one, other = self._columns(a), self._columns(b)
        for name in dict.fromkeys([*one.found, *other.found]):
            pairs = self._differs(name, one[name], other[name])
            if pairs.any():
                changes_.append(ChangedField(name, pairs, one[name].lists(), other[name].lists()))
        changes_.sort(key=lambda change: self._order[change.name])
        return _without_containers(changes_)

    def _columns(self, side: Side) -> Any:
        batch = side.batch
        if self._parsed:
            reduced = self._parsed.reduced(batch, side.interfaces, None)
            batch = _with(batch, reduced)
        return extract(
            batch, self._names, interfaces=side.interfaces, ethertypes=self._ethertypes, pool=self._pool
        )

    def _differs(self, name: str, a: Column, b: Column) -> Mask:
        count_a = np.bincount(a.rows, minlength=a.frames)
        count_b = np.bincount(b.rows, minlength=b.frames)
        mask: Mask = count_a != count_b
        a, b = a.select(~mask[a.rows]), b.select(~mask[b.rows])
        tolerance = self._rules.tolerances.get(name)
        if tolerance is not None:
            pairs = zip(a.python_values(), b.python_values(), strict=True)
            other = np.array([not tolerance.allows(one, two) for one, two in pairs], np.bool_)
        elif isinstance(a.values, np.ndarray) and isinstance(b.values, np.ndarray):
            other = a.values != b.values
            other = other if other.ndim == 1 else other.any(axis=1)
        else:
            pairs = zip(a.python_values(), b.python_values(), strict=True)
            other = np.array([one != two for one, two in pairs], np.bool_)
        mask[a.rows[other]] = True
        return mask

    def _recorded(self, a: Side, b: Side) -> Iterator[ChangedField]:
        """Yield the differing record data, except times."""
        one, other = (self._whole.reduced(side.batch, side.interfaces, None) for side in (a, b))
        numbers = {
            LENGTH: (a.batch.original, b.batch.original, one.original != other.original),
            CAPTURED: (a.batch.captured, b.batch.captured, one.captured != other.captured),
        }
        if INTERFACE not in self._rules.names:
            numbers[INTERFACE] = differing_interfaces(
                a.interfaces, a.batch.interface, b.interfaces, b.batch.interface
            )
        for name, (of_a, of_b, pairs) in numbers.items():
            if name not in self._rules.names and pairs.any():
                yield ChangedField(name, pairs, *([[each] for each in of.tolist()] for of in (of_a, of_b)))
        links_a, links_b = _linktypes(a), _linktypes(b)
        pairs = links_a != links_b
        if pairs.any():
            yield ChangedField(
                LINKTYPE,
                pairs,
                *([[linktype_name(each)] for each in of.tolist()] for of in (links_a, links_b)),
            )


_RECORD = (LENGTH, CAPTURED, INTERFACE, LINKTYPE)


@functools.cache
def _compared() -> tuple[str, ...]:
    """Return the names of the compared fields, in order."""
    parts = {part.name for cls in FORMATS for field in cls.layout for part in field.meta.parts}
    outer = [name for name in every_name() if name not in parts and name not in _OF_FRAME]
    inner = [f"{INNER}{name}" for name in outer if find(f"{INNER}{name}") is not None]
    return (*outer, *inner)


@functools.cache
def _containers() -> frozenset[str]:
    return frozenset(cls.layout[-1].name for cls in FORMATS if cls.shows is not None)


def _without_containers(changes: list[ChangedField]) -> list[ChangedField]:
    inner = [change.pairs for change in changes if change.name.startswith(INNER)]
    if not inner:
        return changes
    covered = np.logical_or.reduce(inner)
    remaining = [
        change._replace(pairs=change.pairs & ~covered) if change.name in _containers() else change
        for change in changes
    ]
    return [change for change in remaining if change.pairs.any()]


def _with(batch: Batch, reduced: Reduced) -> Batch:
    return dataclasses.replace(
        batch, buffer=reduced.buffer, offset=reduced.offset, captured=reduced.captured,
        original=reduced.original,
    )  # fmt: skip


def differing_interfaces(
    of_a: Sequence[Interface], a: NDArray[Any], of_b: Sequence[Interface], b: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Mask]:
    """Return the interface numbers of both sides, as in ``frame.interface_id``, and a mask of differences.

    Sessions of mirrors are numbered by first appearance, so they count as equal to every interface.
    """
    one, other = (
        np.array([(each.local_index, each.wrapper != "") for each in known] or [(0, False)], np.int64)[which]
        for known, which in ((of_a, a), (of_b, b))
    )
    differ = (one[:, 0] != other[:, 0]) & (one[:, 1] | other[:, 1] == 0)
    return one[:, 0], other[:, 0], differ


def _linktypes(side: Side) -> NDArray[np.int64]:
    return np.array([each.linktype for each in side.interfaces] or [ETHERNET], np.int64)[side.batch.interface]


def value_text(name: str, value: Value) -> str:
    """Return the value of a field as ``-T fields`` writes it."""
    got = _written(name, value, text_of)
    return str(got)


def value_json(name: str, value: Value) -> int | str:
    """Return the value of a field for JSON documents: numbers as numbers, octets in hex."""
    return _written(name, value, json_of)


def _written(name: str, value: Value, write: Any) -> int | str:
    field = find(name)
    if field is not None and field.sources and not isinstance(value, str):
        source = field.sources[0]
        written: int | str = write(field_of(source.format, source.key), value)
        return written
    return value.hex() if isinstance(value, bytes) else value
