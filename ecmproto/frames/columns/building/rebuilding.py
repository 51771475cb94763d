"""Rebuilding of captures from columns: the reverse of `extract` and `read_table`.

``frame.protocols`` lists the layers of a frame. Frames with the same layers are built together. No value is
guessed: if a column that a layer needs is missing, the error names the column.

A protocol path names a run of plain LLDP TLVs once, and an empty TLV has no value. The TLVs are distinguished
by their types, their lengths and the sizes of their values. Ambiguous frames are refused.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ColumnError, SpecError, hint_on_name, shown
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.columns.building.frames import Cast, TargetValues, batch_of, cast, times_of
from ecmproto.frames.columns.building.template import Finish
from ecmproto.frames.columns.building.values import (
    TAILS,
    Coded,
    Strings,
    Target,
    Values,
    column_error,
    each,
    octets_target,
    plain,
    tail_target,
)
from ecmproto.wire.codec.frame import Frame
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.lldp import (
    HEADER_OCTETS,
    ORGANIZATIONALLY_SPECIFIC,
    TLV,
    AnyTLV,
    LLDPPart,
    OtherOrganizationTLV,
)
from ecmproto.wire.formats.registry import BY_PREFIX, catalogue, dispatch
from ecmproto.wire.formats.schema import Field

Int64 = NDArray[np.int64]

_CAP_LEN = "frame.cap_len"
_NO_INDEX = 1 << 62
"""Index of a value that no frame has."""
_TAIL_NAMES = tuple(f"eth.{key}" for key in TAILS)


def batch_from(columns: Any, *, ethertypes: EtherTypes = DEFAULT, fix: bool = False) -> Batch:
    """Return the frames from which ``columns`` were extracted.

    ``columns`` is `Columns`, an Arrow table or a record batch. It needs ``frame.protocols`` and a column for
    every field of every layer. Octets of variable length may lack a column if ``frame.cap_len`` or a length
    field shows that they are empty. Times, lengths on the wire, interfaces and frame numbers are read from
    the columns ``frame.time_epoch``, ``frame.len``, ``frame.interface_id`` and ``frame.number`` if present.
    ``fix`` recomputes types, lengths, IPv4 header checksums and padding as ``encode(frame, fix=True)`` does.
    Columns for recomputed fields may be missing.

    Raises SpecError for insufficient or inconsistent columns. Raises ColumnError for values that a field
    cannot hold. Rows are counted from 0.
    """
    sheet = sheet_of(columns)
    paths = list(groups_of(sheet))
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
    """Builder of the frames of one protocol path."""

    def __init__(self, sheet: ColumnSheet, path: FrameGroup, ethertypes: EtherTypes, finish: Finish) -> None:
        self._sheet = sheet
        self._path = path
        self._finish = finish
        self._frame = Frame(layers=tuple(cls() for cls in path.layers), ethertypes=ethertypes)

    def cast(self) -> Cast:
        """Return the built frames; errors name the row in the sheet."""
        columns: list[TargetValues] = []
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
                raise missing(name, f", or {_CAP_LEN!r} to show that no frame has it")
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
        """Return value ``number`` of each frame, or an empty string if the frame has fewer values.

        ``number`` is one index for all frames, or an array with one index per frame.
        """
        listed, rows = self._sheet.columns[name], self._path.rows
        strings = self._sheet.strings(name)
        has = listed.counts(rows) > number
        if not len(strings.start):
            return Strings(strings.buffer, np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))
        indices = np.where(has, listed.bounds[rows] + number, 0)
        return Strings(
            strings.buffer,
            np.where(has, strings.start[indices], 0),
            np.where(has, strings.octets[indices], 0),
        )

    def _octets(self, index: int, field: Field) -> Strings | None:
        """Return the octets of a layer's field of variable length; ``None`` if no frame has such octets."""
        number = self._path.values.get(index)
        if number == NO_VALUE:
            return None
        if field.name in self._sheet.columns:
            return self._strings(field.name, self._value_index(index, field) if number is None else number)
        is_needed = self._finish.fix or _CAP_LEN not in self._sheet.columns
        if is_needed and self._counted(index, field).any():
            raise missing(field.name, f" for frames of {self._path.name}")
        return None

    def _value_index(self, index: int, field: Field) -> int | Int64:
        """Return, for each frame, the index of the ``field`` value that belongs to layer ``index``.

        A frame may have several headers of one format. A header without octets (an AH without a check value)
        has no value.
        """
        holders = [
            (at, other)
            for at, cls in enumerate(self._path.layers)
            for other in cls.layout
            if other.name == field.name
        ]
        if len(holders) == 1:
            return 0
        counted = {at: self._counted(at, other, is_sure=True) for at, other in holders}
        before = sum((counted[at].astype(np.int64) for at, _ in holders if at < index), start=np.int64(0))
        return np.where(counted[index], before, _NO_INDEX)

    def _counted(self, index: int, field: Field, *, is_sure: bool = False) -> NDArray[np.bool_]:
        """Return a mask of the frames that have octets for ``field``, according to their length and type
        fields.

        Without a column for the length, all frames count as having octets. With ``is_sure``, a missing length
        column is an error, unless the field always has octets.
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
                types = self._numbers(index, other)
                having &= True if types is None else np.isin(types, count.when[1])
        return having

    def _numbers(self, index: int, field: Field) -> Any:
        """Return the values of a field of fixed width; ``None`` for a field that is computed."""
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

    def _either(self, columns: list[ListColumn], counts: list[Int64], number: int) -> NDArray[Any]:
        """Return the merged values of the EtherType column and the length column.

        Only the last layer of a frame can have a length.
        """
        rows = self._path.rows
        values = np.zeros(len(rows), np.int64)
        is_type = counts[0] > number
        for column, before, mask in ((columns[0], 0, is_type), (columns[1], counts[0], ~is_type)):
            indices = (column.bounds[rows] + number - before)[mask]
            entries = column.take(indices)
            if not isinstance(entries, np.ndarray):
                raise column_error(column.name, "integers", "text or octets")
            values[mask] = entries
        return values

    def _is_computed(self, index: int, field: Field) -> bool:
        """Return whether ``fix`` computes a field whatever its value."""
        layers = self._frame.layers
        following = layers[index + 1] if index + 1 < len(layers) else None
        formats = dispatch(self._frame.ethertypes)
        if field.key == layers[index].next_key:
            return formats.ethertype_of(following) is not None
        return field.key in layers[index].computed(b"", following, formats)

    def _check_rest(self) -> None:
        """Raise ColumnError if a frame has values for a layer that the frame does not contain."""
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
    """Return, for each column name, the formats that have such a field."""
    return {entry.name: entry.formats for entry in catalogue()}


def _check_lengths(sheet: ColumnSheet, octets: Int64) -> None:
    """Raise ColumnError if the length of a frame differs from the captured length of its record."""
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


def _times(sheet: ColumnSheet) -> Int64:
    column = sheet.columns.get("frame.time_epoch")
    if column is None:
        return np.zeros(sheet.frames, np.int64)
    times = np.zeros(sheet.frames, np.int64)
    having = np.diff(column.bounds) > 0
    times[having] = times_of(column.take(column.bounds[:-1][having]), int(having.sum()))
    return times


def _record(sheet: ColumnSheet, octets: Int64) -> dict[str, Int64]:
    """Return the lengths on the wire and the interfaces of the frames."""
    record = {}
    original, captured = sheet.numbers("frame.len"), sheet.numbers(_CAP_LEN)
    if original is not None:
        # Octets removed by a snap length remain removed, also from frames whose length changed.
        record["original"] = original if captured is None else original - captured + octets
    interface = sheet.numbers("frame.interface_id")
    return record if interface is None else record | {"interface": interface}


def _numbers(sheet: ColumnSheet) -> dict[str, Any]:
    """Return the frame numbers, and a mask of the frames that have a time."""
    record: dict[str, Any] = {}
    numbers = sheet.numbers("frame.number")
    if numbers is not None and len(numbers):
        record |= {"first": int(numbers[0]) - 1, "picked": numbers - numbers[0]}
    column = sheet.columns.get("frame.time_epoch")
    timed = np.ones(0) if column is None else np.diff(column.bounds)
    return record | ({} if timed.all() else {"timed": timed > 0})


ListedValues: TypeAlias = "NDArray[Any] | Strings | Coded"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListColumn:
    """A column of concatenated ``values``.

    The values of frame i are ``values[bounds[i]:bounds[i + 1]]``.
    """

    name: str
    values: ListedValues
    bounds: Int64

    def counts(self, rows: Int64) -> Int64:
        """Return the number of values of each frame in ``rows``."""
        return self.bounds[rows + 1] - self.bounds[rows]

    def take(self, indices: Int64) -> ListedValues:
        """Return the values at ``indices``."""
        if isinstance(self.values, Coded):
            return Coded(self.values.codes[indices], self.values.values)
        return self.values[indices] if isinstance(self.values, np.ndarray) else self.values.select(indices)

    def strings(self) -> Strings:
        """Return the values as octet strings; raise ColumnError for an invalid value."""
        target = octets_target(self.name)
        try:
            strings = each(target, self.values, int(self.bounds[-1]))
        except ColumnError as error:
            row = error.row if error.row is None else self.row_of(error.row)
            raise target.error(error.needed, error.got, row) from None
        assert isinstance(strings, Strings)
        return strings

    def row_of(self, index: int) -> int:
        """Return the index of the frame that has the value at ``index``."""
        return int(np.searchsorted(self.bounds, index, side="right")) - 1


class ColumnSheet:
    """Columns by name, and the number of frames."""

    def __init__(self, frames: int, columns: Mapping[str, ListColumn]) -> None:
        self.frames = frames
        self.columns = columns
        self._strings: dict[str, Strings] = {}

    def strings(self, name: str) -> Strings:
        """Return the values of a column as octet strings."""
        if name not in self._strings:
            self._strings[name] = self.columns[name].strings()
        return self._strings[name]

    def once(self, name: str) -> ListedValues | None:
        """Return a column with one value per frame; ``None`` if no column has that name."""
        column = self.columns.get(name)
        if column is None:
            return None
        counts = np.diff(column.bounds)
        if (counts != 1).any():
            row = int((counts != 1).argmax())
            raise column_error(name, "one value", f"{int(counts[row])} values", row)
        return column.values

    def numbers(self, name: str) -> Int64 | None:
        """Return a column with one number per frame; ``None`` if no column has that name."""
        numbers = self.once(name)
        if numbers is None:
            return None
        if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise column_error(name, "integers", f"{getattr(numbers, 'dtype', 'text or octets')}")
        wrong = numbers.view(np.int64) < 0 if numbers.dtype == np.uint64 else numbers < 0
        if wrong.any():
            row = int(wrong.argmax())
            raise column_error(name, "a number from 0 to 2^63 − 1", str(numbers[row]), row)
        return numbers.astype(np.int64)


def sheet_of(columns: Any) -> ColumnSheet:
    """Return the columns of an extraction (`Columns`), an Arrow table or a record batch.

    Raises SpecError, with the nearest name, for a column that no extraction yields.
    """
    is_arrow = type(columns).__module__.partition(".")[0] == "pyarrow"
    names = list(columns.schema.names if is_arrow else columns)
    for name in names:
        if name not in _formats():
            raise SpecError(
                where="columns", needed="names of fields", got=repr(name), hint=hint_on_name(name, _formats())
            )
        if names.count(name) > 1:
            raise SpecError(where="columns", needed="each column once", got=f"{name!r} twice")
    if not is_arrow:
        # Most columns have no values, or one value for each frame. Such columns share their offsets.
        none, every = np.zeros(columns.frames + 1, np.int64), np.arange(columns.frames + 1)
        sheet = {}
        for name, column in columns.items():
            bounds = none if not len(column) else every if column.is_whole else column.bounds
            values = plain(octets_target(name), column.values)
            sheet[name] = ListColumn(name=name, values=values, bounds=bounds)
        return ColumnSheet(columns.frames, sheet)
    from ecmproto.frames.columns.building.arrow import listed

    whole = listed(columns, names)
    return ColumnSheet(
        columns.num_rows, {name: ListColumn(name=name, values=v, bounds=b) for name, v, b in whole}
    )


def missing(name: str, rest: str) -> SpecError:
    """Return the error for a missing column; ``rest`` is the end of the message."""
    return SpecError(
        where="columns",
        needed=f"{name!r}{rest}",
        got="none of that name",
        hint="`ecmproto dissect --all-fields` writes all",
    )


NO_VALUE = -1
MAX_TLVS = 512
WITH_VALUE = (TLV, OtherOrganizationTLV)
"""TLVs whose information is a string of octets."""

TLVFormats = tuple[tuple[type[Layer], ...], tuple[int, ...]]


def _is_lldp(prefix: str) -> bool:
    return issubclass(BY_PREFIX[prefix], LLDPPart)


def _tlvs_of(names: Sequence[str]) -> list[tuple[type[Layer], ...]]:
    """Return the format of each TLV in a path, followed by the formats inside the TLV."""
    tlvs: list[tuple[type[Layer], ...]] = []
    for cls in map(BY_PREFIX.__getitem__, names):
        if issubclass(cls, AnyTLV):
            tlvs.append((cls,))
        else:
            tlvs[-1] += (cls,)
    return tlvs


def tlv_formats(
    names: Sequence[str], types: Sequence[int], lengths: Sequence[int], values: Sequence[int]
) -> TLVFormats | None:
    """Return the format and the value index of each layer; ``None`` if the frame is ambiguous.

    The index is NO_VALUE for a layer without a value. ``names`` are the TLVs of the protocol path and the
    layers inside them. ``values`` are the lengths in octets of the values present.
    """
    tlvs = _tlvs_of(names)
    if len(types) != len(lengths) or len(types) > MAX_TLVS:
        return None
    # Candidates by the index of the last TLV: each has the TLVs and the values used so far.
    candidates: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {-1: [((), ())]}
    for index, (type_, length) in enumerate(zip(types, lengths, strict=True)):
        is_last = index == len(types) - 1
        following: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
        for at, reached in candidates.items():
            stays = [at] if at >= 0 and tlvs[at] == (TLV,) else []
            for other in [*stays, *([at + 1] if at + 1 < len(tlvs) else [])]:
                for chosen, used in reached:
                    value = _value(tlvs[other][0], type_, length, values, used, is_last)
                    if value is not None:
                        following.setdefault(other, []).append(((*chosen, other), (*used, value)))
        # Two candidates suffice to show that the frame is ambiguous.
        candidates = {at: reached[:2] for at, reached in following.items()}
    ends = [each for each in candidates.get(len(tlvs) - 1, []) if max(each[1], default=-1) == len(values) - 1]
    if len(ends) != 1:
        return None
    layers = [(cls, value) for at, value in zip(*ends[0], strict=True) for cls in tlvs[at]]
    return tuple(cls for cls, _ in layers), tuple(value for _, value in layers)


def _value(
    cls: type[Layer], type_: int, length: int, values: Sequence[int], used: Sequence[int], is_last: bool
) -> int | None:
    """Return the value index of a TLV of that format, or NO_VALUE if it has no value.

    Returns ``None`` if the TLV cannot have that format.
    """
    # A TLV of another length is malformed, and no TLVs are read after it.
    fits = cls is TLV or all(each.low <= length <= each.high for each in cls.limits)
    if cls is not TLV and (type_ != ORGANIZATIONALLY_SPECIFIC or not (fits or is_last)):
        return None
    length -= cls.fixed_octets - HEADER_OCTETS
    if not issubclass(cls, WITH_VALUE) or length <= 0:
        return NO_VALUE
    number = max(used, default=NO_VALUE) + 1
    if number < len(values):
        return number if values[number] == length or (is_last and values[number] < length) else None
    return NO_VALUE if is_last else None


_PROTOCOLS = "frame.protocols"
_TYPE, _LENGTH, _VALUE = "lldp.tlv.type", "lldp.tlv.len", "lldp.tlv.value"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameGroup:
    """Frames with the same layers.

    ``rows`` are the indices of the frames. ``name`` is their ``frame.protocols``.
    """

    name: str
    rows: Int64
    layers: tuple[type[Layer], ...]
    values: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """Index of the value of each layer whose octets are one of several values; NO_VALUE for no value."""

    def number(self, index: int, field: Field) -> tuple[int, int]:
        """Return the number of layers with ``field`` before layer ``index``, and in total."""
        having = [
            at for at, cls in enumerate(self.layers) if any(each.name == field.name for each in cls.layout)
        ]
        return having.index(index), len(having)


def groups_of(sheet: ColumnSheet) -> Iterator[FrameGroup]:
    """Yield the frames of each protocol path; raise SpecError for an impossible path."""
    if sheet.frames and _PROTOCOLS not in sheet.columns:
        raise missing(_PROTOCOLS, ", the layers of each frame")
    names = sheet.once(_PROTOCOLS) if sheet.frames else None
    if names is None:
        return
    if not isinstance(names, Coded):
        raise column_error(_PROTOCOLS, "text", "numbers or octets")
    order = np.argsort(names.codes, kind="stable")
    codes, firsts = np.unique(names.codes[order], return_index=True)
    for code, rows in zip(codes.tolist(), np.split(order, firsts[1:]), strict=True):
        name = names.values[code]
        prefixes = name.split(":") if name else []
        unknown = [prefix for prefix in prefixes if prefix not in BY_PREFIX]
        if unknown:
            raise column_error(_PROTOCOLS, "names of formats", shown(unknown[0]), int(rows[0]))
        if any(map(_is_lldp, prefixes)):
            yield from _with_tlvs(sheet, name, prefixes, rows)
        else:
            yield FrameGroup(name=name, rows=rows, layers=tuple(BY_PREFIX[prefix] for prefix in prefixes))


def _with_tlvs(
    sheet: ColumnSheet, name: str, prefixes: Sequence[str], rows: NDArray[Any]
) -> Iterator[FrameGroup]:
    """Yield the frames of each sequence of TLVs."""
    first = next(index for index, prefix in enumerate(prefixes) if _is_lldp(prefix))
    last = next((i for i in range(first, len(prefixes)) if not _is_lldp(prefixes[i])), len(prefixes))
    before, after = ([BY_PREFIX[each] for each in part] for part in (prefixes[:first], prefixes[last:]))
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(
            tuple(_listed(sheet, column, row) for column in (_TYPE, _LENGTH, _VALUE)), []
        ).append(row)
    for listed, members in groups.items():
        formats = tlv_formats(prefixes[first:last], *listed)
        if formats is None:
            absent = [column for column in (_TYPE, _LENGTH, _VALUE) if column not in sheet.columns]
            if absent:
                raise missing(absent[0], f" for frames of {name}")
            needed = f"TLVs whose types, lengths and values match {name}"
            raise column_error(_TYPE, needed, shown(list(listed[0])), members[0])
        layers, numbers = formats
        yield FrameGroup(
            name=name,
            rows=np.array(members, np.int64),
            layers=(*before, *layers, *after),
            values={
                first + index: number
                for index, number in enumerate(numbers)
                if issubclass(layers[index], WITH_VALUE)
            },
        )


def _listed(sheet: ColumnSheet, name: str, row: int) -> tuple[int, ...]:
    """Return the numbers of a frame, or the lengths in octets of its values."""
    column = sheet.columns.get(name)
    if column is None:
        return ()
    own = slice(int(column.bounds[row]), int(column.bounds[row + 1]))
    if name == _VALUE:
        return tuple(sheet.strings(name).octets[own].tolist())
    assert isinstance(column.values, np.ndarray)
    return tuple(column.values[own].tolist())
