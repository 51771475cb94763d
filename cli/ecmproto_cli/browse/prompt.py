"""The prompt for filters, numbers and file names, with completion and marked error positions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from ecmproto.errors import FilterError, printable
from ecmproto.frames.filter.completion import Candidate, Completion, complete
from ecmproto_cli.browse.keys import PROMPT, bindings
from ecmproto_cli.browse.panes import STYLES

Kind = Literal["filter", "search", "goto", "shown", "marked"]
LABELS: dict[Kind, str] = {
    "filter": "filter: ", "search": "find: ", "goto": "frame: ", "shown": "write shown to: ",
    "marked": "write marked to: ",
}  # fmt: skip
_FILTERS = ("filter", "search")
_MAX_CANDIDATES = 6


class TextLines(Widget):
    """Lines of text in one style; the height is the number of lines."""

    DEFAULT_CSS = "TextLines { width: 1fr; height: auto; }"

    def __init__(self, style: str = "") -> None:
        super().__init__()
        self.lines: list[tuple[str, Style]] | None = None
        self._style = STYLES.get(style, Style())

    def show(self, lines: Sequence[str], *, chosen: int | None = None) -> None:
        """Show lines; the chosen line is inverse."""
        inverse = Style(reverse=True)
        styled = [(line, inverse if at == chosen else self._style) for at, line in enumerate(lines)]
        if styled == self.lines:
            return  # avoid layout and drawing without a change
        self.lines = styled
        self.styles.height = len(lines)
        self.display = bool(lines)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Render a line of the window."""
        width = self.size.width
        lines = self.lines or []
        if y >= len(lines):
            return Strip.blank(width)
        text, style = lines[y]
        return Strip([Segment(printable(text), style)]).adjust_cell_length(width)


class _Typing(Input):
    """The text field of a prompt, with additional keys that the prompt handles."""

    BINDINGS = bindings(PROMPT)

    @property
    def prompt(self) -> Prompt:
        return next(each for each in self.ancestors if isinstance(each, Prompt))

    def action_accept(self) -> None:
        self.prompt.accept()

    def action_pick(self, steps: int) -> None:
        """Choose another completion, or a line from the history."""
        self.prompt.choose(steps)

    async def action_submit(self) -> None:
        """Submit the line."""
        self.prompt.submit()

    def action_leave(self) -> None:
        self.prompt.leave()


