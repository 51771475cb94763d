"""Completion of display filters while they are typed: names of fields and layers, operators, named values."""

from __future__ import annotations

import dataclasses
import functools
import re

from ecmproto.filter.fields import INNER, FilterField, find, known
from ecmproto.formats.registry import catalogue

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*$")
_FIELD_BEHIND = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(\[[^\]]*\])?\s+$")
_RELATION_BEHIND = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)\s*(?:[=!<>]=?=?|eq|ne|gt|ge|lt|le)\s*$")
_JOINS = ("and", "or")
_OPENING = ("not", "all")
_RELATIONS = ("==", "!=", ">", ">=", "<", "<=", "in {", "contains", "matches")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text that may stand where the cursor is, and what it means."""

    text: str
    meaning: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What may stand at a place: ``candidates`` replace the characters from ``start`` to the cursor."""

    start: int
    candidates: tuple[Candidate, ...]


def complete(text: str, cursor: int) -> Completion:
    """Return what may stand at the cursor of a filter that is being typed, the nearest first."""
    before = text[:cursor]
    word = _WORD.search(before)
    start = word.start() if word else cursor
    typed, front = before[start:], before[:start]
    compared = _RELATION_BEHIND.search(front)
    if compared:
        field = find(compared[1])
        return Completion(start=start, candidates=_values(field, typed) if field else ())
    behind = _FIELD_BEHIND.search(front)
    if behind and find(behind[1]) is not None:
        words = _JOINS if find(behind[1]).kind == "layer" else (*_RELATIONS, *_JOINS)  # type: ignore[union-attr]
        return Completion(start=start, candidates=_starting(words, typed))
    if front.rstrip().endswith((")", "}", '"')) or re.search(r"[0-9]\s+$", front):
        return Completion(start=start, candidates=_starting(_JOINS, typed))
    return Completion(start=start, candidates=_names(typed) if typed else ())


def _starting(words: tuple[str, ...], typed: str) -> tuple[Candidate, ...]:
    return tuple(Candidate(text=word) for word in words if word.startswith(typed))


def _values(field: FilterField, typed: str) -> tuple[Candidate, ...]:
    """Return the names that values of a field have."""
    found = [(name, str(value)) for value, name in field.names.items()]
    return tuple(
        Candidate(text=name if name.isidentifier() else f'"{name}"', meaning=value)
        for name, value in found
        if name.lower().startswith(typed.lower())
    )


def _names(typed: str) -> tuple[Candidate, ...]:
    """Return the names that begin so, then those of which a part does; a layer before its fields."""
    prefix = f"{INNER}." if typed.startswith(f"{INNER}.") else ""
    wanted = typed.removeprefix(prefix).lower()
    meanings = _meanings()
    names = [name for name in known() if find(prefix + name) is not None]
    begin = [name for name in names if name.startswith(wanted)]
    if "." not in wanted:
        # fields come once a layer is chosen
        begin = [name for name in begin if "." not in name or name.partition(".")[0] == wanted]
    inside = [name for name in names if f".{wanted}" in name and name not in begin] if wanted else []
    opening = [Candidate(text=word) for word in _OPENING if word.startswith(wanted) and not prefix]
    return (
        *(Candidate(text=prefix + name, meaning=meanings.get(name, "")) for name in (*begin, *inside)),
        *opening,
    )


@functools.cache
def _meanings() -> dict[str, str]:
    """Return what fields and layers mean, by name."""
    told = dict.fromkeys(known(), "")
    for name, field in known().items():
        if field.kind == "layer" and field.formats:
            told[name] = field.formats[0].title
    for entry in catalogue():
        told[entry.name] = entry.doc + (f" [{entry.unit}]" if entry.unit else "")
    return told
