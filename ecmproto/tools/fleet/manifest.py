"""The manifest of a fleet: a line of JSON for each capture, what came of it and where that is.

The first line says what was asked for; the others are in the order of the captures' names.
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
"""Read to its end; read as far as it goes; not at all; not, because it ended two workers that tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestLine:
    """What came of one capture."""

    path: str
    name: str
    """What its results are called."""
    size_octets: int
    modified_ns: int
    digest: str | None
    """SHA-256 of the file as it stands; of a capture in parts that of their digests, behind ``parts:``."""
    parts: int
    outcome: Outcome
    problem: str | None
    """What kept it from being read to its end."""
    frames: int
    selected: int
    """Frames that the filter selects; without one all."""
    first_ns: int | None
    """The earliest time of a frame, as ``last_ns`` is the latest."""
    last_ns: int | None
    partition: Mapping[str, str | None]
    """What its name says by a pattern, and its day."""
    outputs: tuple[str, ...]
    """The files that hold its results, below the folder of the fleet."""
    findings: Mapping[str, tuple[int, int]] | None
    """Of `check`: how often each rule looked, and found something wrong."""
    warnings: tuple[str, ...]
    seconds: float
    """How long its parts took, all together."""

    def as_text(self) -> str:
        """Return the line."""
        return json_text(dataclasses.asdict(self)) + "\n"


class _Head(TypedDict):
    schema: str
    base: str
    asked: Mapping[str, Any]


def line_of(document: Mapping[str, Any], where: str = FILE) -> ManifestLine:
    """Return the line that a document of JSON is; SpecError for any other."""
    given = dict(checked(document, ManifestLine, where))
    for name in ("outputs", "warnings"):
        given[name] = tuple(given[name])
    if given["findings"] is not None:
        given["findings"] = {rule: (looked, wrong) for rule, (looked, wrong) in given["findings"].items()}
    return ManifestLine(**given)


def write_manifest(folder: Path, base: str, asked: Mapping[str, Any], lines: Iterable[ManifestLine]) -> None:
    """Write the manifest, in place of the one that is there."""
    with open_sink(folder / FILE, force=True, whole=True) as sink:
        head = {"schema": SCHEMA, "base": base, "asked": asked}
        sink.write(json_text(head) + "\n")
        for line in lines:
            sink.write(line.as_text())


def read_manifest(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], Iterator[ManifestLine]]:
    """Return what a fleet was asked for (``base``, ``asked``), and its captures one by one.

    SpecError for what is no manifest.
    """
    path = path_below(Path(folder), FILE)
    documents = _documents(path)
    _, head = next(documents, (None, {}))
    if head.get("schema") != SCHEMA:
        raise SpecError(where=str(path), needed=f"schema {SCHEMA!r}", got=shown(head.get("schema")))
    lines = (line_of(document, where) for where, document in documents)
    return checked(head, _Head, f"{path}, line 1"), lines


def _documents(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of a manifest, each with its place."""
    with path.open("rb") as file:
        for number, text in enumerate(lines_of(file, str(path)), 1):
            where = f"{path}, line {number}"
            yield where, table_of(text, where)
