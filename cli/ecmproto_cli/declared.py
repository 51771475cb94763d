"""Declarations of the commands, from which manual pages and `ecmproto help` are made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

import click

VERBATIM = "\b\n"
"""Start of a paragraph whose lines are not wrapped by click."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredOption:
    """An option of a command.

    ``shown`` is the option as printed in the help, such as ``-r, --read FILE``. ``help`` includes the
    default.
    """

    names: tuple[str, ...]
    shown: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCommand:
    """A command with its usage, its help and its options.

    ``path`` is the command without the program's name, and is empty for the program. ``examples`` are example
    lines. ``commands`` are the commands of a group with their one-sentence help.
    """

    path: str
    sentence: str
    usage: str
    paragraphs: tuple[str, ...]
    examples: tuple[str, ...]
    options: tuple[DeclaredOption, ...]
    commands: tuple[tuple[str, str], ...] = ()

    @property
    def typed(self) -> str:
        """The command as typed, with the program's name."""
        return f"ecmproto {self.path}".strip()


def declared_commands(
    group: click.Group, sentence: str = "", parent: click.Context | None = None
) -> Iterator[DeclaredCommand]:
    """Yield a group and all commands in the group; each group precedes its commands.

    Only the modules that define commands are loaded.
    """
    ctx = parent or command_context("ecmproto", group)
    named: list[tuple[str, click.Command, str]] = []
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        named.append((name, command, command.short_help or _blocks(command)[0]))
    yield _declared(ctx, sentence, tuple((name, doc) for name, _, doc in named))
    for name, command, doc in named:
        inner = command_context(name, command, ctx)
        if isinstance(command, click.Group):
            yield from declared_commands(command, doc, inner)
        else:
            yield _declared(inner, doc)


def command_context(name: str, command: click.Command, parent: click.Context | None = None) -> click.Context:
    """Return the click context for the help of a command, with inherited settings."""
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _declared(
    ctx: click.Context, sentence: str, commands: tuple[tuple[str, str], ...] = ()
) -> DeclaredCommand:
    blocks = _blocks(ctx.command)
    examples = tuple(
        line for block in blocks if block.startswith(VERBATIM)
        for line in block.removeprefix(VERBATIM).splitlines()
    )  # fmt: skip
    paragraphs = tuple(" ".join(block.split()) for block in blocks if block[:2] != VERBATIM)
    return DeclaredCommand(
        path=ctx.command_path.partition(" ")[2],
        sentence=sentence or (paragraphs[0] if paragraphs else ""),
        usage=" ".join(ctx.command.collect_usage_pieces(ctx)),
        paragraphs=paragraphs,
        examples=examples,
        options=tuple(_options(ctx)),
        commands=commands,
    )


def _options(ctx: click.Context) -> Iterator[DeclaredOption]:
    for param in ctx.command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            names = (*param.opts, *param.secondary_opts)
            yield DeclaredOption(names=names, shown=record[0], help=" ".join(record[1].split()))


def _blocks(command: click.Command) -> list[str]:
    """Return the paragraphs of a help text, at least one, including paragraphs that are not wrapped."""
    return re.split(r"\n{2,}", inspect.cleandoc(command.help or "").strip())
