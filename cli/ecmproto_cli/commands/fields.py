"""``ecmproto fields``: the names of fields, the layouts of formats, and the parameters of mechanisms."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from ecmproto.errors import SpecError, hint_on_name
from ecmproto_cli.completion import complete_layer
from ecmproto_cli.errors import FINDINGS, CommandError
from ecmproto_cli.options import form_option
from ecmproto_cli.terminal import echo, paint


@click.command()
@click.argument("name", default="", metavar="[NAME|PATTERN]", shell_complete=complete_layer)
@form_option(
    "text", "json", "md", "lua",
    help="Format of the output. md and lua are for frame formats only; lua prints the format's part of the "
    "Wireshark dissector.",
)  # fmt: skip
def command(name: str, form: str) -> None:
    """Draw the format NAME, list the parameters of the mechanism NAME, or list fields that match PATTERN.

    PATTERN is a regular expression for names and descriptions of fields. Without an argument, all formats
    and fields are listed.

    \b
    ecmproto fields cnm
    ecmproto fields qcn
    ecmproto fields 'feedback|qntz'
    """
    from ecmproto.control.mechanisms.registry import find_mechanism, mechanism_names
    from ecmproto.wire.formats.registry import FORMATS

    format = next((each for each in FORMATS if each.prefix == name.lower()), None)
    mechanism = find_mechanism(name.lower()) if name.lower() in mechanism_names() else None
    if format is None and (form in ("md", "lua") or (mechanism and form == "json")):
        raise click.UsageError(f"-T {form} is for a format: expected its name, got {name!r}")
    if format is not None:
        _draw(format, form)
    if mechanism is not None and form == "text":
        echo(f"{'' if format is None else chr(10)}{_parameters(mechanism)}", wrap=True)
    if format is None and mechanism is None:
        _list(name, form)


def _draw(format: Any, form: str) -> None:
    from ecmproto.wire.codec.reference import as_dict, as_markdown, as_text

    if form == "lua":
        from ecmproto.tools.interop.lua import format_source

        echo(format_source(format))
    elif form == "json":
        echo(json.dumps(as_dict(format), indent=2, ensure_ascii=False))
    else:
        echo(as_markdown(format) if form == "md" else as_text(format), wrap=form != "md")


def _parameters(mechanism: Any) -> str:
    lines = [f"{paint(f'{mechanism.title}: parameters', 'title')}"]
    for role, part in mechanism.roles.items():
        defaults = part().as_text()
        for each in part.describe():
            lines.append(f"{role.value}.{each.name}={defaults[each.name]}  {each.doc}")
            lines.append(f"    {each.range_text}; {each.source}")
    return "\n".join(lines)


def _list(pattern: str, form: str) -> None:
    """Print the fields that match a pattern; without a pattern, print all formats and all fields."""
    from ecmproto.frames.filter.literals import expression
    from ecmproto.wire.codec.reference import as_dict
    from ecmproto.wire.formats.registry import ALIASES, FORMATS, catalogue

    try:
        holds = expression(os.fsencode(pattern))
    except SpecError as error:
        raise click.BadParameter(f"PATTERN: expected {error.needed}, got {error.got}") from None
    entries = [e for e in catalogue() if holds(e.name.encode()) or holds(e.doc.encode())]
    short = {alias: name for alias, name in ALIASES.items() if holds(alias.encode())}
    if not entries and not short:
        near = hint_on_name(pattern, [each.prefix for each in FORMATS])
        hint = f" ({near})" if near.startswith("did") else ""
        raise CommandError(f"no field matches {pattern!r}{hint}", exit_code=FINDINGS, help="ecmproto fields")
    formats = () if pattern else FORMATS
    if form == "json":
        document: dict[str, object] = {"schema": "ecmproto/fields/1"}
        document["fields"] = [entry.as_dict() for entry in entries]
        if formats:
            document["formats"] = [as_dict(each) for each in formats]
        echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    for each in formats:
        echo(f"{paint(each.prefix.ljust(12), 'name')} {each.title}; {each.source}", wrap=True)
    width = max(len(name) for name in (*short, *(entry.name for entry in entries)))
    for entry in entries:
        echo(f"{paint(entry.name.ljust(width), 'name')}  {entry.type:<8} {entry.doc}", wrap=True)
    for alias, name in short.items():
        echo(f"{paint(alias.ljust(width), 'name')}  {'':<8} short for {name}", wrap=True)
