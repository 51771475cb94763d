"""The manifest of a fleet, with a JSON line for the outcome and the results of each capture.

The first line contains the request. The other lines are sorted by the names of the captures.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

from ecmproto.errors import SpecError, shown
from ecmproto.executors.checked import checked, lines_of, table_of
from ecmproto.frames.capture import open_sink
from ecmproto.paths import path_below
from ecmproto.wire.codec.document import json_text

SCHEMA = "ecmproto/fleet/1"
FILE = "manifest.ndjson"

Outcome: TypeAlias = Literal["done", "cut short", "unreadable", "set aside"]
"""Outcomes of a capture: read to its end, partly read, not readable, or skipped after two worker failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestLine:
    """The outcome of a capture."""

    path: str
    name: str
    """The name of the capture's results."""
    size_octets: int
    modified_ns: int
    digest: str | None
    """The SHA-256 digest of the file, or ``parts:`` and a digest of the digests of all parts."""
    parts: int
    outcome: Outcome
    problem: str | None
    """The error that ended the capture early."""
    frames: int
    selected: int
    """The number of frames that the filter selects, or of all frames without a filter."""
    first_ns: int | None
    """The earliest time of a frame; ``last_ns`` is the latest time."""
    last_ns: int | None
    partition: Mapping[str, str | None]
    """The values that a pattern extracts from the capture's name, and the day of the capture."""
    outputs: tuple[str, ...]
    """The files with the capture's results, relative to the fleet's folder."""
    findings: Mapping[str, tuple[int, int]] | None
    """For a check, the numbers of judgements and findings by rule."""
    warnings: tuple[str, ...]
    seconds: float
    """The total processing time of the capture's parts."""

    def as_text(self) -> str:
        """Return the line as text."""
        return json_text(dataclasses.asdict(self)) + "\n"


class _Head(TypedDict):
    schema: str
    base: str
    asked: Mapping[str, Any]


def line_of(document: Mapping[str, Any], where: str = FILE) -> ManifestLine:
    """Return the manifest line in a JSON document. Raises SpecError for any other document."""
    given = dict(checked(document, ManifestLine, where))
    for name in ("outputs", "warnings"):
        given[name] = tuple(given[name])
    if given["findings"] is not None:
        given["findings"] = {rule: (judged, wrong) for rule, (judged, wrong) in given["findings"].items()}
    return ManifestLine(**given)


def write_manifest(
    folder: Path, base: str, request: Mapping[str, Any], lines: Iterable[ManifestLine]
) -> None:
    """Write the manifest, and replace an existing manifest."""
    with open_sink(folder / FILE, force=True, whole=True) as sink:
        head = {"schema": SCHEMA, "base": base, "asked": request}
        sink.write(json_text(head) + "\n")
        for line in lines:
            sink.write(line.as_text())


def read_manifest(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], Iterator[ManifestLine]]:
    """Return the request (``base`` and ``asked``) and the lines of a manifest.

    Raises SpecError for an invalid manifest.
    """
    path = path_below(Path(folder), FILE)
    documents = _documents(path)
    _, head = next(documents, (None, {}))
    if head.get("schema") != SCHEMA:
        raise SpecError(where=str(path), needed=f"schema {SCHEMA!r}", got=shown(head.get("schema")))
    lines = (line_of(document, where) for where, document in documents)
    return checked(head, _Head, f"{path}, line 1"), lines


def _documents(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as file:
        for number, text in enumerate(lines_of(file, str(path)), 1):
            where = f"{path}, line {number}"
            yield where, table_of(text, where)
