"""The three panes: the list of frames, and the tree and the octets of one frame.

Lines are rendered when they become visible. No information is shown by colour alone: the line at the cursor
is inverse and has a mark, and the octets of the chosen field are in brackets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ecmproto.errors import printable
from ecmproto.frames.dissect.form import Record
from ecmproto.frames.dissect.tree import INDENT, TreeLine
from ecmproto.wire.formats.registry import FORMATS
from ecmproto_cli.browse.keys import MOVING, bindings

if TYPE_CHECKING:
    from ecmproto.tools.browse.browser import Browser, TimeFormat

_PLAIN = Style()
_CURSOR = Style(reverse=True)
_ASIDE = Style(underline=True)
"""The style of the line at the cursor in a pane without focus."""
STYLES = {
    "title": Style(bold=True),
    "name": Style(color="cyan"),
    "dim": Style(dim=True),
    "congestion": Style(color="yellow"),
    "pause": Style(color="magenta"),
    "tag": Style(color="green"),
    "error": Style(color="red", bold=True),
}
_WHEEL_LINES = 3
_SIDE_STEP = 16


class Pane(Widget, can_focus=True):
    """Lines with a cursor; only visible lines are rendered."""

    BINDINGS = bindings(MOVING)
    DEFAULT_CSS = "Pane { width: 1fr; height: 1fr; }"

    class Moved(Message):
        """A message that the cursor of a pane moved to another line."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

    cursor = 0
    top = 0
    _drawn = -1
    """The index of the first line when the pane was last drawn."""

    @property
    def count(self) -> int:
        """Return the number of lines."""
        raise NotImplementedError

    def line(self, index: int) -> Sequence[tuple[str, Style]]:
        """Return a line as segments of text with styles."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Render a line of the window."""
        index, width = self.top + y, self.size.width
        if index >= self.count:
            return Strip.blank(width)
        style = (_CURSOR if self.has_focus else _ASIDE) if index == self.cursor else _PLAIN
        segments = [Segment(printable(text), own + style) for text, own in self.line(index)]
        return Strip(segments).adjust_cell_length(width, style)

    def go(self, index: int) -> None:
        """Move the cursor to a line, and scroll until the line is visible."""
        index = max(0, min(index, self.count - 1))
        height = max(1, self.size.height)
        self.top = max(0, min(self.top, index), index - height + 1)
        before = self.cursor, self._drawn
        changed, self.cursor = index != self.cursor, index
        self._drawn = self.top
        if before != (self.cursor, self.top):
            self.refresh()
        if changed:
            self.changed()

    def changed(self) -> None:
        """Post that the cursor has moved."""
        self.post_message(self.Moved(self))

    def scroll_lines(self, lines: int) -> None:
        """Scroll, and move the cursor only if the cursor left the window."""
        height = max(1, self.size.height)
        self.top = max(0, min(self.top + lines, self.count - height))
        self.go(max(self.top, min(self.cursor, self.top + height - 1)))

    def on_resize(self, event: Resize) -> None:
        """Keep the cursor visible."""
        self.go(self.cursor)

    def on_focus(self) -> None:
        """Redraw the cursor."""
        self.refresh()

    on_blur = on_focus

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll down for the mouse wheel."""
        event.stop()
        self.scroll_lines(_WHEEL_LINES)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll up for the mouse wheel."""
        event.stop()
        self.scroll_lines(-_WHEEL_LINES)

    def on_click(self, event: Click) -> None:
        """Move the cursor to the mouse position."""
        self.clicked(event.x, self.top + event.y)

    def clicked(self, x: int, index: int) -> None:
        """Handle a click on a line."""
        if index < self.count:
            self.go(index)

    def action_move(self, lines: int) -> None:
        """Move by lines."""
        self.go(self.cursor + lines)

    def action_page(self, pages: int) -> None:
        """Move by pages."""
        step = pages * max(1, self.size.height - 1)
        self.top = max(0, min(self.top + step, self.count - self.size.height))
        self.go(self.cursor + step)

    def action_first(self) -> None:
        """Move to the first line."""
        self.go(0)

    def action_last(self) -> None:
        """Move to the last line."""
        self.go(self.count - 1)

    def action_aside(self, steps: int) -> None:
        """Move to the left or to the right."""

    def action_choose(self) -> None:
        """Focus the tree, as the Enter key does."""
        self.screen.set_focus(self.screen.query_one(FrameTree))


