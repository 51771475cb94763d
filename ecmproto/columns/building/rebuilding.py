"""Captures rebuilt from their columns: what `extract` and `read_table` took apart.

``frame.protocols`` says which layers a frame has; frames of the same layers are cast together.  Nothing is
filled in: a column that a layer's fields need is there, or the error names it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.codec.frame import Frame
from ecmproto.columns.building.casting import Cast, Column, cast
from ecmproto.columns.building.finish import Finish
from ecmproto.columns.building.frames import batch_of, times_of
from ecmproto.columns.building.paths import Path, paths_of
from ecmproto.columns.building.sheet import Int64, Listed, Sheet, missing, sheet_of
from ecmproto.columns.building.target import TAILS, Target, column_error, tail_target
from ecmproto.columns.building.tlvs import NO_VALUE
from ecmproto.columns.building.values import Strings, Values, each
from ecmproto.errors import ColumnError
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.registry import catalogue, dispatch
from ecmproto.formats.schema import Field

_CAP_LEN = "frame.cap_len"
_NO_PLACE = 1 << 62
"""The place of a value that no frame has."""
_TAIL_NAMES = tuple(f"eth.{key}" for key in TAILS)


def batch_from(columns: Any, *, ethertypes: EtherTypes = DEFAULT, fix: bool = False) -> Batch:
    """Return the frames that ``columns`` were taken from: `Columns`, an Arrow table or record batch.

    ``frame.protocols`` and a column for every field of every layer are needed.  Octets of variable length
    that have no column are empty where the other columns say so: ``frame.cap_len``, or what counts them.
    Times, lengths on the wire, interfaces and numbers are those of ``frame.time_epoch``, ``frame.len``,
    ``frame.interface_id`` and ``frame.number`` where these are there.  ``fix`` computes types, lengths, IPv4
    header checksums and padding anew, as ``encode(frame, fix=True)`` does; columns for these may be left out.

    SpecError where columns do not suffice or do not go together, ColumnError for values that a field cannot
    hold; rows count from 0.
    """
    sheet = sheet_of(columns)
    paths = list(paths_of(sheet))
    parts = [_Rebuilding(sheet, path, ethertypes, Finish(fix=fix)).cast() for path in paths]
    offset, octets = np.zeros(sheet.frames, np.int64), np.zeros(sheet.frames, np.int64)
    end = 0
    for path, part in zip(paths, parts, strict=True):
        offset[path.rows], octets[path.rows] = part.offset + end, part.octets
        end += len(part.buffer)
    buffer = np.concatenate([np.empty(0, np.uint8), *(part.buffer for part in parts)])
    buffer.flags.writeable = False
    if not fix:
        _check_lengths(sheet, octets)
    whole = Cast(buffer=buffer, offset=offset, octets=octets)
    return dataclasses.replace(batch_of(whole, _times(sheet), **_record(sheet, octets)), **_numbers(sheet))


class _Rebuilding:
    """The frames of one path in the making."""

    def __init__(self, sheet: Sheet, path: Path, ethertypes: EtherTypes, finish: Finish) -> None:
        self._sheet = sheet
        self._path = path
        self._finish = finish
        self._frame = Frame(layers=tuple(cls() for cls in path.layers), ethertypes=ethertypes)

    def cast(self) -> Cast:
        """Return them; errors tell the sheet's rows."""
        columns: list[Column] = []
        for index, cls in enumerate(self._path.layers):
            for field in cls.layout:
                target = Target(name=field.name, layer=index, field=field)
                values = self._octets(index, field) if field.bits is None else self._numbers(index, field)
                if values is not None:
                    columns.append((target, self._checked(target, values)))
        for name in _TAIL_NAMES:
            if name in self._sheet.columns:
                columns.append((tail_target(name), self._strings(name, 0)))
            elif not self._finish.fix and _CAP_LEN not in self._sheet.columns:
                raise missing(name, f", or {_CAP_LEN!r} to know that no frame has it")
        self._check_rest()
        try:
            return cast(self._frame, columns, len(self._path.rows), self._finish)
        except ColumnError as error:
            raise self._placed(error) from None

    def _checked(self, target: Target, values: Any) -> Values:
        try:
            return each(target, values, len(self._path.rows))
        except ColumnError as error:
            raise self._placed(error) from None

    def _placed(self, error: ColumnError) -> ColumnError:
        row = None if error.row is None else int(self._path.rows[error.row])
        return ColumnError(layer=error.layer, field=error.field, needed=error.needed, got=error.got, row=row)

    def _strings(self, name: str, number: int | Int64) -> Strings:
        """Return value ``number``, the same or one each, of each frame, empty where there are not so many."""
        listed, rows = self._sheet.columns[name], self._path.rows
        strings = self._sheet.strings(name)
        has = listed.counts(rows) > number
        if not len(strings.start):
            return Strings(strings.buffer, np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))
        places = np.where(has, listed.bounds[rows] + number, 0)
        return Strings(
            strings.buffer, np.where(has, strings.start[places], 0), np.where(has, strings.octets[places], 0)
        )

    def _octets(self, index: int, field: Field) -> Strings | None:
        """Return a layer's octets of variable length; None where no frame has any."""
        known = self._path.values.get(index)
        if known == NO_VALUE:
            return None
        if field.name in self._sheet.columns:
            return self._strings(field.name, self._places(index, field) if known is None else known)
        is_needed = self._finish.fix or _CAP_LEN not in self._sheet.columns
        if is_needed and self._counted(index, field).any():
            raise missing(field.name, f" for frames of {self._path.name}")
        return None

    def _places(self, index: int, field: Field) -> int | Int64:
        """Return which of the values of ``field`` is that of layer ``index`` in each frame.

        A frame may have several headers of a kind.  One without octets, as an AH without a check value, has
        none of the values.
        """
        having = [
            (at, other)
            for at, cls in enumerate(self._path.layers)
            for other in cls.layout
            if other.name == field.name
        ]
        if len(having) == 1:
            return 0
        counted = {at: self._counted(at, other, is_sure=True) for at, other in having}
        before = sum((counted[at].astype(np.int64) for at, _ in having if at < index), start=np.int64(0))
        return np.where(counted[index], before, _NO_PLACE)

    def _counted(self, index: int, field: Field, *, is_sure: bool = False) -> NDArray[np.bool_]:
        """Return which frames have octets for ``field``, as far as other fields say.

        Where the column that says how many is left out, all do; with ``is_sure`` it is needed unless there
        is always one.
        """
        count = field.count
        assert count is not None
        having = np.ones(len(self._path.rows), np.bool_)
        cls = self._path.layers[index]
        for other in cls.layout:
            if other.key == count.key:
                lengths = self._numbers(index, other)
                if lengths is None and is_sure and count.minus >= 0:
                    raise missing(other.name, f" for frames of {self._path.name}")
                having &= True if lengths is None else lengths * count.scale > count.minus
            elif count.when and other.key == count.when[0]:
                kinds = self._numbers(index, other)
                having &= True if kinds is None else np.isin(kinds, count.when[1])
        return having

    def _numbers(self, index: int, field: Field) -> Any:
        """Return the values of a field of fixed width; None for one that is computed."""
        names = [name for name in (field.name, field.meta.length_name) if name in self._sheet.columns]
        if not names:
            if self._finish.fix and self._is_computed(index, field):
                return None
            other = f" or {field.meta.length_name!r}" if field.meta.length_name else ""
            raise missing(field.name, f"{other} for frames of {self._path.name}")
        number, count = self._path.number(index, field)
        rows = self._path.rows
        columns = [self._sheet.columns[name] for name in names]
        counts = [column.counts(rows) for column in columns]
        odd = np.sum(counts, axis=0) != count
        if odd.any():
            at = int(odd.argmax())
            got = " and ".join(f"{int(each[at])} of {name}" for each, name in zip(counts, names, strict=True))
            needed = f"{count}, one for each layer of {self._path.name} that has it"
            raise column_error(field.name, needed, got, int(rows[at]))
        if len(columns) == 1:
            return columns[0].take(columns[0].bounds[rows] + number)
        return self._either(columns, counts, number)

    def _either(self, columns: list[Listed], counts: list[Int64], number: int) -> NDArray[Any]:
        """Return EtherTypes or lengths: of a frame's layers, only the last can have a length."""
        rows = self._path.rows
        values = np.zeros(len(rows), np.int64)
        is_type = counts[0] > number
        for column, before, mask in ((columns[0], 0, is_type), (columns[1], counts[0], ~is_type)):
            places = (column.bounds[rows] + number - before)[mask]
            taken = column.take(places)
            values[mask] = taken if isinstance(taken, np.ndarray) else self._wrong(column)
        return values

    def _wrong(self, column: Listed) -> int:
        raise column_error(column.name, "integers", "text or octets")

    def _is_computed(self, index: int, field: Field) -> bool:
        """Whether ``fix`` computes a field whatever it was."""
        layers = self._frame.layers
        following = layers[index + 1] if index + 1 < len(layers) else None
        formats = dispatch(self._frame.ethertypes)
        if field.key == layers[index].next_key:
            return formats.ethertype_of(following) is not None
        return field.key in layers[index].computed(b"", following, formats)

    def _check_rest(self) -> None:
        """Refuse values of layers that the frames do not have."""
        prefixes = {"frame", *(cls.prefix for cls in self._path.layers)}
        for name, column in self._sheet.columns.items():
            if not column.bounds[-1] or not prefixes.isdisjoint(_formats()[name]):
                continue
            having = column.counts(self._path.rows) > 0
            if having.any():
                row = int(self._path.rows[having.argmax()])
                raise column_error(name, f"none in a frame of {self._path.name}", "a value", row)


