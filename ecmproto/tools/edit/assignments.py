"""Assignment of values to fields: parsing of ``vlan.id=7``, search for the fields in frames, writing.

All fields are located in the original frames before any field is written. If an assignment changes an
EtherType, the frame is parsed differently afterwards, but the other assignments are not affected.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import SpecError, shown
from ecmproto.frames.columns.gathering import Want, kind_of
from ecmproto.frames.columns.layers import BatchLayers, find_layers
from ecmproto.frames.filter.fields import BOTH_ENDS, FieldSource, FilterField, find, hint
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.registry import field_of
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.text import value_of

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

EVERY = -1
"""Value of ``number`` that selects all fields of a frame with the name."""
_NUMBERED = re.compile(r"(.+)\[(\*|0|[1-9][0-9]{0,3})\]")
_OF_CAPTURE = {
    "frame.time_epoch": "--shift and --scale-time move times",
    "frame.time_relative": "--shift and --scale-time move times",
    "frame.len": "--snaplen cuts frames",
    "frame.cap_len": "--snaplen cuts frames",
    "eth.fcs": "one that was right is kept right",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The octets to write into a field of one format; only bits that are set in ``mask`` are written.

    ``at`` is the offset of the octets in the layer. For a field of variable length, ``at`` is the offset in
    the field.
    """

    source: FieldSource
    field: Field
    kind: int
    at: int
    octets: bytes
    mask: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assignment:
    """A value to write into a field of all frames that have the field.

    ``number`` is the index of the field among the fields of a frame with the same name, from 0, or `EVERY`.
    ``text`` is the original text of the assignment. Created by `assignments_from`.
    """

    text: str
    field: FilterField
    number: int
    writings: tuple[Writing, ...]

    @property
    def name(self) -> str:
        """Name of the field, with its number if a number was given."""
        return self.text.partition("=")[0].strip()


def assignments_from(texts: Iterable[str]) -> tuple[Assignment, ...]:
    """Return the assignments written as texts such as ``vlan.id=7`` or ``vlan.id[1]=7``.

    By default, the first field with the name is set in each frame. ``[n]`` selects the n-th field, counted
    from 0, and ``[*]`` selects all fields. Raises SpecError for an unknown name, a field that has no octets,
    an impossible value, or bits that are set twice.
    """
    result = tuple(map(_assignment, texts))
    for index, each in enumerate(result):
        for other in result[:index]:
            if _overlap(each, other):
                raise SpecError(where=f"--set {each.text}", needed="each field once", got=f"{other.text} too")
    return result


def _assignment(text: str) -> Assignment:
    name, equals, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not name:
        raise SpecError(where="--set", needed="FIELD=VALUE such as vlan.id=7", got=shown(text))
    numbered = _NUMBERED.fullmatch(name)
    plain, number = (numbered[1], numbered[2]) if numbered else (name, "0")
    field = find(plain)
    if field is None:
        raise SpecError(where="--set", needed="the name of a field", got=shown(plain), hint=hint(plain))
    needed = "a field of the outermost frame; --decap for those inside" if field.nesting else ""
    if plain.removeprefix("encapsulated.") in BOTH_ENDS:
        needed = f"one of {' and '.join(BOTH_ENDS[plain.removeprefix('encapsulated.')])}"
    elif field.kind == "layer":
        needed = "the name of a field, not a layer's"
    elif not field.sources:
        needed = "a field of frames"
    if needed:
        advice = _OF_CAPTURE.get(plain, "")
        raise SpecError(where="--set", needed=needed, got=shown(plain), hint=advice)
    writings = _writings(field, value, f"--set {name}")
    return Assignment(
        text=text, field=field, number=EVERY if number == "*" else int(number), writings=writings
    )


def _writings(field: FilterField, text: str, where: str) -> tuple[Writing, ...]:
    """Return one `Writing` for each format whose field can hold the value."""
    writings, errors = [], []
    for source in field.sources:
        try:
            writings.append(_writing(source, text, where))
        except SpecError as error:
            errors.append(error)
    if not writings:
        # the widest field accepts most values
        raise errors[max(range(len(errors)), key=lambda index: _width(field.sources[index]))]
    return tuple(writings)


def _width(source: FieldSource) -> int:
    return field_of(source.format, source.key).bits or 0


def _writing(source: FieldSource, text: str, where: str) -> Writing:
    whole = field_of(source.format, source.key)
    kind = kind_of(source.format, whole, "outer")
    field = whole
    if source.part == "bits":
        field = next(
            part
            for part in whole.parts()
            if part.part is not None and (part.part.low, part.part.bits) == (source.low, source.bits)
        )
    try:
        value = value_of(field, text)
    except SpecError as error:
        raise SpecError(where=where, needed=error.needed, got=error.got) from None
    if isinstance(value, bytes):
        if field.bits is None and not value:
            raise SpecError(where=where, needed="octets in hex, one or more", got="none")
        if field.bits is not None and len(value) != field.bits // 8:
            raise SpecError(where=where, needed=f"{field.bits // 8} octets", got=f"{len(value)}")
        at = field.bit_offset // 8 if whole not in source.format.moving and whole.bits is not None else 0
        return Writing(source=source, field=whole, kind=kind, at=at, octets=value, mask=b"\xff" * len(value))
    low, high = field.minimum, field.maximum
    if source.part == "length":
        high = MAX_LENGTH
    elif source.part == "type":
        low = MAX_LENGTH + 1
    if not low <= value <= high:
        raise SpecError(where=where, needed=f"an integer in {low}..{high}", got=text)
    assert field.bits is not None
    first, last = field.bit_offset // 8, -(-(field.bit_offset + field.bits) // 8)
    shift = 8 * last - field.bit_offset - field.bits
    ones = (1 << field.bits) - 1
    return Writing(
        source=source, field=whole, kind=kind, at=first,
        octets=((value & ones) << shift).to_bytes(last - first), mask=(ones << shift).to_bytes(last - first),
    )  # fmt: skip


