"""The command reference: a page for each command with its options, from the declarations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from ecmproto_cli.declared import DeclaredCommand, DeclaredOption, declared_commands
from ecmproto_cli.main import COMMANDS, cli

_SPECIAL = re.compile(r"([\\`*_<>\[\]|{}$#~])")


def pages() -> dict[str, str]:
    """Return the pages by file name, ``index.md`` first."""
    declared = (command for command in declared_commands(cli) if command.path)
    made = {
        f"{name}.md": "".join(text for command in group for text in _section(command))
        for name, group in groupby(declared, key=lambda command: command.path.split()[0])
    }
    lines = ["# Commands\n", "| command | |\n|---|---|"]
    lines += [f"| [`ecmproto {name}`]({name}.md) | {escaped(text)} |" for name, text in COMMANDS.items()]
    lines += [
        "",
        "Every command has `-h` and `--help`; `ecmproto --version` prints the version.",
        f"\n```{{toctree}}\n:hidden:\n\n{chr(10).join(COMMANDS)}\n```\n",
    ]
    return {"index.md": "\n".join(lines), **made}


def options_of(command: DeclaredCommand) -> list[DeclaredOption]:
    """Return all options of a command except ``--help``."""
    return [option for option in command.options if "--help" not in option.names]


def _section(command: DeclaredCommand) -> Iterator[str]:
    yield f"{'##' if ' ' in command.path else '#'} {command.typed}\n\n"
    yield f"```text\n{command.typed} {command.usage}\n```\n\n"
    for paragraph in command.paragraphs:
        yield f"{escaped(paragraph)}\n\n"
    if command.examples:
        yield f"```text\n{chr(10).join(command.examples)}\n```\n\n"
    for option in options_of(command):
        yield f"`{option.shown}`\n: {escaped(option.help)}\n\n"


def escaped(text: str) -> str:
    """Return ``text`` escaped for Markdown, except between backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _SPECIAL.sub(r"\\\1", text)
    return "`".join(part if place % 2 else _SPECIAL.sub(r"\\\1", part) for place, part in enumerate(parts))
