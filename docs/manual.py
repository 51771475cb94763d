"""Writes the manual pages and completion scripts for a wheel: ``python -m docs.manual FOLDER``.

The build of a wheel runs this program. ``share/man`` receives a page for each command, and pages for fields,
parameters and rules, made from their declarations. The completion scripts are for bash, zsh and fish. Pages
are in roff and ASCII, for groff and mandoc.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ecmproto._version import __version__
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.registry import MECHANISMS
from ecmproto.tools.check.listed import listed_families
from ecmproto.wire.formats.registry import FORMATS, catalogue
from ecmproto_cli.completion import SHELLS
from ecmproto_cli.declared import DeclaredCommand, declared_commands
from ecmproto_cli.main import COMPLETE, cli

COMPLETIONS = {
    "bash": "share/bash-completion/completions/ecmproto",
    "zsh": "share/zsh/site-functions/_ecmproto",
    "fish": "share/fish/vendor_completions.d/ecmproto.fish",
}

EXIT_STATUS = (
    ("0", "Done."),
    ("1", "Nothing was done, or there are findings, differences or a failed expectation."),
    ("2", "Wrong usage."),
    ("3", "A capture is unreadable or malformed; everything readable in it was processed."),
    ("4", "A permission or an interface is missing."),
    ("5", "An optional dependency is missing."),
    ("130", "Interrupted; the output is complete up to there."),
    ("141", "The reader of the output has closed it."),
)
ENVIRONMENT = (
    ("NO_COLOR", "Set to anything: no colours, except with --color always."),
    (
        "ECMPROTO_PROGRESS",
        "0: no progress on stderr.",
    ),
    ("NUMBA_CACHE_DIR", "Where compiled loops are kept, in place of the user's cache folder."),
    ("NUMBA_DISABLE_JIT", "1: run loops as plain Python, slowly; for looking for mistakes in them."),
)
TOPICS = ("ecmproto-field-names(7)", "ecmproto-parameters(7)", "ecmproto-rules(7)")


# Roff -----------------------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    """Return text escaped for roff, except for the start of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti").replace('"', "\\(dq")
    return "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text)


def line(text: str) -> str:
    """Return text escaped as a line of roff."""
    shown = escaped(text)
    return f"\\&{shown}" if shown.startswith(".") else shown


def bold(text: str) -> str:
    """Return text in bold type."""
    return f"\\fB{escaped(text)}\\fR"


def typed(text: str) -> str:
    """Return text that users type, with options in bold type and placeholders in italic type."""
    words = (
        bold(word[:-1]) + "," if word.startswith("-") and word.endswith(",")
        else bold(word) if word.startswith("-") or not re.search("[A-Z]", word)
        else f"\\fI{escaped(word)}\\fR"
        for word in text.split()
    )  # fmt: skip
    return " ".join(words)


def page(name: str, section: int, sentence: str, *parts: Iterable[str]) -> str:
    """Return a manual page with a name, a section, a sentence and further parts."""
    heading = f'.TH "{escaped(name.upper())}" "{section}" "{_date()}" "ecmproto {__version__}" "ecmproto"'
    sentence = sentence[:1].lower() + sentence[1:].rstrip(".")
    lines = [heading, ".nh", ".ad l", ".SH NAME", f"{escaped(name)} \\- {escaped(sentence)}"]
    return "\n".join([*lines, *(each for part in parts for each in part), ""])


def _date() -> str:
    """Return the date of a build from ``SOURCE_DATE_EPOCH``, or an empty string for reproducible builds."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    return time.strftime("%Y-%m-%d", time.gmtime(int(seconds))) if seconds else ""


def _section(title: str, *lines: str) -> Iterator[str]:
    if lines:
        yield f".SH {title}"
        yield from lines


def _listed(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of a list of names in roff with descriptions as plain text."""
    for name, said in rows:
        yield from (".TP", name, line(said) if said else "\\&")


