"""Live devices on real interfaces: veth pairs in a separate namespace."""

from __future__ import annotations

import hashlib
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.live.test_reaction_point import cnm
from tests.live.virtual import HOST, frame
from tests.live.wires import (
    Wires,
    comes_through,
    received,
    received_before,
    socket_counters,
    until,
    wires,
    with_tag,
)
from tests.namespaces import PATIENCE_S

RECEIVER = 250


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wires]:
    with wires(tmp_path) as made:
        yield made


@pytest.fixture
def switched(wired: Wires) -> Wires:
    for name in ("a", "b", "c"):
        wired.pair(name)
    return wired


CP_MAC = bytes.fromhex("02000000cc01")
CP = ("cp", "--in", "a", "--in", "b", "--out", "c", "-T", "ndjson", "--seed", "1")


def test_a_port_forwards_frames_unchanged_in_order(switched: Wires) -> None:
    cpu = max(os.sched_getaffinity(0))
    program = switched.start(*CP, "--speed", "10G", "--buffer", "20000frames", "--timing", f"cpu={cpu}")
    assert os.sched_getaffinity(program.pid) == {cpu}
    draws = np.random.default_rng(1)
    with switched.socket("a-far") as one, switched.socket("b-far") as two, switched.socket("c-far") as out:
        digests = {1: hashlib.sha256(), 2: hashlib.sha256()}
        sent = 0
        got: list[bytes] = []
        for _ in range(40):
            for number, sock in ((1, one), (2, two)):
                for _ in range(100):
                    octets = frame(number, RECEIVER, int(draws.integers(60, 1500)), number=sent)
                    octets = octets[:40] + draws.bytes(len(octets) - 40)
                    digests[number].update(octets)
                    sock.send(octets)
                    sent += 1
            got += received(out, 200)
    for number, digest in digests.items():
        seen = hashlib.sha256()
        for octets in got:
            if octets[11] == number:
                seen.update(octets)
        assert seen.digest() == digest.digest()
    summary = switched.end(program)
    assert summary["counters"]["departed_frames"] == summary["counters"]["queued_frames"] == sent
    assert summary["counters"]["dropped_frames"] == 0
    assert summary["links"]["c"]["sent_frames"] == sent


def test_vlan_tags_are_kept(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "1G")
    frames = [
        frame(1, RECEIVER, 200, head=head) for head in ("8100 6005", "88a8 4014 8100 600a", "22e9 0042")
    ]
    with switched.socket("a-far") as one, switched.socket("c-far") as out:
        for octets in frames:
            one.send(octets)
        got = [with_tag(out) for _ in frames]
    assert got == frames
    switched.end(program)


def test_messages_return_to_the_sender_they_concern(switched: Wires) -> None:
    program = switched.start(
        *CP, "--speed", "10M", "--buffer", "1000frames", "--mechanism", "qcn", "--set", "cp.qeq=10kB",
        "--set", "cp.sample_base=10kB",
    )  # fmt: skip
    with switched.socket("a-far") as one, switched.socket("b-far") as two, switched.socket("c-far") as out:
        two.send(frame(2, RECEIVER))
        received(out, 1)
        for _ in range(200):
            one.send(frame(1, RECEIVER, 1400))
        received(out, 200)
        seen = {}
        for number, sock in ((1, one), (2, two)):
            last = frame(RECEIVER, number)
            out.send(last)
            # The port's messages about these 200 frames left before the frames that were bridged later.
            seen[number] = [octets for octets in received_before(sock, last) if octets[6:12] == CP_MAC]
        assert {octets[:6] for octets in seen[1]} == {HOST + b"\x01"}
        assert not seen[2]
    summary = switched.end(program)
    assert summary["messages"]["CNM"] == len(seen[1])
    assert summary["counters"]["bridged_frames"] == 2


