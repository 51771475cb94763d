"""Columns beside the one-frame decoder: every field of every frame, of those shown in messages too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ecmproto.capture import Batch, Interface
from ecmproto.capture.linktypes import ETHERNET
from ecmproto.dissect.record import Record, records
from ecmproto.errors import SpecError
from ecmproto.filter.fields import Field, find
from ecmproto.filter.reading import Reader, values_of
from ecmproto.fuzz.difference import Difference
from ecmproto.table.columns import Columns, every_name, extract
from ecmproto.wire.decoder import encapsulated
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.frame import Frame
from ecmproto.wire.layer import Layer

NAMES = every_name()
"""Every field of a frame."""
INNER_NAMES = tuple(
    f"encapsulated.{name}"
    for name in NAMES
    if name in ("frame.protocols", "frame.error") or not name.startswith("frame.")
)
"""Every field of the frame that a message shows."""
ETHERNET_ONLY = (Interface(index=0, linktype=ETHERNET),)


class FieldValues:
    """What the one-frame decoder has for fields; a field is only asked of frames that have a layer of it."""

    def __init__(self, names: Iterable[str]) -> None:
        self._always: list[tuple[str, Reader]] = []
        self._of: dict[tuple[bool, type[Layer]], list[tuple[str, Reader]]] = {}
        for name in names:
            field = _known(name)
            entry = (name, values_of(field))
            formats = {source.format for source in field.sources} | set(field.formats)
            if field.origin != "layers":
                self._always.append(entry)
            for cls in formats if field.origin == "layers" else ():
                self._of.setdefault((field.inner, cls), []).append(entry)

    def of(self, record: Record) -> dict[str, list[Any]]:
        """Return the fields that a frame has, with their values, outermost first."""
        readers = dict(self._always)
        for inner, frame in ((False, record.frame), (True, encapsulated(record.frame))):
            for cls in _formats(frame):
                readers.update(self._of.get((inner, cls), ()))
        return {name: values for name, read in readers.items() if (values := list(read(record)))}


def _known(name: str) -> Field:
    field = find(name)
    if field is None:
        raise SpecError(where="fields", needed="the name of a field", got=repr(name))
    return field


def _formats(frame: Frame | None) -> set[type[Layer]]:
    return set() if frame is None else {type(value) for value in frame.layers}


def column_differences(
    batch: Batch,
    columns: Columns,
    values: FieldValues,
    *,
    interfaces: Sequence[Interface] = ETHERNET_ONLY,
    ethertypes: EtherTypes = DEFAULT,
) -> Iterator[Difference]:
    """Yield the fields of frames that ``columns`` of a batch have otherwise than ``values``."""
    wanted: dict[str, dict[int, list[Any]]] = {name: {} for name in columns}
    for row, record in enumerate(records(batch, interfaces, ethertypes=ethertypes)):
        for name, listed in values.of(record).items():
            wanted[name][row] = listed
    for name, column in columns.items():
        got: dict[int, list[Any]] = {}
        for row, value in zip(column.rows.tolist(), column.python_values(), strict=True):
            got.setdefault(row, []).append(value)
        if got != wanted[name]:
            row = min(
                row for row in got.keys() | wanted[name].keys() if got.get(row) != wanted[name].get(row)
            )
            detail = f"{got.get(row, [])}, not {wanted[name].get(row, [])}, in {batch.frame(row).hex()}"
            yield Difference(what=name, detail=detail, row=row)


class ColumnCheck:
    """Extracts every field of a batch at once."""

    name = "columns"
    every = 1

    def __init__(self, ethertypes: EtherTypes = DEFAULT) -> None:
        self._ethertypes = ethertypes
        self._names = NAMES + INNER_NAMES
        self._values = FieldValues(self._names)

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the first frame of each field that differs."""
        batch = Batch.from_frames(items)
        columns = extract(batch, self._names, interfaces=ETHERNET_ONLY, ethertypes=self._ethertypes)
        yield from column_differences(batch, columns, self._values, ethertypes=self._ethertypes)
