"""Errors of the command line: exit codes, and the two lines that are printed."""

from __future__ import annotations

import errno
import os

import click

from ecmproto.errors import (
    CaptureError,
    EcmprotoError,
    ExecutorError,
    InterfaceError,
    InterfaceGoneError,
    MissingDependencyError,
    OutputExistsError,
    RecordError,
    counted,
    escaped,
    nearest_name,
)
from ecmproto_cli.former import GROUP_OPTIONS, HABITS
from ecmproto_cli.terminal import echo

FINDINGS, USAGE, CAPTURE, PERMISSION, DEPENDENCY = 1, 2, 3, 4, 5
INTERRUPTED, CLOSED_PIPE = 130, 141

_OF_LINUX = frozenset({"fcntl", "grp", "pwd", "resource"})
"""Python modules that exist only on Linux and other Unix systems."""

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers that only outputs cause."""


class CommandError(Exception):
    """An error that ends a command with an exit code, one sentence and one line of help."""

    def __init__(self, sentence: str, *, exit_code: int, help: str = "") -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.help = help


def exit_code_of(error: Exception) -> int | None:
    """Return the exit code for an error that the user or the input caused, or None for a program defect."""
    if isinstance(error, InterfaceError | InterfaceGoneError | ExecutorError):
        return PERMISSION
    if isinstance(error.__cause__ or error, PermissionError):
        return PERMISSION
    if isinstance(error, CaptureError):
        return CAPTURE
    if isinstance(error, MissingDependencyError) or _needs_linux(error):
        return DEPENDENCY
    if isinstance(error, RecordError):
        return FINDINGS
    if isinstance(error, EcmprotoError):
        return USAGE
    if isinstance(error, OSError):
        return USAGE if error.errno in _DISK_FULL or error.errno == errno.EBADF else CAPTURE
    return None


def _needs_linux(error: Exception) -> bool:
    return isinstance(error, ModuleNotFoundError) and error.name in _OF_LINUX


def report(error: Exception, command: str = "") -> None:
    """Print an error of ``command`` on stderr as one sentence and one line of help."""
    print_notes(error)
    help = f"ecmproto {command} --help" if command else "ecmproto --help"
    if isinstance(error, click.NoSuchOption):
        near = nearest_name(error.option_name, [*GROUP_OPTIONS, *(error.possibilities or ())])
        if near in GROUP_OPTIONS:
            error = click.NoSuchOption(error.option_name, possibilities=[near], ctx=error.ctx)
    if isinstance(error, click.ClickException):
        sentence, help = error.format_message(), _usage_help(error)
    elif isinstance(error, CommandError):
        sentence, help = str(error), error.help or help
    elif _needs_linux(error):
        sentence = f"{command or 'this'}: expected Linux, got a system without Python's {error.name}"  # type: ignore[attr-defined]
        help = "reading, counting, checking, crafting and replaying files works on every system"
    elif isinstance(error, CaptureError):
        sentence = str(error)
        is_bundled = error.path.startswith("pcaps/") and not os.path.isdir("pcaps")
        help = _BUNDLED if is_bundled else _CAPTURES
        help = f"the {counted(error.frame, 'frame')} before it were used" if error.offset else help
    elif isinstance(error, MissingDependencyError):
        sentence, help = str(error), error.remedy
    elif isinstance(error, OutputExistsError):
        sentence, help = str(error), "another name, or --force to replace the file"
    elif isinstance(error, InterfaceError | ExecutorError):
        sentence, help = str(error), error.remedy or help
    elif isinstance(error, OSError) and error.errno in _DISK_FULL:
        # errors of files contain the file name
        sentence = f"{error.filename or 'stdout'}: expected space for the output, got {error.strerror}"
        help = "the earlier output is complete; free some space, or write elsewhere"
    elif isinstance(error, OSError) and error.errno == errno.EBADF and error.filename is None:
        sentence = "stdin or stdout: expected an open one, got a closed one"
        help = "use -r FILE and -w FILE instead"
    elif isinstance(error, OSError) and error.filename is not None:
        sentence = f"{error.filename}: {error.strerror}"
    else:
        sentence = str(error)
    # an error in a filter has several lines
    sentence = "\n".join(map(escaped, sentence.split("\n")))
    echo(f"ecmproto: {sentence}", err=True)
    echo(f"help: {help}", err=True)


def print_notes(error: BaseException | None) -> None:
    """Print the notes of an error and of its causes on stderr.

    The notes report truncated outputs.
    """
    while error is not None:
        warn(*getattr(error, "__notes__", ()))
        error = error.__cause__


_CAPTURES = "captures are pcap or pcapng files, plain, .gz or .zst, or - for stdin"
_BUNDLED = "ecmproto demo -w pcaps writes the bundled captures into the folder pcaps"


def _usage_help(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption) and error.option_name in HABITS:
        return HABITS[error.option_name]
    context = getattr(error, "ctx", None)
    return f"{context.command_path} --help" if context is not None else "ecmproto --help"


def warn(*sentences: str) -> None:
    """Print warnings on stderr."""
    for sentence in sentences:
        echo(f"ecmproto: warning: {escaped(sentence)}", err=True)
