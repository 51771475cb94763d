"""Text printed on stdout and stderr: one function for all of it, and colours."""

from __future__ import annotations

import os
import re
import sys

import click

from ecmproto.errors import escaped

_STYLES: dict[str, dict[str, object]] = {
    "title": {"bold": True},
    "name": {"fg": "cyan"},
    "dim": {"dim": True},
    "congestion": {"fg": "yellow"},
    "pause": {"fg": "magenta"},
    "tag": {"fg": "green"},
    "error": {"fg": "red", "bold": True},
}
_SEQUENCES = {
    re.escape(sequence)
    for style in _STYLES.values()
    for sequence in click.style("|", **style).split("|")  # type: ignore[arg-type]
}
_OWN = re.compile(f"({'|'.join(_SEQUENCES)})")
"""The sequences of colours."""
_CLEAR_LINE = "\r\x1b[K"

_coloured = False


def color_callback(ctx: click.Context, param: click.Parameter, value: str) -> None:
    """Store the value of ``--color``."""
    global _coloured
    auto = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    _coloured = value == "always" or (value == "auto" and auto)


def is_coloured() -> bool:
    """Return whether stdout is coloured."""
    return _coloured


def paint(text: str, style: str) -> str:
    """Return ``text`` in the named style, or unchanged without colour."""
    return click.style(text, **_STYLES[style]) if _coloured else text  # type: ignore[arg-type]


def visible(text: str) -> str:
    """Return text with all terminal controls escaped except ends of lines, tabs and the colours of `paint`.

    JSON keeps its meaning.
    """
    if not _coloured or "\x1b" not in text:
        return escaped(text, keep="\n\t")
    return "".join(
        part if place % 2 else escaped(part, keep="\n\t") for place, part in enumerate(_OWN.split(text))
    )


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text, `visible`, on stdout or stderr: the only function of the command line that does."""
    click.echo(visible(text), err=err, nl=nl)


class Printed:
    """A text file that prints by `echo`, for writers that take a file."""

    def write(self, text: str) -> None:
        """Print text."""
        echo(text, nl=False)


def echo_over(text: str = "") -> None:
    """Print text, `visible`, over the last line of a terminal on stderr."""
    click.echo(f"{_CLEAR_LINE}{visible(text)}", err=True, nl=False)
