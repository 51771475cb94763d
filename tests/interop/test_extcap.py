"""ecmproto as a capture source, called as Wireshark calls capture sources, and with tshark."""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture import Batch, Interface, Sink, open_capture
from ecmproto.tools.interop import extcap, sources
from ecmproto.tools.interop.extcap import (
    DISABLE,
    INITIALIZED,
    INTERFACES,
    LAB,
    MECHANISM,
    OPTIONS,
    PAUSE,
    PORT,
    RATE,
    REPLAY,
    SET,
    SPEED,
    Message,
    entry_script,
    main,
    parse,
    split_messages,
)
from ecmproto.tools.interop.sources import Pace, PacedWriter, Steering, Toolbar
from tests.conftest import REPOSITORY, requires
from tests.namespaces import NEAR, Network

PLAIN = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
PATIENCE_S = 60.0
_QUICK = "duration=60us measure.from=20us measure.window=10us"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that is put into Wireshark's folder, alone in a folder."""
    path = tmp_path_factory.mktemp("extcap") / extcap.SCRIPT_NAME
    path.write_text(entry_script())
    path.chmod(0o755)
    return path


def answer(capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    assert main(line.split()) == 0
    return capsys.readouterr().out.splitlines()


_SENTENCE = re.compile(r"(extcap|interface|control|value|dlt|arg) ((?:\{[a-z]+=[^{}]*\})+)")


def attributes(line: str) -> tuple[str, dict[str, str]]:
    """Return the type and the attributes of a sentence. Patterns contain braces, which Wireshark accepts."""
    match = re.match(r"(\w+) ", line)
    assert match is not None, line
    return match[1], dict(re.findall(r"\{([a-z]+)=((?:[^{}]|\{[^{}]*\})*)\}", line))


# What Wireshark asks at its start -------------------------------------------------------------------------

CALLS = (
    "--extcap-interfaces --extcap-version=4.0",
    *(f"--extcap-config --extcap-interface {name} --extcap-version=4.0" for name in OPTIONS),
)


def test_interfaces_and_toolbar_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    told = [attributes(line) for line in answer(capsys, "--extcap-interfaces --extcap-version=4.0")]
    kinds = [kind for kind, _ in told]
    assert kinds[0] == "extcap"
    assert [found["value"] for kind, found in told if kind == "interface"] == list(INTERFACES)
    controls = {found["number"]: found for kind, found in told if kind == "control"}
    assert [controls[number]["display"] for number in sorted(controls)] == [
        "Log", "Pause", "Speed", "Mechanism", "Rate"
    ]  # fmt: skip
    mechanisms = [found["value"] for kind, found in told if found.get("control") == str(MECHANISM)]
    assert mechanisms[:3] == ["qcn", "ecm", "bcn"]


@pytest.mark.parametrize("interface", OPTIONS)
def test_interface_options_are_listed_with_values(interface: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = [attributes(line) for line in answer(capsys, f"--extcap-config --extcap-interface {interface}")]
    options = {found["number"]: found for kind, found in told if kind == "arg"}
    assert [found["call"] for found in options.values()] == [each.call for each in OPTIONS[interface]]
    assert all(found["group"] and found["tooltip"] for found in options.values())
    for number, found in options.items():
        values = [each for kind, each in told if kind == "value" and each["arg"] == number]
        assert bool(values) == (found["type"] in ("selector", "multicheck")), found
        chosen = [each["value"] for each in values if each.get("default") == "true"]
        assert chosen == ([found.get("default", "")] if found["type"] == "selector" and chosen else chosen)
    assert answer(capsys, f"--extcap-dlts --extcap-interface {interface}") == [
        "dlt {number=1}{name=EN10MB}{display=Ethernet}"
    ]


def test_values_are_listed_anew_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"--extcap-config --extcap-interface {PORT} --extcap-reload-option in"
    told = [attributes(line) for line in answer(capsys, line)]
    assert {kind for kind, _ in told} == {"value"}
    assert "lo" in [found["value"] for _, found in told]
    line = f"--extcap-config --extcap-interface {LAB} --extcap-reload-option --scenario"
    told = [attributes(line) for line in answer(capsys, line)]
    assert ("qcn-baseline-1", "true") in [(found["value"], found.get("default")) for _, found in told]
    assert any(found["display"].startswith("bcn-bursty: Eight bursty sources") for _, found in told)


@pytest.mark.parametrize("line", CALLS)
def test_startup_calls_are_fast_and_import_little(line: str, script: Path) -> None:
    code = (
        f"import runpy, sys, atexit; sys.argv = [{str(script)!r}, *{line.split()!r}]\n"
        "atexit.register(lambda: print(*({'numpy', 'numba', 'scapy', 'click', 'construct', 'argparse', "
        "'ecmproto.control.mechanisms.registry'} & set(sys.modules)), file=sys.stderr, end=''))\n"
        f"runpy.run_path({str(script)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    took_s = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([script, *line.split()], stdout=subprocess.DEVNULL, check=True, cwd="/", env={})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took_s) < 0.1, took_s


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "",
            "extcap: expected one of --extcap-interfaces, --extcap-dlts, --extcap-config, --capture, got",
        ),
        ("word", "extcap: expected an option such as --capture, got 'word'"),
        ("--extcap-config --extcap-interface eth0", "--extcap-interface: expected one of ecmproto-lab"),
        (f"--capture --extcap-interface {LAB}", "--fifo: expected the name of a FIFO to write to, got none"),
        (
            f"--capture --extcap-interface {LAB} --fifo f --extcap-capture-filter udp",
            "capture filter: expected none",
        ),
        (f"--capture --extcap-interface {REPLAY} --fifo f", "--file: expected a capture of Ethernet"),
        (
            f"--capture --extcap-interface {LAB} --fifo f --speed 0",
            "--speed: expected max, or a factor such",
        ),
        (
            f"--capture --extcap-interface {LAB} --fifo f --speed 1/0",
            "--speed: expected max, or a factor such",
        ),
        (
            f"--capture --extcap-interface {LAB} --fifo f --seed -1",
            "--seed: expected a number from 0 to 4294",
        ),
        (
            f"--capture --extcap-interface {LAB} --fifo f --set qeq",
            "--set: expected NAME=VALUE, spaces",
        ),
        (
            f"--capture --extcap-interface {PORT} --fifo f --in a --out b --rate fast",
            "--rate: expected a rate",
        ),
        (
            f"--capture --extcap-interface {PORT} --fifo f --out b",
            "--in: expected interfaces whose frames go",
        ),
    ],
)
def test_invalid_calls_print_a_single_sentence(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"ecmproto: {told}")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"--extcap-interface {LAB} --scenario nowhere", "scenario: expected a scenario's name"),
        (f"--extcap-interface {LAB} --set qeq=1", "qeq: "),
        (f"--extcap-interface {LAB} --mechanism nonsense", "nonsense"),
        (f"--extcap-interface {REPLAY} --file nowhere.pcap", "nowhere.pcap: expected a readable capture"),
        (f"--extcap-interface {REPLAY} --file pcaps/mixed.pcap --filter (", "1"),
        (f"--extcap-interface {REPLAY} --file pcaps/mixed.pcap --loop x", "--loop: expected open or closed"),
        (f"--extcap-interface {PORT} --in lo,lo --out eth0", "in: expected each interface once"),
        (f"--extcap-interface {PORT} --in lo --out eth0 --param x=1", "parameter of qcn: expected one of"),
        (f"--extcap-interface {PORT} --in lo --out nowhere0", "nowhere0: expected"),
    ],
)
def test_error_precedes_opening_of_the_fifo(
    line: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert main(["--capture", "--fifo", str(fifo), *line.split()]) == 1  # nobody reads: opening would wait
    shown = capsys.readouterr().err
    assert shown.startswith("ecmproto: ")
    assert told in shown
    assert shown.count("\n") == 1


def test_capture_filter_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, f"--extcap-interface {LAB} --extcap-capture-filter udp")
    assert told == ["capture filter: expected none: the options of the interface select frames"]