def _paragraphs(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield from (".PP", line(text)) if number else (line(text),)


def _verbatim(lines: Iterable[str]) -> list[str]:
    shown = [line(each) for each in lines]
    return [".EX", *shown, ".EE"] if shown else []


# Pages ----------------------------------------------------------------------------------------------------


def page_name(path: str) -> str:
    """Return the name of a command's page, such as ``ecmproto-lab-run`` for ``lab run``."""
    return "-".join(["ecmproto", *path.split()])


def command_page(command: DeclaredCommand) -> str:
    """Return the manual page of a command or of the program."""
    name = page_name(command.path)
    listed = [(bold(f"{name}-{each}") + "(1)", sentence) for each, sentence in command.commands]
    options = [(typed(option.shown), option.help) for option in command.options]
    above = command.path.rpartition(" ")[0]
    others = [] if not command.path else [f"{page_name(above)}(1)"]
    return page(
        name, 1, command.sentence,
        _section("SYNOPSIS", f"{bold(command.typed)} {typed(command.usage)}"),
        _section("DESCRIPTION", *_paragraphs(command.paragraphs)),
        _section("COMMANDS", *_listed(listed)),
        _section("OPTIONS", *_listed(options)),
        _section("EXAMPLES", *_verbatim(command.examples)),
        () if command.path else _section("ENVIRONMENT", *_listed((bold(n), said) for n, said in ENVIRONMENT)),
        _section("EXIT STATUS", *_exit_status(whole=not command.path)),
        _section("SEE ALSO", ", ".join(map(_reference, [*others, *TOPICS]))),
    )  # fmt: skip


def _exit_status(*, whole: bool) -> Iterator[str]:
    if whole:
        yield from _listed((bold(code), said) for code, said in EXIT_STATUS)
    else:
        yield line(
            "0 done, 1 findings or nothing done, 2 wrong usage, 3 a malformed capture: see ecmproto(1)."
        )


def _reference(name: str) -> str:
    title, _, section = name.partition("(")
    return f"{bold(title)}({section}"


def fields_page() -> str:
    """Return the manual page of all fields, grouped by format."""
    lines = [*_paragraphs([
        "The names that display filters (-Y), columns and lists (-e), JSON and ecmproto craft use. "
        "ecmproto fields lists them too; with the name of a format it draws its octets."
    ])]  # fmt: skip
    lines += _section("frame", *_fields(entry.name for entry in catalogue() if entry.formats == ("frame",)))
    for cls in FORMATS:
        names = [entry.name for entry in catalogue() if cls.prefix in entry.formats]
        if names:
            lines += _section(f'"{escaped(cls.prefix)}: {escaped(cls.title)}"', line(f"Source: {cls.source}"))
            lines += _fields(names)
    return page("ecmproto-field-names", 7, "fields of frames by name", _section("DESCRIPTION", *lines))


def _fields(names: Iterable[str]) -> Iterator[str]:
    known = {entry.name: entry for entry in catalogue()}
    found = (known[name] for name in names if name in known)
    return _listed((f"{bold(each.name)} \\fI{escaped(each.type)}\\fR", each.doc) for each in found)


def parameters_page() -> str:
    """Return the manual page of the parameters of all mechanisms."""
    lines = [*_paragraphs([
        "Set with --set NAME=VALUE, or --set ROLE.NAME=VALUE where two roles have it: cp is "
        "the congestion point, rp the reaction point, edge the destination."
    ])]  # fmt: skip
    for mechanism in MECHANISMS:
        lines.append(f'.SH "{escaped(mechanism.name)}: {escaped(mechanism.title)}"')
        if not mechanism.roles:
            lines.append("No parameters.")
        for role in Role:
            described = mechanism.role(role).describe() if role in mechanism.roles else ()
            if not described:
                continue
            defaults = mechanism.role(role)().as_text()
            lines += [f".SS {role.value}"]
            lines += _listed(
                (
                    f"{bold(each.name)}=\\fI{escaped(defaults[each.name])}\\fR",
                    f"{each.doc} ({each.range_text})",
                )
                for each in described
            )
    return page("ecmproto-parameters", 7, "parameters of the mechanisms", _section("DESCRIPTION", *lines))


def rules_page() -> str:
    """Return the manual page of all rules for ``ecmproto check``."""
    lines = [*_paragraphs([
        "The rules of ecmproto check. ecmproto check --explain ID prints a rule's meaning, its fields and "
        "its clause."
    ])]  # fmt: skip
    for family in listed_families():
        lines.append(f'.SH "{escaped(family.title)}"')
        lines += _listed(
            (f"{bold(rule.id)} ({escaped(rule.severity)})", f"{rule.sentence} ({rule.clause})")
            for rule in family.rules
        )
    return page("ecmproto-rules", 7, "rules that captures keep to or break", _section("DESCRIPTION", *lines))


def files() -> Iterator[tuple[str, str]]:
    """Yield the path and the contents of each file; paths begin with ``share/``."""
    for command in declared_commands(cli):
        yield f"share/man/man1/{page_name(command.path)}.1", command_page(command)
    # the name ecmproto-fields belongs to the page of the command
    topics = {"field-names": fields_page, "parameters": parameters_page, "rules": rules_page}
    for name, made in topics.items():
        yield f"share/man/man7/ecmproto-{name}.7", made()
    for shell, place in COMPLETIONS.items():
        yield place, SHELLS[shell](cli, {}, "ecmproto", COMPLETE).source()


if __name__ == "__main__":
    for place, text in files():
        path = Path(sys.argv[1]) / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
