"""Untrusted text in the output of every command: names, comments, titles, rules and arguments."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ecmproto.errors import escaped
from ecmproto.frames.capture import Interface, PcapngWriter, open_capture
from ecmproto_cli import terminal
from ecmproto_cli.main import COMMANDS, run
from pcaps.manifest import FOLDER
from tests.conftest import REPOSITORY

HOSTILE = "a\x1b]0;owned\x07\x1b[8m\x9b2J\x7f\u202eb\u2066\u200fc\u061c"
"""Controls that set the window title, hide text, clear the screen, delete, and reverse the text direction."""

_END = b"\0the command has ended\0"

Shown = Callable[..., tuple[int, str]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    """Return a function that runs a command and returns its output on a terminal, on stdout and stderr."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def show(*args: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        tty.setraw(theirs)
        received = bytearray()

        def drain() -> None:
            # to a mark, not to the end: processes that the command started may hold the terminal longer
            while not received.endswith(_END):
                received.extend(os.read(ours, 1 << 16))

        reader = threading.Thread(target=drain)
        reader.start()
        with ExitStack() as stack:
            for name in ("stdout", "stderr"):
                stream = stack.enter_context(open(os.dup(theirs), "w", encoding="utf-8"))
                monkeypatch.setattr(sys, name, stream)
            code = run(list(args))
        os.write(theirs, _END)
        reader.join()
        os.close(theirs)
        os.close(ours)
        return code, received.removesuffix(_END).decode()

    yield show
    terminal._coloured = False


