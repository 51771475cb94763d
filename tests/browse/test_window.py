"""The window: screens compared with stored text (`ECMPROTO_GOLDEN=1` updates the text), keys, and a real
terminal.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("textual", reason="textual is not installed: no window to look at")
import pyte
from rich.color import ColorSystem

from ecmproto.errors import pip_install
from ecmproto.frames.capture import open_capture
from ecmproto_cli.browse.app import BrowseApp
from ecmproto_cli.browse.keys import FINDING, MOVING, PROMPT, SHOWING, WINDOW, help_lines, shown
from ecmproto_cli.browse.prompt import Prompt
from ecmproto_cli.main import run
from tests.browse.captures import PCAPS, opened, write_pcap

if TYPE_CHECKING:
    from textual.pilot import Pilot

SCREENS = Path(__file__).parent / "screens"
SMALL, LARGE = (80, 24), (200, 60)


def text_of(app: BrowseApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


class Driver:
    """Presses keys in a window, and waits until the actions are finished."""

    def __init__(self, app: BrowseApp, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    async def press(self, *keys: str) -> str:
        """Press keys in order, and return the screen."""
        await self._pilot.press(*keys)
        return await self.settled()

    async def type(self, text: str, *keys: str) -> str:
        """Type text into the open prompt, and press keys."""
        self.app.prompt.field.insert_text_at_cursor(text)
        return await self.press(*keys)

    async def ask(self, text: str, *keys: str) -> str:
        """Open a prompt with the first character of a text, and type the remaining characters."""
        key = {"&": "ampersand", "/": "slash", ":": "colon"}.get(text[0], text[0])
        await self.press(key)
        return await self.type(text[1:], *keys)

    async def click(self, where: str, offset: tuple[int, int]) -> str:
        """Click at a position in a pane."""
        await self._pilot.click(where, offset=offset)
        return await self.settled()

    async def settled(self) -> str:
        """Wait until all actions are finished, and return the screen."""
        app = self.app
        for _ in range(500):
            await self._pilot.pause(0.01)
            busy = app._searching or app._writing is not None or app._goal is not None
            if app.browser.settled and not busy:
                break
            app.look()
        app.look()
        await self._pilot.pause()
        return text_of(app)


def drive(path: Path, size: tuple[int, int], script: Callable[[Driver], Awaitable[None]]) -> None:
    """Run a script in the window of a capture."""

    async def driven() -> None:
        app = BrowseApp(opened(path))
        async with app.run_test(size=size) as pilot:
            await script(Driver(app, pilot))

    Prompt.history.clear()
    asyncio.run(driven())


def hold(name: str, seen: str) -> None:
    """Compare the screen with the stored screen of this name."""
    seen = seen.replace(str(PCAPS), "pcaps")
    path = SCREENS / f"{name}.txt"
    if os.environ.get("ECMPROTO_GOLDEN"):
        path.write_text(seen, encoding="utf-8")
    assert seen == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("size", "name"), [(SMALL, "80x24"), (LARGE, "200x60")])
def test_screens(size: tuple[int, int], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PCAPS.parent)

    async def script(driver: Driver) -> None:
        hold(f"first-{name}", await driver.settled())
        hold(f"field-{name}", await driver.press("j", "tab", *"jjjjjjjjjjj"))
        hold(f"completion-{name}", await driver.ask("&cnm.q"))
        hold(f"mistake-{name}", await driver.type("ntz_fb > x"))
        await driver.press("escape")
        hold(f"flow-{name}", await driver.press("g", "F", "m", "t"))
        hold(f"curves-{name}", await driver.press("ampersand", "ctrl+u", "enter", "p"))
        hold(f"help-{name}", await driver.press("q", "question_mark"))

    drive(Path("pcaps/mixed.pcapng"), size, script)


def test_keys_move_and_find(tmp_path: Path) -> None:
    async def script(driver: Driver) -> None:
        app = driver.app
        await driver.press("G")
        assert app.frames.frame == 4999
        await driver.press("g", "j", "j", "k", "pagedown")
        assert app.frames.frame == 1 + app.frames.size.height - 1
        await driver.ask(":1234", "enter")
        assert app.frames.frame == 1233
        seen = await driver.ask(":9000", "enter")
        assert "expected a number from 1 to 5000, got '9000'" in seen
        await driver.press("escape")
        await driver.ask("/frame[17] == 7", "enter")
        assert app.frames.frame == 1287
        await driver.press("n", "n", "N")
        assert app.frames.frame == 1543
        await driver.press("m", "g", "apostrophe")
        assert app.frames.frame == 1543
        # a frame that is not shown: the next one that is
        seen = await driver.ask("&frame.number < 10 or frame.number > 3000", "enter")
        assert app.frames.frame == 3000
        assert " 2,009 shown by: frame" in seen
        assert "1 marked" in seen
        await driver.press("n")
        assert app.frames.frame == 3079
        assert "no other there" not in await driver.press("N")
        assert app.frames.frame == 7
        assert "no other there" in await driver.press("N")
        # the line that was typed before comes back
        await driver.press("ampersand", "ctrl+u", "enter")
        assert app.browser.count == 5000
        await driver.press("ampersand", "up")
        assert "frame.number < 10" in text_of(app)

    drive(write_pcap(tmp_path / "a.pcap", 5000), SMALL, script)


def test_octets_and_fields_select_each_other() -> None:
    async def script(driver: Driver) -> None:
        app = driver.app
        seen = await driver.press("j", "enter", "tab")
        assert "▶── Octets" in seen
        # the quantized feedback: the second octet of the CNM
        seen = await driver.press(*["l"] * 23)
        assert ", octet 23 ─" in seen
        assert app.detail.chosen_line is not None
        assert app.detail.chosen_line.name == "cnm.qntz_fb"
        assert " 00[28]02 " in seen
        # an octet of the sampled frame, by the mouse: its IP destination
        await driver.press("G")
        await driver.click("#octets", (6 + 3 * 2 + 1, 3))
        seen = text_of(app)
        assert app.detail.chosen_line.name.startswith("encapsulated.")
        assert re.search(r"\[[0-9a-f ]+\]", seen)
        # wheel, folding by a click on the sign
        await driver.click("#frames", (10, 3))
        assert app.frames.frame == 3
        await driver.press("tab", "g")
        before = app.detail.count
        await driver.click("#tree", (1, 0))
        assert app.detail.count > before
        # the filter of a field, from the tree
        await driver.press("tab", "tab", "g", "tab")
        while app.detail.chosen_line.name != "vlan.priority":
            await driver.press("j")
        await driver.press("equals_sign", "enter")
        assert app.browser.filter_text == "vlan.priority == 3"

    drive(PCAPS / "mixed.pcapng", LARGE, script)


def test_jumps_between_messages_and_frames() -> None:
    async def script(driver: Driver) -> None:
        app = driver.app
        assert "message on 02:00:00:00:00:01" in await driver.press("o")
        assert app.frames.frame == 1
        assert "frame of 02:00:00:00:00:01" in await driver.press("o")
        assert app.frames.frame == 0
        await driver.ask(":17", "enter")
        assert "this frame has no flow" in await driver.press("o")

    drive(PCAPS / "mixed.pcapng", SMALL, script)


def test_write_and_copy(tmp_path: Path) -> None:
    target = tmp_path / "out.pcapng"

    async def script(driver: Driver) -> None:
        app = driver.app
        await driver.ask("&cnm", "enter")
        seen = await driver.ask(f"w{target}", "enter")
        assert f"1 frame written to {target}"[:40] in seen
        seen = await driver.ask(f"w{target}", "enter")
        assert (
            "add ! after the name to replace it" in seen.replace("\n", "")
            or "expected a name that is free" in seen
        )
        await driver.type("!", "enter")
        assert "expected" not in await driver.press("y")
        assert app.clipboard.split()[0] == "2"
        assert "no frame is marked" in await driver.ask(f"W{tmp_path}/marked.pcap", "enter")

    drive(PCAPS / "mixed.pcapng", (160, 30), script)
    with open_capture(target) as reader:
        assert sum(len(batch) for batch in reader) == 1


def test_statistics_and_zoom() -> None:
    async def script(driver: Driver) -> None:
        seen = await driver.press("s")
        for _ in range(3000):
            if "types of frames" in seen:
                break
            seen = await driver.settled()
        assert "ECM" in seen
        seen = await driver.press("q", "z")
        assert "── Octets" not in seen
        assert "▶── Octets" in await driver.press("tab", "tab")
        assert "▶   No." in await driver.press("z", "tab")

    drive(PCAPS / "ecm_cp.pcap", SMALL, script)


def test_no_information_is_by_colour_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(driver: Driver) -> None:
        await driver.press("j", "tab", "j")
        strips = driver.app.screen._compositor.render_strips()
        filters = [each for each in driver.app._filters if each.enabled]
        for strip in strips:
            segments = list(strip)
            for each in filters:
                segments = each.apply(segments, driver.app.screen.background_colors[1])
            for segment in segments:
                if segment.style is not None:
                    colours = segment.style.color, segment.style.bgcolor
                    assert all(colour is None or colour.is_default for colour in colours), segment

    drive(PCAPS / "mixed.pcapng", SMALL, script)
    monkeypatch.delenv("NO_COLOR")

    async def coloured(driver: Driver) -> None:
        strips = driver.app.screen._compositor.render_strips()
        colours = {s.style.color for strip in strips for s in strip if s.style and s.style.color}
        named = {colour for colour in colours if not colour.is_default}
        # of the sixteen that every terminal has
        assert named
        assert {colour.downgrade(ColorSystem.STANDARD) for colour in named} == named

    drive(PCAPS / "mixed.pcapng", SMALL, coloured)


HOSTILE_NAME = "\x1b[2J\x9b8m\u202e.pcapng"


@pytest.mark.parametrize(
    "name", ["malformed.pcapng", "empty.pcap", "cut.pcap", "huge.pcap", "odd.pcapng", HOSTILE_NAME]
)
def test_hostile_captures(name: str, tmp_path: Path) -> None:
    path = PCAPS / name
    if name == "empty.pcap":
        path = write_pcap(tmp_path / name, 0)
    elif name == "cut.pcap":
        path = write_pcap(tmp_path / name, 300)
        path.write_bytes(path.read_bytes()[:-5])
    elif name == "huge.pcap":
        path = write_huge(tmp_path / name)
    elif name in ("odd.pcapng", HOSTILE_NAME):
        path = tmp_path / name
        path.write_bytes((PCAPS / "mixed.pcapng").read_bytes()[:-1000] + b"\x1b[2J\x07" * 300)

    async def script(driver: Driver) -> None:
        keys = [
            "G",
            "tab",
            "G",
            "g",
            "l",
            "tab",
            "G",
            "l",
            "h",
            "o",
            "F",
            "n",
            "t",
            "r",
            "equals_sign",
            "escape",
        ]
        for key in keys:
            seen = await driver.press(key)
            assert len(seen.splitlines()) == 24
            assert all(char.isprintable() for char in seen.replace("\n", ""))

    drive(path, SMALL, script)


def write_huge(path: Path) -> Path:
    """Write a frame of 250,000 octets."""
    from ecmproto.frames.capture import Batch, PcapWriter

    with PcapWriter(str(path)) as writer:
        writer.write_batch(Batch.from_frames([bytes(range(250)) * 1000], time_ns=1))
    return path


def test_the_help_has_every_key() -> None:
    lines = list(help_lines(80))
    assert max(map(len, lines)) <= 80
    for key in (*MOVING, *FINDING, *SHOWING, *WINDOW, *PROMPT):
        assert any(line.startswith(f"  {shown(key.keys)} ") for line in lines), key
        assert "_" not in shown(key.keys)


def test_without_a_terminal_or_a_library(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["browse", str(PCAPS / "mixed.pcapng")]) == 2
    assert "expected a terminal, got none" in capsys.readouterr().err
    assert run(["browse"]) == 2
    assert "expected a FILE or -i IF, got none" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(["browse", str(PCAPS / "mixed.pcapng")]) == 5
    assert capsys.readouterr().err.splitlines()[-1] == f"help: {pip_install('tui')}"


class Terminal:
    """A pseudo-terminal that runs a command."""

    def __init__(self, command: str, *, size: tuple[int, int] = SMALL) -> None:
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-16color"
            os.execv("/bin/sh", ["sh", "-c", command])
        shape = struct.pack("HHHH", size[1], size[0], 0, 0)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, shape)

    def wait(self, text: str, seconds: float = 60) -> str:
        """Wait until the screen shows a text."""
        end = time.monotonic() + seconds
        while text not in self.text:
            assert time.monotonic() < end, self.text
            self.read(0.05)
        return self.text

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def read(self, seconds: float) -> bool:
        """Read output for some time, and return False at the end of the output."""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return True
        try:
            octets = os.read(self._descriptor, 1 << 16)
        except OSError:
            return False
        # pyte does not support the queries of the keyboard protocols.
        self._stream.feed(re.sub(rb"\x1b\[(?:[<>=?][0-9;]*u|[?0-9;]*\$p)", b"", octets))
        return bool(octets)

    def send(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def end(self) -> int:
        """Wait until the command ends, and return its exit code."""
        while self.read(1):
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(status)


def test_a_real_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PCAPS.parent)
    command = f"cat pcaps/mixed.pcapng | {sys.executable} -m ecmproto_cli browse -"
    terminal = Terminal(command)
    terminal.wait("26 frames")
    terminal.wait("▾ VLAN tag")
    # typed ahead, all at once
    terminal.send("&cnm or ecm\r")
    terminal.wait("3 shown by: cnm or ecm")
    terminal.wait("1/3")  # the prompt receives keys until it is closed
    terminal.send("G")
    terminal.wait("3/3")
    terminal.send("o")
    terminal.wait("frame of 02:00:00:00:00:01")
    terminal.send("q")
    assert terminal.end() == 0
