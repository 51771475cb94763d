"""Checks of the decoder of single frames, and of columns, documents and text from frames.

`SchemaCheck` verifies that `decode_lax` never raises, and that `decode` raises `DecodeError` only for
malformed frames. `SchemaCheck` also verifies that decoded frames encode to the original octets, and that
layers and fields have no gaps. `ColumnCheck` verifies that columns contain the decoded values of every field
of every frame. `DocumentCheck` verifies that JSON documents restore the octets. `TextCheck` verifies that the
text of a batch equals the text of its single frames.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

from ecmproto.errors import DecodeError, SpecError
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.columns import Columns, every_name, extract
from ecmproto.frames.dissect.fields import Csv
from ecmproto.frames.dissect.form import Listing, Record, records
from ecmproto.frames.dissect.json import NdJson
from ecmproto.frames.dissect.lines import Lines
from ecmproto.frames.filter.evaluation import (
    Captured,
    FrameReader,
    Reader,
    part_of,
    values_in_frame,
    values_of,
)
from ecmproto.frames.filter.fields import FieldSource, FilterField, find
from ecmproto.tools.fuzz.checks.base import Difference, frames_of
from ecmproto.wire import codec
from ecmproto.wire.codec.document import from_document, to_document
from ecmproto.wire.codec.frame import Frame, encapsulated, encode
from ecmproto.wire.formats.base import Layer


class SchemaCheck:
    """Check of lax decoding, strict decoding, encoding, and the bounds of layers."""

    name = "schema"
    every = 1

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the violated invariants."""
        for row, (octets, frame) in enumerate(zip(items, frames_of(items), strict=True)):
            for what, detail in self._broken(octets, frame):
                yield Difference(what=what, detail=detail, row=row)

    def _broken(self, octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
        yield from self._strictly(octets, frame)
        if encode(frame) != octets:
            yield "octets are not restored", f"{encode(frame).hex()} for {octets.hex()}"
        yield from _layer_gaps(octets, frame)

    def _strictly(self, octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
        try:
            strict = codec.decode(octets)
        except DecodeError as error:
            if frame.error != error:
                yield "the strict decoder refuses something else", f"{error}; laxly {frame.error}"
            return
        if frame.error is not None:
            yield "the strict decoder accepts a malformed frame", str(frame.error)
        elif strict != frame:
            yield "strictly and laxly decoded frames differ", f"{strict}; laxly {frame}"


def _layer_gaps(octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
    """Yield gaps between layers, and octets that no layer covers."""
    at = 0
    bounds = frame.boundaries()
    for layer, start in zip(frame.layers, bounds, strict=False):
        if start != at:
            yield f"a gap before {layer.prefix}", f"octet {at} to {start}"
        fixed_octets, variable = _extent(type(layer))  # type: ignore[arg-type]  # classes hash
        at = start + fixed_octets + sum(len(getattr(layer, key)) for key in variable)
    end = len(octets) - len(frame.padding) - len(frame.trailer) - len(frame.fcs)
    if at != end or bounds[-1] != end or len(bounds) != len(frame.layers) + 1:
        yield "the layers do not cover the frame", f"{at} octets, ends at {bounds[-1]} of {end}"


@functools.cache
def _extent(cls: type[Layer]) -> tuple[int, tuple[str, ...]]:
    """Return the octets of a format's fixed fields, and the keys of its variable fields."""
    bits = 0
    for field in cls.layout:
        assert field.bit_offset == bits, f"a gap before {field.name}"
        bits += field.bits or 0
    return bits // 8, tuple(field.key for field in cls.layout if field.bits is None)


class FieldRows(NamedTuple):
    """The values of a field in a batch.

    ``rows`` contains the frame index of each value, in ascending order. The values of a frame start with the
    outermost layer.
    """

    rows: list[int]
    values: list[Any]


NOWHERE = FieldRows([], [])
"""The values of a field that no frame has."""


class _Gathered(NamedTuple):
    """All layers of a format in a batch, and the index of each layer among all layers."""

    indices: list[int]
    layers: list[Layer]


class FieldValues:
    """Reader of the named fields of records. Raises SpecError for an unknown name."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self._of_record: list[tuple[str, Reader]] = []
        self._outer, self._inner = _FrameFields(), _FrameFields()
        for name in self.names:
            field = _known(name)
            if field.origin == "record" or field.kind == "layer":
                self._of_record.append((name, values_of(field)))
            else:
                (self._inner if field.inner else self._outer).add(field)

    def of(self, records: Sequence[Captured]) -> dict[str, FieldRows]:
        """Return the values of each field that at least one frame has."""
        result = {name: _field_rows(records, read) for name, read in self._of_record}
        frames = [record.frame for record in records]
        result |= self._outer.of(frames)
        if self._inner:
            shown = [(row, inner) for row, frame in enumerate(frames) if (inner := encapsulated(frame))]
            rows = [row for row, _ in shown]
            for name, listed in self._inner.of([inner for _, inner in shown]).items():
                result[name] = FieldRows([rows[row] for row in listed.rows], listed.values)
        return {name: listed for name, listed in result.items() if listed.rows}


class _FrameFields:
    """Reader of frame fields, or of fields of the frames inside messages."""

    def __init__(self) -> None:
        self._whole: list[tuple[str, FrameReader]] = []
        self._layered: list[FilterField] = []

    def __bool__(self) -> bool:
        return bool(self._whole or self._layered)

    def add(self, field: FilterField) -> None:
        if field.origin == "frame":
            self._whole.append((field.name, values_in_frame(field)))
        else:
            self._layered.append(field)

    def of(self, frames: Sequence[Frame]) -> dict[str, FieldRows]:
        result = {name: _field_rows(frames, read) for name, read in self._whole}
        gathered, rows = _gathered(frames)
        for field in self._layered:
            sources = [source for source in field.sources if source.format in gathered]
            if len(sources) == 1:
                indices, values = _read(field, sources[0], gathered[sources[0].format])
            elif sources:
                indices, values = _merged([_read(field, each, gathered[each.format]) for each in sources])
            else:
                continue
            result[field.name] = FieldRows([rows[position] for position in indices], values)
        return result


def _known(name: str) -> FilterField:
    field = find(name)
    if field is None:
        raise SpecError(where="fields", needed="the name of a field", got=repr(name))
    return field


def _field_rows(items: Sequence[Any], read: Callable[[Any], Sequence[Any]]) -> FieldRows:
    results = [(row, value) for row, item in enumerate(items) for value in read(item)]
    return FieldRows([row for row, _ in results], [value for _, value in results])


def _gathered(frames: Sequence[Frame]) -> tuple[Mapping[type[Layer], _Gathered], list[int]]:
    """Return the layers of each format, and the frame index of every layer."""
    gathered: dict[type[Layer], _Gathered] = {}
    rows: list[int] = []
    for row, frame in enumerate(frames):
        for layer in frame.layers:
            cls = type(layer)
            if cls not in gathered:
                gathered[cls] = _Gathered([], [])
            indices, layers = gathered[cls]
            indices.append(len(rows))
            layers.append(layer)
            rows.append(row)
    return gathered, rows


def _read(field: FilterField, source: FieldSource, gathered: _Gathered) -> tuple[list[int], list[Any]]:
    """Return the values of ``field`` from one source, and the layer index of each value."""
    if source.part == "whole" and field.kind != "octets":
        return gathered.indices, list(map(attrgetter(source.key), gathered.layers))
    parts = list(map(part_of(source), gathered.layers))
    indices = [position for position, part in zip(gathered.indices, parts, strict=True) for _ in part]
    return indices, list(chain.from_iterable(parts))


def _merged(read: Sequence[tuple[list[int], list[Any]]]) -> tuple[list[int], list[Any]]:
    """Return the values of several sources, sorted by layer index and then by source."""
    entries: Iterator[tuple[int, Any]] = chain.from_iterable(
        zip(indices, values, strict=True) for indices, values in read
    )
    ordered = sorted(entries, key=_index)
    return [position for position, _ in ordered], [value for _, value in ordered]


def _index(entry: tuple[int, Any]) -> int:
    return entry[0]


NAMES = every_name()
"""Names of all fields of a frame."""
INNER_NAMES = tuple(
    f"encapsulated.{name}"
    for name in NAMES
    if name in ("frame.protocols", "frame.error") or not name.startswith("frame.")
)
"""Names of all fields of a frame inside a message."""
ETHERNET_ONLY = (Interface(index=0, linktype=ETHERNET),)


def column_differences(
    columns: Columns, values: FieldValues, records: Sequence[Record]
) -> Iterator[Difference]:
    """Yield the fields that differ between ``columns`` of a batch and ``values`` of its records.

    Every field of ``values`` is compared. A field that no frame has must be empty in the columns too.
    """
    expected = values.of(records)
    for name in values.names:
        column, right = columns[name], expected.get(name, NOWHERE)
        got = FieldRows(column.rows.tolist(), list(column.python_values()))
        if got != right:
            yield _difference(name, _by_row(got), _by_row(right), records)


def _difference(
    name: str, got: dict[int, list[Any]], right: dict[int, list[Any]], records: Sequence[Record]
) -> Difference:
    """Return the difference at the first differing frame, or at row −1 if only the order differs."""
    row = min((row for row in got.keys() | right.keys() if got.get(row) != right.get(row)), default=-1)
    present = records[row].octets.hex() if 0 <= row < len(records) else "no frame"
    return Difference(
        what=name, detail=f"{got.get(row, [])}, not {right.get(row, [])}, in {present}", row=row
    )


def _by_row(listed: FieldRows) -> dict[int, list[Any]]:
    result: dict[int, list[Any]] = {}
    for row, value in zip(*listed, strict=True):
        result.setdefault(row, []).append(value)
    return result


def _records(items: Sequence[bytes]) -> Iterator[Record]:
    """Yield the items as frames of a capture in which all times are 0."""
    rows = enumerate(zip(items, frames_of(items), strict=True), 1)
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
    """Check that columns of a batch contain the decoded values of every field."""

    name = "columns"
    every = 1

    def __init__(self) -> None:
        self._values = FieldValues(NAMES + INNER_NAMES)

    def __reduce__(self) -> tuple[object, ...]:
        return ColumnCheck, ()

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the first frame that differs for each field."""
        batch = Batch.from_frames(items)
        columns = extract(batch, self._values.names, interfaces=ETHERNET_ONLY)
        yield from column_differences(columns, self._values, list(_records(items)))


class DocumentCheck:
    """Check that JSON restores the octets of a frame, and that the fields of the frame have no gaps."""

    name = "documents"
    every = 16

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield documents that do not restore the octets, and gaps between fields."""
        for row, (octets, frame) in enumerate(zip(items, frames_of(items), strict=True)):
            for what, detail in (*self._lost(octets, frame), *_field_gaps(frame)):
                yield Difference(what=what, detail=detail, row=row)

    def _lost(self, octets: bytes, frame: Frame) -> Iterator[tuple[str, str]]:
        document = json.loads(json.dumps(to_document(frame)))
        again, _ = from_document(document)
        if encode(again) != octets:
            yield "a document does not restore the octets", f"{encode(again).hex()} for {octets.hex()}"


def _field_gaps(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yield gaps between fields, and a gap after the last field."""
    at = 0
    for placed in frame.fields():
        if placed.span.bit_start != at:
            yield f"a gap before {placed.field.name}", f"bit {at} to {placed.span.bit_start}"
        at = placed.span.bit_stop
    if at != 8 * frame.boundaries()[-1]:
        yield "the fields do not reach the end", f"bit {at} of octet {frame.boundaries()[-1]}"


_NAMES = tuple(name for name in NAMES + INNER_NAMES if name.rpartition(".")[2] != "error")
FORMS: dict[str, Callable[[], Listing]] = {
    "lines": Lines, "ndjson": NdJson, "every field": lambda: Csv(_NAMES),
}  # fmt: skip


class TextCheck:
    """Check that the text of a batch equals the text of its single frames, in all text formats."""

    name = "text"
    every = 64

    def __init__(self) -> None:
        # the forms and their caches are reused for all batches
        self._forms = {name: make() for name, make in FORMS.items()}

    def __reduce__(self) -> tuple[object, ...]:
        return TextCheck, ()

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the first frame that differs in each text format."""
        batch = Batch.from_frames(items)
        for name, form in self._forms.items():
            texts = form.batch(batch, ETHERNET_ONLY)
            at_once = b"".join(map(bytes, texts)).split(b"\n")
            fresh = FORMS[name]()
            each = records(batch, ETHERNET_ONLY, commented=fresh.commented)
            one_by_one = "".join(map(fresh.record, each)).encode("utf-8", errors="replace").split(b"\n")
            for row, (got, expected) in enumerate(zip_longest(at_once, one_by_one, fillvalue=b"")):
                if got != expected:
                    yield Difference(what=name, detail=f"{got!r}, not {expected!r}", row=row)
                    break