def test_unknown_wireshark_options_are_ignored() -> None:
    line = f"--capture --extcap-interface {LAB} --fifo f --extcap-new-thing=1 --other 2 --seed 7"
    request = parse(line.split())
    assert (request.action, request.fifo, request.options["seed"]) == ("capture", "f", "7")
    assert request.options["speed"] == "1/1000"


# The toolbar's messages -----------------------------------------------------------------------------------


def test_messages_have_the_extcap_encoding() -> None:
    assert Message(2, SET, "max").build() == b"T\x00\x00\x05\x02\x01max"
    assert Message(0, INITIALIZED).build() == b"T\x00\x00\x02\x00\x00"


_messages = st.builds(Message, st.integers(0, 255), st.integers(0, 9), st.text(max_size=20))


@given(st.lists(_messages, max_size=5), st.integers(0, 200))
def test_messages_cut_anywhere_are_parsed(messages: list[Message], at: int) -> None:
    octets = extcap.joined(messages)
    first, rest = split_messages(octets[:at])
    second, left = split_messages(rest + octets[at:])
    assert (first + second, left) == (messages, b"")


@given(st.binary(max_size=50))
def test_any_octets_parse_without_exception(octets: bytes) -> None:
    found, left = split_messages(octets)
    assert len(left) <= len(octets)
    assert sum(len(each.build()) for each in found) <= len(octets) * 3


