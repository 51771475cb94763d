"""The ``ecmproto`` command: a table of commands, each imported when it is called.

Exit codes: 0 done; 1 findings or nothing done; 2 usage; 3 unreadable or malformed capture; 4 permission or
missing interface; 5 missing optional dependency; 130 interrupted; 141 closed pipe.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

import click

from ecmproto._version import __version__
from ecmproto.errors import CacheWarning, PluginWarning
from ecmproto_cli import small
from ecmproto_cli.errors import CLOSED_PIPE, INTERRUPTED, CommandError, exit_code_of, report, tell_notes, warn
from ecmproto_cli.progress import work
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "dissect": "Show what is in a capture: lines, trees, hex, JSON, CSV, fields.",
    "craft": "Build frames from a line, a specification or JSON, one or a million.",
    "send": "Send frames out of an interface, and say at which rate they left.",
    "replay": "Run a capture through a software congestion point.",
    "lab": "Run experiments in networks of hosts and switches, in virtual time.",
    "stats": "Show what is in a capture in numbers: kinds, rates, feedback, pauses as time.",
    "check": "Hold a capture to rules: QCN, ECM, BCN, E²CM, FECN, PFC, RoCE, your own.",
    "fleet": "Do the same with many captures, on many cores or machines: stats, check, Parquet, filter.",
    "diff": "Compare two captures frame by frame and field by field.",
    "edit": "Set fields, drop, merge and cut frames, change tags and times, fix checksums.",
    "browse": "Look through a capture, or an interface, in a window in the terminal.",
    "live": "Be a congestion point, reaction point or edge between real interfaces.",
    "fuzz": "Try spoilt frames on these decoders, or on any program.",
    "doctor": "Say what this machine has and lacks for frames on its interfaces.",
    "units": "Work out quanta, pauses, headroom, frames a second and feedback.",
    "schema": "Draw the bit layout of a frame format.",
    "fields": "List the fields that can be asked for by name.",
    "wireshark": "Print or install the dissector for Wireshark and tshark.",
    "help": "Find commands, options, fields, formats, parameters and rules by a word.",
    "demo": "Show what ecmproto does, on captures that come with it.",
    "completion": "Print the shell completion script for bash, zsh or fish.",
}


_TOLD = ("dissect", "craft", "replay", "lab", "stats", "check", "diff", "send", "edit")
"""Commands that say what they are at when they take long; others speak all the time, or never take long."""


class LazyGroup(click.Group):
    """A group whose commands live in modules of ``ecmproto_cli.commands`` that are imported one at a time.

    ``table`` has a sentence for each command; its module has the command's name behind ``prefix``.
    """

    def __init__(self, *, table: Mapping[str, str], prefix: str = "", **attributes: Any) -> None:
        super().__init__(**attributes)
        self._table = table
        self._prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported unless it was defined here; None when there is no such."""
        if cmd_name not in self._table:
            return None
        command: click.Command = (
            self.commands.get(cmd_name)
            or importlib.import_module(f"ecmproto_cli.commands.{self._prefix}{cmd_name}").command
        )
        command.short_help = self._table[cmd_name]
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the commands that begin so, from the table, importing none of them, and options."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=help)
            for name, help in self._table.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._table.items()))


class _Root(LazyGroup):
    """The command line itself."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a closed pipe leaves by its own exit code, not by click's 1."""
        try:
            result: object = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise CommandError(str(error), exit_code=CLOSED_PIPE) from error
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; a misspelt one is answered with the nearest."""
        if args and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(COMMANDS)}"
            ctx.fail(f"there is no command {args[0]!r} ({hint})")
        return super().resolve_command(ctx, args)


@click.group(cls=_Root, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="ecmproto", message="%(prog)s %(version)s")
def cli() -> None:
    """Layer-2 Ethernet congestion management: QCN, ECM/BCN, E²CM, FECN, PAUSE and PFC."""


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    ecmproto completion bash > ~/.local/share/bash-completion/completions/ecmproto
    ecmproto completion zsh > ~/.zfunc/_ecmproto      (with fpath+=~/.zfunc before compinit)
    ecmproto completion fish > ~/.config/fish/completions/ecmproto.fish
    """
    from ecmproto_cli.completion import SHELLS

    echo(SHELLS[shell](cli, {}, "ecmproto", COMPLETE).source(), nl=False)


COMPLETE = "_ECMPROTO_COMPLETE"
"""The variable in which a shell's script asks for candidates."""


_OBJECTS = 100_000
"""How many new objects are looked through for garbage at a time.

With Python's 700 that takes a tenth of the start of a command that loads kernels, whose objects all stay.
"""


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.set_threshold(_OBJECTS)
    # What numpy has for products of large matrices, of which there are none here, starts a thread for each
    # processor when it is loaded, and they spin for a while.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.showwarning = _show
    closed = _open_standard_streams()
    small.begin(next(iter(sys.argv[1:]), ""))
    code = run(sys.argv[1:])
    if sys.stdout.fileno() in closed:
        # or the interpreter complains at exit of what it cannot flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # or the interpreter looks through all that there is for garbage, for a tenth of a short command, and ends
    gc.freeze()
    sys.exit(code)


def _open_standard_streams() -> list[int]:
    """Put something in the place of standard streams that are closed, which the next file would take.

    Nothing can be read from that or written to it; what would stand on stderr is lost.  Return which.
    """
    closed = []
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # takes the lowest number that is free
            os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
            closed.append(number)
    return closed


_show_any = warnings.showwarning


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning meant for the user as one sentence, without file and line."""
    if issubclass(category, CacheWarning | PluginWarning):
        warn(str(message))
    else:
        _show_any(message, category, filename, lineno, file, line)


def run(args: list[str]) -> int:
    """Run the command line with ``args`` and return the exit code; errors are one sentence on stderr."""
    command = args[0] if args and args[0] in COMMANDS else ""
    if COMPLETE in os.environ:
        from ecmproto_cli.completion import register

        register()
    try:
        if any("\0" in each for each in args):
            raise click.UsageError("needed arguments without NUL, got one with an embedded null")
        if command in _TOLD:
            work.begin()
        result = cli.main(args, prog_name="ecmproto", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt) as ended:
        tell_notes(ended)
        echo("ecmproto: interrupted", err=True)
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as bare:
        # a group that is called by itself: its commands are the answer, and no mistake
        echo(bare.ctx.get_help())
        return 0
    except click.ClickException as error:
        report(error)
        return error.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except CommandError as error:
        if error.exit_code == CLOSED_PIPE:
            # whoever read has gone: no complaint, and none from the interpreter's own flush at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            report(error, command)
        return error.exit_code
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        report(error, command)
        return code
    finally:
        work.end()
    return result if isinstance(result, int) else 0
