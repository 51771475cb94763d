"""Output of the commands: output formats, checks of output files, buffered text on stdout, and tables."""

from __future__ import annotations

import codecs
import os
import select
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ecmproto import tables
from ecmproto.paths import suffix_of
from ecmproto_cli.progress import work
from ecmproto_cli.terminal import paint, terminal_width, visible

if TYPE_CHECKING:
    from ecmproto.frames.capture import Sink

_CAPTURES = {".pcap": "pcap", ".cap": "pcap", ".pcapng": "pcapng", ".ntar": "pcapng"}
_COLUMNS = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
_TEXTS = {
    ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".csv": "csv", ".tsv": "fields", ".hex": "hex",
    ".py": "python", ".toml": "toml",
}  # fmt: skip
_SUFFIXES = _CAPTURES | _COLUMNS | _TEXTS
_ANY_TEXT = ".txt"

BINARY = frozenset({*_CAPTURES.values(), *_COLUMNS.values()})
"""Binary output formats, which cannot be printed on a terminal."""


def output_form(
    output: str | None, requested: str | None, forms: Collection[str], *, text: str
) -> str | None:
    """Return the output format from -T, or from the suffix of ``output`` without .gz and .zst.

    Returns None if neither is given. ``text`` is the format for .txt files without -T. Raises UsageError if
    -T and the suffix contradict each other, or if the format of the suffix is not in ``forms``.
    """
    suffix = suffix_of(output or "")
    named = _SUFFIXES.get(suffix)
    if suffix == _ANY_TEXT:
        named = text if requested is None or requested in BINARY else requested
    if named is not None and requested is not None and named != requested:
        raise click.UsageError(
            f"{output}: expected a suffix and a -T that agree, got {named} and {requested}"
        )
    if named is not None and named not in forms:
        names = ", ".join(name for name, form in _SUFFIXES.items() if form in forms)
        raise click.UsageError(f"{output}: expected a name that ends in {names}, got one of {named}")
    return requested or named


def check_outputs(outputs: Iterable[str | None], *, reports: Iterable[str] = (), force: bool) -> None:
    """Raise an error if an output cannot be written, or if two outputs are the same file.

    Raises UsageError if a path, or ``-`` for stdout, occurs twice. Raises OutputError if a file cannot be
    written, or if the suffix of a file in ``reports`` is not supported.
    """
    from ecmproto.frames.capture.writer import check_sink

    for path in reports:
        from ecmproto.tools.report.html import report_form

        report_form(path)
    paths = [path for path in (*outputs, *reports) if path is not None]
    for path in _twice(paths):
        raise click.UsageError(f"{path}: expected a different file for each output, got the same twice")
    for path in paths:
        check_sink(path, force=force)


def _twice(paths: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for path in paths:
        target = path if path == "-" else os.path.realpath(path)
        if os.path.exists(target) and not os.path.isfile(target):  # a device accepts all output
            continue
        if target in seen:
            yield path
        seen.add(target)


_PIECE_CHARACTERS = 1 << 16


class Stdout:
    """A buffer for text on stdout, which is written when the buffer is full or flushed.

    ``encoding`` is by default the encoding of stdout. Characters that cannot be encoded become ``?``. If a
    ``sink`` is given, the text is written to the sink without escaping.
    """

    def __init__(self, encoding: str = "", sink: Sink | None = None) -> None:
        self._sink = sink
        self._is_seen = sink is None and sys.stdout.isatty()
        self._encoding = encoding or sys.stdout.encoding
        self._is_utf8 = codecs.lookup(self._encoding).name == "utf-8"
        self._parts: list[str] = []
        self._characters = 0

    def write(self, text: str) -> None:
        """Append ``text`` to the buffer, and flush a full buffer."""
        self._parts.append(text)
        self._characters += len(text)
        if self._characters >= _PIECE_CHARACTERS:
            self.flush()

    def write_octets(self, octets: bytes | memoryview) -> None:
        """Write text that is encoded in UTF-8; octets are written immediately if the output is UTF-8 too."""
        if self._is_utf8:
            self.flush()
            self._put(memoryview(octets))
        else:
            self.write(str(octets, "utf-8"))

    def flush(self) -> None:
        """Write the buffered text."""
        text = "".join(self._parts)
        self._parts.clear()
        self._characters = 0
        seen = visible(text) if self._sink is None else text
        self._put(memoryview(seen.encode(self._encoding, errors="replace")))

    def _put(self, octets: memoryview) -> None:
        if self._sink is None:
            if octets and self._is_seen:
                work.end()
            _write(octets)
        else:
            self._sink.write(octets)


def _write(left: memoryview) -> None:
    sys.stdout.flush()
    # The buffered writer of Python 3.11 loses octets if a signal arrives during a write.
    raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    while left:
        written = raw.write(left)
        if written is None:  # a non-blocking descriptor
            select.select([], [raw], [])
        else:
            left = left[written:]


def pairs(rows: Sequence[tuple[str, str]], *, width: int = 0, even: bool = False) -> str:
    """Return names and values as a table from `ecmproto.tables.pairs`, with colours if enabled."""
    return tables.pairs(rows, width=width, even=even, paint=paint)


def columns_of(rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a table in the width of the terminal, with colours if enabled."""
    return tables.columns_of(rows, width=terminal_width(), paint=paint)
