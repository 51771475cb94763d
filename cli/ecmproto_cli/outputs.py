"""Outputs on the command line: which form a file gets, and whether it can be written, before the work."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePath

import click

_CAPTURES = {".pcap": "pcap", ".cap": "pcap", ".pcapng": "pcapng", ".ntar": "pcapng"}
_COLUMNS = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
_TEXTS = {
    ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".csv": "csv", ".tsv": "fields", ".hex": "hex",
    ".py": "python", ".toml": "toml",
}  # fmt: skip
_SUFFIXES = _CAPTURES | _COLUMNS | _TEXTS
_ANY_TEXT = ".txt"

BINARY = frozenset({*_CAPTURES.values(), *_COLUMNS.values()})
"""Forms that are no text for a terminal."""


def output_form(output: str | None, asked: str | None, forms: Collection[str], *, text: str) -> str | None:
    """Return the form that -T asks for, else that which the name of ``output`` says, .gz and .zst aside.

    None where neither does; ``text`` is what .txt holds unless -T asks.  UsageError where both say something
    else, and for the name of a form that is none of ``forms``.
    """
    suffix = _suffix(output)
    named = _SUFFIXES.get(suffix)
    if suffix == _ANY_TEXT:
        named = text if asked is None or asked in BINARY else asked
    if named is not None and asked is not None and named != asked:
        raise click.UsageError(
            f"{output}: its name says {named}, -T says {asked}: needed a name and a form that agree"
        )
    if named is not None and named not in forms:
        names = ", ".join(name for name, form in _SUFFIXES.items() if form in forms)
        raise click.UsageError(f"{output}: needed a name that ends in {names}, got one of {named}")
    return asked or named


def _suffix(output: str | None) -> str:
    suffixes = [suffix for suffix in PurePath(output or "").suffixes if suffix not in (".gz", ".zst")]
    return suffixes[-1].lower() if suffixes else ""


def check_outputs(outputs: Iterable[str | None], *, force: bool) -> None:
    """Refuse outputs that cannot be written before the work begins, and two that are one file.

    UsageError and OutputError; stdout, given as ``-``, can take one output.
    """
    from ecmproto.capture.sink import check_sink

    paths = [path for path in outputs if path is not None]
    for path in _twice(paths):
        raise click.UsageError(f"{path}: needed a file for each output, got one for two of them")
    for path in paths:
        check_sink(path, force=force)


def _twice(paths: list[str]) -> Iterator[str]:
    places: set[str] = set()
    for path in paths:
        place = path if path == "-" else os.path.realpath(path)
        if os.path.exists(place) and not os.path.isfile(place):  # a device takes what comes
            continue
        if place in places:
            yield path
        places.add(place)
