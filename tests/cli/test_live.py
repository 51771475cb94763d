"""``ecmproto live``: reports, and errors in options."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from ecmproto.control.live.device import InterfaceCounts, ProcessorWait, Snapshot
from ecmproto.control.live.port import MAX_FRAMES, buffer_of, slot_octets
from ecmproto.errors import ParameterError
from ecmproto.wire.codec import EtherTypes
from ecmproto_cli.commands.live import Reporter, Role, Running, live_line, live_table
from ecmproto_cli.main import run
from tests.namespaces import PATIENCE_S

CP = ["live", "cp", "--in", "lo", "--out", "no-such-interface", "--speed", "1M"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to open packet sockets")


def test_the_group_names_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["live", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name}" in said for name in ("cp", "rp", "edge", "testbed", "monitor"))


@pytest.mark.parametrize("name", ["cp", "rp", "edge", "testbed"])
def test_each_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["live", name, "--help"]) == 0
    assert "ecmproto live" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["live", "cp", "--out", "lo", "--speed", "1M"], 2, "--in"),
        (["live", "cp", "--in", "lo", "--out", "lo", "--speed", "1M"], 2, "given twice"),
        (["live", "cp", "--in", "a", "--out", "b", "--speed", "quick"], 2, "a rate such as"),
        ([*CP, "--mechanism", "qcm"], 2, "qcn"),
        ([*CP, "--set", "cp.qeq=1parsec"], 2, "qeq"),
        ([*CP, "--buffer", "lots"], 2, "a size such as"),
        ([*CP, "--buffer", "300000frames"], 2, "1 to 262144 frames"),
        ([*CP, "--cp-mac", "01:00:00:00:00:00"], 2, "individual address"),
        (["live", "rp", "--host", "lo", "--net", "lo", "--speed", "1G"], 2, "two interfaces"),
        (["live", "edge", "--host", "lo", "--net", "lo"], 2, "two interfaces"),
        (["live", "testbed", "--mechanism", ","], 2, "needs mechanisms"),
        (["live", "testbed", "--spec", "no-such-file.toml"], 3, "no-such-file.toml"),
        (["live", "nothing"], 2, "nothing"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(
    args: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == code
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("ecmproto: seed")]
    assert said in " ".join(lines)
    assert lines[0].startswith("ecmproto: ")
    assert lines[-1].startswith("help: ")


@needs_root
def test_a_missing_interface_is_refused_before_compiling(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(CP) == 4
    said = capsys.readouterr().err
    assert "no-such-interface: expected a network interface, got none of that name" in said
    assert "compiled" not in said


class TestBuffers:
    def test_buffers_are_given_in_frames_or_octets(self) -> None:
        assert buffer_of("1000frames") == (1000, 1_518_000)
        assert buffer_of("1 frame") == (1, 1518)
        assert buffer_of("600kB") == (10_000, 600_000)
        assert buffer_of("1GB") == (MAX_FRAMES, 10**9)

    @pytest.mark.parametrize("text", ["frames", "-1frames", "999999999999frames"])
    def test_other_buffers_are_refused(self, text: str) -> None:
        with pytest.raises(ParameterError):
            buffer_of(text)

    def test_slots_hold_a_frame_and_tags(self) -> None:
        assert slot_octets(1514) == 1600
        assert slot_octets(9014) >= 9014 + 48


def snapshot(departed: int) -> Snapshot:
    return Snapshot(
        counters={"departed_frames": departed, "departed_octets": 1000 * departed, "dropped_frames": 0},
        messages={"CNM": departed // 10},
        mechanism={"samples": 7, "refused": 0},
        gauges={"queue_octets": 1500, "queue_octet_seconds": 5e9, "utilisation": 0.25},
    )


def test_a_summary_shows_counters_and_messages() -> None:
    counts = InterfaceCounts(
        received_frames=12, overflow_frames=3, sent_frames=4, sent_octets=400, unsent_frames=0,
        refused_frames=1, lost=0, down=False, gone=False,
    )  # fmt: skip
    assert live_table("a to b", 2_500_000_000, snapshot(50), {"eth0": counts}).splitlines() == [
        "a to b, 2.5 s",
        "",
        "        received  sent  overflow  unsent  refused  lost",
        "  eth0        12     4         3       0        1     0",
        "",
        "  queue            1.5 kB",
        "  utilisation      25.0 %",
        "  departed frames  50",
        "  departed         50 kB",
        "",
        "messages sent",
        "  CNM            5",
        "",
        "mechanism",
        "  samples        7",
    ]


def test_a_line_covers_only_its_interval() -> None:
    second = 1_000_000_000
    assert live_line(2 * second, second, snapshot(150), snapshot(50)) == (
        "     2 s  departed 800 kb/s  queue 1.5 kB  10 messages"
    )


def running(*, form: str = "text", realtime: bool = False) -> Running:
    return Running(
        form=form, stats_interval=None, time=None, prometheus=None, user=None, coalesce="0", spin="0",
        realtime=realtime, cpu=None, seed=1, ethertypes=EtherTypes(),
    )  # fmt: skip


class Given:
    """A substitute device with a given snapshot."""

    due_ns = 0

    def __init__(self, counters: dict[str, int], warnings: tuple[str, ...] = ()) -> None:
        self.came = Snapshot(counters=counters, warnings=warnings)

    def take(self, batch: object, interface: int, now_ns: int) -> None: ...

    def advance(self, now_ns: int) -> None: ...

    def snapshot(self, now_ns: int) -> Snapshot:
        return self.came


def waited(ns: int, stolen_ns: int = 0) -> ProcessorWait:
    with ProcessorWait() as made:
        made.ns = lambda: ns  # type: ignore[method-assign]
        made.stolen_ns = lambda: stolen_ns  # type: ignore[method-assign]
        return made


@pytest.mark.parametrize(
    ("waited_ns", "name", "realtime", "said"),
    [
        (100_000_000, "", False, ""),
        (900_000_000, "", False, "Kept {}; --precise gives it priority over ordinary programs."),
        (900_000_000, "", True, "Kept {}."),
        (900_000_000, "left", True, "left was kept {}."),
    ],
)
def test_a_busy_machine_heads_the_summary(
    waited_ns: int,
    name: str,
    realtime: bool,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The counters contain work that the reaction point abandoned, because it may have been suspended.
    device = Given({"missed_ns": 700_000_000})
    start_ns = time.monotonic_ns()
    monkeypatch.setattr("time.monotonic_ns", lambda: start_ns + 15 * 10**9)
    Reporter(
        Role(name="rp", title="h to n"), device, [], running(realtime=realtime), start_ns, waited(waited_ns),
        name=name,
    ).summary()  # fmt: skip
    first = capsys.readouterr().out.splitlines()[0]
    told = "from the processor for 900 ms of 15 s: these figures reflect this machine, not the mechanism"
    assert first == said.format(told) if said else first.startswith("h to n, 15")


def test_larger_stolen_time_heads_the_summary(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_ns = time.monotonic_ns()
    monkeypatch.setattr("time.monotonic_ns", lambda: start_ns + 15 * 10**9)
    spent = waited(200_000_000, 600_000_000)
    Reporter(Role(name="rp", title="h to n"), Given({}), [], running(), start_ns, spent).summary()
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("The hypervisor took each processor for 600 ms of 15 s: these figures reflect")


def test_stolen_time_is_the_mean_of_the_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu 9 9 9 9 9 9 9 100 0 0\ncpu0 1\ncpu1 1\nintr 1", encoding="ascii")
    monkeypatch.setattr("ecmproto.control.live.device.MACHINE_COUNTS", str(stat))
    with ProcessorWait() as waiting:
        stat.write_text("cpu 9 9 9 9 9 9 9 150 0 0\ncpu0 1\ncpu1 1\n", encoding="ascii")
        assert waiting.stolen_ns() == 50 * 10**9 // os.sysconf("SC_CLK_TCK") // 2


def test_metrics_contain_waiting_and_stolen_time() -> None:
    spent = waited(77, 88)
    reporter = Reporter(Role(name="rp", title="h to n"), Given({"probes": 3}), [], running(), 0, spent)
    snapshot, _ = reporter.scrape()
    assert snapshot.counters["stolen_ns"] == 88
    assert snapshot.counters["probes"] == 3
    assert snapshot.counters["waited_ns"] == 77


def test_a_device_warning_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    device = Given({}, ("two LLDP speakers",))
    reporter = Reporter(Role(name="edge", title="n to h"), device, [], running(), 0, waited(0))
    for now_ns in range(3):
        reporter.warn(now_ns)
    reporter.summary()
    assert capsys.readouterr().err == "ecmproto: warning: two LLDP speakers\n"


def test_time_spent_waiting_for_a_processor_is_counted() -> None:
    if not os.path.exists("/proc/thread-self/schedstat"):
        pytest.skip("this kernel does not count it")
    with ExitStack() as others, ProcessorWait() as waiting:
        for _ in range(2 * (os.cpu_count() or 1)):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            others.callback(busy.wait)
            others.callback(busy.kill)
        deadline = time.monotonic() + PATIENCE_S
        while waiting.ns() < 1_000_000:
            assert time.monotonic() < deadline
