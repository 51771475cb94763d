"""The texts of the rules, read from ``rules.json`` without loading the rules.

``make docs`` generates the file from the rules. Completion, ``ecmproto help`` and manual pages read the file,
because loading the compiled code of the rules takes a second.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("rules.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRule:
    """The texts of a `Rule`."""

    id: str
    name: str
    severity: str
    sentence: str
    clause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedParameter:
    """The texts of a `Parameter`. ``choices`` contains all values if the parameter has a list of values."""

    name: str
    default: str
    within: str
    choices: tuple[str, ...]
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFamily:
    """The texts of a `Family`."""

    name: str
    title: str
    rules: tuple[ListedRule, ...]
    parameters: tuple[ListedParameter, ...]


def listed_families() -> tuple[ListedFamily, ...]:
    """Return all families of rules, in the order of the file."""
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
    """Return the contents of ``rules.json``, generated from the rules."""
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
    return json.dumps({"families": families}, indent=1, ensure_ascii=False) + "\n"