@functools.cache
def _formats() -> Mapping[str, tuple[str, ...]]:
    """Return which formats have the columns of each name."""
    return {entry.name: entry.formats for entry in catalogue()}


def _check_lengths(sheet: Sheet, octets: Int64) -> None:
    """Refuse frames that are not as long as their records say: of other octets, or without some."""
    captured = sheet.numbers(_CAP_LEN)
    if captured is None or (captured == octets).all():
        return
    row = int((captured != octets).argmax())
    absent = [
        entry.name for entry in catalogue() if entry.type == "octets" and entry.name not in sheet.columns
    ]
    without = f" without {', '.join(absent)}" if absent else ""
    needed = f"{int(octets[row])}, the octets of the columns{without}"
    raise column_error(_CAP_LEN, needed, str(int(captured[row])), row)


def _times(sheet: Sheet) -> Int64:
    column = sheet.columns.get("frame.time_epoch")
    if column is None:
        return np.zeros(sheet.frames, np.int64)
    times = np.zeros(sheet.frames, np.int64)
    having = np.diff(column.bounds) > 0
    times[having] = times_of(column.take(column.bounds[:-1][having]), int(having.sum()))
    return times


def _record(sheet: Sheet, octets: Int64) -> dict[str, Int64]:
    """Return what the records say of the frames' lengths on the wire and their interfaces."""
    record = {}
    original, captured = sheet.numbers("frame.len"), sheet.numbers(_CAP_LEN)
    if original is not None:
        # what a snap length cut off stays cut off, also of frames that are not as long as they were
        record["original"] = original if captured is None else original - captured + octets
    interface = sheet.numbers("frame.interface_id")
    return record if interface is None else record | {"interface": interface}


def _numbers(sheet: Sheet) -> dict[str, Any]:
    """Return what a batch says besides: the frames' numbers, and which have a time."""
    said: dict[str, Any] = {}
    numbers = sheet.numbers("frame.number")
    if numbers is not None and len(numbers):
        said |= {"first": int(numbers[0]) - 1, "picked": numbers - numbers[0]}
    column = sheet.columns.get("frame.time_epoch")
    timed = np.ones(0) if column is None else np.diff(column.bounds)
    return said | ({} if timed.all() else {"timed": timed > 0})
