"""``ecmproto help``: an overview of the commands, and a search."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from ecmproto_cli.declared import command_context
from ecmproto_cli.errors import FINDINGS, CommandError
from ecmproto_cli.main import COMMANDS, cli
from ecmproto_cli.terminal import echo, paint, prose_width

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ecmproto_cli.finding import Entry

_SHOWN = 5
_HINT = "ecmproto help WORD finds commands, options, fields, parameters and rules."
_LONGEST = 150
"""Maximum length of a description in characters."""


def _complete(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem[str]]:
    """Complete a command name."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=help) for name, help in COMMANDS.items() if name.startswith(begun)]


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("terms", nargs=-1, metavar="[WORD]...", shell_complete=_complete)
@click.option("--all", "every", is_flag=True, help=f"Show all results instead of {_SHOWN} of each type.")
def command(terms: tuple[str, ...], every: bool) -> int:
    """Find commands, options, formats, fields, mechanisms, parameters, scenarios and rules by a word.

    Without a WORD, the commands are listed by purpose; the name of a command shows its help.  Several words
    narrow the search.  A misspelt word finds the nearest matches.

    \b
    ecmproto help
    ecmproto help qeq
    ecmproto help queue pair
    ecmproto help lab run
    ecmproto help --storm
    """
    if not terms:
        echo(f"{cli.get_help(command_context('ecmproto', cli))}\n\n{_HINT}")
        return 0
    if not every and _show_command(terms):
        return 0
    from ecmproto_cli.finding import entries, find, nearest

    known = list(entries())
    results = find(terms, known)
    if not results:
        meant = nearest(terms, known)
        results = find(meant, known) if meant else []
        if not results:
            raise CommandError(
                f"nothing matches {' '.join(terms)!r}", exit_code=FINDINGS, help="ecmproto help"
            )
        echo(f"ecmproto: nothing is called {' '.join(terms)!r}; nearest: {' '.join(meant)}", err=True)
        terms = tuple(meant)
    echo("\n".join(_results(results, terms, every=every)))
    return 0


def _row(name: str, text: str, width: int) -> Iterator[str]:
    """Yield the lines of a result: the name and the wrapped description."""
    lines = textwrap.wrap(
        text, prose_width() - width - 4, break_long_words=False, break_on_hyphens=False
    ) or [""]
    if len(name) > width:
        yield f"  {paint(name, 'name')}"
        name = ""
    yield f"  {paint(name.ljust(width), 'name')}  {lines[0]}".rstrip()
    for line in lines[1:]:
        yield f"{'':{width + 4}}{line}"


def _show_command(terms: Sequence[str]) -> bool:
    """Print the help of a command, and return whether the command exists."""
    ctx = command_context("ecmproto", cli)
    command: click.Command | None = cli
    for word in terms:
        if not isinstance(command, click.Group):
            return False
        command = command.get_command(ctx, word)
        if command is None:
            return False
        ctx = command_context(word, command, ctx)
    assert command is not None
    echo(command.get_help(ctx))
    echo(f"\n{' '.join(terms)!r} elsewhere: ecmproto help --all {' '.join(terms)}")
    return True


def _results(results: Sequence[Entry], terms: Sequence[str], *, every: bool) -> Iterator[str]:
    """Yield the lines of the results, grouped by type.

    The type of the best result comes first. Each group ends with a command that shows more.
    """
    from ecmproto_cli.finding import KINDS

    first = {entry.kind: index for index, entry in reversed(list(enumerate(results)))}
    ordered = sorted(results, key=lambda entry: first[entry.kind])
    left_out = 0
    for kind, group in groupby(ordered, key=lambda entry: entry.kind):
        rows = list(group)
        shown = rows if every else rows[:_SHOWN]
        left_out += len(rows) - len(shown)
        if rows[0] is not ordered[0]:
            yield ""
        yield paint(KINDS[kind], "title")
        width = min(max(len(entry.name) for entry in shown), 22)
        for entry in shown:
            yield from _row(entry.name, textwrap.shorten(entry.doc, _LONGEST, placeholder=" …"), width)
        yield f"    $ {shown[0].then}"
    if left_out:
        yield f"\n{left_out} more: ecmproto help --all {' '.join(terms)}"
