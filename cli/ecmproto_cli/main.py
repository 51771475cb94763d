"""The ``ecmproto`` command, which imports each command only when the command is called.

Exit codes: 0 for success, 1 for findings or if nothing was done, 2 for usage errors, 3 for an unreadable or
malformed capture, 4 for missing permissions or interfaces, 5 for a missing optional dependency, 130 for an
interrupt, and 141 for a closed pipe.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ecmproto._version import __version__
from ecmproto.errors import CacheWarning, PluginWarning, did_you_mean
from ecmproto_cli.errors import (
    CLOSED_PIPE,
    INTERRUPTED,
    CommandError,
    exit_code_of,
    print_notes,
    report,
    warn,
)
from ecmproto_cli.former import present
from ecmproto_cli.options import group_options
from ecmproto_cli.progress import work
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "dissect": "Dissect captures: lines, trees, hex, JSON, CSV, fields.",
    "craft": "Build one frame or a million from a command line, a specification or JSON.",
    "send": "Send frames from an interface, and report the achieved rate.",
    "replay": "Run a capture through a software congestion point.",
    "lab": "Simulate networks of hosts and switches in virtual time.",
    "stats": "Show the statistics of a capture: frame types, rates, feedback, pause times.",
    "check": "Check a capture against the rules for QCN, ECM, BCN, E²CM, FECN, PFC and RoCE, and your own.",
    "fleet": "Process many captures on many cores or machines: stats, check, Parquet, filter.",
    "diff": "Compare two captures frame by frame and field by field.",
    "edit": "Set fields, drop, merge and truncate frames, change tags and times, fix checksums.",
    "browse": "Browse a capture or an interface in the terminal.",
    "live": "Run a congestion point, reaction point or edge between real interfaces.",
    "fuzz": "Test ecmproto's decoders, a switch or any program with malformed frames.",
    "doctor": "Check that this machine can send and receive frames.",
    "units": "Compute quanta, pauses, headroom, frame rates and feedback.",
    "fields": "List all fields, or draw the bit layout of a format.",
    "wireshark": "Print or install the dissector for Wireshark and tshark.",
    "help": "Find commands, options, fields, formats, parameters and rules by a word.",
    "mcp": "Serve captures to an AI assistant, read-only.",
    "demo": "Demonstrate ecmproto on its bundled captures.",
    "completion": "Print the shell completion script for bash, zsh or fish.",
}

TASKS = {
    "For operators: inspect captures and interfaces": (
        "stats", "check", "dissect", "browse", "diff", "fleet", "doctor", "wireshark", "mcp",
    ),
    "For switch testers: build, edit and send frames": ("craft", "edit", "send", "fuzz"),
    "For researchers: simulate congestion control": ("replay", "lab", "live"),
    "For everyone: look things up": ("help", "fields", "units", "demo", "completion"),
}  # fmt: skip
"""The commands grouped by type of user, in the order of the help."""

_WITH_PROGRESS = ("dissect", "craft", "replay", "lab", "stats", "check", "diff", "send", "edit")
"""Commands that report progress during long work."""


class LazyGroup(click.Group):
    """A group of commands that are imported from ``ecmproto_cli.commands`` when needed.

    ``table`` maps each command to its one-sentence help. A command with an empty sentence is used by builds,
    and is not listed. The name of a command's module is ``prefix`` followed by the command's name.
    """

    def __init__(self, *, table: Mapping[str, str], prefix: str = "", **attributes: Any) -> None:
        super().__init__(**attributes)
        self._table = table
        self._prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the listed commands in the order of the table."""
        return list(self._listed())

    def _listed(self) -> dict[str, str]:
        return {name: sentence for name, sentence in self._table.items() if sentence}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None for an unknown name.

        The command is imported unless it is defined in this module.
        """
        if cmd_name not in self._table:
            return None
        command: click.Command = (
            self.commands.get(cmd_name)
            or importlib.import_module(f"ecmproto_cli.commands.{self._prefix}{cmd_name}").command
        )
        command.short_help = self._table[cmd_name]
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the options and commands that begin with ``incomplete``, without importing commands."""
        from click.shell_completion import CompletionItem

        items = [
            CompletionItem(name, help=help)
            for name, help in self._listed().items()
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, without importing commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._listed().items()))


