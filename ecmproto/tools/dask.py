"""Captures as a Dask DataFrame. The partitions have known divisions by time, and are read by the workers.

>>> import ecmproto.tools.dask
>>> frames = ecmproto.tools.dask.read_captures("/captures", ["frame.len", "cnm.qntz_fb"], filter="cnm")
>>> frames["cnm.qntz_fb"].mean().compute()

This module requires the extra ``dataframe``, which installs Dask's DataFrame. With the extra ``cluster``, a
`distributed.Client` distributes the work to other computers.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import MissingDependencyError, ParameterError
from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.parts import Extent, Part, Reached, linked, open_part, split_capture
from ecmproto.frames.columns.arrow import Addresses, Repeated, record_batch_of, schema_of
from ecmproto.frames.columns.column import fields_named
from ecmproto.frames.columns.extraction import extract
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.filter.fields import DISPLAYED
from ecmproto.tables import arrow
from ecmproto.tools.fleet.jobs import Count
from ecmproto.tools.fleet.names import captures_named
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

TIME = "time"
"""The name of the index."""
PART_OCTETS = 64_000_000
"""The size of a part of a capture, in octets."""
_END_NS = (1 << 63) - 1


def read_captures(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    fields: Iterable[str] | None = None,
    filter: str | None = None,
    *,
    repeated: Repeated = "first",
    addresses: Addresses = "text",
    part_octets: int = PART_OCTETS,
    ethertypes: EtherTypes = DEFAULT,
) -> Any:
    """Return captures as a Dask DataFrame in order of time, with the columns ``fields``.

    If ``fields`` is ``None``, all fields are columns. ``paths`` contains captures, folders, patterns and
    URLs. ``filter`` selects the frames. ``repeated`` and ``addresses`` are the same as in
    `columns.read_table`. ``frame.time_delta_displayed`` is not available, because this field requires reading
    all frames in order.

    The index is the time of each frame in UTC. If a frame has no time, or a time before an earlier frame of
    the capture, the index is the time of the previous frame.

    The divisions are known, because Dask first reads all captures once to count the frames and find their
    times. A partition is about ``part_octets`` of a capture. If captures overlap in time, a partition is a
    time span with the frames of all these captures. A part of a capture may then be read for a few
    partitions. A truncated capture is read up to the truncation.

    Raises MissingDependencyError without Dask's DataFrame, CaptureError for a file that is not a capture, and
    FilterError and ParameterError for invalid arguments.
    """
    dask, dataframe = _dask()
    names = tuple(
        field.name for field in fields_named(fields) if fields is not None or field.name != DISPLAYED
    )
    made = _Made(
        fields=names, filter=filter, repeated=repeated,
        addresses=addresses, ethertypes=ethertypes,
    )  # fmt: skip
    if DISPLAYED in (*made.fields, *(() if filter is None else compile_filter(filter).fields)):
        raise ParameterError(name="fields", needed=f"any but {DISPLAYED}", got=DISPLAYED)
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    captures = [
        split_capture(path, part_octets) for path in captures_named([os.fspath(path) for path in given])
    ]
    pieces = _pieces(captures, dask)
    spans = _spans(pieces)
    of = [
        [piece for piece in pieces if piece.first_ns < high and low <= piece.last_ns] for low, high in spans
    ]
    bounds = [low for low, _ in spans] + [max((piece.last_ns for piece in pieces), default=0)]
    return dataframe.from_map(
        made.partition,
        of,
        spans,
        meta=made.empty(),
        divisions=tuple(_index(np.array(bounds, np.int64))),
        label="read-captures",
        enforce_metadata=False,
    )


def _dask() -> tuple[Any, Any]:
    try:
        import dask
        import dask.dataframe
    except ImportError as error:
        raise MissingDependencyError(
            package="dask.dataframe", extra="dataframe", purpose="captures as a Dask DataFrame"
        ) from error
    return dask, dask.dataframe


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A part of a capture.

    ``first_ns`` and ``last_ns`` are the first and last times of the part in the index. ``before_ns`` is the
    last time in the index before the part.
    """

    part: Part
    before_ns: int
    first_ns: int
    last_ns: int


