"""Curves over the time of a capture, drawn in characters: queue lengths in messages, feedback, and rates.

Each curve stores the minimum and the maximum in each time span. The number of spans does not depend on the
number of messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture import Batch
from ecmproto.frames.dissect import records
from ecmproto.frames.filter.evaluation import values_of
from ecmproto.frames.filter.fields import Constant, FilterField, find
from ecmproto.frames.filter.literals import constant_text
from ecmproto.tools.browse.background import Background
from ecmproto.tools.browse.matches import FrameSet, many
from ecmproto.tools.browse.pages import Pages
from ecmproto.units import QUEUE_UNIT_OCTETS, format_time
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.formats.registry import FORMATS

BINS = 512
_MAX_CURVES = 32
_Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """A message field with a curve for each congestion point. ``factor`` converts values into ``unit``."""

    title: str
    unit: str
    field: str
    cpid: str
    factor: int


def _measures() -> tuple[_Measure, ...]:
    """Return the queue fields of all message formats."""
    measures = []
    for cls in FORMATS:
        keys = {field.key for field in cls.layout}
        if cls.role != "message" or "cpid" not in keys:
            continue
        for key in ("q_offset", "q_off", "qntz_fb"):
            if key not in keys:
                continue
            label = cls.summary.label
            # The offset in a CNM has the opposite sign: an emptier queue has a greater offset.
            sign = -1 if key == "q_offset" else 1
            title = f"{label}: queue above Qeq" if key != "qntz_fb" else f"{label}: quantized feedback"
            unit, factor = ("", 1) if key == "qntz_fb" else ("octets", sign * QUEUE_UNIT_OCTETS)
            measures.append(
                _Measure(
                    title=title, unit=unit, field=f"{cls.prefix}.{key}", cpid=f"{cls.prefix}.cpid",
                    factor=factor,
                )
            )  # fmt: skip
    return tuple(measures)


class Curve:
    """The minimum and maximum in each of `BINS` time spans. Spans without values have infinite values."""

    def __init__(self, title: str, unit: str) -> None:
        self.title = title
        self.unit = unit
        self.values: int = 0
        self.low: _Floats = np.full(BINS, np.inf)
        self.high: _Floats = np.full(BINS, -np.inf)

    def add(self, bins: NDArray[np.int64], values: _Floats) -> None:
        """Add values. ``bins`` contains the index of the time span of each value."""
        np.minimum.at(self.low, bins, values)
        np.maximum.at(self.high, bins, values)
        self.values += len(values)


class Curves(Background):
    """The curves of all frames or some frames of a capture, calculated in a thread.

    ``curves`` are complete when ``done`` is set. The last curve is the rate of frames. The curves cover the
    time from ``begin_ns`` to ``end_ns``.
    """

    def __init__(self, pages: Pages, ethertypes: EtherTypes, *, within: FrameSet | None = None) -> None:
        super().__init__("curves")
        self.begin_ns: int = 0
        self.end_ns: int = 0
        self.curves: list[Curve] = []
        self.progress: float = 0.0
        self._pages = pages
        self._ethertypes = ethertypes
        self._within = within
        self._octets = np.zeros(BINS)
        self._results: dict[tuple[str, int], Curve] = {}

    def _work(self) -> None:
        pages = self._pages
        frames, count = pages.frames, pages.count
        if not frames:
            return
        times = [time for page in (0, count - 1) for batch in pages.page(page) for time in _times(batch)]
        if not times:
            return
        self.begin_ns, self.end_ns = min(times), max(times)
        columns = many(frames)
        step = 64 if columns else 1
        for page in range(0, count, step):
            for batch in pages.batches(page, min(page + step, count), compiled=columns):
                if self._stopping:
                    return
                self._add(batch, columns)
            self.progress = page / count
        seconds = max(1, self.end_ns - self.begin_ns) / BINS / 1e9
        rate = Curve("all frames: rate", "bit/s")
        rate.add(np.arange(BINS), self._octets * 8 / seconds)
        rate.values = frames
        self.curves = [*sorted(self._results.values(), key=lambda curve: -curve.values), rate]

    def _bins(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        span = max(1, self.end_ns - self.begin_ns)
        return np.clip((times - self.begin_ns).astype(np.float64) * BINS // span, 0, BINS - 1).astype(
            np.int64
        )

    def _add(self, batch: Batch, columns: bool) -> None:
        if self._within is not None:
            batch = batch.select(self._within.masked(batch.first, len(batch)))
        if batch.timed is not None:
            batch = batch.select(batch.timed)
        if not len(batch):
            return
        np.add.at(self._octets, self._bins(batch.time_ns), batch.original)
        for measure in _measures():
            rows, values, points = (self._columns if columns else self._one_by_one)(batch, measure)
            for cpid in dict.fromkeys(points.tolist()):
                curve = self._curve(measure, cpid)
                if curve is not None:
                    own = points == cpid
                    curve.add(self._bins(batch.time_ns[rows[own]]), values[own] * measure.factor)

    def _curve(self, measure: _Measure, cpid: int) -> Curve | None:
        key = measure.field, cpid
        if key not in self._results and len(self._results) < _MAX_CURVES:
            title = f"{measure.title}, CPID {constant_text(Constant(kind='cpid', value=cpid))}"
            self._results[key] = Curve(title, measure.unit)
        return self._results.get(key)

    def _columns(self, batch: Batch, measure: _Measure) -> _Points:
        from ecmproto.frames.columns import extract

        names = measure.field, measure.cpid
        columns = extract(batch, names, interfaces=self._pages.interfaces, ethertypes=self._ethertypes)
        values, points = (columns[name].outermost() for name in names)
        return values.rows, np.asarray(values).astype(np.float64), np.asarray(points).astype(np.uint64)

    def _one_by_one(self, batch: Batch, measure: _Measure) -> _Points:
        value, point = (values_of(_field(name)) for name in (measure.field, measure.cpid))
        each = records(batch, self._pages.interfaces, ethertypes=self._ethertypes)
        results = [
            (row, values[0], point(record)[0])
            for row, record in enumerate(each)
            if len(values := value(record))
        ]
        rows, values, points = zip(*results, strict=True) if results else ((), (), ())
        return np.array(rows, np.int32), np.array(values, np.float64), np.array(points, np.uint64)


_Points = tuple[NDArray[np.int32], _Floats, NDArray[np.uint64]]
"""The rows of frames with a value, the values, and the CPIDs."""


def _field(name: str) -> FilterField:
    field = find(name)
    assert field is not None, name
    return field


def _times(batch: Batch) -> list[int]:
    times: list[int] = (batch.time_ns if batch.timed is None else batch.time_ns[batch.timed]).tolist()
    return times


_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of Braille characters, by row and column."""
_AXIS_WIDTH = 12


