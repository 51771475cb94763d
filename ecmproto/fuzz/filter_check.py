"""Filters of any text: `FilterError` alone, and the same frames selected one by one and by columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ecmproto.capture import Batch
from ecmproto.columns.selection import selected
from ecmproto.dissect.record import records
from ecmproto.errors import FilterError
from ecmproto.filter import compile_filter
from ecmproto.fuzz.column_check import ETHERNET_ONLY
from ecmproto.fuzz.difference import Difference


class FilterCheck:
    """Compiles each item as a display filter, and lets it select from ``frames`` both ways."""

    name = "filters"
    every = 1

    def __init__(self, frames: Sequence[bytes]) -> None:
        self._frames = tuple(frames)
        self._batch = Batch.from_frames(frames)
        self._records = list(records(self._batch, ETHERNET_ONLY))

    def __reduce__(self) -> tuple[object, ...]:
        return FilterCheck, (self._frames,)

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the filters that select different frames, or say nothing of what is wrong."""
        for row, octets in enumerate(items):
            text = octets.decode("utf-8", errors="surrogateescape")
            try:
                filter = compile_filter(text)
            except FilterError as error:
                # what is missing at the end stands one character behind it
                if not 0 <= error.start <= error.stop <= len(text) + 1 or not str(error):
                    detail = f"{error.start} to {error.stop} of {text!r}"
                    yield Difference(what="an error outside the filter", detail=detail, row=row)
                continue
            one_by_one = [bool(filter.matches(record)) for record in self._records]
            by_columns = selected(self._batch, filter, interfaces=ETHERNET_ONLY).tolist()
            if one_by_one != by_columns:
                pairs = enumerate(zip(by_columns, one_by_one, strict=True))
                frame = next(frame for frame, (got, wanted) in pairs if got != wanted)
                detail = f"{text!r}: frame {frame + 1} {by_columns[frame]}, not {one_by_one[frame]}"
                yield Difference(what="columns select other frames", detail=detail, row=row)
