"""The keys of the window, from which key bindings and the help page are created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.binding import Binding, BindingType


class Key(NamedTuple):
    """A group of keys with equal meaning: the toolkit's names, the action, and the description."""

    keys: str
    action: str
    does: str


MOVING = (
    Key("j,down", "move(1)", "next line"),
    Key("k,up", "move(-1)", "previous line"),
    Key("ctrl+d,pagedown,space", "page(1)", "page down"),
    Key("ctrl+u,pageup,b", "page(-1)", "page up"),
    Key("g,home", "first", "first line"),
    Key("G,end", "last", "last line"),
    Key("h,left", "aside(-1)", "list: scroll left; tree: fold; octets: previous octet"),
    Key("l,right", "aside(1)", "list: scroll right; tree: unfold; octets: next octet"),
    Key("enter", "choose", "list: go to the tree; tree: fold or unfold; octets: go to the field"),
)
"""The keys that move the cursor in the list, the tree and the octets."""

WINDOW = (
    Key("tab", "pane(1)", "next pane"),
    Key("shift+tab", "pane(-1)", "previous pane"),
    Key("z", "zoom", "show only this pane, or all three"),
    Key("question_mark,f1", "help", "this page"),
    Key("escape", "clear", "stop a search; clear the message"),
    Key("q,ctrl+c", "quit", "quit"),
)
FINDING = (
    Key("ampersand,Y", "filter", "show only frames that a display filter selects (empty: all)"),
    Key("equals_sign", "filter_field", "put this field's value into the filter"),
    Key("slash", "search", "find the next frame that a display filter selects"),
    Key("n", "again(1)", "find the next"),
    Key("N", "again(-1)", "find the previous one"),
    Key("colon", "goto", "go to a frame by its number"),
    Key(
        "o",
        "other(1)",
        "from a message to the previous frame of its flow; from a frame to the next message about its flow",
    ),
    Key("O", "other(-1)", "the same in the opposite direction"),
    Key("F", "flow", "show only this flow and the messages about it"),
    Key("m", "mark", "mark this frame, or unmark it"),
    Key("apostrophe", "marked(1)", "next marked frame"),
    Key("quotation_mark", "marked(-1)", "previous marked frame"),
)
SHOWING = (
    Key("t", "time", "time: since the first, the previous, the previous shown frame, UTC, epoch"),
    Key("r", "reference", "count relative times from this frame, or again from the first"),
    Key("f", "follow", "follow new frames as they arrive"),
    Key("s", "stats", "statistics of the frames shown"),
    Key("p", "plot", "queues, feedback and rates over time"),
    Key("w", "write('shown')", "write the frames that are shown to a file"),
    Key("W", "write('marked')", "write the marked frames to a file"),
    Key("y", "copy", "copy the line; for a field, a filter for its value; for octets, their hex digits"),
)
PROMPT = (
    Key("tab", "accept", "accept the completion"),
    Key("down,ctrl+n", "pick(1)", "next completion, or later line"),
    Key("up,ctrl+p", "pick(-1)", "previous completion, or earlier line"),
    Key("enter", "submit", "do it"),
    Key("escape,ctrl+c", "leave", "do nothing"),
)
PAGE = (
    Key("q,escape,question_mark,s,p,ctrl+c", "leave", "back to the frames"),
    Key("h,left,N", "turn(-1)", "previous curve"),
    Key("l,right,n,tab", "turn(1)", "next curve"),
)
_GROUPS = (
    ("Moving", MOVING), ("Finding", FINDING), ("Showing", SHOWING), ("Window", WINDOW),
    ("While a line is typed", PROMPT), ("On pages like this", PAGE),
)  # fmt: skip

_SHOWN = {
    "question_mark": "?", "ampersand": "&", "equals_sign": "=", "slash": "/", "colon": ":",
    "apostrophe": "'", "quotation_mark": '"', "pagedown": "PgDn", "pageup": "PgUp", "escape": "Esc",
    "enter": "Enter", "down": "↓", "up": "↑", "left": "←", "right": "→", "home": "Home", "end": "End",
    "tab": "Tab", "shift+tab": "Shift-Tab", "space": "Space", "f1": "F1",
}  # fmt: skip
MOUSE = (
    ("click", "choose a frame, a field, an octet's field; the mark before a layer folds it"),
    ("wheel", "move through a pane"),
)
_KEYS_WIDTH = 17


def bindings(keys: Sequence[Key], *, target: str = "", priority: bool = False) -> list[BindingType]:
    """Return ``keys`` as bindings of the toolkit.

    ``target`` is the prefix of the actions, such as ``focused.``. Keys with ``priority`` are handled in the
    order of typing, even on a slow machine, so an opened widget receives the next key.
    """
    return [
        Binding(each.keys, target + each.action, each.does, show=False, priority=priority) for each in keys
    ]


def shown(keys: str) -> str:
    """Return keys in the notation of the documentation."""
    return " ".join(
        _SHOWN.get(key) or (f"^{key[5:].upper()}" if key.startswith("ctrl+") else key)
        for key in keys.split(",")
    )


def help_lines(width: int) -> Iterator[str]:
    """Yield the lines of the help page, each at most ``width`` characters long."""
    import textwrap

    tables = [(title, [(shown(key.keys), key.does) for key in keys]) for title, keys in _GROUPS]
    for title, rows in [*tables, ("Mouse", list(MOUSE))]:
        yield title
        for keys, does in rows:
            first, *more = textwrap.wrap(does, max(20, width - _KEYS_WIDTH - 4)) or [""]
            yield f"  {keys:<{_KEYS_WIDTH}} {first}".rstrip()
            yield from (f"  {'':<{_KEYS_WIDTH}} {line}" for line in more)
        yield ""
