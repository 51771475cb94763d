"""Pages that cover the panes: help, statistics and curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.style import Style
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.strip import Strip

from ecmproto.tools.browse.curves import Curves, drawn
from ecmproto_cli.browse.keys import PAGE, bindings, help_lines
from ecmproto_cli.browse.panes import STYLES, Pane
from ecmproto_cli.browse.prompt import TextLines

_BACK = "q or Esc: back"


class _Text(Pane):
    """Text lines that can be scrolled."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Sequence[str] = ()

    @property
    def count(self) -> int:
        return len(self.lines)

    def line(self, index: int) -> Sequence[tuple[str, Style]]:
        text = self.lines[index]
        return [(text, STYLES["title"] if text[:1].strip() else Style())]

    def render_line(self, y: int) -> Strip:
        cursor, self.cursor = self.cursor, -1
        try:
            return super().render_line(y)
        finally:
            self.cursor = cursor

    def action_move(self, lines: int) -> None:
        self.scroll_lines(lines)

    def action_choose(self) -> None:
        """Do nothing."""


class TextPage(ModalScreen[None]):
    """A page with a title and lines; ``lines`` may change during the computation."""

    BINDINGS = bindings(PAGE)
    CSS = "TextPage { background: ansi_default; }"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = TextLines("title")
        self._heading = title
        self._text = _Text()

    def compose(self) -> ComposeResult:
        """Yield the title and the lines."""
        yield self._title
        yield self._text

    def on_mount(self) -> None:
        """Start the periodic updates."""
        self._title.show([f" {self._heading}  ({_BACK})"])
        self.update()
        self.set_interval(0.1, self.update)
        self._text.focus()

    def lines(self) -> Sequence[str]:
        """Return the current lines."""
        raise NotImplementedError

    def update(self) -> None:
        """Show the current lines."""
        lines = self.lines()
        if lines != self._text.lines:
            self._text.lines = lines
            self._text.refresh()

    def on_resize(self) -> None:
        """Arrange the lines for the new size."""
        self.update()

    def action_leave(self) -> None:
        """Close the page."""
        self.ended()
        self.dismiss(None)

    def ended(self) -> None:
        """Stop the computation of the lines."""

    def action_turn(self, steps: int) -> None:
        """Show another page of several pages."""


class HelpPage(TextPage):
    """The page with the keys."""

    def __init__(self) -> None:
        super().__init__("Keys")

    def lines(self) -> Sequence[str]:
        """Return the keys, grouped."""
        return list(help_lines(max(40, self.app.size.width - 1)))


class StatisticsPage(TextPage):
    """The page with statistics that a thread computes.

    ``text`` returns the statistics, or an empty text until they are complete.
    """

    def __init__(self, title: str, text: Callable[[], str], stop: Callable[[], None]) -> None:
        super().__init__(title)
        self._get = text
        self._cancel = stop

    def lines(self) -> Sequence[str]:
        """Return the lines of the tables."""
        text = self._get()
        return text.splitlines() if text else ["", "  counting …"]

    def ended(self) -> None:
        """Stop the computation of statistics."""
        self._cancel()


class CurvesPage(TextPage):
    """A page that shows one of several curves."""

    def __init__(self, title: str, curves: Curves) -> None:
        super().__init__(title)
        self._curves = curves
        self._at = 0

    def lines(self) -> Sequence[str]:
        """Return the selected curve."""
        curves = self._curves
        if curves.error is not None:
            return ["", f"  {curves.error}"]
        if not curves.done.is_set():
            return ["", f"  gathering …  {100 * curves.progress:.0f} %"]
        if not curves.curves:
            return ["", "  no frame with a time"]
        width, height = self.app.size.width, self.app.size.height
        curve = curves.curves[self._at % len(curves.curves)]
        count = len(curves.curves)
        position = f" {self._at % count + 1} of {count}" + ("  (n, N: others)" if count > 1 else "")
        return [position, *drawn(curve, width - 2, height - 4, curves.end_ns - curves.begin_ns)]

    def ended(self) -> None:
        """Stop collecting values."""
        self._curves.stop()

    def action_turn(self, steps: int) -> None:
        """Show another curve."""
        self._at += steps
        self.update()