class FrameList(Pane):
    """The list of frames, one per line: number, time, addresses if there is space, type and summary."""

    def __init__(self, browser: Browser) -> None:
        super().__init__(id="frames")
        self._browser = browser
        self.time_format: TimeFormat = "relative"
        self.shift = 0
        """The number of characters by which the summaries are scrolled to the left."""
        self.following = False
        """Whether the cursor stays on the last line while new frames arrive."""
        self._known = (-1, 0)
        """The number of lines, and the width of frame numbers, when the pane was last drawn."""

    @property
    def count(self) -> int:
        """Return the number of shown frames."""
        return self._browser.count

    @property
    def frame(self) -> int | None:
        """Return the frame at the cursor."""
        return self._browser.frame_at(self.cursor) if self.cursor < self.count else None

    @property
    def _number_width(self) -> int:
        return max(5, len(str(self._browser.pages.frames)))

    @property
    def _address_width(self) -> int:
        """Return the width of both addresses, of the first address alone, or of no address."""
        width = self.size.width
        return 37 if width >= 110 else 17

    def heading(self) -> str:
        """Return the names of the columns."""
        both = self._address_width > 17
        addresses = "Source            → Destination" if both else "Source"
        octets = f" {'Octets':>6}" if both else ""
        return (
            f"  {'No.':>{self._number_width}} {_TIME_NAMES[self.time_format]:<{self._time_width}} "
            f"{addresses:<{self._address_width}}{octets} Kind  Summary"
        )

    @property
    def _time_width(self) -> int:
        return 20 if self.time_format == "epoch" else 18 if self.time_format == "utc" else 13

    def line(self, index: int) -> Sequence[tuple[str, Style]]:
        """Return the line of a frame."""
        ((frame, row),) = self._browser.rows(index, 1)
        flags = ">" if index == self.cursor else " "
        flags += "*" if frame in self._browser.marks else "=" if frame == self._browser.reference else " "
        head = f"{flags}{frame + 1:>{self._number_width}} "
        if row is None:
            return [(f"{head}gone: the file was truncated after it was opened", STYLES["error"])]
        time = self._browser.time_of(index, frame, self.time_format)
        both = self._address_width > 17
        addresses = row.addresses if both else row.addresses.partition(" → ")[0].strip()
        octets = f" {row.octets:>6}" if both else ""
        fixed = f"{head}{time:<{self._time_width}} {addresses:<{self._address_width}}{octets} "
        style = STYLES.get(row.style, _PLAIN)
        summary = f"«{row.summary[self.shift + 1 :]}" if self.shift else row.summary
        return [(fixed, _PLAIN), (f"{row.kind:<5} ", style), (summary, style)]

    def line_text(self, index: int) -> str:
        """Return a frame's line with its complete summary."""
        shift, self.shift = self.shift, 0
        text = "".join(piece for piece, _ in self.line(index))
        self.shift = shift
        return text[2:].strip()

    def renew(self) -> None:
        """Show the list again with other frames."""
        self.cursor = self.top = 0
        self._known = (-1, 0)
        self.refresh()

    def grew(self) -> None:
        """Add lines for new frames."""
        if self.following:
            self.go(self.count - 1)
        known = self.count, self._number_width
        if known != self._known:
            self._known = known
            self.refresh()

    def go(self, index: int) -> None:
        """Move the cursor to a frame; an upward move stops following."""
        if index < self.count - 1 and index < self.cursor:
            self.following = False
        super().go(index)

    def action_last(self) -> None:
        """Move to the last frame, and follow new ones."""
        self.following = self.following or not self._browser.settled
        super().action_last()

    def action_aside(self, steps: int) -> None:
        """Scroll the summaries to the left or to the right."""
        self.shift = max(0, self.shift + steps * _SIDE_STEP)
        self.refresh()


_TIME_NAMES = {
    "relative": "Time", "delta": "Delta", "delta shown": "Delta shown", "utc": "Time UTC", "epoch": "Epoch",
}  # fmt: skip


_FOLDED = frozenset(cls.prefix for cls in FORMATS if cls.role in ("header", "payload")) | {"frame"}
"""Layers that are folded at first, because they do not concern congestion management."""


