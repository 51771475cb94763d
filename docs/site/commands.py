"""The command reference: a page for each command, with every option, from what the command declares."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import click

from ecmproto_cli.main import COMMANDS, LazyGroup, cli

_SPECIAL = re.compile(r"([\\`*_<>\[\]|{}$#~])")
_AS_IT_STANDS = "\b"
"""A paragraph that begins with it is not filled anew by click."""


def pages() -> dict[str, str]:
    """Return the pages by the names of their files, ``index.md`` first."""
    made = {f"{name}.md": "".join(_sections(name)) for name in COMMANDS}
    lines = ["# Commands\n", "| command | |\n|---|---|"]
    lines += [f"| [`ecmproto {name}`]({name}.md) | {escaped(text)} |" for name, text in COMMANDS.items()]
    lines += [
        "",
        "Every command has `-h` and `--help`; `ecmproto --version` says which version this is.",
        f"\n```{{toctree}}\n:hidden:\n\n{chr(10).join(COMMANDS)}\n```\n",
    ]
    return {"index.md": "\n".join(lines), **made}


def commands_of(name: str) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield a command and those below it: what is typed, the command, and a context to ask it in."""
    root = click.Context(cli, info_name="ecmproto")
    command = cli.get_command(root, name)
    assert command is not None
    yield from _below(command, root, name)


def _below(
    command: click.Command, parent: click.Context, name: str
) -> Iterator[tuple[str, click.Command, click.Context]]:
    context = click.Context(command, info_name=name, parent=parent)
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _below(found, context, each)


def options_of(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the options of a command as its help has them, but ``--help``: what is typed, what it means."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None and "--help" not in parameter.opts:
            yield record


def _sections(name: str) -> Iterator[str]:
    for number, (path, command, context) in enumerate(commands_of(name)):
        yield f"{'##' if number else '#'} {path}\n\n"
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```text\n{path} {usage}\n```\n\n"
        yield from map(_paragraph, (command.help or "").split("\n\n"))
        if isinstance(command, LazyGroup):
            continue
        for typed, meaning in options_of(command, context):
            yield f"`{typed}`\n: {escaped(meaning)}\n\n"


def _paragraph(text: str) -> str:
    lines = text.strip("\n").splitlines()
    if lines and lines[0].strip() == _AS_IT_STANDS:
        return "```text\n" + textwrap.dedent("\n".join(lines[1:])).strip("\n") + "\n```\n\n"
    return f"{escaped(' '.join(line.strip() for line in lines))}\n\n"


def escaped(text: str) -> str:
    """Return ``text`` so that Markdown shows it as it is, but for what stands between backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _SPECIAL.sub(r"\\\1", text)
    return "`".join(part if place % 2 else _SPECIAL.sub(r"\\\1", part) for place, part in enumerate(parts))