def test_a_port_survives_links_down_and_deleted(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "1G", "--interval", "100ms")
    reports = (document["links"]["c"] for document in switched.documents(program))
    with switched.socket("a-far") as one:
        switched.ip("link", "set", "dev", "c", "down")
        one.send(frame(1, RECEIVER))
        until(lambda: next(reports)["unsent_frames"] == 1)
        switched.ip("link", "set", "dev", "c", "up")
        switched.ip("link", "del", "dev", "c")
        until(lambda: next(reports)["gone"])
        one.send(frame(1, RECEIVER))
        until(lambda: next(reports)["unsent_frames"] == 2)
        switched.pair("c")
        with switched.socket("c-far") as out:
            comes_through(one, out, frame(1, RECEIVER, number=77))
    summary = switched.end(program)
    assert summary["links"]["c"]["lost"] == 1
    link = summary["links"]["c"]
    assert link["unsent_frames"] >= 2
    assert not link["gone"]
    # Frames that were sent after the interface returned are counted, also if file descriptors are reused.
    assert link["sent_frames"] + link["unsent_frames"] == summary["counters"]["departed_frames"]


def test_a_vanished_namespace_does_not_hang_a_port(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "1G")
    for name in ("a", "b", "c"):
        switched.ip("link", "del", "dev", name)
    reports = switched.documents(program)
    until(lambda: all(link["gone"] for link in next(reports)["links"].values()))
    summary = switched.end(program)
    assert [summary["links"][name]["gone"] for name in ("a", "b", "c")] == [True, True, True]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_signals_end_a_port_with_a_summary(switched: Wires, number: int, code: int) -> None:
    program = switched.start(*CP, "--speed", "1G")
    switched.end(program, number)
    assert program.returncode == code


def test_a_port_starts_after_a_killed_one(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "1G")
    program.kill()
    program.communicate()
    again = switched.start(*CP, "--speed", "1G", "--duration", "200ms")
    output, _ = again.communicate(timeout=PATIENCE_S)
    assert '"event": "summary"' in output


def test_an_idle_port_sleeps(switched: Wires) -> None:
    program = switched.start(*CP, "--speed", "1G", "--mechanism", "fecn", "--interval", "500ms")
    reports = switched.documents(program)
    _, first, *_, last = (next(reports) for _ in range(7))
    used = (last["processor_ns"] - first["processor_ns"]) / (last["elapsed_ns"] - first["elapsed_ns"])
    # The device's reports take most of this time. Without a sleep, the device would use a whole processor.
    assert used < 0.1


def test_a_reaction_point_survives_forged_messages(wired: Wires) -> None:
    for name in ("h", "n"):
        wired.pair(name)
    program = wired.start(
        "rp", "--host", "h", "--net", "n", "--mechanism", "qcn", "--speed", "100M", "-T", "ndjson",
        "--interval", "100ms",
    )  # fmt: skip
    heard = (document["mechanism"] for document in wired.documents(program))
    draws = np.random.default_rng(1)
    with wired.socket("h-far") as host, wired.socket("n-far") as net:
        host.send(frame(1, RECEIVER))
        assert received(net, 1)[0][12:14] == b"\x22\xe9"
        for number in range(1, 3001):
            net.send(cnm(63, flow_id=number))
            net.send(draws.bytes(int(draws.integers(14, 300))))
            host.send(b"\x02" + draws.bytes(int(draws.integers(14, 300))))
        until(lambda: (said := next(heard))["unknown_flow"] + said["messages"] >= 3000)
        comes_through(host, net, frame(1, RECEIVER, 500, number=5))
    summary = wired.end(program)
    assert summary["mechanism"]["created"] == 0