def is_harmless(text: str) -> bool:
    """Return whether text contains no terminal controls except for line ends and the colours of ecmproto."""
    text = (
        terminal._OWN.sub("", text).replace("\r\x1b[K", "").replace("\x1b[?25l", "").replace("\x1b[?25h", "")
    )
    return all(char.isprintable() or char in "\n\t\r" for char in text)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Write hostile files, and return their paths by the names in command lines."""
    monkeypatch.chdir(tmp_path)
    capture, scenario, rules, frames = (
        f"{HOSTILE}{suffix}" for suffix in (".pcapng", ".toml", ".rules.toml", ".frames.toml")
    )
    interface = Interface(index=0, linktype=1, name=HOSTILE, description=HOSTILE)
    with (
        open_capture(FOLDER / "mixed.pcap") as reader,
        PcapngWriter(capture, interfaces=[interface], comment=HOSTILE) as writer,
    ):
        for batch in reader:
            for octets, time_ns in zip(batch.frames(), batch.time_ns.tolist(), strict=True):
                writer.write_frame(octets, time_ns, comment=HOSTILE)
    text = json.dumps(HOSTILE).replace("\x7f", "\\u007f")
    Path(scenario).write_text(
        f'[scenario]\nname = "hostile"\ntitle = {text}\nduration = "2ms"\n'
        'topology = "dumbbell sources=2 rate=10Gb/s buffer=300kB"\n'
        '[[flow]]\nname = "bulk"\nfrom = "s1..s2"\nto = "d1"\npattern = "saturating"\n'
        '[control]\nmechanism = "qcn"\n[measure]\nfrom = "1ms"\nport = "left>right"\n',
        encoding="utf-8",
    )
    Path(rules).write_text(
        f'schema = "ecmproto/rules/1"\n[[rule]]\nid = "RACK001"\nsentence = {text}\nname = {text}\n'
        f'why = {text}\nclause = {text}\nfilter = "cnm"\n',
        encoding="utf-8",
    )
    Path(frames).write_text(f'[[frames]]\nframe = "cnm"\ncomment = {text}\n', encoding="utf-8")
    Path("all").mkdir()
    os.link(capture, Path("all") / capture)
    Path("folder" + HOSTILE).mkdir()
    return {
        "C": capture, "S": scenario, "R": rules, "F": frames, "H": HOSTILE, "ALL": "all",
        "D": f"folder{HOSTILE}/new", "W": f"new{HOSTILE}.pcapng", "PFC": str(FOLDER / "pfc.pcap"),
        "TRUE": sys.executable,
    }  # fmt: skip


LINES = (
    "dissect -r @C", "dissect -r @C -V", "dissect -r @C -V --deep", "dissect -r @C -x",
    "dissect -r @C -T json", "dissect -r @C -T ndjson",
    "dissect -r @C -T csv -e frame.error -e frame.protocols", "dissect -r @H",
    "dissect -r @C -Y @H", "dissect -r @C -w @W", "dissect -r @C -e @H",
    "craft --spec @F -T json", "craft --spec @F -T ndjson", "craft @H -T toml",
    "craft --spec @F -T hex", "craft --spec @F -T python", "craft @H", "craft cnm @H=1", "craft cnm -w @H/@W",
    "send -i @H cnm", "send -r @H -i lo",
    "replay @C --cp qcn --speed 1G", "replay @C --cp qcn --speed 1G -T json", "replay @C --cp @H",
    "lab list", "lab run @S", "lab run @S -T json", "lab run @S -T ndjson", "lab run @S -T csv",
    "lab run @S --expect @H", "lab run @H", "lab show @S", "lab show @S -T json", "lab show @S -T toml",
    "lab compare @S qcn", "lab compare @S qcn -T csv",
    "lab sweep @S --sweep control.cp.w=2,3 --show queue.p99",
    "lab sweep @S --sweep @H=1,2 --show queue.p99", "lab new new@H.toml", "lab papers @H",
    "stats @C", "stats @C -T json", "stats @H",
    "check @C", "check @C -T ndjson", "check @C -T sarif", "check @C -T junit", "check @C --rules @R",
    "check @C --rules @R -T ndjson", "check @C --rules @R -T sarif", "check @C --rules @R -T junit",
    "check @C --rules @R --explain RACK001", "check --rules @R --rules list", "check @C --select @H",
    "check @C --rules @H.toml",
    "fleet stats @ALL -w @D --jobs 1",
    "fleet check @ALL -w @D --jobs 1 --rules @R",
    "fleet filter @ALL -w @D -Y cnm --jobs 1",
    "fleet stats @H -w @D",
    "diff @C @PFC", "diff @C @PFC -T json", "diff @C @PFC -T ndjson", "diff @C @H", "diff @C @C",
    "edit @C -w @W", "edit @C --set @H=1 -w @W", "edit @C -w @H/@W", "browse @H",
    "live monitor -i @H", "live cp --in @H --out @H --rate 1G", "live rp --net @H --hosts @H",
    "live net --example", "live net @H", "live testbed --topology @H",
    "fuzz decode -r @C --runs 1 -w @D", "fuzz decode -r @H --runs 1",
    "fuzz target -r @C --runs 1 -- @TRUE @H",
    "fuzz send -i @H", "doctor @H", "units @H", "units pause @H", "schema @H", "fields @H",
    "wireshark install --dir @D", "help @H", "demo -w @D", "mcp @H", "completion @H", "@H",
)  # fmt: skip


def test_hostile_text_is_tried_on_every_command() -> None:
    assert set(COMMANDS) <= {line.split()[0] for line in LINES}


@pytest.mark.parametrize("line", LINES)
def test_no_hostile_text_reaches_a_terminal(line: str, files: dict[str, str], shown: Shown) -> None:
    words = [re.sub("@([A-Z]+)", lambda found: files[found[1]], word) for word in line.split()]
    code, text = shown(*words)
    assert text
    assert code in (0, 1) or "@H" in line, text
    assert is_harmless(text), escaped(text)


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_hostile_comments_are_unchanged_in_json(form: str, files: dict[str, str], shown: Shown) -> None:
    _, text = shown("dissect", "-r", files["C"], "-T", form)
    document = json.loads(text if form == "json" else text.splitlines()[0])
    frame = document["frames"][0] if form == "json" else document
    assert frame["comments"] == [HOSTILE]


def test_hostile_rules_are_unchanged_in_sarif(files: dict[str, str], shown: Shown) -> None:
    _, text = shown("check", files["C"], "--rules", files["R"], "--select", "RACK001", "-T", "sarif")
    document = json.loads(text[: text.rindex("}") + 1])
    (rule,) = document["runs"][0]["tool"]["driver"]["rules"]
    assert rule["shortDescription"]["text"] == HOSTILE


def test_only_our_colour_sequences_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_coloured", True)
    painted = terminal.paint("x\x1b[8my", "title")
    assert terminal.visible(painted) == "\x1b[1mx\\u001b[8my\x1b[0m"
    monkeypatch.setattr(terminal, "_coloured", False)
    assert terminal.visible(painted) == "\\u001b[1mx\\u001b[8my\\u001b[0m"


def test_commands_print_by_one_function() -> None:
    """All output passes through `echo`; other functions of click and Python leave the text unchanged."""
    paths = (REPOSITORY / "cli" / "ecmproto_cli").rglob("*.py")
    others = [
        f"{path.name}:{node.lineno}"
        for path in paths
        if path.name not in ("terminal.py", "prebuilding.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _PRINTING
    ]
    assert others == []


_PRINTING = ("click.echo", "click.secho", "print")