class FrameTree(Pane):
    """The layers and fields of a frame, with one line each."""

    def __init__(self) -> None:
        super().__init__(id="tree")
        self.lines: list[TreeLine] = []
        """All lines of the frame, including those in folded layers."""
        self._seen: list[int] = []
        self._folded: set[str] = set(_FOLDED)

    @property
    def count(self) -> int:
        """Return the number of visible lines."""
        return len(self._seen)

    @property
    def chosen(self) -> int | None:
        """Return the index of the line at the cursor among all lines."""
        return self._seen[self.cursor] if self.cursor < len(self._seen) else None

    @property
    def chosen_line(self) -> TreeLine | None:
        """Return the line at the cursor."""
        return None if self.chosen is None else self.lines[self.chosen]

    def show(self, lines: Sequence[TreeLine]) -> None:
        """Show a frame; the cursor stays on the same field if possible."""
        before = self.chosen_line
        self.lines = list(lines)
        self._fold()
        same = None
        if before is not None:
            same = next(
                (at for at, index in enumerate(self._seen) if _alike(self.lines[index], before)), None
            )
        self.top = min(self.top, max(0, self.count - self.size.height))
        self.cursor = -1
        self.go(same or 0)

    def _key(self, position: int) -> str:
        """Return the key for which the folding of a layer is stored."""
        line = self.lines[position]
        if line.name:
            return line.name.removeprefix("encapsulated.")
        return line.text.partition(" ")[0].lower()

    def _is_layer(self, position: int) -> bool:
        return position + 1 < len(self.lines) and self.lines[position + 1].depth > self.lines[position].depth

    def _fold(self) -> None:
        """Determine the visible lines."""
        self._seen = []
        hidden_from: int | None = None
        for index, line in enumerate(self.lines):
            if hidden_from is not None and line.depth > hidden_from:
                continue
            hidden_from = None
            self._seen.append(index)
            if self._is_layer(index) and self._key(index) in self._folded:
                hidden_from = line.depth

    def line(self, index: int) -> Sequence[tuple[str, Style]]:
        """Return a line, with the sign that shows whether the layer is folded."""
        row = self._seen[index]
        line = self.lines[row]
        sign = " "
        if self._is_layer(row):
            sign = "▸" if self._key(row) in self._folded else "▾"
        cursor = ">" if index == self.cursor else " "
        head = f"{cursor}{INDENT[2:] * line.depth}{sign} "
        if line.text.startswith("[") or line.name == "frame.error":
            return [(head, _PLAIN), (line.text, STYLES["error"])]
        if sign != " ":
            return [(head, _PLAIN), (line.text, STYLES["title"])]
        name, gap, rest = line.text.partition("  ")
        return [(head, _PLAIN), (name, STYLES["name"] if gap else _PLAIN), (gap + rest, _PLAIN)]

    def point(self, octet: int) -> None:
        """Move the cursor to the field that contains an octet, and unfold the layers of the field."""
        indices = [index for index, line in enumerate(self.lines) if line.start <= octet < line.stop]
        if not indices:
            return
        # the narrowest field; among equally narrow fields, the innermost
        index = min(indices, key=lambda each: (self.lines[each].stop - self.lines[each].start, -each))
        for outer in range(index):
            if self._is_layer(outer) and outer in self._around(index):
                self._folded.discard(self._key(outer))
        self._fold()
        self.cursor = -1
        self.go(self._seen.index(index))

    def _around(self, position: int) -> list[int]:
        """Return the lines of the layers that contain a line."""
        depth, around = self.lines[position].depth, []
        for other in range(position - 1, -1, -1):
            if self.lines[other].depth < depth:
                around.append(other)
                depth = self.lines[other].depth
        return around

    def _set_folded(self, folded: bool | None) -> None:
        index = self.chosen
        if index is None:
            return
        if not self._is_layer(index):
            around = self._around(index)
            if folded and around:
                self.go(self._seen.index(around[0]))
            return
        key = self._key(index)
        fold = key not in self._folded if folded is None else folded
        self._folded.add(key) if fold else self._folded.discard(key)
        self._fold()
        self.refresh()
        self.go(self._seen.index(index))

    def action_aside(self, steps: int) -> None:
        """Fold or unfold a layer; from a field, go to the layer of the field."""
        self._set_folded(steps < 0)

    def action_choose(self) -> None:
        """Fold or unfold a layer."""
        self._set_folded(None)

    def clicked(self, x: int, index: int) -> None:
        """Handle a click; a click on the sign of a layer folds or unfolds the layer."""
        if index >= self.count:
            return
        self.go(index)
        sign = 1 + len(INDENT[2:]) * self.lines[self._seen[index]].depth
        if x == sign:
            self._set_folded(None)


