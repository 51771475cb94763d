"""Failures of links and hosts: live devices neither hang nor stop, and counters report the failures."""

from __future__ import annotations

import errno
import fcntl
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ecmproto.control.live.device import LiveInterface
from ecmproto.control.mechanisms.pause.congestion_point import Signal
from ecmproto.control.mechanisms.pause.messages import pause_frame
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux.receiver import FRAMES
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.frames.capture.linux.wires import Sockets
from tests.live.test_reaction_point import cnm
from tests.live.virtual import HOST, frame
from tests.live.wires import Wires, comes_through, received, until, wires
from tests.namespaces import FAR, NEAR, PATIENCE_S, Network, guarded

RECEIVER = 250
CP = ("cp", "--in", "a", "--in", "b", "--out", "c", "-T", "ndjson", "--seed", "1")


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wires]:
    with wires(tmp_path) as made:
        yield made


@pytest.fixture
def switched(wired: Wires) -> Wires:
    for name in ("a", "b", "c"):
        wired.pair(name)
    return wired


def test_a_deleted_interface_is_no_longer_used(veth: Network) -> None:
    link = LiveInterface(NEAR)
    sockets = Sockets(1, frame_octets=0)
    receiving, sending = link.descriptors
    sockets.attach([receiving], [sending], -1)
    link.count_with(sockets.wires, 0)
    with FrameSender(FAR) as other:
        few = np.frombuffer(3 * frame(1, RECEIVER, 100), np.uint8)
        other.send(few, 100 * np.arange(3), np.full(3, 100))
    veth.ip(f"link del {NEAR}")
    octets = np.frombuffer(frame(1, RECEIVER), np.uint8)
    link.send(octets, np.zeros(1, np.int64), np.array([len(octets)]))
    assert not link.is_open
    # The frames were received, but not read.
    assert (link.counts().received_frames, link.counts().overflow_frames) == (0, 3)
    # New files get these descriptor numbers, and the compiled loop must not read from them.
    used = sockets.wires
    assert used.receiving[0] == used.sending[0] == -1
    assert used.polls[:2].view(np.int32)[0] == -1
    link.fail(errno.EBADF)
    assert link.counts().lost == 1
    assert link.counts().unsent_frames == 1


def test_unread_frames_at_the_end_count_as_overflow(veth: Network) -> None:
    few = Batch.from_frames([frame(1, RECEIVER, number=n) for n in range(FRAMES + 44)])
    link = LiveInterface(NEAR)
    with FrameSender(FAR) as other:
        assert other.send(few.buffer, few.offset, few.captured) == len(few)
    taken = link.receive()
    assert taken is not None
    assert len(taken) == FRAMES
    counts, last = link.counts(), link.counts(last=True)
    assert (counts.received_frames, counts.overflow_frames) == (FRAMES, 0)
    assert (last.received_frames, last.overflow_frames) == (FRAMES, 44)
    link.close()


def test_counters_balance_when_a_device_ends(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "1G")
    sent = 3000
    with switched.socket("a-far") as one:
        program.send_signal(signal.SIGSTOP)
        for number in range(sent):
            one.send(frame(1, RECEIVER, number=number))
        program.send_signal(signal.SIGTERM)
        program.send_signal(signal.SIGCONT)
        output, _ = program.communicate(timeout=PATIENCE_S)
    summary = json.loads(output.splitlines()[-1])
    link, counters = summary["links"]["a"], summary["counters"]
    # The number of frames before the signal is handled depends on the machine.
    assert link["received_frames"] == counters["queued_frames"] + counters["dropped_frames"]
    assert link["received_frames"] + link["overflow_frames"] == sent


def test_frames_refused_by_the_peer_delay_none(switched: Wires) -> None:
    switched.ip("link", "set", "dev", "c-far", "mtu", "1000")
    program = switched.start(*CP, "--speed", "1G")
    sizes = [200, 1500, 300, 1400, 1300, 400]
    with switched.socket("a-far") as one, switched.socket("c-far") as out:
        for _ in range(20):
            for number, octets in enumerate(sizes):
                one.send(frame(1, RECEIVER, octets, number=number))
        got = received(out, 60)
    assert [len(octets) for octets in got] == [200, 300, 400] * 20
    summary = switched.end(program)
    assert summary["links"]["c"]["sent_frames"] == 60
    assert summary["links"]["c"]["unsent_frames"] == 60


