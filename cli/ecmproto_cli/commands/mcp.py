"""``ecmproto mcp``: a server for assistants on stdin and stdout."""

from __future__ import annotations

import click


@click.command()
@click.argument(
    "folders", nargs=-1, required=True, metavar="FOLDER...", type=click.Path(exists=True, file_okay=False)
)
def command(folders: tuple[str, ...]) -> None:
    """Answer an assistant's questions about the captures in FOLDERs, read-only (Model Context Protocol).

    Tools: captures, stats, check, dissect by a filter, fields, explain a rule. It listens on stdin; nothing
    outside FOLDERs is read, nothing is written. Needs ecmproto[mcp].

    \b
    ecmproto mcp /captures
    """
    from ecmproto.tools.assistant import server_of

    server_of(folders).run("stdio")