# Time and toolbar -----------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.ns = 10_000

    def __call__(self) -> int:
        return self.ns


def test_pace_follows_speed_and_pause() -> None:
    clock = Clock()
    pace = Pace(0.5, clock=clock)
    assert pace.reached(1_000)  # begins with the first frame
    assert not pace.reached(1_100)
    assert pace.wait_s(1_100) == pytest.approx(200e-9)
    clock.ns += 200
    assert pace.reached(1_100)
    pace.change(speed=0.5, paused=True)
    clock.ns += 10_000
    assert not pace.reached(1_100)
    pace.change(speed=2.0, paused=False)
    assert pace.now_ns() == 1_100
    clock.ns += 50
    assert pace.reached(1_200)
    assert not pace.reached(1_201)
    pace.forget()
    clock.ns += 1_000_000
    assert pace.reached(5_000)
    assert not pace.reached(5_001)
    pace.change(speed=None, paused=False)
    assert pace.reached(10**15)


@pytest.fixture
def pipes(tmp_path: Path) -> dict[str, str]:
    """The FIFOs that Wireshark makes for a capture."""
    made = {name: str(tmp_path / name) for name in ("fifo", "in", "out")}
    for path in made.values():
        os.mkfifo(path)
    return made


def test_toolbar_sets_speed_and_pause_or_restarts(pipes: dict[str, str]) -> None:
    toolbar = Toolbar(pipes["in"], pipes["out"])
    presses = os.open(pipes["in"], os.O_WRONLY)
    shown = os.open(pipes["out"], os.O_RDONLY | os.O_NONBLOCK)
    # The text at the start of the capture, and the end of the text.
    os.write(presses, Message(SPEED, SET, "10").build() + Message(0, INITIALIZED).build())
    options = {each.name: each.default for each in OPTIONS[REPLAY]}
    options["file"] = str(REPOSITORY / "pcaps" / "mixed.pcap")
    steering = Steering(options, toolbar, REPLAY)
    steering.begin()
    assert steering.pace.speed == 10
    told, _ = split_messages(os.read(shown, 4096))
    assert Message(MECHANISM, SET, "qcn") in told
    assert Message(RATE, SET, "10G") in told
    reading, sink = os.pipe()

    def press(*messages: Message) -> list[Message]:
        os.write(presses, extcap.joined(messages))
        try:
            steering.update(sink)
        finally:
            told, _ = split_messages(os.read(shown, 4096))
        return told

    held = []
    for label in ("Resume", "Pause"):
        assert Message(PAUSE, SET, label) in press(Message(PAUSE, SET))
        held.append(steering.pace.paused)
    assert held == [True, False]
    told = press(Message(SPEED, SET, "nonsense"))
    assert any("expected max, or a factor" in each.text for each in told)
    assert steering.pace.speed == 10
    told = press(Message(RATE, SET, "fast"))
    assert any("expected" in each.text for each in told)
    with pytest.raises(sources.Restart):
        press(Message(MECHANISM, SET, "ecm"))
    assert steering.options["mechanism"] == "ecm"
    with pytest.raises(sources.Restart):
        press(Message(RATE, SET, "1G"))
    os.close(presses)  # Wireshark has exited: the capture continues until the FIFO is closed
    steering.update(sink)
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        steering.update(sink)
    toolbar.close()
    for each in (sink, shown):
        os.close(each)


