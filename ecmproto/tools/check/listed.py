"""The rules as a list of words, without the code that judges: read from ``rules.json``, in no time.

``make docs`` writes the file from the rules themselves.  Completion, ``ecmproto help`` and manual pages read
it, since rules are made of compiled code, which takes a second to load.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("rules.json")
_SCHEMA = "ecmproto/rules/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRule:
    """The words of a `Rule`."""

    id: str
    name: str
    severity: str
    sentence: str
    clause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedParameter:
    """The words of a family's `Parameter`; ``choices`` are all values where they are few."""

    name: str
    default: str
    within: str
    choices: tuple[str, ...]
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFamily:
    """The words of a `Family`."""

    name: str
    title: str
    rules: tuple[ListedRule, ...]
    parameters: tuple[ListedParameter, ...]


def listed_families() -> tuple[ListedFamily, ...]:
    """Return all families of rules, in their order."""
    return tuple(map(_family, json.loads(PATH.read_text(encoding="utf-8"))["families"]))


def _family(row: dict[str, Any]) -> ListedFamily:
    return ListedFamily(
        name=row["name"],
        title=row["title"],
        rules=tuple(ListedRule(**each) for each in row["rules"]),
        parameters=tuple(
            ListedParameter(**each | {"choices": tuple(each["choices"])}) for each in row["parameters"]
        ),
    )


def as_json() -> str:
    """Return the contents of the file, made from the rules."""
    from ecmproto.tools.check.registry import FAMILIES

    families = []
    for family in FAMILIES:
        defaults = family.parameters().as_text()
        rules = [
            {"id": rule.id, "name": rule.name, "severity": rule.severity, "sentence": rule.sentence,
             "clause": rule.clause}
            for rule in family.rules
        ]  # fmt: skip
        parameters = [
            {"name": each.name, "default": defaults[each.name], "within": each.range_text,
             "choices": each.choices or (("yes", "no") if each.unit == "flag" else ()), "doc": each.doc}
            for each in family.parameters.describe()
        ]  # fmt: skip
        families.append(
            {"name": family.name, "title": family.title, "rules": rules, "parameters": parameters}
        )
    return json.dumps({"schema": _SCHEMA, "families": families}, indent=1, ensure_ascii=False) + "\n"
