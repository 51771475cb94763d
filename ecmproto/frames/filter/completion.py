"""Completion of display filters during typing: names of fields and layers, operators, named values."""

from __future__ import annotations

import dataclasses
import functools
import re

from ecmproto.frames.filter.fields import INNER, FilterField, find, known
from ecmproto.wire.formats.registry import catalogue

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*$")
_OPERATOR = r"(?:[=!<>]=?=?|~|&|\b(?:eq|ne|gt|ge|lt|le|contains|matches|in))\s*$"
_COMPARED = re.compile(_OPERATOR)
_FIELD_COMPARED = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)\s*" + _OPERATOR)
_FIELD_BEFORE = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(?:\[[^\]]*\])?\s+$")
_OPEN = re.compile(r"(?:^|[(!]|&&|\|\||\b(?:and|or|not|all|any))\s*$")
"""Pattern of text that precedes the start of a test."""
_JOINS = {"and": "", "or": ""}
_OPENING = ("not", "all")
_RELATIONS = {
    "==": "is", "!=": "is not", ">": "is greater than", "<": "is less than", ">=": "", "<=": "",
    "in {": "is one of", "contains": "contains these octets or letters", "matches": "a regular expression",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A possible text at the cursor, and its meaning."""

    text: str
    meaning: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Completions at a cursor; ``candidates`` replace the characters from ``start`` to the cursor.

    With ``operators``, the candidates are operators between tests or values, and more text must follow.
    """

    start: int
    candidates: tuple[Candidate, ...]
    operators: bool = False


def complete(text: str, cursor: int) -> Completion:
    """Return the completions at the cursor of an incomplete filter, best match first."""
    before = text[:cursor]
    word = _WORD.search(before)
    start = word.start() if word else cursor
    typed, front = before[start:], before[:start]
    if front.count('"') % 2:
        return Completion(start=start, candidates=())
    if _COMPARED.search(front):
        compared = _FIELD_COMPARED.search(front)
        field = find(compared[1]) if compared else None
        return Completion(start=start, candidates=_values(field, typed) if field else ())
    if _OPEN.search(front):
        return Completion(start=start, candidates=_names(typed) if typed else ())
    preceding = _FIELD_BEFORE.search(front)
    field = find(preceding[1]) if preceding else None
    words = _JOINS if field is None or field.kind == "layer" else {**_RELATIONS, **_JOINS}
    fitting = [Candidate(text=each, meaning=means) for each, means in words.items() if each.startswith(typed)]
    spaced = front != front.rstrip() or front.endswith((")", "}", '"'))
    return Completion(start=start, candidates=tuple(fitting) if spaced else (), operators=True)


def relations() -> tuple[Candidate, ...]:
    """Return the relations that may follow a field."""
    return tuple(Candidate(text=each, meaning=means) for each, means in _RELATIONS.items())


def _values(field: FilterField, typed: str) -> tuple[Candidate, ...]:
    named = [(name, str(value)) for value, name in field.names.items()]
    return tuple(
        Candidate(text=name if name.isidentifier() else f'"{name}"', meaning=value)
        for name, value in named
        if name.lower().startswith(typed.lower())
    )


def _names(typed: str) -> tuple[Candidate, ...]:
    """Return the names that start with the typed text, followed by names that contain the text.

    Before a layer is complete, only layers are listed, without their fields.
    """
    prefix = f"{INNER}." if typed.startswith(f"{INNER}.") else ""
    prefix_ = typed.removeprefix(prefix).lower()
    meanings = _meanings()
    names = [name for name in known() if find(prefix + name) is not None]
    begin = [name for name in names if name.startswith(prefix_)]
    if "." not in prefix_:
        # Fields are listed only after a layer is complete.
        begin = [name for name in begin if "." not in name or name.partition(".")[0] == prefix_]
    inside = [name for name in names if f".{prefix_}" in name and name not in begin] if prefix_ else []
    opening = [Candidate(text=word) for word in _OPENING if word.startswith(prefix_) and not prefix]
    return (
        *(Candidate(text=prefix + name, meaning=meanings.get(name, "")) for name in (*begin, *inside)),
        *opening,
    )


@functools.cache
def _meanings() -> dict[str, str]:
    """Return the meaning of each field and layer, by name."""
    meanings = dict.fromkeys(known(), "")
    for name, field in known().items():
        if field.kind == "layer" and field.formats:
            meanings[name] = field.formats[0].title
    for entry in catalogue():
        meanings[entry.name] = entry.doc + (f" [{entry.unit}]" if entry.unit else "")
    return meanings