def test_unused_controls_are_disabled(pipes: dict[str, str]) -> None:
    toolbar = Toolbar("", pipes["out"])
    shown = os.open(pipes["out"], os.O_RDONLY | os.O_NONBLOCK)
    Steering({each.name: each.default for each in OPTIONS[LAB]}, toolbar, LAB).begin()
    told, _ = split_messages(os.read(shown, 4096))
    assert Message(RATE, DISABLE) in told
    assert Message(SPEED, SET, "1/1000") in told
    toolbar.close()
    os.close(shown)


def _written(path: Path, write: Callable[[PacedWriter], None], **options: str) -> Any:
    with open(path, "wb") as file:
        steering = Steering({"speed": "max", **options}, Toolbar("", ""), REPLAY)
        writer = PacedWriter(
            Sink(str(path), file), file.fileno(), steering, links=options.get("links", "").split()
        )
        write(writer)
    with open_capture(path) as reader:
        batches = list(reader)
        return reader.interfaces, batches


def test_restarted_writer_keeps_time_and_interfaces(tmp_path: Path) -> None:
    def write(writer: PacedWriter) -> None:
        for _ in range(2):
            for name in ("a>b", "b>c"):
                writer.add_interface(Interface(index=0, linktype=1, name=name))
            times = np.array([1_000, 2_000], np.int64)
            writer.write_batch(Batch.from_frames([bytes(60), bytes(61)], time_ns=times, interface=[0, 1]))
            writer.write_frame(bytes(62), 3_000, interface=1, comment="why")
            writer.restart()

    interfaces, batches = _written(tmp_path / "all.pcapng", write)
    assert [each.name for each in interfaces] == ["a>b", "b>c"]
    times_ns = np.concatenate([batch.time_ns for batch in batches])
    assert len(times_ns) == 6
    assert (np.diff(times_ns) > 0).all()
    _, batches = _written(tmp_path / "some.pcapng", write, links="a>*")
    assert [len(octets) for batch in batches for octets in batch] == [60, 60]


# As Wireshark drives it -----------------------------------------------------------------------------------


