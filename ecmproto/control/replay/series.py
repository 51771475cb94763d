"""Time series of a replay: samples and messages, reduced for plots, and written as CSV or Parquet."""

from __future__ import annotations

import csv
import importlib.util
import io
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePath
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.statistics import kind_name
from ecmproto.control.mechanisms.api.machine import Machine
from ecmproto.control.mechanisms.api.protocol import PAUSE_KIND, PFC_KIND, FlowControlPayload, payload_columns
from ecmproto.control.replay.summary import ReplaySummary
from ecmproto.errors import MissingDependencyError, OutputError
from ecmproto.frames.capture import open_sink
from ecmproto.frames.capture.writer import Sink

LARGEST_ROWS = 20_000

SAMPLE = np.dtype(
    [
        ("time_ns", np.int64),
        ("port", np.int64),
        ("flow", np.int64),
        ("priority", np.int64),
        ("kind", np.int64),
        ("sent", np.int64),
        ("qlen_octets", np.int64),
        ("fb_octets", np.float64),
        ("rate_kbps", np.int64),
        ("quanta", np.int64),
        ("enable_vector", np.int64),
    ]
)
"""Columns of samples.

``flow`` is the number of the flow, or −1 for a sample without a flow. ``rate_kbps`` is an advertised rate.
"""

SAME_NAMES = (
    "time_ns", "priority", "kind", "sent", "qlen_octets", "fb_octets", "rate_kbps",
)  # fmt: skip
"""Columns with equal names in samples and messages."""


def sample_rows(messages: NDArray[Any], port: NDArray[Any] | int, flow: NDArray[np.int64]) -> NDArray[Any]:
    """Return messages (`protocol.Message`) as rows with the columns of SAMPLE."""
    rows = np.zeros(len(messages), SAMPLE)
    for name in SAME_NAMES:
        rows[name] = messages[name]
    is_pause = np.isin(messages["kind"], (PAUSE_KIND, PFC_KIND))
    payloads = payload_columns(messages[is_pause], FlowControlPayload)
    rows["quanta"][is_pause], rows["enable_vector"][is_pause] = payloads["quanta"], payloads["enable_vector"]
    rows["port"], rows["flow"] = port, flow
    return rows