def drawn(curve: Curve, width: int, height: int, span_ns: int) -> Sequence[str]:
    """Return a curve as bars from zero with axes, in at most ``height`` lines of ``width`` characters."""
    columns, rows = 2 * max(1, width - _AXIS_WIDTH), 4 * max(1, height - 2)
    low, high = _narrowed(curve, columns)
    present = np.isfinite(low)
    if not present.any():
        return [curve.title, "no value"]
    lowest, highest = min(0.0, float(low[present].min())), max(0.0, float(high[present].max()))
    scale = (rows - 1) / (highest - lowest or 1)
    grid = np.zeros((rows // 4, columns // 2), np.int64)

    def dot(row: int, column: int) -> None:
        grid[row // 4, column // 2] |= _DOTS[row % 4][column % 2]

    zero = round((highest - 0.0) * scale)
    for column in range(0, columns, 2):
        dot(zero, column)
    for column in np.flatnonzero(present).tolist():
        top = round((highest - max(0.0, high[column])) * scale)
        bottom = round((highest - min(0.0, low[column])) * scale)
        for row in range(top, bottom + 1):
            dot(row, column)
    labels = {rows // 4 - 1: lowest, 0: highest, zero // 4: 0.0}
    lines = [f"{curve.title} ({curve.values:,} values{', in ' + curve.unit if curve.unit else ''})"]
    for row, dots in enumerate(grid.tolist()):
        label = _short(labels[row]) if row in labels else ""
        lines.append(f"{label:>{_AXIS_WIDTH - 2}} ┤" + "".join(chr(0x2800 + each) for each in dots))
    end = format_time(span_ns)
    lines.append(" " * _AXIS_WIDTH + "0" + end.rjust(columns // 2 - 1))
    return lines


def _narrowed(curve: Curve, columns: int) -> tuple[_Floats, _Floats]:
    """Return the minimum and maximum in each of ``columns`` columns.

    Columns without values have infinite values.
    """
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    column_of = np.arange(BINS) * columns // BINS
    np.minimum.at(low, column_of, curve.low)
    np.maximum.at(high, column_of, curve.high)
    return low, high


def _short(value: float) -> str:
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"
