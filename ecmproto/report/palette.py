"""Colours, markers and how they change in the dark: the same for every figure.

The colours are told apart with each of the usual colour deficiencies and stand out from their ground; they
never carry meaning alone, every line of several has a marker of its own too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Colour:
    """A role of colour: the CSS variable that holds it on a page, and its two values."""

    variable: str
    light: str
    dark: str


INK = Colour(variable="--ink", light="#1b1f24", dark="#e9edf2")
MUTED = Colour(variable="--muted", light="#59626d", dark="#a3adb9")
GRID = Colour(variable="--grid", light="#e2e6ea", dark="#313942")
PAPER = Colour(variable="--paper", light="#fefefe", dark="#14181d")
QUEUE = Colour(variable="--queue", light="#0a6cab", dark="#5cb6ee")
ALERT = Colour(variable="--alert", light="#bf4a02", dark="#ff965c")
OTHERS = Colour(variable="--others", light="#7d8690", dark="#8e99a5")

_LINES = (
    Colour(variable="--line-1", light="#0072b2", dark="#56b4e9"),
    Colour(variable="--line-2", light="#c85200", dark="#ff9a57"),
    Colour(variable="--line-3", light="#00845e", dark="#34cfa0"),
    Colour(variable="--line-4", light="#b04a87", dark="#eca3cf"),
    Colour(variable="--line-5", light="#9c7400", dark="#efc04c"),
    Colour(variable="--line-6", light="#2b93c9", dark="#9bdcff"),
    Colour(variable="--line-7", light="#6a51a8", dark="#b9a6f5"),
    Colour(variable="--line-8", light="#6b6e00", dark="#c9cc5e"),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h", "d", "8", "H", "|")

COLOURS = (INK, MUTED, GRID, PAPER, QUEUE, ALERT, OTHERS, *_LINES)
"""Every role; no two have the same light value, so that a picture's colours lead back to their roles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStyle:
    """How one line of several is drawn."""

    colour: Colour
    marker: str


def line_style(position: int) -> LineStyle:
    """Return the style of line number ``position``; the first sixteen differ from one another."""
    return LineStyle(colour=_LINES[position % len(_LINES)], marker=_MARKERS[position % len(_MARKERS)])
