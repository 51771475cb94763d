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
    Key("j,down", "move(1)", "go to the next line"),
    Key("k,up", "move(-1)", "go to the previous line"),
    Key("ctrl+d,pagedown,space", "page(1)", "scroll down by a page"),
    Key("ctrl+u,pageup,b", "page(-1)", "scroll up by a page"),
    Key("g,home", "first", "go to the first line"),
    Key("G,end", "last", "go to the last line"),
    Key("h,left", "aside(-1)", "scroll the list left, fold a layer, or go to the previous octet"),
    Key("l,right", "aside(1)", "scroll the list right, unfold a layer, or go to the next octet"),
    Key(
        "enter",
        "choose",
        "go from the list to the tree, fold or unfold a layer, or go from an octet to its field",
    ),
)
"""The keys that move the cursor in the list, the tree and the octets."""

WINDOW = (
    Key("tab", "pane(1)", "go to the next pane"),
    Key("shift+tab", "pane(-1)", "go to the previous pane"),
    Key("z", "zoom", "switch between one pane and all panes"),
    Key("question_mark,f1", "help", "show this page"),
    Key("escape", "clear", "stop a search, or clear the message"),
    Key("q,ctrl+c", "quit", "quit"),
)
FINDING = (
    Key("ampersand,Y", "filter", "show only frames that a display filter selects (empty: all)"),
    Key("equals_sign", "filter_field", "put the value of the selected field into the filter"),
    Key("slash", "search", "find the next frame that a display filter selects"),
    Key("n", "again(1)", "find the next matching frame"),
    Key("N", "again(-1)", "find the previous matching frame"),
    Key("colon", "goto", "go to a frame by its number"),
    Key(
        "o",
        "other(1)",
        "go from a message to the previous frame of its flow, or from a frame to the next message about its "
        "flow",
    ),
    Key("O", "other(-1)", "search like o, in the opposite direction"),
    Key("F", "flow", "show only this flow and the messages about it"),
    Key("m", "mark", "mark or unmark this frame"),
    Key("apostrophe", "marked(1)", "go to the next marked frame"),
    Key("quotation_mark", "marked(-1)", "go to the previous marked frame"),
)
SHOWING = (
    Key(
        "t",
        "time",
        "change the time column: since the first frame, since the previous frame, since the "
        "previous listed frame, UTC, or epoch",
    ),
    Key("r", "reference", "show times relative to this frame, or to the first frame again"),
    Key("f", "follow", "follow new frames as they arrive"),
    Key("s", "stats", "show statistics of the listed frames"),
    Key("p", "plot", "plot queues, feedback and rates over time"),
    Key("w", "write('shown')", "write the listed frames to a file"),
    Key("W", "write('marked')", "write the marked frames to a file"),
    Key("y", "copy", "copy the line, a filter for the selected field, or the octets in hexadecimal"),
)
PROMPT = (
    Key("tab", "accept", "accept the completion"),
    Key("down,ctrl+n", "pick(1)", "go to the next completion or to a later line"),
    Key("up,ctrl+p", "pick(-1)", "go to the previous completion or to an earlier line"),
    Key("enter", "submit", "run the command"),
    Key("escape,ctrl+c", "leave", "cancel"),
)
PAGE = (
    Key("q,escape,question_mark,s,p,ctrl+c", "leave", "return to the frames"),
    Key("h,left,N", "turn(-1)", "show the previous plot"),
    Key("l,right,n,tab", "turn(1)", "show the next plot"),
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
    ("click", "select a frame, a field or the field of an octet, or fold the layer at its mark"),
    ("wheel", "scroll a pane"),
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
