"""What tests ask of the frames of a batch: values of fields, octets of layers, which layers there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.columns.column import Column, Stretches, Texts, Values
from ecmproto.columns.extraction import SHARED_FRAMES, extract
from ecmproto.columns.framing import SHOWN_AS, frames_of, sampled_frames
from ecmproto.columns.layers import LayersFound, find_layers
from ecmproto.filter.fields import INNER, Field
from ecmproto.formats.ethertypes import EtherTypes

_PROTOCOLS = "frame.protocols"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed:
    """Values, and the row of the frame that each is of; rows ascend."""

    rows: NDArray[np.int32]
    values: Values

    def select(self, picks: Any) -> Listed:
        """Return those at positions, or of a slice."""
        values = self.values
        picked = values[picks] if isinstance(values, np.ndarray) else values.select(picks)
        return Listed(rows=self.rows[picks], values=picked)


class Scope:
    """The frames of a batch, seen through fields; what was asked for once is kept."""

    def __init__(
        self,
        batch: Batch,
        interfaces: Sequence[Interface],
        ethertypes: EtherTypes,
        pool: ThreadPoolExecutor | None,
    ) -> None:
        self._batch = batch
        self._interfaces = interfaces
        self._ethertypes = ethertypes
        self._pool = pool
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._batch)

    def narrowed(self, rows: NDArray[np.intp]) -> Scope:
        """Return the frames at ``rows`` only."""
        return Scope(self._batch.select(rows), self._interfaces, self._ethertypes, self._pool)

    def prepare(self, fields: Iterable[Field]) -> None:
        """Find the values of ``fields``, and where a layer is, in one walk over the frames."""
        names = {_column(field) for field in fields} - {""} - self._columns.keys()
        if names:
            self._columns |= extract(
                self._batch,
                sorted(names),
                interfaces=self._interfaces,
                ethertypes=self._ethertypes,
                pool=self._pool,
            )

    def present(self, field: Field) -> NDArray[np.bool_]:
        """Return for each frame whether it has a field or layer."""
        if field.kind != "layer":
            return self._column(field).present
        if field.origin == "record":
            return np.ones(len(self), np.bool_)
        paths = self._column(field)
        if field.origin == "frame":
            return paths.present
        assert isinstance(paths.values, Texts)
        names = {cls.prefix for cls in field.formats}
        has = np.array([not names.isdisjoint(word.split(":")) for word in paths.values.words], np.bool_)
        mask = np.zeros(len(self), np.bool_)
        mask[paths.rows] = has[paths.values.codes]
        return mask

    def values(self, field: Field) -> Listed:
        """Return the values of a field; of a layer, its own octets."""
        if field.kind == "layer":
            return self._whole() if field.origin == "record" else self._layers(field, to_end=False)
        column = self._column(field)
        return Listed(rows=column.rows, values=column.values)

    def octets_from(self, field: Field) -> Listed:
        """Return the octets from the first of a layer to the end of the frame's last layer."""
        return self._whole() if field.origin == "record" else self._layers(field, to_end=True)

    def _column(self, field: Field) -> Column:
        self.prepare([field])
        return self._columns[_column(field)]

    def _whole(self) -> Listed:
        batch = self._batch
        return Listed(
            rows=np.arange(len(batch), dtype=np.int32),
            values=Stretches(buffer=batch.buffer, start=batch.offset, octets=batch.captured),
        )

    def _layers(self, field: Field, *, to_end: bool) -> Listed:
        frame_of, found = self._found(field)
        if frame_of is not None and field.origin == "frame":
            start = found.frames.offset
            shown = Stretches(buffer=found.frames.buffer, start=start, octets=found.ends.tail - start)
            return Listed(rows=frame_of, values=shown)
        entries = [found.entries[cls] for cls in field.formats if cls in found.entries]
        none = np.empty(0, np.int64)
        inside = np.concatenate([none, *(each.row for each in entries)]).astype(np.int32)
        start = np.concatenate([none, *(each.start for each in entries)])
        own = np.concatenate([none, *(each.octets for each in entries)])
        octets = found.ends.tail[inside] - start if to_end else own
        rows = inside if frame_of is None else frame_of[inside]
        ascending = np.argsort(rows, kind="stable")
        values = Stretches(buffer=found.frames.buffer, start=start, octets=octets)
        return Listed(rows=rows, values=values).select(ascending)

    def _found(self, field: Field) -> tuple[NDArray[np.int32] | None, LayersFound]:
        """Return the layers of a field, of frames or of those that they show: which are shown by which."""
        pool = self._pool if len(self) >= SHARED_FRAMES else None
        outer = SHOWN_AS if field.inner else field.formats
        found = find_layers(frames_of(self._batch, self._interfaces), outer, self._ethertypes, pool)
        if not field.inner:
            return None, found
        rows, frames = sampled_frames(found)
        return rows, find_layers(frames, field.formats, self._ethertypes, pool)


def _column(field: Field) -> str:
    """Return the name of the column that shows a field, or that a layer is there; none where all have it."""
    if field.kind != "layer":
        return field.name
    if field.origin == "record":
        return ""
    return f"{INNER}.{_PROTOCOLS}" if field.inner else _PROTOCOLS
