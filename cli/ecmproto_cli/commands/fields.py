"""``ecmproto fields``: the names that ``-e``, JSON and the documentation use, with their meaning."""

from __future__ import annotations

import json
import os

import click

from ecmproto.errors import SpecError
from ecmproto_cli.errors import FINDINGS, CommandError
from ecmproto_cli.options import color_option
from ecmproto_cli.terminal import echo, paint


@click.command()
@click.argument("pattern", default="")
@click.option("-T", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the list.")
@color_option
def command(pattern: str, form: str) -> None:
    """List the fields whose name or description matches PATTERN (a regular expression)."""
    from ecmproto.frames.filter.literals import expression
    from ecmproto.wire.formats.registry import ALIASES, catalogue

    try:
        holds = expression(os.fsencode(pattern))
    except SpecError as error:
        raise click.BadParameter(f"PATTERN: expected {error.needed}, got {error.got}") from None
    entries = [e for e in catalogue() if holds(e.name.encode()) or holds(e.doc.encode())]
    short = {alias: name for alias, name in ALIASES.items() if holds(alias.encode())}
    if not entries and not short:
        raise CommandError(f"no field matches {pattern!r}", exit_code=FINDINGS, help="ecmproto fields")
    if form == "json":
        rows = [entry.as_dict() for entry in entries]
        echo(json.dumps({"schema": "ecmproto/fields/1", "fields": rows}, indent=2, ensure_ascii=False))
        return
    width = max(len(name) for name in (*short, *(entry.name for entry in entries)))
    for entry in entries:
        echo(f"{paint(entry.name.ljust(width), 'name')}  {entry.type:<8} {entry.doc}")
    for alias, name in short.items():
        echo(f"{paint(alias.ljust(width), 'name')}  {'':<8} short for {name}")
