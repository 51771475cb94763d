"""Completion of display filters while they are typed: names of fields and layers, operators, named values."""

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
_FIELD_BEHIND = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(?:\[[^\]]*\])?\s+$")
_OPEN = re.compile(r"(?:^|[(!]|&&|\|\||\b(?:and|or|not|all|any))\s*$")
"""Behind this a test begins."""
_JOINS = {"and": "", "or": ""}
_OPENING = ("not", "all")
_RELATIONS = {
    "==": "is", "!=": "is not", ">": "is greater than", "<": "is less than", ">=": "", "<=": "",
    "in {": "is one of", "contains": "has these octets or letters in it", "matches": "a regular expression",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text that may stand where the cursor is, and what it means."""

    text: str
    meaning: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What may stand at a place: ``candidates`` replace the characters from ``start`` to the cursor.

    ``operators`` says that they are words between tests or values, behind which goes more.
    """

    start: int
    candidates: tuple[Candidate, ...]
    operators: bool = False


def complete(text: str, cursor: int) -> Completion:
    """Return the words that fit at the cursor of a filter that is being typed, the nearest first."""
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
    behind = _FIELD_BEHIND.search(front)
    field = find(behind[1]) if behind else None
    words = _JOINS if field is None or field.kind == "layer" else {**_RELATIONS, **_JOINS}
    found = [Candidate(text=each, meaning=means) for each, means in words.items() if each.startswith(typed)]
    spaced = front != front.rstrip() or front.endswith((")", "}", '"'))
    return Completion(start=start, candidates=tuple(found) if spaced else (), operators=True)


def relations() -> tuple[Candidate, ...]:
    """Return the relations that may stand behind a field."""
    return tuple(Candidate(text=each, meaning=means) for each, means in _RELATIONS.items())


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
    """Return the meaning of each field and layer, by name."""
    told = dict.fromkeys(known(), "")
    for name, field in known().items():
        if field.kind == "layer" and field.formats:
            told[name] = field.formats[0].title
    for entry in catalogue():
        told[entry.name] = entry.doc + (f" [{entry.unit}]" if entry.unit else "")
    return told