class _Root(LazyGroup):
    """The top-level command ``ecmproto``."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for task, names in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name, COMMANDS[name]) for name in names], col_max=12)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command.

        Raises CommandError with the exit code for a closed pipe, instead of click's exit code 1.
        """
        try:
            result: object = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise CommandError(str(error), exit_code=CLOSED_PIPE) from error
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command.

        The error for an unknown command suggests the most similar command.
        """
        if args and args[0] not in COMMANDS:
            hint = did_you_mean(args[0], COMMANDS) or f"one of {', '.join(COMMANDS)}"
            ctx.fail(f"unknown command {args[0]!r} ({hint})")
        return super().resolve_command(ctx, args)


@click.group(cls=_Root, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@group_options
@click.version_option(__version__, "-v", "--version", prog_name="ecmproto", message="%(prog)s %(version)s")
def cli() -> None:
    """Ethernet congestion: PFC, PAUSE, RoCE with DCQCN and CNPs, ECN; QCN, ECM/BCN, E²CM, FECN, CSIG.

    --color, --ethertype and --order may also follow a command.
    """


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
"""Environment variable through which shell scripts request completion candidates."""


_OBJECTS = 100_000
"""Number of new objects between two garbage collections.

With Python's default of 700, garbage collections take a tenth of a command's start-up time.
"""


def _is_flushed() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(_OBJECTS)
    # When numpy loads OpenBLAS, OpenBLAS starts a thread for each processor, and these threads spin at first.
    # The threads are not needed, because ecmproto does not multiply large matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.showwarning = _show
    closed = _open_standard_streams()
    code = run(sys.argv[1:])
    if sys.stdout.fileno() in closed or not _is_flushed():
        # otherwise the interpreter reports a failed flush at exit, and changes the exit code
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # otherwise garbage collection at exit takes a tenth of a short command's time
    gc.freeze()
    sys.exit(code)


def _open_standard_streams() -> list[int]:
    """Replace closed standard streams, and return their file descriptors.

    Otherwise the next opened file would receive the descriptor of a standard stream.
    """
    closed = []
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # uses the lowest free descriptor
            os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
            closed.append(number)
    return closed


_show_any = warnings.showwarning


def _show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print a warning for the user as one sentence, without file name and line number."""
    if issubclass(category, CacheWarning | PluginWarning):
        warn(str(message))
    else:
        _show_any(message, category, *where, **more)


def _page_of(command: str, args: list[str]) -> str:
    """Return the name of the command, or of the subcommand, whose help describes an error."""
    group = getattr(sys.modules.get(f"ecmproto_cli.commands.{command}"), "command", None)
    inner = "".join(args[args.index(command) + 1 :][:1]) if command else ""
    is_inner = isinstance(group, click.Group) and inner in group.list_commands(click.Context(group))
    return f"{command} {inner}" if is_inner else command


def run(args: list[str]) -> int:
    """Run the command line with ``args`` and return the exit code.

    Errors are printed on stderr as one sentence.
    """
    args, hints = present(args)
    command = next((word for word in args if word in COMMANDS), "")
    for hint in hints:
        echo(f"ecmproto: {hint}", err=True)
    if COMPLETE in os.environ:
        from ecmproto_cli.completion import register

        register()
    try:
        if any("\0" in each for each in args):
            raise click.UsageError("expected arguments without NUL, got one with an embedded null")
        if command in _WITH_PROGRESS:
            work.begin()
        result = cli.main(args, prog_name="ecmproto", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt) as ended:
        print_notes(ended)
        echo("ecmproto: interrupted", err=True)
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as bare:
        # a group without a command prints its list of commands, which is not an error
        echo(bare.ctx.get_help())
        return 0
    except click.ClickException as error:
        report(error)
        return error.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except CommandError as error:
        if error.exit_code != CLOSED_PIPE:  # the reader of the pipe reports the error
            report(error, _page_of(command, args))
        return error.exit_code
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        report(error, _page_of(command, args))
        return code
    finally:
        work.end()
    return result if isinstance(result, int) else 0
