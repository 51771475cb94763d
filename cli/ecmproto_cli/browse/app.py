"""The window, with three panes, a prompt, and messages at the bottom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import ClassVar, Literal

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.events import Resize

from ecmproto.errors import EcmprotoError, OutputExistsError, counted
from ecmproto.frames.dissect import Record
from ecmproto.tools.browse.background import Background
from ecmproto.tools.browse.browser import TIME_FORMATS, Browser, FlowFilters, Which
from ecmproto.tools.browse.curves import Curves
from ecmproto_cli.browse.keys import FINDING, MOVING, SHOWING, WINDOW, bindings
from ecmproto_cli.browse.pages import CurvesPage, HelpPage, StatisticsPage
from ecmproto_cli.browse.panes import FrameList, FrameTree, Octets, Pane
from ecmproto_cli.browse.prompt import Kind, Prompt, TextLines

_LOOK_S = 0.1
_WIDE = 150
"""The minimum width, in columns, for the tree and the octets side by side."""


class BrowseApp(App[None]):
    """The window that shows a `Browser`."""

    CSS = """
    Screen, Container, Vertical, TextLines, Pane { background: ansi_default; color: ansi_default; }
    #list { height: 2fr; min-height: 3; }
    #detail { height: 3fr; layout: vertical; }
    #treebox { height: 3fr; }
    #octetbox { height: 2fr; }
    .wide #list { height: 1fr; }
    .wide #detail { layout: horizontal; height: 1fr; }
    .wide #treebox { height: 1fr; width: 1fr; }
    .wide #octetbox { height: 1fr; width: 80; }
    .title { height: 1; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", show=False),
        *bindings(MOVING, target="focused.", priority=True),
        *bindings((*WINDOW, *FINDING, *SHOWING), priority=True),
    ]

    def __init__(self, browser: Browser, *, follow: bool = False) -> None:
        super().__init__(ansi_color=True)
        self.browser = browser
        self.frames = FrameList(browser)
        self.frames.following = follow
        self.detail = FrameTree()
        self.octets = Octets()
        self.prompt = Prompt()
        self._head = TextLines("title")
        self._titles = {each: TextLines("title") for each in ("frames", "tree", "octets")}
        self._status = TextLines()
        self._message = ""
        self._shown: tuple[int, int | None] | None = None
        self._goal: int | None = None
        """The frame to which the cursor moves once the filter has processed this frame."""
        self._searching = ""
        """The description of the running search."""
        self._steps: list[int] = []
        """Searches that were requested while another search was running."""
        self._record: Record | None = None
        self._zoomed = False
        self._writing: _Writing | None = None

    def compose(self) -> ComposeResult:
        """Yield the panes, each with a title."""
        yield self._head
        with Container(id="body"):
            with Vertical(id="list"):
                yield self._titles["frames"]
                yield self.frames
            with Container(id="detail"):
                with Vertical(id="treebox"):
                    yield self._titles["tree"]
                    yield self.detail
                with Vertical(id="octetbox"):
                    yield self._titles["octets"]
                    yield self.octets
        yield self.prompt
        yield self._status

    def on_mount(self) -> None:
        """Show the first frames, and start to read further frames."""
        self.frames.focus()
        self.look()
        self.set_interval(_LOOK_S, self.look)

    def on_resize(self, event: Resize) -> None:
        """Arrange the panes for the new size."""
        self.query_one("#body").set_class(event.size.width >= _WIDE, "wide")
        self.call_after_refresh(self.look)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys of the panes while a prompt or a page is open."""
        return not self.prompt.display and len(self.screen_stack) == 1

    # the background

    def look(self) -> None:
        """Update the window with the results of background threads."""
        if not self.screen_stack:
            return  # the window is closing
        browser, frames = self.browser, self.frames
        if self._goal is not None:
            row = browser.row_of(self._goal) if browser.is_known(self._goal) else browser.count
            frames.go(row)
            if row < browser.count or browser.settled:
                self._goal = None
        frames.grew()
        if frames.following and browser.settled:
            frames.following = False
        self._look_at_search()
        if self._writing is not None and self._writing.done.is_set():
            self._message, self._writing = self._writing.result(), None
        self._show_frame()
        self._show_titles()

    def _look_at_search(self) -> None:
        search = self.browser.search
        if not self._searching or search is None or not search.done.is_set():
            return
        what, self._searching = self._searching, ""
        if search.error is not None:
            self._message = f"{what}: {search.error}"
        elif search.frame is None:
            self._message = f"{what}: no other there"
        else:
            self._message = f"{what}: frame {search.frame + 1}"
            self._go_to(search.frame)
            if self._steps:
                self.action_again(self._steps.pop(0))
                return
        self._steps.clear()

    def _go_to(self, frame: int) -> None:
        self.frames.following = False
        self._goal = frame
        if self.browser.is_known(frame):
            self._goal = None
            self.frames.go(self.browser.row_of(frame))
        self._show_frame()

    def _show_frame(self) -> None:
        """Show the frame at the cursor in the tree and the octets."""
        frame = self.frames.frame
        key = None if frame is None else (frame, self.browser.reference)
        if key == self._shown:
            return
        self._shown = key
        self._record = None if frame is None else self.browser.record(frame)
        self.octets.show(self._record)
        self.detail.show([] if self._record is None else list(self.browser.tree(self._record)))
        self._mark_octets()

    def _mark_octets(self) -> None:
        line = self.detail.chosen_line
        self.octets.mark(*((0, 0) if line is None else (line.start, line.stop)))

    def _show_titles(self) -> None:
        browser, frames = self.browser, self.frames
        rows, position = browser.count, f"{frames.cursor + 1:,}" if browser.count else "-"
        of = counted(browser.pages.frames, "frame")
        filtered = f"  {rows:,} shown by: {browser.filter_text}" if browser.run is not None else ""
        path, max_columns = browser.pages.path, max(20, self.size.width // 3)
        name = path if len(path) <= max_columns else f"…{path[1 - max_columns :]}"
        self._head.show([f" ecmproto browse {name}  {of}{filtered}"])
        mark = {name: "▶" if self._pane is pane else " " for name, pane in self._panes.items()}
        self._titles["frames"].show([mark["frames"] + frames.heading()[1:]])
        line = self.detail.chosen_line
        what = f"  {line.name}" if line is not None and line.name else ""
        at = _octets_of(line.start, line.stop) if line is not None else ""
        self._titles["tree"].show([f"{mark['tree']}── Layers and fields {'─' * 200}"])
        self._titles["octets"].show([f"{mark['octets']}── Octets{what}{at} {'─' * 200}"])
        parts = [self._message] if self._message else []
        if self._searching:
            parts.append(f"{self._searching} …")
        if self._writing is not None:
            parts.append("writing …")
        parts += browser.messages()
        following = "following  " if frames.following else ""
        state = "live  " if browser.pages.live is not None and not browser.pages.complete else ""
        marks = f"{len(browser.marks)} marked  " if browser.marks else ""
        right = f"{state}{following}{marks}{position}/{rows:,}  ?: keys"
        left = " | ".join(parts) or _HINT
        width = self.size.width
        left = left if len(left) + len(right) + 3 <= width else left[: max(0, width - len(right) - 4)] + "…"
        self._status.show([f" {left}{right:>{max(0, width - len(left) - 2)}}"])

    def _tell(self, message: str) -> None:
        self._message = message
        self._show_titles()

    # panes

    @property
    def _panes(self) -> dict[str, Pane]:
        return {"frames": self.frames, "tree": self.detail, "octets": self.octets}

    @property
    def _pane(self) -> Pane:
        focused = self.focused
        return focused if isinstance(focused, Pane) else self.frames

    def on_pane_moved(self, event: Pane.Moved) -> None:
        """Move the cursors of the other panes to match the moved cursor."""
        if event.pane is self.frames:
            self._show_frame()
        elif event.pane is self.detail and self._pane is not self.octets:
            self._mark_octets()
        self._show_titles()

    def on_octets_pointed(self, event: Octets.Pointed) -> None:
        """Show the field that contains the selected octet."""
        self.detail.point(event.octet)
        line = self.detail.chosen_line
        if line is not None:
            self.octets.start, self.octets.stop = line.start, line.stop
            self.octets.refresh()
        self._show_titles()

    def on_descendant_focus(self) -> None:
        """Highlight the focused pane."""
        self._show_titles()

    def action_pane(self, steps: int) -> None:
        """Focus the next pane."""
        panes = list(self._panes.values())
        pane = panes[(panes.index(self._pane) + steps) % len(panes)]
        if self._zoomed:
            self._zoom(pane)
        pane.focus()

    def action_zoom(self) -> None:
        """Show one pane alone, or show all panes again."""
        self._zoomed = not self._zoomed
        self._zoom(self._pane)

    def _zoom(self, alone: Pane) -> None:
        boxes = {"frames": "#list", "tree": "#treebox", "octets": "#octetbox"}
        for name, pane in self._panes.items():
            self.query_one(boxes[name]).display = not self._zoomed or pane is alone
        self.query_one("#detail").display = not self._zoomed or alone is not self.frames

    # prompts

    def _ask(self, kind: Kind, text: str = "") -> None:
        self._message = ""
        self.prompt.ask(kind, text)

    def on_prompt_left(self) -> None:
        """Focus the panes again."""
        self.screen.set_focus(self.frames)
        self.prompt.close()

    def on_prompt_given(self, event: Prompt.Given) -> None:
        """Execute the submitted line of a prompt, and show an error at its position in the line."""
        try:
            self._do(event.kind, event.text)
        except OutputExistsError as error:
            self.prompt.refuse(ValueError(f"{error}; add ! after the name to replace it"))
        except (EcmprotoError, ValueError) as error:
            self.prompt.refuse(error)
        else:
            self.on_prompt_left()
            self._show_titles()

    def _do(self, kind: Kind, text: str) -> None:
        match kind:
            case "filter":
                self.filter(text)
            case "search":
                if text.strip():
                    self._search(f"find {text}", partial(self.browser.find, text, forward=True))
            case "goto":
                self._go_to_number(text)
            case "shown" | "marked":
                self._write(text, kind)

    def filter(self, text: str) -> None:
        """Apply a filter; the cursor stays at the current frame, or moves to the next selected frame."""
        frame = self.frames.frame
        goal = frame if frame is not None else self._goal
        self.browser.apply(text)
        self.frames.renew()
        self._goal = goal
        self._shown = None
        self.look()

    def _go_to_number(self, text: str) -> None:
        if not text.strip():
            return
        frames = self.browser.pages.frames
        if not text.strip().isdecimal() or not 1 <= int(text) <= frames:
            raise ValueError(f"expected a number from 1 to {frames}, got {text!r}")
        self._go_to(int(text) - 1)

    def _write(self, text: str, which: Which) -> None:
        from ecmproto.frames.capture.writer import check_sink

        force = text.endswith("!")
        path = text.removesuffix("!").strip()
        if not path:
            raise ValueError("expected the name of a file, got none")
        if path == "-":
            raise ValueError("expected the name of a file, got - (stdout), which the window uses")
        if which == "marked" and not self.browser.marks:
            raise ValueError("no frame is marked: m marks one")
        if self._writing is not None:
            raise ValueError("expected one file at a time, got two")
        check_sink(path, force=force)
        self._writing = _Writing(partial(self.browser.write, path, which, force=force), path)
        self._writing.start()

    # finding

    def _search(self, what: str, begin: Callable[..., object]) -> None:
        frame = self.frames.frame
        if frame is None:
            self._message = "there is no frame to start from"
            return
        if begin(start=frame) is False:
            self._message = "no search yet: / starts one"
            return
        self._message, self._searching = "", what
        self.set_timer(0.02, self.look)

    def action_filter(self) -> None:
        """Open the prompt for filters."""
        self._ask("filter", self.browser.filter_text)

    def action_filter_field(self) -> None:
        """Open the prompt for filters, with a test of the chosen field's value."""
        test = self._test()
        if not test:
            self._tell("this line has no field")
            return
        before = self.browser.filter_text
        self._ask(
            "filter",
            f"({before}) and {test}" if " or " in before else f"{before} and {test}" if before else test,
        )

    def _test(self) -> str:
        index = self.detail.chosen
        if self._record is None or index is None:
            return ""
        return self.browser.test_of(self._record, self.detail.lines, index)

    def action_search(self) -> None:
        """Open the prompt for searches."""
        self._ask("search")

    def action_again(self, steps: int) -> None:
        """Repeat the last search, forward or backward."""
        if self._searching:
            self._steps.append(steps)
            return
        search = self.browser.search
        text = search.filter.text if search is not None and len(search.filter.text) < 40 else "the same"
        self._search(f"find {text}", partial(self.browser.find_again, forward=steps > 0))

    def action_goto(self) -> None:
        """Open the prompt for frame numbers."""
        self._ask("goto")

    def action_other(self, steps: int) -> None:
        """Go from a message to a frame of its flow, or from a frame to a message about it."""
        flow = self._flow
        if flow is None:
            self._tell("this frame has no flow")
            return
        forward = (steps > 0) != flow.is_message
        what = "frame of" if flow.is_message else "message on"
        where = "after" if forward else "before"
        self._search(f"{what} {flow.title}, {where}", partial(self.browser.find, flow.other, forward=forward))

    def action_flow(self) -> None:
        """Show only the frames and messages of one flow."""
        flow = self._flow
        self._message = "this frame has no flow" if flow is None else f"flow {flow.title}"
        if flow is not None:
            self.filter(flow.both)
        self._show_titles()

    @property
    def _flow(self) -> FlowFilters | None:
        frame = self.frames.frame
        return None if frame is None else self.browser.flow(frame)

    def action_mark(self) -> None:
        """Mark the frame, or remove the mark."""
        frame = self.frames.frame
        if frame is not None:
            self.browser.mark(frame)
            self.frames.refresh()
            self._show_titles()

    def action_marked(self, steps: int) -> None:
        """Go to another marked frame."""
        frame = self.frames.frame
        marked = self.browser.next_mark(frame, forward=steps > 0) if frame is not None else None
        if marked is None:
            self._tell("no frame is marked: m marks one")
        else:
            self._go_to(marked)

    # showing

    def action_time(self) -> None:
        """Switch to the next time format."""
        index = TIME_FORMATS.index(self.frames.time_format)
        self.frames.time_format = TIME_FORMATS[(index + 1) % len(TIME_FORMATS)]
        self.frames.refresh()
        self._show_titles()

    def action_reference(self) -> None:
        """Show times relative to this frame, or relative to the first frame again."""
        frame = self.frames.frame
        self.browser.reference = None if self.browser.reference == frame else frame
        self.frames.refresh()
        self._show_frame()

    def action_follow(self) -> None:
        """Follow the end of the capture, or stop following."""
        self.frames.following = not self.frames.following
        self.look()

    def action_stats(self) -> None:
        """Show the statistics of the capture."""
        counting = _Counting(self.browser)
        counting.start()
        self.push_screen(StatisticsPage(f"Statistics{self._of_what()}", counting.text, counting.stop))

    def action_plot(self) -> None:
        """Show curves over time."""
        run = self.browser.run
        within = None if run is None else run.found
        curves = Curves(self.browser.pages, self.browser.ethertypes, within=within)
        curves.start()
        self.push_screen(CurvesPage(f"Over time{self._of_what()}", curves))

    def _of_what(self) -> str:
        return f" of: {self.browser.filter_text}" if self.browser.run is not None else ""

    def action_write(self, which: Literal["shown", "marked"]) -> None:
        """Open the prompt for output files."""
        self._ask(which)

    def action_copy(self) -> None:
        """Copy the selection of the focused pane to the clipboard."""
        pane = self._pane
        if pane is self.detail:
            line = self.detail.chosen_line
            text = self._test() or ("" if line is None else line.text)
        elif pane is self.octets:
            text = self.octets.chosen.hex(" ")
        else:
            text = self.frames.line_text(self.frames.cursor) if self.frames.count else ""
        self.copy_to_clipboard(text)
        self._tell(f"copied: {text[:60]}" + ("…" if len(text) > 60 else ""))

    def action_help(self) -> None:
        """Show the help page with the keys."""
        self.push_screen(HelpPage())

    def action_clear(self) -> None:
        """Stop a search and clear the message."""
        if self.browser.search is not None:
            self.browser.search.stop()
        self._message = self._searching = ""
        self._steps.clear()
        self._goal = None
        self._show_titles()

    async def action_quit(self) -> None:
        """End the application."""
        if self._writing is not None:
            self._writing.stop()
        self.exit()


