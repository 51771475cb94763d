"""The manifest of a fleet: a line of JSON for each capture, what came of it and where that is.

The first line says what was asked for; the others are in the order of the captures' names.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ecmproto.capture import open_sink
from ecmproto.errors import SpecError, shown

SCHEMA = "ecmproto/fleet/1"
FILE = "manifest.ndjson"

Outcome: TypeAlias = Literal["done", "cut short", "unreadable", "set aside"]
"""Read to its end; read as far as it goes; not at all; not, because it ended two workers that tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
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
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False) + "\n"


def line_of(document: Mapping[str, Any]) -> Line:
    """Return the line that a document of JSON is."""
    given = dict(document)
    for name in ("outputs", "warnings"):
        given[name] = tuple(given[name])
    if given["findings"] is not None:
        given["findings"] = {rule: (looked, wrong) for rule, (looked, wrong) in given["findings"].items()}
    return Line(**given)


def write_manifest(folder: Path, base: str, asked: Mapping[str, Any], lines: Iterable[Line]) -> None:
    """Write the manifest, in place of the one that is there."""
    with open_sink(folder / FILE, force=True, whole=True) as sink:
        head = {"schema": SCHEMA, "base": base, "asked": asked}
        sink.write(json.dumps(head, ensure_ascii=False) + "\n")
        for line in lines:
            sink.write(line.as_text())


def read_manifest(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], Iterator[Line]]:
    """Return what a fleet was asked for (``base``, ``asked``), and its captures one by one.

    SpecError for what is no manifest.
    """
    path = Path(folder) / FILE
    lines = _documents(path)
    asked = next(lines, {})
    if asked.get("schema") != SCHEMA:
        raise SpecError(where=str(path), needed=f"schema {SCHEMA!r}", got=shown(asked.get("schema")))
    return asked, _lines(path, lines)


def _lines(path: Path, documents: Iterator[dict[str, Any]]) -> Iterator[Line]:
    for number, document in enumerate(documents, 2):
        try:
            yield line_of(document)
        except (KeyError, TypeError, ValueError) as error:
            got = f"{type(error).__name__}: {error}"
            raise SpecError(
                where=f"{path}, line {number}", needed="what came of a capture", got=got
            ) from None


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                document = json.loads(text)
            except ValueError as error:
                raise SpecError(where=f"{path}, line {number}", needed="JSON", got=str(error)) from None
            if not isinstance(document, dict):
                raise SpecError(where=f"{path}, line {number}", needed="a table", got=type(document).__name__)
            yield document