class Capture:
    """A running capture with the FIFOs that Wireshark opens."""

    def __init__(self, script: Path, pipes: dict[str, str], line: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [script, "--capture", *line.split(), "--fifo", pipes["fifo"],
             "--extcap-control-in", pipes["in"], "--extcap-control-out", pipes["out"]],
            stderr=subprocess.PIPE, text=True, env=PLAIN | environment, cwd=REPOSITORY,
        )  # fmt: skip
        self.presses = os.open(pipes["in"], os.O_WRONLY)
        self.shown = os.open(pipes["out"], os.O_RDONLY | os.O_NONBLOCK)
        self.press(Message(0, INITIALIZED))
        self.fifo = os.open(pipes["fifo"], os.O_RDONLY)
        self.octets = b""
        self.told: list[Message] = []
        self._rest = b""

    def press(self, *messages: Message) -> None:
        os.write(self.presses, extcap.joined(messages))

    def read(self, wanted: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
        """Read frames and messages until ``wanted``; return whether that came."""
        end = time.monotonic() + patience_s
        while not wanted() and time.monotonic() < end:
            ready, _, _ = select.select([self.fifo, self.shown], [], [], 0.1)
            if self.fifo in ready:
                self.octets += os.read(self.fifo, 1 << 16)
            if self.shown in ready:
                with suppress(BlockingIOError):
                    found, self._rest = split_messages(self._rest + os.read(self.shown, 1 << 16))
                    self.told += found
        return wanted()

    def says(self, text: str) -> bool:
        """Read until a message contains the text."""
        return self.read(lambda: any(text in each.text for each in self.told))

    def more(self, octets: int, patience_s: float = PATIENCE_S) -> bool:
        """Read ``count`` more octets."""
        before = len(self.octets)
        return self.read(lambda: len(self.octets) >= before + octets, patience_s)

    def close(self) -> tuple[int, str]:
        """Close the FIFO, as Wireshark does to stop a capture, and return the exit code and stderr."""
        os.close(self.fifo)
        told = self.process.communicate(timeout=PATIENCE_S)[1]
        return self.process.returncode, told

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        for each in (self.presses, self.shown):
            os.close(each)


@pytest.fixture
def begin(script: Path, pipes: dict[str, str]) -> Iterator[Callable[..., Capture]]:
    """Begin a capture; it is ended with the test."""
    begun: list[Capture] = []

    def make(line: str, **environment: str) -> Capture:
        begun.append(Capture(script, pipes, line, **environment))
        return begun[-1]

    yield make
    for each in begun:
        each.end()


def frames_in(octets: bytes, tmp_path: Path) -> tuple[list[str], Batch]:
    """Return the names of the interfaces and the frames of a capture that was cut anywhere."""
    path = tmp_path / "read.pcapng"
    path.write_bytes(octets)
    with open_capture(path) as reader:
        frames = [(octets, int(at), int(on)) for batch in reader
                  for octets, at, on in zip(batch, batch.time_ns, batch.interface, strict=True)]  # fmt: skip
        names = [each.name for each in reader.interfaces]
    octets_of, times, interfaces = zip(*frames, strict=True)
    return names, Batch.from_frames(octets_of, time_ns=times, interface=interfaces)


def test_scenario_pauses_restarts_and_ends_with_fifo(begin: Callable[..., Capture], tmp_path: Path) -> None:
    running = begin(f"--extcap-interface {LAB} --scenario bcn-symmetric --speed 1/100000")
    assert running.more(5_000)
    assert Message(MECHANISM, SET, "bcn") in running.told  # a default value that the user did not choose
    running.press(Message(MECHANISM, SET, "bcn"))  # which changes nothing
    running.press(Message(PAUSE, SET))
    assert running.says("paused")
    running.more(1 << 30, 0.5)  # pending data
    assert not running.more(1, 1.0)
    running.press(Message(PAUSE, SET), Message(SPEED, SET, "max"))
    assert running.more(20_000)
    running.press(Message(MECHANISM, SET, "qcn"))
    assert running.says("restarts with qcn")
    assert not any("anew with bcn" in each.text for each in running.told)
    assert running.says("bcn-symmetric, qcn")
    assert running.more(20_000)
    assert running.close() == (0, "")
    names, batch = frames_in(running.octets, tmp_path)
    assert len(names) == len(set(names))
    assert "left>right" in names
    assert (np.diff(batch.time_ns) >= 0).all()


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_replay_equals_output_of_command_line(
    loop: str, begin: Callable[..., Capture], tmp_path: Path
) -> None:
    line = f"--extcap-interface {REPLAY} --file pcaps/incast.pcap.gz --filter frame.number<150 --speed max"
    running = begin(f"{line} --loop {loop} --rate 1G --param qeq=3kB")
    assert running.says("ended, ")
    running.more(1 << 30, 0.5)
    assert running.close() == (0, "")
    _, batch = frames_in(running.octets, tmp_path)
    other = tmp_path / "other.pcapng"
    subprocess.run(
        [sys.executable, "-m", "ecmproto_cli", "replay", "-r", "pcaps/incast.pcap.gz", "-Y",
         "frame.number<150", "--cp", "qcn", *(["--rp", "qcn"] if loop == "closed" else []), "--rate", "1G",
         "--param", "qeq=3kB", "--seed", "1", "-w", str(other)],
        check=True, capture_output=True, env=PLAIN, cwd=REPOSITORY,
    )  # fmt: skip
    _, wanted = frames_in(other.read_bytes(), tmp_path)
    assert len(batch) >= 149
    assert list(batch) == list(wanted)
    assert batch.time_ns.tolist() == wanted.time_ns.tolist()


def test_port_shows_forwarded_frames_until_a_signal(
    begin: Callable[..., Capture], veth: Network, tmp_path: Path
) -> None:
    veth.ip("link add name in0 type veth peer name host0")
    for name in ("in0", "host0"):
        veth.ip(f"link set {name} addrgenmode none")
        veth.ip(f"link set {name} arp off up")
    running = begin(f"--extcap-interface {PORT} --in in0 --out {NEAR} --rate 10M")
    assert running.says("runs")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as host:
        host.bind(("host0", 0))
        for number in range(20):
            host.send(bytes.fromhex("02000000000a02000000000b0800") + bytes([number]) * 100)
    assert running.more(40 * (114 + 32))
    running.press(Message(PAUSE, SET))
    assert running.says("paused")
    running.process.send_signal(signal.SIGTERM)
    assert running.process.communicate(timeout=PATIENCE_S)[1] == ""
    assert running.process.returncode == 0
    os.close(running.fifo)
    names, batch = frames_in(running.octets, tmp_path)
    assert names == ["in0", NEAR]
    assert (np.diff(batch.time_ns) >= 0).all()
    ours = [
        (int(on), octets[14])
        for octets, on in zip(batch, batch.interface, strict=True)
        if octets[6:12][5] == 11
    ]
    assert [number for on, number in ours if on == 0] == list(range(20))
    assert [number for on, number in ours if on == 1] == list(range(20))


def test_tshark_captures_from_extcap(script: Path, tmp_path: Path) -> None:
    tshark = requires("tshark")
    folder = tmp_path / "config"
    (folder / "extcap").mkdir(parents=True)
    (folder / "extcap" / script.name).symlink_to(script)
    environment = {**PLAIN, "WIRESHARK_CONFIG_DIR": str(folder), "HOME": str(tmp_path)}
    listed = subprocess.run(
        [tshark, "-D"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert all(f"{name} ({title})" in listed for name, title in INTERFACES.items())
    options = {"scenario": "bcn-symmetric", "set": _QUICK, "speed": "max", "seed": "3"}
    done = subprocess.run(
        [tshark, "-i", LAB, *(word for name, value in options.items()
                              for word in ("-o", f"extcap.{LAB.replace('-', '_')}.{name}:{value}")),
         "-T", "fields", "-e", "frame.number", "-e", "frame.interface_name", "-e", "frame.len"],
        env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(rows) > 50
    assert {"left>right", "s1>e1"} <= {name for _, name, _ in rows}
    trace = tmp_path / "trace.pcapng"
    sets = [word for each in _QUICK.split() for word in ("--set", each)]
    subprocess.run(
        [sys.executable, "-m", "ecmproto_cli", "lab", "run", "bcn-symmetric", *sets, "--seed", "3",
         "-w", str(trace)],
        capture_output=True, env=PLAIN, check=False,
    )  # fmt: skip
    with open_capture(trace) as reader:
        lengths = [len(octets) for batch in reader for octets in batch]
    assert [int(length) for *_, length in rows] == lengths
