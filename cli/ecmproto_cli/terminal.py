"""Colours, and the functions that print text on stdout and stderr."""

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
"""Pattern of the escape sequences that set colours."""
_GAP, _WORD = re.compile(r"^ +| {2,}"), re.compile(r" *[^ ]+ *")
_WIDTH = 80
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
    """Return ``text`` in the named style, or unchanged if colours are off."""
    return click.style(text, **_STYLES[style]) if _coloured else text  # type: ignore[arg-type]


def visible(text: str) -> str:
    """Return text with escaped terminal control characters.

    Line ends, tabs and the colours of `paint` are not escaped. Escaping does not change the meaning of JSON.
    """
    if not _coloured or "\x1b" not in text:
        return escaped(text, keep="\n\t")
    return "".join(
        part if index % 2 else escaped(part, keep="\n\t") for index, part in enumerate(_OWN.split(text))
    )


def terminal_width() -> int | None:
    """Return the width of the terminal in columns, or None if stdout is not a terminal."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def prose_width() -> int:
    """Return the width for paragraphs in columns: 80, or fewer on a narrow terminal."""
    return min(_WIDTH, terminal_width() or _WIDTH)


def wrapped(text: str) -> str:
    """Return text with long lines wrapped at the width of the terminal.

    Continuation lines are indented to the last column of the first line.
    """
    width = terminal_width()
    return text if width is None else "\n".join(_wrapped(line, width) for line in text.split("\n"))


def _wrapped(line: str, width: int) -> str:
    if len(_OWN.sub("", line)) <= width:
        return line
    columns = [len(_OWN.sub("", line[: gap.end()])) for gap in _GAP.finditer(line)]
    indent = max((each for each in columns if each <= width // 2), default=0)
    lines, used = [""], 0
    for word in _WORD.findall(line):
        length = len(_OWN.sub("", word))
        if used and used + len(_OWN.sub("", word.rstrip())) > width:
            lines[-1] = lines[-1].rstrip(" ")
            lines.append(" " * indent)
            used = indent
        lines[-1] += word
        used += length
    return "\n".join(lines)


def echo(text: str = "", *, err: bool = False, nl: bool = True, wrap: bool = False) -> None:
    """Print text on stdout or stderr, escaped by `visible`.

    All commands print through this function. ``wrap`` wraps long lines at the width of the terminal.
    """
    click.echo(visible(wrapped(text) if wrap else text), err=err, nl=nl)


class Printed:
    """A text file that prints with `echo`, for functions that write to a file."""

    def write(self, text: str) -> None:
        """Print text."""
        echo(text, nl=False)


def echo_over(text: str = "") -> None:
    """Replace the last line on the terminal (stderr) with ``text``, escaped by `visible`."""
    click.echo(f"{_CLEAR_LINE}{visible(text)}", err=True, nl=False)