def test_pauses_from_the_output_stop_a_port(switched: Wires) -> None:
    # 65535 quanta at 100 kb/s are 336 s, which is longer than the rest of this test.
    options = ("--speed", "100k", "--flow-control", "pause", "--interval", "50ms")
    program = switched.start(*CP, *options)
    counters = (document["counters"] for document in switched.documents(program))
    stop, resume = (pause_frame(Signal(0xFF, quanta), src=HOST + b"\xfa") for quanta in (65535, 0))
    sent = [frame(1, RECEIVER, number=n) for n in range(20)]
    with switched.socket("a-far") as one, switched.socket("c-far") as out:
        out.send(stop)
        until(lambda: next(counters)["downstream_pause_frames"] == 1)
        for octets in sent:
            one.send(octets)
        until(lambda: next(counters)["queued_frames"] == len(sent))
        stopped_ns = next(counters)["stopped_ns_priority_0"]
        # Without the stop they would all have left in half of this time.
        until(lambda: next(counters)["stopped_ns_priority_0"] > stopped_ns + 400_000_000)
        out.setblocking(False)
        with pytest.raises(BlockingIOError):
            out.recv(2048)
        out.settimeout(PATIENCE_S)
        out.send(resume)
        assert received(out, len(sent)) == sent
    counted = switched.end(program)["counters"]
    assert counted["downstream_pause_frames"] == 2
    assert counted["stopped_ns_priority_0"] > 400_000_000
    assert counted["departed_frames"] == len(sent)


def test_a_port_survives_unread_reports(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "1G", "--interval", "1ms")
    assert program.stdout is not None
    fcntl.fcntl(program.stdout, fcntl.F_SETPIPE_SZ, 4096)  # less than two reports
    with switched.socket("a-far") as one, switched.socket("c-far") as out:
        for number in range(200):
            one.send(frame(1, RECEIVER, number=number))
            assert received(out, 1) == [frame(1, RECEIVER, number=number)]
            time.sleep(0.002)
    program.send_signal(signal.SIGTERM)
    output, told = program.communicate(timeout=PATIENCE_S)
    assert json.loads(output.splitlines()[-1])["counters"]["departed_frames"] == 200
    assert "reports left out: stdout was not read in time" in told


def test_flapping_inputs_and_outputs_are_survived(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "1G")
    with switched.socket("a-far") as one, switched.socket("b-far") as two, switched.socket("c-far") as out:
        for round in range(3):
            for name in ("a", "c"):
                switched.ip("link", "set", "dev", name, "down")
                time.sleep(0.05)
                two.send(frame(2, RECEIVER, number=round))
                switched.ip("link", "set", "dev", name, "up")
            comes_through(one, out, frame(1, RECEIVER, number=100 + round))
            comes_through(two, out, frame(2, RECEIVER, number=200 + round))
    summary = switched.end(program)
    assert [summary["links"][name]["lost"] for name in ("a", "b", "c")] == [0, 0, 0]
    assert not any(link["down"] for link in summary["links"].values())


