"""Colour on stdout, where it is wanted; nothing is ever said by colour alone."""

from __future__ import annotations

import os
import sys

import click

_STYLES: dict[str, dict[str, object]] = {
    "title": {"bold": True},
    "name": {"fg": "cyan"},
    "dim": {"dim": True},
    "congestion": {"fg": "yellow"},
    "pause": {"fg": "magenta"},
    "tag": {"fg": "green"},
    "error": {"fg": "red", "bold": True},
}

_wanted = False


def color_callback(ctx: click.Context, param: click.Parameter, value: str) -> None:
    """Take ``--color``'s value."""
    global _wanted
    auto = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    _wanted = value == "always" or (value == "auto" and auto)


def wanted() -> bool:
    """Return whether stdout is painted."""
    return _wanted


def paint(text: str, style: str) -> str:
    """Return ``text`` in the named style, or as it is when colour is not wanted."""
    return click.style(text, **_STYLES[style]) if _wanted else text  # type: ignore[arg-type]
