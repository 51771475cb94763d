"""Columns beside the one-frame decoder: every field of every frame, of those shown in messages too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ecmproto.capture import Batch, Interface
from ecmproto.capture.batch import ETHERNET
from ecmproto.columns import Columns, every_name, extract
from ecmproto.dissect.record import Record
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.fuzz.difference import Difference
from ecmproto.fuzz.field_values import NOWHERE, FieldValues, Listed
from ecmproto.fuzz.items import frames_of

NAMES = every_name()
"""Every field of a frame."""
INNER_NAMES = tuple(
    f"encapsulated.{name}"
    for name in NAMES
    if name in ("frame.protocols", "frame.error") or not name.startswith("frame.")
)
"""Every field of the frame that a message shows."""
ETHERNET_ONLY = (Interface(index=0, linktype=ETHERNET),)


def column_differences(
    columns: Columns, values: FieldValues, records: Sequence[Record]
) -> Iterator[Difference]:
    """Yield the fields of frames that ``columns`` of a batch have otherwise than ``values`` of its records.

    Every field of ``values`` is looked at: those that no frame has must be in no row of the columns.
    """
    wanted = values.of(records)
    for name in values.names:
        column, right = columns[name], wanted.get(name, NOWHERE)
        got = Listed(column.rows.tolist(), list(column.python_values()))
        if got != right:
            yield _difference(name, _by_row(got), _by_row(right), records)


def _difference(
    name: str, got: dict[int, list[Any]], right: dict[int, list[Any]], records: Sequence[Record]
) -> Difference:
    """Return what the first frame has otherwise; −1 where rows are only out of order."""
    row = min((row for row in got.keys() | right.keys() if got.get(row) != right.get(row)), default=-1)
    there = records[row].octets.hex() if 0 <= row < len(records) else "no frame"
    return Difference(what=name, detail=f"{got.get(row, [])}, not {right.get(row, [])}, in {there}", row=row)


def _by_row(listed: Listed) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row, value in zip(*listed, strict=True):
        found.setdefault(row, []).append(value)
    return found


def _records(items: Sequence[bytes], ethertypes: EtherTypes) -> Iterator[Record]:
    """Yield the items as the frames of a capture without times."""
    rows = enumerate(zip(items, frames_of(items, ethertypes), strict=True), 1)
    for number, (octets, frame) in rows:
        yield Record(
            number=number,
            time_ns=0,
            octets=octets,
            original_octets=len(octets),
            interface=0,
            linktype=ETHERNET,
            frame=frame,
        )


class ColumnCheck:
    """Extracts every field of a batch at once."""

    name = "columns"
    every = 1

    def __init__(self, ethertypes: EtherTypes = DEFAULT) -> None:
        self._ethertypes = ethertypes
        self._values = FieldValues(NAMES + INNER_NAMES)

    def __reduce__(self) -> tuple[object, ...]:
        return ColumnCheck, (self._ethertypes,)

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the first frame of each field that differs."""
        batch = Batch.from_frames(items)
        columns = extract(batch, self._values.names, interfaces=ETHERNET_ONLY, ethertypes=self._ethertypes)
        yield from column_differences(columns, self._values, list(_records(items, self._ethertypes)))