def test_a_port_survives_deletion_of_a_namespace(
    wired: Wires,
) -> None:
    other = f"{wired.name}-far"
    with guarded(other):
        for name in ("a", "b", "c"):
            wired.pair(name)
            wired.ip("link", "set", "dev", f"{name}-far", "netns", other)
            subprocess.run(["ip", "-n", other, "link", "set", "dev", f"{name}-far", "up"], check=True)
        program = wired.start(*CP, "--speed", "1G")
    deadline = time.monotonic() + PATIENCE_S
    shown = "a"
    while "a" in shown:
        assert time.monotonic() < deadline
        done = subprocess.run(
            ["ip", "-n", wired.name, "-o", "link", "show", "type", "veth"],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        shown = done.stdout
        time.sleep(0.05)
    assert program.poll() is None
    wired.pair("c")
    documents = wired.documents(program)
    until(lambda: [link["gone"] for link in next(documents)["links"].values()] == [True, True, False])
    links = wired.end(program)["links"]
    assert [links[name]["gone"] for name in ("a", "b", "c")] == [True, True, False]
    assert [links[name]["lost"] for name in ("a", "b", "c")] == [1, 1, 1]


def test_a_port_survives_removal_of_namespace_name(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "1G")
    with switched.socket("a-far") as one, switched.socket("c-far") as out:
        subprocess.run(["ip", "netns", "del", switched.name], check=True)
        comes_through(one, out, frame(1, RECEIVER, number=1))
    assert switched.end(program)["counters"]["departed_frames"] >= 1


@pytest.mark.parametrize("role", ["rp", "edge"])
def test_a_device_starts_after_a_killed_one(wired: Wires, role: str) -> None:
    for name in ("h", "n"):
        wired.pair(name)
    words = [role, "--host", "h", "--net", "n", "--mechanism", "qcn", "-T", "ndjson"]
    words += ["--speed", "1G"] if role == "rp" else []
    program = wired.start(*words)
    program.kill()
    program.communicate()
    assert program.returncode == -signal.SIGKILL
    again = wired.start(*words)
    with wired.socket("h-far") as host, wired.socket("n-far") as net:
        comes_through(net, host, frame(RECEIVER, 1))
    assert wired.end(again)["counters"]["net_frames"] >= 1


def test_a_port_counts_overflows_of_its_ring(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "40G", "--buffer", "50000frames")
    sent = 40_000
    with switched.socket("a-far") as one, switched.socket("c-far") as out:
        program.send_signal(signal.SIGSTOP)
        octets = frame(1, RECEIVER, 1000)
        for _ in range(sent):
            one.send(octets)
        program.send_signal(signal.SIGCONT)
        comes_through(one, out, frame(1, RECEIVER, number=7))
    summary = switched.end(program)
    link, counters = summary["links"]["a"], summary["counters"]
    assert link["overflow_frames"] > 0
    assert link["received_frames"] + link["overflow_frames"] >= sent + 1
    assert link["received_frames"] == counters["queued_frames"] + counters["dropped_frames"]
    assert counters["departed_frames"] == counters["queued_frames"]
    assert 0 < counters["departed_frames"] < sent


@pytest.mark.parametrize("role", ["rp", "edge"])
def test_forged_messages_are_counted_and_create_nothing(wired: Wires, role: str) -> None:
    for name in ("h", "n"):
        wired.pair(name)
    words = [role, "--host", "h", "--net", "n", "--mechanism", "qcn", "-T", "ndjson"]
    words += ["--speed", "1G"] if role == "rp" else ["--mac", "02:00:00:00:00:ee"]
    program = wired.start(*words)
    flood = 100_000
    draws = np.random.default_rng(1)
    known = [cnm(63, flow_id=number) for number in range(1000, 1500)]
    if role == "edge":
        known = [bytes.fromhex("0200000000ee") + octets[6:] for octets in known]
    forged = [octets[:20] + draws.bytes(len(octets) - 20) for octets in known[:100]]
    with wired.socket("h-far") as host, wired.socket("n-far") as net:
        host.send(frame(1, RECEIVER))
        received(net, 1)
        frames = [*known, *forged]
        for number in range(flood):
            net.send(frames[number % len(frames)])
        comes_through(net, host, frame(RECEIVER, 1, number=9))
    summary = wired.end(program)
    link = summary["links"]["n"]
    assert link["received_frames"] + link["overflow_frames"] > flood
    assert summary["counters"]["net_frames"] == link["received_frames"]
    assert summary["mechanism"].get("created", 0) == 0
    if role == "rp":
        heard = summary["mechanism"]["feedback_frames"]
        assert heard >= link["received_frames"] - 1000
    else:
        assert summary["counters"]["consumed_frames"] >= link["received_frames"] - 1000