def _overlap(one: Assignment, other: Assignment) -> bool:
    """Return whether two assignments may write the same bits."""
    if one.field.inner != other.field.inner or (
        one.number != other.number and EVERY not in (one.number, other.number)
    ):
        return False
    if one.field.name == other.field.name:
        return True
    return any(
        a.kind == b.kind and {a.source.part, b.source.part} != {"type", "length"} and _bits(a) & _bits(b)
        for a in one.writings
        for b in other.writings
    )


def _bits(writing: Writing) -> int:
    return int.from_bytes(writing.mask, "little") << 8 * writing.at


outermost_layers: Callable[..., BatchLayers] = functools.partial(find_layers, nesting="outer")
"""Return the layers of the outermost frames, which are edited; arguments as in `find_layers`."""


class Targets(NamedTuple):
    """The targets of an assignment: one entry per field, with the frame and the offset in the buffer."""

    assignment: Assignment
    writing: Writing
    row: NDArray[np.int32]
    start: Int64


class Written(NamedTuple):
    """The written octets: one row per field, with the frame, the offset, and the octets before and after."""

    row: NDArray[np.int32]
    start: Int64
    before: Octets
    after: Octets

    @property
    def differs(self) -> NDArray[np.bool_]:
        """Mask of the fields whose octets have changed."""
        differs = np.zeros(len(self.row), np.bool_)
        # rows are short, so a loop over columns is faster
        for column in range(self.before.shape[1]):
            differs |= self.before[:, column] != self.after[:, column]
        return differs


def targets_of(assignments: Sequence[Assignment], layers: BatchLayers) -> list[Targets]:
    """Return the targets of assignments in frames with the assigned fields."""
    kinds = {writing.kind for each in assignments for writing in each.writings}
    collected = layers.collect({kind: Want(positions=True) for kind in kinds if layers.count(kind)})
    buffer = layers.frames.buffer
    targets = []
    for each in assignments:
        mine = []
        for writing in each.writings:
            if writing.kind not in collected:
                continue
            kind = collected[writing.kind]
            row, start, octets = kind.row, kind.start + writing.at, kind.octets
            if writing.source.part in ("type", "length"):
                number = buffer[start].astype(np.int64) << 8 | buffer[start + 1]
                named = (number <= MAX_LENGTH) == (writing.source.part == "length")
                row, start, octets = row[named], start[named], octets[named]
            mine.append((writing, row, start, octets))
        targets += [
            Targets(each, writing, row, start.copy()) for writing, row, start in _numbered(each, mine)
        ]
    return targets


def _numbered(
    assignment: Assignment, results: list[tuple[Writing, NDArray[np.int32], Int64, Int64]]
) -> list[tuple[Writing, NDArray[np.int32], Int64]]:
    """Return the fields of each frame that an assignment selects and that can hold its value."""
    chosen: list[NDArray[np.bool_] | None] = [None] * len(results)
    once = len(results) == 1 and bool((results[0][1][1:] > results[0][1][:-1]).all())
    if assignment.number != EVERY and not (once and assignment.number == 0) and results:
        rows = np.concatenate([row for _, row, _, _ in results])
        starts = np.concatenate([start for _, _, start, _ in results])
        order = np.lexsort((starts, rows))
        ordered = rows[order]
        heads = np.flatnonzero(np.diff(ordered, prepend=-1))
        nth = np.empty(len(rows), np.int64)
        nth[order] = np.arange(len(rows)) - np.repeat(heads, np.diff(heads, append=len(rows)))
        bounds = np.cumsum([len(row) for _, row, _, _ in results])[:-1]
        chosen = list(np.split(nth == assignment.number, bounds))
    meant = []
    for (writing, row, start, octets), pick in zip(results, chosen, strict=True):
        fits = octets == len(writing.octets) if writing.field.bits is None else None
        mask = pick if fits is None else fits if pick is None else pick & fits
        meant.append((writing, row, start) if mask is None else (writing, row[mask], start[mask]))
    return meant


def write(buffer: Octets, targets: Targets) -> Written:
    """Write the octets of an assignment into a buffer."""
    octets = np.frombuffer(targets.writing.octets, np.uint8)
    mask = np.frombuffer(targets.writing.mask, np.uint8)
    before = rows_at(buffer, targets.start, len(octets))
    after = np.bitwise_and(before, ~mask)
    after |= octets
    put_rows(buffer, targets.start, after)
    return Written(targets.row, targets.start, before, after)


def rows_at(buffer: Octets, start: Int64, width: int) -> Octets:
    """Return ``width`` octets from each offset in ``start``, one row per offset."""
    if not len(start):
        return np.empty((0, width), np.uint8)
    # an item at every octet lets numpy copy whole rows
    items = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, strides=(1,))
    rows: Octets = items[start].view(np.uint8).reshape(-1, width)
    return rows


def put_rows(buffer: Octets, start: Int64, rows: Octets) -> None:
    """Write one row of octets to each offset in ``start``."""
    width = rows.shape[1]
    if len(start) and width:
        items = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, strides=(1,))
        items[start] = np.ascontiguousarray(rows).view(f"V{width}")[:, 0]
