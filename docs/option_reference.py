"""Writes the table of options in ``docs/command-line.md`` from their declarations: ``make references``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ecmproto_cli.declared import command_context
from ecmproto_cli.main import cli

PATH = Path(__file__).with_name("command-line.md")
BEGIN, END = "<!-- options, by `make references` -->\n", "<!-- end of options -->\n"
COMMANDS_SHOWN = 6


def declarations() -> dict[str, list[tuple[str, click.Option]]]:
    """Return a mapping from the longest name of each option to the declarations and the paths of their
    commands.
    """
    found: dict[str, list[tuple[str, click.Option]]] = {}
    for path, command in _leaves(cli, ""):
        for param in command.params:
            if isinstance(param, click.Option):
                found.setdefault(max(param.opts, key=len), []).append((path, param))
    return found


def _leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group) or not path:
        yield path, command
    if isinstance(command, click.Group):
        ctx = command_context(path, command)
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from _leaves(inner, f"{path} {name}".strip())


def value_of(option: click.Option) -> str:
    """Return the placeholder for an option's value, as in the help, or an empty string for a flag."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return "CHOICE"
    return (option.metavar or option.type.name.upper()).replace("INTEGER RANGE", "N").replace("INTEGER", "N")


def text() -> str:
    """Return the table of options that several commands share, with values and commands."""
    rows = ["| option | value | commands | meaning |", "|---|---|---|---|"]
    for uses in (each for _, each in sorted(declarations().items())):
        paths = [path or "all" for path, _ in uses]
        if len(paths) == 1 and paths != ["all"]:
            continue
        option = uses[0][1]
        shown = "`, `".join(sorted(option.opts, key=len))
        more = f" and {len(paths) - COMMANDS_SHOWN} more" if len(paths) > COMMANDS_SHOWN else ""
        cells = [f"`{shown}`", value_of(option), ", ".join(paths[:COMMANDS_SHOWN]) + more]
        meaning = (option.help or "").partition("  [")[0]
        rows.append("| " + " | ".join([*cells, meaning]).replace("|every", "\\|every") + " |")
    return "\n".join(rows) + "\n"


def page(before: str) -> str:
    """Return the page with an updated table."""
    head, _, rest = before.partition(BEGIN)
    return f"{head}{BEGIN}\n{text()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PATH.write_text(page(PATH.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{PATH.name}: {len(declarations())} names of options")