class Prompt(Vertical):
    """A line of text input that is visible while the prompt is open."""

    DEFAULT_CSS = """
    Prompt { height: auto; display: none; }
    Prompt Horizontal { height: 1; }
    Prompt #label { width: auto; height: 1; }
    Prompt Input { width: 1fr; height: 1; border: none; padding: 0; }
    Prompt Input { background: ansi_default; color: ansi_default; }
    Prompt Input:focus { border: none; }
    Prompt Input > .input--cursor { text-style: reverse; background: ansi_default; color: ansi_default; }
    Prompt Input > .input--selection { text-style: reverse; background: ansi_default; }
    """
    history: ClassVar[dict[Kind, list[str]]] = {}

    class Given(Message):
        """A message with a submitted line."""

        def __init__(self, kind: Kind, text: str) -> None:
            super().__init__()
            self.kind = kind
            self.text = text

    class Left(Message):
        """A message that the prompt was closed without a line."""

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.kind: Kind = "filter"
        self._candidates = TextLines()
        self._label = TextLines("title")
        self._label.id = "label"
        self.field = _Typing(select_on_focus=False)
        """The text field."""
        self.field.cursor_blink = False
        self._mistake = TextLines("error")
        self._completion = Completion(start=0, candidates=())
        self._chosen = 0
        self._line: int | None = None

    def compose(self) -> ComposeResult:
        """Yield the completions, the input line, and the error of the line."""
        yield self._candidates
        with Horizontal():
            yield self._label
            yield self.field
        yield self._mistake

    def ask(self, kind: Kind, text: str = "") -> None:
        """Open the prompt with an initial text."""
        self.kind = kind
        self._line = None
        label = LABELS[kind]
        self._label.show([label])
        self._label.styles.width = len(label)
        self._mistake.show([])
        self.display = True
        self.field.value = text
        self.field.cursor_position = len(text)
        self._offer()
        # immediately, because keys may be pending
        self.screen.set_focus(self.field)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Update the completions and the error of the incomplete text."""
        event.stop()
        if self.display:
            self._offer()
            self._check()

    def _offer(self) -> None:
        if self.kind in _FILTERS:
            typing = self.field
            self._completion = complete(typing.value, typing.cursor_position)
        elif self.kind in ("shown", "marked"):
            self._completion = _files(self.field.value[: self.field.cursor_position])
        else:
            self._completion = Completion(start=0, candidates=())
        typed = self.field.value[self._completion.start : self.field.cursor_position]
        if [each.text for each in self._completion.candidates] == [typed]:
            self._completion = Completion(start=0, candidates=())
        self._chosen = 0
        self._show_candidates()

    def _show_candidates(self) -> None:
        candidates = self._completion.candidates
        first = max(0, min(self._chosen - _MAX_CANDIDATES // 2, len(candidates) - _MAX_CANDIDATES))
        part = candidates[first : first + _MAX_CANDIDATES]
        width = max((len(each.text) for each in part), default=0)
        more = f"  ({len(candidates)} in all)" if len(candidates) > len(part) else ""
        lines = [f"  {each.text:<{width}}  {each.meaning}".rstrip() for each in part]
        if lines and more:
            lines[-1] += more
        self._candidates.show(lines, chosen=self._chosen - first if lines else None)

    def _check(self) -> None:
        text, completion = self.field.value, self._completion
        if self.kind in _FILTERS and text.strip():
            from ecmproto.frames.filter import compile_filter

            try:
                compile_filter(text)
            except FilterError as error:
                # a filter that is being typed may be incomplete
                ends = error.start >= len(text.rstrip())
                begun = error.start == completion.start and error.stop == len(text)
                if not (ends or (begun and completion.candidates)):
                    self.refuse(error)
                    return
        self._mistake.show([])

    def refuse(self, error: Exception) -> None:
        """Show an error, with carets under the error's position if the position is known."""
        if not isinstance(error, FilterError):
            self._mistake.show([str(error)])
            return
        column = len(LABELS[self.kind]) + error.start
        width = max(1, min(error.stop, len(error.filter)) - error.start)
        message = f"expected {error.needed}, got {error.got}" + (f" ({error.hint})" if error.hint else "")
        if column < self.size.width:
            self._mistake.show([" " * column + "^" * width, message])
        else:
            self._mistake.show([f"at character {error.start + 1}: {message}"])

    def accept(self) -> None:
        """Insert the chosen completion."""
        candidates = self._completion.candidates
        if not candidates:
            return
        typing = self.field
        before, after = typing.value[: self._completion.start], typing.value[typing.cursor_position :]
        text = before + candidates[self._chosen].text
        typing.value = text + after
        typing.cursor_position = len(text)
        self._offer()

    def choose(self, steps: int) -> None:
        """Choose another completion, or a line from the history if there is no completion."""
        candidates = self._completion.candidates
        if candidates and self._line is None:
            self._chosen = (self._chosen + steps) % len(candidates)
            self._show_candidates()
            return
        lines = self.history.get(self.kind, [])
        if not lines:
            return
        at = len(lines) if self._line is None else self._line
        self._line = max(0, min(at + steps, len(lines) - 1))
        self.field.value = lines[self._line]
        self.field.cursor_position = len(self.field.value)
        self._completion = Completion(start=0, candidates=())
        self._candidates.show([])

    def submit(self) -> None:
        """Submit the line."""
        text = self.field.value
        lines = self.history.setdefault(self.kind, [])
        if text.strip() and lines[-1:] != [text]:
            lines.append(text)
        self.post_message(self.Given(self.kind, text))

    def leave(self) -> None:
        """Close the prompt without a result."""
        self.post_message(self.Left())

    def close(self) -> None:
        """Close the prompt."""
        self.display = False
        self._candidates.show([])
        self._mistake.show([])


def _files(typed: str) -> Completion:
    """Return the files and folders whose names begin with the typed text."""
    folder, name = os.path.split(typed)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder or ".")), key=lambda entry: entry.name)
    except OSError:
        entries = []
    matching = [entry for entry in entries if entry.name.startswith(name) and (name or entry.name[0] != ".")]
    texts = [os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "") for entry in matching]
    return Completion(start=0, candidates=tuple(Candidate(text=text) for text in texts if name))