def _octets_of(start: int, stop: int) -> str:
    if stop <= start:
        return ""
    return f", octet {start}" if stop == start + 1 else f", octets {start}–{stop - 1}"


_HINT = "& filter  / find  o other side  m mark  s stats  q quit"


class _Writing(Background):
    """A thread that writes frames to a file."""

    def __init__(self, write: Callable[..., int], path: str) -> None:
        super().__init__("write")
        self._write = write
        self._path = path
        self._result = ""

    def result(self) -> str:
        """Return the message to show after ``done`` is set."""
        return self._result if self.error is None else str(self.error)

    def stop(self) -> None:
        """Stop writing, and delete the partial file."""
        super().stop()
        self._thread.join(2)

    def _work(self) -> None:
        frames = self._write(stopped=lambda: self._stopping)
        self._result = f"{counted(frames, 'frame')} written to {self._path}"


class _Counting(Background):
    """A thread that computes statistics."""

    def __init__(self, browser: Browser) -> None:
        super().__init__("stats")
        self._browser = browser
        self._text = ""

    def text(self) -> str:
        """Return the tables, or an empty text until the tables are complete."""
        return self._text if self.error is None else f"  {self.error}"

    def _work(self) -> None:
        from ecmproto.frames.capture import open_capture
        from ecmproto.frames.stats import Accumulator
        from ecmproto.frames.stats.accumulator import add_all
        from ecmproto_cli.stats_table import stats_table

        browser = self._browser
        filter = None if browser.run is None else browser.run.filter
        with open_capture(browser.pages.file) as reader:
            counts = Accumulator(ethertypes=browser.ethertypes)
            add_all(
                counts, reader, filter=filter, ethertypes=browser.ethertypes,
                watch=partial(takewhile, lambda _: not self._stopping),
            )  # fmt: skip
            statistics = counts.result(interfaces=reader.interfaces, problem=reader.problem)
        self._text = stats_table(statistics, browser.pages.path) if statistics.frames else "  0 frames"