def to_flows(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the mask of rows with messages of the mechanism to a flow; flow control is excluded."""
    messages: NDArray[np.bool_] = (rows["sent"] == 1) & (rows["flow"] >= 0) & (rows["kind"] < PAUSE_KIND)
    return messages


class Samples:
    """Rows of SAMPLE: the first row and every n-th row after it; n doubles when LARGEST_ROWS is reached.

    ``sent`` counts all messages of the mechanism to a flow, by flow number.
    """

    def __init__(self) -> None:
        self.sent: Counter[int] = Counter()
        self._samples = np.zeros(0, SAMPLE)
        self._stride = 1
        self._seen = 0

    def add(self, rows: NDArray[Any]) -> None:
        """Add the next rows of samples."""
        flow = rows["flow"][to_flows(rows)]
        for number, count in zip(*np.unique(flow, return_counts=True), strict=True):
            self.sent[int(number)] += int(count)
        start = -self._seen % self._stride
        self._seen += len(rows)
        self._samples = np.append(self._samples, rows[start :: self._stride])
        while len(self._samples) > LARGEST_ROWS:
            self._samples = self._samples[::2]
            self._stride *= 2

    @property
    def rows(self) -> NDArray[Any]:
        """Return the stored rows, in order."""
        return self._samples

    @property
    def stride(self) -> int:
        """Return the number n; one of n rows is stored."""
        return self._stride


_FORMATS = (".csv", ".parquet")


def check_series_path(path: str) -> None:
    """Raise OutputError unless the suffix of ``path`` is a known format.

    Raises MissingDependencyError for Parquet without pyarrow.
    """
    if _format(path) not in _FORMATS:
        raise OutputError(path=path, needed=f"a name that ends in {' or '.join(_FORMATS)}", got="another")
    if _format(path) == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise MissingDependencyError(package="pyarrow", extra="arrow", purpose="writing Parquet")


def _format(path: str) -> str:
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes if suffix not in (".gz", ".zst")]
    return suffixes[-1] if suffixes else ""


def _opened(path: str, force: bool) -> Sink:
    return open_sink(path, force=force, whole=_format(path) != ".csv")


def _table(path: str, sink: Sink) -> _CSVTable | _ParquetTable:
    return _CSVTable(sink) if _format(path) == ".csv" else _ParquetTable(sink)


class _CSVTable:
    """A writer of comma-separated values with a header; NaN is written as an empty value."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._headed = False

    def write(self, columns: dict[str, NDArray[Any]]) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._headed:
            writer.writerow(columns)
            self._headed = True
        lists = [["" if each != each else each for each in column.tolist()] for column in columns.values()]
        writer.writerows(zip(*lists, strict=True))
        self._sink.write(text.getvalue())

    def finish(self) -> None:
        pass


class _ParquetTable:
    """A writer of Parquet, which uses pyarrow."""

    def __init__(self, sink: Sink) -> None:
        import pyarrow
        import pyarrow.parquet

        self._arrow: Any = pyarrow
        self._file = pyarrow.PythonFile(_Writable(sink), mode="w")
        self._writer: Any = None

    def write(self, columns: dict[str, NDArray[Any]]) -> None:
        table = self._arrow.table({name: self._arrow.array(column) for name, column in columns.items()})
        if self._writer is None:
            self._writer = self._arrow.parquet.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table)

    def finish(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _Writable:
    """A write-only file object that writes to a sink."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, octets: bytes) -> int:
        self._sink.write(bytes(octets))
        return len(octets)

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        self.closed = True


class SampleWriter:
    """A writer of every sample and message of one or more replays to ``path``.

    The file has the columns of `SAMPLE`, with ``kind`` as text. `write_flows` writes the label of each
    ``flow``. With ``by_variant``, the first column is ``variant``. The writer is a context manager; the file
    gets its final name after success. Raises OutputError if the file cannot be written, or for a name that
    ends in neither a CSV nor a Parquet suffix. Raises MissingDependencyError for Parquet without pyarrow.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, by_variant: bool = False, force: bool = False
    ) -> None:
        name = os.fspath(path)
        check_series_path(name)
        self._by_variant = by_variant
        self._sink = _opened(name, force)
        self._table = _table(name, self._sink)
        self._write(np.zeros(0, SAMPLE), None, "")

    def rows_of(self, machine: Machine, variant: str) -> Callable[[NDArray[Any]], None]:
        """Return a function that writes rows of the replay ``variant`` through ``machine``."""
        return lambda rows: self._write(rows, machine, variant)

    def _write(self, rows: NDArray[Any], machine: Machine | None, variant: str) -> None:
        columns = {name: rows[name] for name in SAMPLE.names or ()}
        names = [kind_name(machine, kind) for kind in rows["kind"].tolist()] if machine else []
        columns["kind"] = np.array(names, dtype=np.str_)
        self._table.write((_named(variant, len(rows)) if self._by_variant else {}) | columns)

    def __enter__(self) -> SampleWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._table.finish()
        self._sink.__exit__(kind, error, trace)


def _named(variant: str, rows: int) -> dict[str, NDArray[Any]]:
    """Return the column with the name of the replay for each row."""
    return {"variant": np.full(rows, variant, dtype=np.str_(variant).dtype)}


def write_flows(
    path: str | os.PathLike[str],
    summaries: Sequence[ReplaySummary],
    *,
    by_variant: bool = False,
    force: bool = False,
) -> None:
    """Write the rates of the flows of ``summaries`` to ``path``, with one row per flow and span of time.

    With ``by_variant``, the first column is ``variant``. Raises the same errors as SampleWriter.
    """
    name = os.fspath(path)
    check_series_path(name)
    with _opened(name, force) as sink:
        table = _table(name, sink)
        for summary in summaries:
            columns = _flow_columns(summary)
            named = _named(summary.variant, len(columns["flow"])) if by_variant else {}
            table.write(named | columns)
        table.finish()


def _flow_columns(summary: ReplaySummary) -> dict[str, NDArray[Any]]:
    flows = summary.flows
    bins = len(flows[0].passed_bps) if flows else 0

    def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(parts) if parts else np.zeros(0)

    return {
        "time_ns": np.tile(np.arange(bins) * summary.flow_span_ns, len(flows)),
        "span_ns": np.full(bins * len(flows), summary.flow_span_ns),
        "flow": np.repeat(np.array([flow.number for flow in flows], dtype=np.int64), bins),
        "label": np.repeat(np.array([flow.label for flow in flows], dtype=np.str_), bins),
        "offered_bps": joined([flow.offered_bps for flow in flows]),
        "sent_bps": joined([flow.sent_bps for flow in flows]),
        "passed_bps": joined([flow.passed_bps for flow in flows]),
        "limit_bps": joined([flow.limit_bps for flow in flows]),
        "rtt_average_ns": joined([flow.rtt_average_ns for flow in flows]),
    }
