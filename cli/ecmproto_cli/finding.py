"""The search of `ecmproto help` in commands, options, formats, fields, mechanisms, scenarios and rules.

Each entry is read from its declaration.  Rules are read from ``check/rules.json``, because importing rules
would import numba.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecmproto_cli.declared import declared_commands

KINDS = {
    "command": "Commands",
    "option": "Options",
    "format": "Formats",
    "field": "Fields",
    "mechanism": "Mechanisms",
    "parameter": "Parameters of mechanisms",
    "scenario": "Scenarios of the laboratory",
    "rule": "Rules of check",
    "rule parameter": "Parameters of rules",
    "term": "Glossary",
}
"""Types of entries with their headings; among equal matches, the earlier type is listed first."""

_NEAR = 0.7
"""Minimum similarity between a misspelt word and its correction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A search result: its type, its name, its description, and a command that shows more."""

    kind: str
    name: str
    doc: str
    then: str


def entries() -> Iterator[Entry]:
    """Yield all entries without importing numba, numpy or Scapy."""
    yield from _commands()
    yield from _formats()
    yield from _mechanisms()
    yield from _scenarios()
    yield from _rules()
    yield from _terms()


def _commands() -> Iterator[Entry]:
    from ecmproto_cli.main import cli

    shared: dict[tuple[str, str], list[str]] = {}
    for command in declared_commands(cli):
        if command.path:
            then = f"ecmproto {command.path} --help"
            yield Entry(kind="command", name=command.path, doc=command.sentence, then=then)
        for option in command.options:
            shared.setdefault((option.shown, option.help), []).append(command.path)
    for (shown, help), paths in shared.items():
        if shown.endswith("--help"):
            continue
        of = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        then = f"ecmproto {paths[0]} --help"
        yield Entry(kind="option", name=shown, doc=f"{of}: {help}" if of else help, then=then)


def _formats() -> Iterator[Entry]:
    from ecmproto.wire.formats.registry import FORMATS, catalogue

    for cls in FORMATS:
        then = f"ecmproto fields {cls.prefix}"
        yield Entry(kind="format", name=cls.prefix, doc=f"{cls.title}; {cls.source}", then=then)
    for field in catalogue():
        then = f"ecmproto dissect -r in.pcap -T fields -e {field.name}"
        yield Entry(kind="field", name=field.name, doc=field.doc, then=then)


def _mechanisms() -> Iterator[Entry]:
    from ecmproto.control.mechanisms.registry import MECHANISMS

    shared: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for mechanism in MECHANISMS:
        then = f"ecmproto replay -r in.pcap --cp {mechanism.name}"
        yield Entry(kind="mechanism", name=mechanism.name, doc=mechanism.title, then=then)
        for role, part in mechanism.roles.items():
            defaults = part().as_text()
            for each in part.describe():
                entries = shared.setdefault((each.name, each.doc), [])
                entries.append((mechanism.name, role.value, defaults[each.name].replace(" ", "")))
    for (name, doc), entries in shared.items():
        of = ", ".join(dict.fromkeys(mechanism for mechanism, _, _ in entries))
        first, part_of, default = entries[0]
        roles = f"--cp {first} --rp {first}" if part_of == "rp" else f"--cp {first}"
        then = f"ecmproto replay -r in.pcap {roles} --set {name}={default}"
        yield Entry(kind="parameter", name=name, doc=f"{of}: {doc}", then=then)


def _scenarios() -> Iterator[Entry]:
    from ecmproto.tools.interop.extcap import scenario_titles

    for name, title in scenario_titles():
        yield Entry(kind="scenario", name=name, doc=title, then=f"ecmproto lab run {name}")


def _rules() -> Iterator[Entry]:
    from ecmproto.tools.check.listed import listed_families

    for family in listed_families():
        for rule in family.rules:
            then = f"ecmproto check --explain {rule.id}"
            yield Entry(kind="rule", name=rule.id, doc=f"{rule.name}: {rule.sentence}", then=then)
        for parameter in family.parameters:
            name = f"{family.name}.{parameter.name}"
            then = f"ecmproto check -r in.pcap --set {name}={parameter.default.replace(' ', '')}"
            yield Entry(kind="rule parameter", name=name, doc=parameter.doc, then=then)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A glossary term: synonyms, the term used in this project, the meaning, and the page of its rule."""

    name: str
    also: tuple[str, ...]
    here: str
    meaning: str
    file: str
    then: str


def glossary() -> tuple[Term, ...]:
    """Return the glossary terms in alphabetical order."""
    import tomllib

    text = Path(__file__).with_name("glossary.toml").read_text(encoding="utf-8")
    rows = [Term(**row | {"also": tuple(row["also"])}) for row in tomllib.loads(text)["term"]]
    return tuple(sorted(rows, key=lambda term: term.name.casefold()))


def _terms() -> Iterator[Entry]:
    for term in glossary():
        name = ", ".join((term.name, *term.also))
        yield Entry(kind="term", name=name, doc=f"{term.meaning} Here: {term.here}.", then=term.then)


# Search ---------------------------------------------------------------------------------------------------


def find(terms: Sequence[str], among: Iterable[Entry]) -> list[Entry]:
    """Return the entries that contain every word in the name or the description, best matches first."""
    needles = [_plain(word).lstrip("-") for word in terms]
    order = list(KINDS)
    matches: list[tuple[int, int, int, int, Entry]] = []
    for entry in among:
        scores = [_score(word, entry) for word in needles if word]
        if scores and all(scores):
            matches.append((-sum(scores), order.index(entry.kind), len(entry.name), len(matches), entry))
    return [each[-1] for each in sorted(matches)]


def nearest(terms: Sequence[str], among: Iterable[Entry]) -> list[str]:
    """Return the search words, with each unknown word replaced by the most similar known word.

    Returns an empty list if an unknown word has no similar known word.
    """
    known = {part for entry in among for part in (_plain(entry.name), *_parts(_plain(entry.name)))}
    meant = []
    for word in map(_plain, terms):
        near = [word] if word in known else difflib.get_close_matches(word, known, n=1, cutoff=_NEAR)
        if not near:
            return []
        meant += near
    return meant


def _plain(text: str) -> str:
    """Return text in lower case, with compatibility characters such as ² replaced by plain characters."""
    return unicodedata.normalize("NFKC", text).casefold()


def _parts(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text) + re.findall(r"\w+(?:-\w+)*", text)


def _score(word: str, entry: Entry) -> int:
    name, doc = _plain(entry.name), _plain(entry.doc)
    if word == name:
        return 100
    parts = _parts(name)
    if word in parts:
        return 80
    if any(part.startswith(word) for part in parts) or name.startswith(word):
        return 60
    if word in name:
        return 40
    if re.search(rf"\b{re.escape(word)}s?\b", doc):
        return 20
    return 10 if len(word) > 2 and word in doc else 0
