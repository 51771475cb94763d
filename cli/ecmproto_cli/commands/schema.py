"""``ecmproto schema``: the layout of a frame format, from its schema."""

from __future__ import annotations

import json

import click

from ecmproto_cli.completion import complete_layer
from ecmproto_cli.options import color_option
from ecmproto_cli.terminal import echo, paint


@click.command()
@click.argument("name", required=False, shell_complete=complete_layer)
@click.option(
    "-T",
    "form",
    type=click.Choice(["diagram", "json", "md", "lua"]),
    default="diagram",
    help="Format of the layout.",
)
@color_option
def command(name: str | None, form: str) -> None:
    """Draw the format called NAME (cnm, cntag, ecm, …); without NAME, list them all.

    -T lua prints its part of the dissector of ecmproto wireshark.
    """
    from ecmproto.wire.codec.document import format_named
    from ecmproto.wire.codec.reference import as_dict, as_markdown, as_text
    from ecmproto.wire.formats.registry import FORMATS

    if name is None:
        if form == "json":
            formats = [as_dict(cls) for cls in FORMATS]
            echo(
                json.dumps({"schema": "ecmproto/formats/1", "formats": formats}, indent=2, ensure_ascii=False)
            )
            return
        if form == "lua":
            from ecmproto.tools.interop.lua import dissector

            echo(dissector(), nl=False)
            return
        for cls in FORMATS:
            echo(f"{paint(cls.prefix.ljust(12), 'name')} {cls.title}; {cls.source}")
        return
    cls = format_named(name.lower(), where="schema")
    if form == "lua":
        from ecmproto.tools.interop.lua import format_source

        echo(format_source(cls))
    elif form == "json":
        echo(json.dumps(as_dict(cls), indent=2, ensure_ascii=False))
    else:
        echo(as_markdown(cls) if form == "md" else as_text(cls))
