"""User-defined rules: a Python file with ``RULES`` or ``FAMILY``, or a TOML file with display filters.

::

    schema = "ecmproto/rules/1"

    [[rule]]
    id = "RACK001"
    sentence = "CNMs have priority 5 in this network."
    filter = "cnm"                    # the frames to judge
    needed = "vlan.priority == 5"     # the condition; without a condition, all these frames are wrong
    subject = "cnm.cpid"              # one case for each value; the default is the interface
    severity = "error"                # or warning, note
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.errors import FilterError, SpecError
from ecmproto.tools.check.rule import (
    PORT,
    SEVERITIES,
    Family,
    Judged,
    Rows,
    Rule,
    Subject,
    cpid_of_key,
    mac_of_key,
    value_of,
)

if TYPE_CHECKING:
    from ecmproto.frames.filter import Filter

SCHEMA = "ecmproto/rules/1"
_ID = re.compile(r"[A-Z][A-Z0-9]{0,15}[0-9]{3}")
_KEYS = ("id", "name", "sentence", "why", "clause", "severity", "filter", "needed", "subject")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NoParameters(Parameters):
    """The parameters of a family without parameters."""


def own_family(path: str) -> Family:
    """Load the rules of a file. Raises SpecError for an invalid file or an exception in a Python file."""
    read = {".py": _from_python, ".toml": _from_toml}.get(Path(path).suffix)
    if read is not None:
        family = read(path)
        rules = tuple(dataclasses.replace(rule, source=path) for rule in family.rules)
        return dataclasses.replace(family, rules=rules)
    raise SpecError(
        where=f"rules {path}", needed="a file that ends in .py or .toml", got=Path(path).suffix or "none"
    )


def _from_python(path: str) -> Family:
    name = re.sub(r"\W", "_", Path(path).stem)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # other processes find pickled objects by the name of the module
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except OSError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise SpecError(where=f"rules {path}", needed="a module that can be imported", got=text) from error
    family = getattr(module, "FAMILY", None)
    if isinstance(family, Family):
        return family
    rules = getattr(module, "RULES", None)
    if not isinstance(rules, list | tuple) or not all(isinstance(rule, Rule) for rule in rules) or not rules:
        raise SpecError(
            where=f"rules {path}",
            needed="RULES, a list of ecmproto.tools.check.Rule, or FAMILY",
            got=repr(rules),
        )
    return Family(name=name, title=name, parameters=NoParameters, rules=tuple(rules))


def _from_toml(path: str) -> Family:
    from ecmproto.documents import read_document

    with open(path, "rb") as stream:
        document = read_document(stream, f"rules {path}")
    if document.get("schema") != SCHEMA:
        raise SpecError(
            where=f"rules {path}", needed=f"schema = {SCHEMA!r}", got=repr(document.get("schema"))
        )
    tables = document.get("rule")
    if not isinstance(tables, list) or not tables or not all(isinstance(each, dict) for each in tables):
        raise SpecError(where=f"rules {path}", needed="[[rule]] tables", got=repr(tables))
    rules = tuple(_from_table(each, f"rules {path}: rule {at}") for at, each in enumerate(tables, 1))
    stem = Path(path).stem
    return Family(name=stem, title=stem, parameters=NoParameters, rules=rules)


def _from_table(table: dict[str, Any], where: str) -> Rule:
    for key, value in table.items():
        if key not in _KEYS or not isinstance(value, str):
            raise SpecError(where=where, needed=f"texts called {', '.join(_KEYS)}", got=f"{key} = {value!r}")
    for key in ("id", "sentence", "filter"):
        if not table.get(key):
            raise SpecError(where=where, needed=key, got="none")
    if not _ID.fullmatch(table["id"]):
        raise SpecError(
            where=where, needed="an id of capital letters and three digits, such as RACK001", got=table["id"]
        )
    severity = table.get("severity", "error")
    if severity not in SEVERITIES:
        raise SpecError(where=where, needed=f"a severity: {', '.join(SEVERITIES)}", got=repr(severity))
    test = FilterTest(table["filter"], table.get("needed", ""))
    try:
        test.compiled()
    except FilterError as error:
        raise SpecError(where=where, needed="a display filter", got=str(error)) from None
    return Rule(
        id=table["id"],
        name=table.get("name", table["id"]),
        sentence=table["sentence"],
        why=table.get("why", ""),
        clause=table.get("clause", Path(where.split(": ")[0].removeprefix("rules ")).name),
        severity=severity,
        subject=_subject(table["subject"], where) if "subject" in table else PORT,
        expression=test,
    )


def _subject(name: str, where: str) -> Subject:
    from ecmproto.frames.filter.fields import find, hint

    field = find(name)
    if field is None or field.kind not in ("number", "mac", "cpid"):
        message = hint(name) if field is None else ""
        raise SpecError(where=where, needed="a subject: a field with a number", got=repr(name), hint=message)
    text = {"mac": mac_of_key, "cpid": cpid_of_key}.get(field.kind, str)
    return Subject(name=name, fields=(name,), key=partial(value_of, name), text=text)


@functools.lru_cache
def _compiled(text: str) -> Filter:
    from ecmproto.frames.filter import compile_filter

    return compile_filter(text)


class FilterTest:
    """A rule expression that consists of two display filters.

    The first filter selects the judged frames. The frames that match the second filter are correct. Without a
    second filter, every selected frame is wrong.
    """

    def __init__(self, about: str, needed: str) -> None:
        self._about = about
        self._needed = needed

    def compiled(self) -> tuple[Filter, Filter | None]:
        """Return both filters.

        The second filter is ``None`` if missing. Raises FilterError for an invalid filter.
        """
        return _compiled(self._about), _compiled(self._needed) if self._needed else None

    def __call__(self, rows: Rows, parameters: object) -> Judged:
        """Judge the rows of a batch."""
        from ecmproto.frames.columns.selection import selected

        about, needed = self.compiled()
        present = selected(rows.batch, about, interfaces=rows.interfaces, ethertypes=rows.ethertypes)
        if needed is None:
            return Judged(present, f"the frame matches {self._about}", about=present)
        holds = selected(rows.batch, needed, interfaces=rows.interfaces, ethertypes=rows.ethertypes)
        return Judged(present & ~holds, f"the frame does not match {self._needed}", about=present)
