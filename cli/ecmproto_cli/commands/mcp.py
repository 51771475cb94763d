"""``ecmproto mcp``: a Model Context Protocol server on stdin and stdout."""

from __future__ import annotations

import click


@click.command()
@click.argument(
    "folders", nargs=-1, required=True, metavar="FOLDER...", type=click.Path(exists=True, file_okay=False)
)
def command(folders: tuple[str, ...]) -> None:
    """Serve the captures in FOLDERs to an AI assistant, read-only (Model Context Protocol).

    Its tools list captures, compute statistics, check rules, dissect frames by a filter, list fields and
    explain rules. The server uses stdin and stdout. It reads nothing outside FOLDERs, and writes nothing.
    Needs ecmproto[mcp].

    \b
    ecmproto mcp /captures
    """
    from ecmproto.tools.assistant import server_of

    server_of(folders).run("stdio")
