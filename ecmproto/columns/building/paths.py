"""Which layers the frames of a sheet have: those of the same ones together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.columns.building.sheet import Int64, Sheet, missing
from ecmproto.columns.building.target import column_error
from ecmproto.columns.building.tlvs import CN, PLAIN, told_apart
from ecmproto.columns.building.values import Coded
from ecmproto.errors import shown
from ecmproto.formats.base import Layer
from ecmproto.formats.registry import BY_PREFIX
from ecmproto.formats.schema import Field

_PROTOCOLS = "frame.protocols"
_TYPE, _LENGTH, _VALUE = "lldp.tlv.type", "lldp.tlv.len", "lldp.tlv.value"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """Frames of the same layers: ``rows`` are their numbers, ``name`` is what ``frame.protocols`` says."""

    name: str
    rows: Int64
    layers: tuple[type[Layer], ...]
    values: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """For a layer whose octets are one of several values of a frame, which one; NO_VALUE for none."""

    def number(self, index: int, field: Field) -> tuple[int, int]:
        """Return the how manieth layer with ``field`` layer ``index`` is, from 0, and how many there are."""
        having = [
            at for at, cls in enumerate(self.layers) if any(each.name == field.name for each in cls.layout)
        ]
        return having.index(index), len(having)


def paths_of(sheet: Sheet) -> Iterator[Path]:
    """Yield the frames of each path; SpecError for one that cannot be."""
    if sheet.frames and _PROTOCOLS not in sheet.columns:
        raise missing(_PROTOCOLS, ", which says what layers a frame has")
    names = sheet.once(_PROTOCOLS) if sheet.frames else None
    if names is None:
        return
    if not isinstance(names, Coded):
        raise column_error(_PROTOCOLS, "text", "something else")
    order = np.argsort(names.codes, kind="stable")
    codes, firsts = np.unique(names.codes[order], return_index=True)
    for code, rows in zip(codes.tolist(), np.split(order, firsts[1:]), strict=True):
        name = names.words[code]
        prefixes = name.split(":") if name else []
        unknown = [prefix for prefix in prefixes if prefix not in BY_PREFIX]
        if unknown:
            raise column_error(_PROTOCOLS, "names of formats", shown(unknown[0]), int(rows[0]))
        if PLAIN in prefixes or CN in prefixes:
            yield from _with_tlvs(sheet, name, prefixes, rows)
        else:
            yield Path(name=name, rows=rows, layers=tuple(BY_PREFIX[prefix] for prefix in prefixes))


def _with_tlvs(sheet: Sheet, name: str, prefixes: Sequence[str], rows: NDArray[Any]) -> Iterator[Path]:
    """Yield the frames of each sequence of TLVs."""
    first = next(index for index, prefix in enumerate(prefixes) if prefix in (PLAIN, CN))
    last = next((i for i in range(first, len(prefixes)) if prefixes[i] not in (PLAIN, CN)), len(prefixes))
    before, behind = ([BY_PREFIX[each] for each in part] for part in (prefixes[:first], prefixes[last:]))
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(
            tuple(_listed(sheet, column, row) for column in (_TYPE, _LENGTH, _VALUE)), []
        ).append(row)
    for told, members in groups.items():
        apart = told_apart(prefixes[first:last], *told)
        if apart is None:
            absent = [column for column in (_TYPE, _LENGTH, _VALUE) if column not in sheet.columns]
            if absent:
                raise missing(absent[0], f" for frames of {name}")
            needed = f"TLVs that types, lengths and values tell apart as {name}"
            raise column_error(_TYPE, needed, shown(list(told[0])), members[0])
        layers, numbers = apart
        yield Path(
            name=name,
            rows=np.array(members, np.int64),
            layers=(*before, *layers, *behind),
            values={first + index: number for index, number in enumerate(numbers)},
        )


def _listed(sheet: Sheet, name: str, row: int) -> tuple[int, ...]:
    """Return a frame's numbers, or how many octets its values have."""
    column = sheet.columns.get(name)
    if column is None:
        return ()
    places = slice(int(column.bounds[row]), int(column.bounds[row + 1]))
    if name == _VALUE:
        return tuple(sheet.strings(name).octets[places].tolist())
    assert isinstance(column.values, np.ndarray)
    return tuple(column.values[places].tolist())