def _alike(line: TreeLine, other: TreeLine) -> bool:
    """Return whether two lines of different frames show the same field."""
    if line.name or other.name:
        return (line.name, line.depth) == (other.name, other.depth)
    return line.text.split()[:1] == other.text.split()[:1] and line.depth == other.depth


ROW_OCTETS = 16


class Octets(Pane):
    """The octets of a frame, sixteen per line, with the chosen field in brackets."""

    def __init__(self) -> None:
        super().__init__(id="octets")
        self._octets = b""
        self.start = self.stop = 0
        self.at = 0
        """The index of the octet at the cursor."""

    class Pointed(Message):
        """A message that an octet was chosen."""

        def __init__(self, octet: int) -> None:
            super().__init__()
            self.octet = octet

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return -(-len(self._octets) // ROW_OCTETS)

    @property
    def _digits(self) -> int:
        return max(4, len(f"{len(self._octets):x}"))

    @property
    def chosen(self) -> bytes:
        """Return the octets in brackets, or the octet at the cursor if there are no brackets."""
        return self._octets[self.start : self.stop] or self._octets[self.at : self.at + 1]

    def show(self, record: Record | None) -> None:
        """Show the octets of a frame."""
        self._octets = b"" if record is None else record.octets
        self.mark(0, 0)

    def mark(self, start: int, stop: int) -> None:
        """Put octets ``start`` to ``stop`` (exclusive) in brackets, and scroll to the first octet."""
        self.start, self.stop = start, min(stop, len(self._octets))
        if not (self.start <= self.at < self.stop):
            self.at = self.start
        self.go(self.at // ROW_OCTETS)
        self.refresh()

    def line(self, index: int) -> Sequence[tuple[str, Style]]:
        """Return a line: the offset of the first octet, the octets in hex, and the octets as text."""
        first = index * ROW_OCTETS
        row = self._octets[first : first + ROW_OCTETS]
        pieces = [(f"{'>' if index == self.cursor else ' '}{first:0{self._digits}x} ", _PLAIN)]
        marked = Style(bold=True, underline=True)
        for offset, octet in enumerate(row, first):
            inside = self.start <= offset < self.stop
            before = (
                "[" if offset == self.start and inside else "]" if offset == self.stop > self.start else " "
            )
            if offset == first and before == "]":
                before = " "
            pieces.append((before, _PLAIN))
            cursor = Style(reverse=True) if self.has_focus and offset == self.at else _PLAIN
            pieces.append((f"{octet:02x}", (marked if inside else _PLAIN) + cursor))
        end = first + len(row)
        closed = "]" if self.start < self.stop == end else " "
        pad = "   " * (ROW_OCTETS - len(row))
        pieces.append((f"{closed}{pad} ", _PLAIN))
        for offset, octet in enumerate(row, first):
            text = chr(octet) if 32 <= octet < 127 else "."
            pieces.append((text, marked if self.start <= offset < self.stop else _PLAIN))
        return pieces

    def render_line(self, y: int) -> Strip:
        """Render a line of the window, with inverse octets instead of an inverse line."""
        index, width = self.top + y, self.size.width
        if index >= self.count:
            return Strip.blank(width)
        return Strip(
            [Segment(printable(text), style) for text, style in self.line(index)]
        ).adjust_cell_length(width)

    def _point(self, octet: int) -> None:
        self.at = max(0, min(octet, len(self._octets) - 1))
        self.go(self.at // ROW_OCTETS)
        self.refresh()
        self.post_message(self.Pointed(self.at))

    def action_move(self, lines: int) -> None:
        """Move by lines."""
        self._point(self.at + lines * ROW_OCTETS)

    def action_page(self, pages: int) -> None:
        """Move by pages."""
        self._point(self.at + pages * ROW_OCTETS * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """Move to the first octet."""
        self._point(0)

    def action_last(self) -> None:
        """Move to the last octet."""
        self._point(len(self._octets) - 1)

    def action_aside(self, steps: int) -> None:
        """Move by octets."""
        self._point(self.at + steps)

    def clicked(self, x: int, index: int) -> None:
        """Choose the octet at the mouse position, in hex or in text."""
        if index >= self.count:
            return
        hexes = self._digits + 2
        column = (x - hexes) // 3
        if column >= ROW_OCTETS:
            column = x - (hexes + 3 * ROW_OCTETS + 2)
        if 0 <= column < ROW_OCTETS and index * ROW_OCTETS + column < len(self._octets):
            self._point(index * ROW_OCTETS + column)