def test_reaction_point_and_edge_restore_frames(wired: Wires) -> None:
    for name in ("h", "n", "e", "r"):
        wired.pair(name)
    # The wire between the two bumps.
    for end in ("n", "e"):
        wired.ip("link", "del", "dev", end)
    wired.ip("link", "add", "name", "n", "mtu", "1600", "type", "veth", "peer", "name", "e", "mtu", "1600")
    for end in ("n", "e"):
        wired.ip("link", "set", "dev", end, "arp", "off", "up")
    point = wired.start(
        "rp", "--host", "h", "--net", "n", "--mechanism", "fecn", "--speed", "1G", "--vlan", "5",
        "--prio", "3", "-T", "ndjson",
    )  # fmt: skip
    edge = wired.start(
        "edge", "--net", "e", "--host", "r", "--mechanism", "fecn", "--vlan", "5", "--prio", "3", "-T",
        "ndjson",
    )  # fmt: skip
    frames = [frame(1, RECEIVER, 60 + 14 * n, number=n) for n in range(100)]
    with wired.socket("h-far") as host, wired.socket("r-far") as receiver:
        for octets in frames:
            host.send(octets)
            assert received(receiver, 1) == [octets]
            # A measurement interval is as long, and has one frame that asks for a rate.
            time.sleep(0.001)
        receiver.send(frame(RECEIVER, 1))
        assert received(host, 1) == [frame(RECEIVER, 1)]
    said = wired.end(edge), wired.end(point)
    assert said[0]["messages"]["FECN return"] > 10
    assert said[1]["mechanism"]["returns"] == said[0]["messages"]["FECN return"]


def test_counters_are_served_and_root_is_given_up(switched: Wires) -> None:
    pytest.importorskip("prometheus_client")
    program = switched.start(*CP, "--speed", "1G", "--prometheus", "9177", "--user", "nobody")
    switched.ip("link", "set", "dev", "lo", "up")
    with switched.socket("a-far") as one:
        one.send(frame(1, RECEIVER))
        reports = switched.documents(program)
        until(lambda: next(reports)["counters"]["queued_frames"] == 1)
    fetch = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9177/metrics').read().decode())"
    shown = subprocess.run(
        ["ip", "netns", "exec", switched.name, "python3", "-c", fetch],
        stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S,
    ).stdout  # fmt: skip
    assert "ecmproto_cp_queued_frames_total 1.0" in shown
    listening = subprocess.run(
        ["ip", "netns", "exec", switched.name, "ss", "-Hltn"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    assert [word for word in listening if word.endswith(":9177")] == ["127.0.0.1:9177"]
    assert 'ecmproto_link_received_frames_total{interface="a"} 1.0' in shown
    # The command ip replaces itself with the started program.
    status = Path(f"/proc/{program.pid}/status").read_text(encoding="ascii")
    assert f"Uid:\t{pwd.getpwnam('nobody').pw_uid}\t" in status
    switched.end(program)


@pytest.mark.slow
def test_many_frames_arrive_as_they_were_sent(switched: Wires) -> None:
    """Eight flows from two inputs pass a port that is never full, because the sender waits for the port."""
    program = switched.start(*CP, "--speed", "40G", "--buffer", "50000frames", "--mechanism", "ecm")
    # The kernel stores at most 1000 frames per processor for all veth pairs.
    count, at_once, flows = 200_000, 200, 8
    sent, seen = [hashlib.sha256() for _ in range(flows)], [hashlib.sha256() for _ in range(flows)]
    draws = np.random.default_rng(2)
    with (
        switched.socket("a-far") as one,
        switched.socket("b-far") as two,
        switched.socket("c-far") as out,
    ):
        heads = [HOST + bytes([RECEIVER]) + HOST + bytes([flow]) + b"\x99\x99" for flow in range(flows)]
        for _ in range(0, count, at_once):
            octets = draws.bytes(46 * at_once)
            for number, flow in enumerate(draws.integers(0, flows, at_once).tolist()):
                data = heads[flow] + octets[46 * number : 46 * (number + 1)]
                sent[flow].update(data)
                (one, two)[flow & 1].send(data)
            try:
                for data in received(out, at_once):
                    seen[data[11]].update(data)
            except TimeoutError:
                where = switched.kernel_counters(), socket_counters(out), switched.end(program)
                pytest.fail(f"a frame is lost: {where}")
    assert [flow.digest() for flow in seen] == [flow.digest() for flow in sent]
    assert switched.end(program)["counters"]["departed_frames"] == count