def _pieces(captures: Sequence[Sequence[Part]], dask: Any) -> list[_Piece]:
    """Return the parts with frames, in order of time."""
    reached: list[dict[Extent, tuple[Reached, int | None]]] = [{} for _ in captures]
    while True:
        links = [
            linked(parts, {key: each for key, (each, _) in result.items()})
            for parts, result in zip(captures, reached, strict=True)
        ]
        missing = [
            (result, part) for each, result in zip(links, reached, strict=True) for part in each.missing
        ]
        if not missing:
            break
        seen = dask.compute(*(dask.delayed(_looked_through)(part) for _, part in missing))
        for (result, part), each in zip(missing, seen, strict=True):
            result[part.place] = each
    pieces = []
    for each, result in zip(links, reached, strict=True):
        times = (end.first_ns for _, end in each.parts if end.first_ns is not None)
        latest_ns = next(times, 0)
        for part, end in each.parts:
            _, max_ns = result[part.place]
            before_ns = latest_ns
            latest_ns = before_ns if max_ns is None else max(before_ns, max_ns)
            if end.frames:
                first_ns = before_ns if end.first_ns is None else max(before_ns, end.first_ns)
                first_ns = first_ns if part.before == 0 else before_ns
                pieces.append(_Piece(part=part, before_ns=before_ns, first_ns=first_ns, last_ns=latest_ns))
    return sorted(pieces, key=lambda piece: piece.first_ns)


def _looked_through(part: Part) -> tuple[Reached, int | None]:
    """Read a part, and return the state at the end of the part and the latest time."""
    count = Count()
    with open_part(part) as reader:
        for batch in reader:
            count.add(batch)
        return reader.reached, count.last_ns


def _spans(pieces: Sequence[_Piece]) -> list[tuple[int, int]]:
    """Return time spans that start at the starts of pieces.

    If up to n pieces overlap, every n-th start begins a span. A piece therefore overlaps only a few spans,
    even if many captures cover the same time.
    """
    depth, open_until = 1, list[int]()
    for piece in pieces:
        open_until = [last_ns for last_ns in open_until if last_ns > piece.first_ns] + [piece.last_ns]
        depth = max(depth, len(open_until))
    bounds = sorted({piece.first_ns for piece in pieces})[::depth] or [0]
    return list(itertools.pairwise([*bounds, _END_NS]))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The options of all partitions."""

    fields: tuple[str, ...]
    filter: str | None
    repeated: Repeated
    addresses: Addresses
    ethertypes: EtherTypes

    def partition(
        self, pieces: Sequence[_Piece], span: tuple[int, int], *, columns: Sequence[str] | None = None
    ) -> Any:
        """Return the frames in a time span. ``columns`` selects fields, and ``None`` selects all fields."""
        pa = arrow()
        names = self.fields if columns is None else tuple(columns)
        compiled = None if self.filter is None else compile_filter(self.filter)
        schema = self._schema(names)
        tables, times = [schema.empty_table()], [np.empty(0, np.int64)]
        for piece in pieces:
            with open_part(piece.part) as reader:
                for batch, time_ns in _within(reader, piece.before_ns, span):
                    chosen = batch
                    if compiled is not None:
                        mask = selected(
                            batch, compiled, interfaces=reader.interfaces, ethertypes=self.ethertypes
                        )
                        chosen, time_ns = batch.select(mask), time_ns[mask]
                    result = extract(chosen, names, interfaces=reader.interfaces, ethertypes=self.ethertypes)
                    tables.append(pa.Table.from_batches([record_batch_of(result, schema)], schema))
                    times.append(time_ns)
        time_ns = np.concatenate(times)
        order = np.argsort(time_ns, kind="stable")
        return _as_frame(pa.concat_tables(tables).take(pa.array(order)), time_ns[order])

    def empty(self) -> Any:
        return _as_frame(self._schema(self.fields).empty_table(), np.empty(0, np.int64))

    def _schema(self, names: Sequence[str]) -> Any:
        return schema_of(names, repeated=self.repeated, addresses=self.addresses, ethertypes=self.ethertypes)


def _within(
    reader: Iterable[Batch], before_ns: int, span: tuple[int, int]
) -> Iterator[tuple[Batch, NDArray[np.int64]]]:
    """Yield the frames in a span of the index, with their times in the index."""
    low, high = span
    for batch in reader:
        times = batch.time_ns if batch.timed is None else np.where(batch.timed, batch.time_ns, before_ns)
        times = np.maximum.accumulate(np.maximum(times, before_ns))
        before_ns = int(times[-1]) if len(times) else before_ns
        first, last = np.searchsorted(times, [low, high]).tolist()
        if first < last:
            yield batch.select(np.arange(first, last)), times[first:last]
        if last < len(times):
            return


def _as_frame(table: Any, time_ns: NDArray[np.int64]) -> Any:
    """Return a pandas DataFrame with Arrow types, so that integers with missing values stay integers."""
    import pandas

    pa = arrow()
    text = [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    frame = table.cast(pa.schema(text)).to_pandas(types_mapper=pandas.ArrowDtype)
    frame.index = _index(time_ns)
    return frame


def _index(time_ns: NDArray[np.int64]) -> Any:
    import pandas

    return pandas.DatetimeIndex(time_ns.view("datetime64[ns]"), name=TIME)
