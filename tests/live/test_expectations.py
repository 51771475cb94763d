"""``ecmproto send --receive`` through devices between real interfaces: a bridge and faulty devices."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ecmproto_cli.main import run
from tests.namespaces import FAR, NEAR, Network

OTHER, DISTANT = "other", "distant"
"""The device's second port, and what the tester has there."""
_ETH_P_ALL = 3
_BRIEF = ["rate=30pps", "latency=5s", "margin=30ms"]


@pytest.fixture
def ports(veth: Network) -> Network:
    """The tester's near end with the device's port, and a second pair like it."""
    veth.ip(f"link add name {OTHER} type veth peer name {DISTANT}")
    for name in (OTHER, DISTANT):
        veth.ip(f"link set {name} addrgenmode none")
        veth.ip(f"link set {name} arp off up")
    return veth


Change = Callable[[bytes], bytes | None]


@contextmanager
def device(change: Change) -> Iterator[None]:
    """Forward between the two ports what ``change`` makes of each frame toward the far side."""
    kind, protocol = socket.SOCK_RAW, socket.htons(_ETH_P_ALL)
    ends = [socket.socket(socket.AF_PACKET, kind, protocol) for _ in range(2)]
    for end, name in zip(ends, (FAR, OTHER), strict=True):
        end.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
        end.setsockopt(263, 8, 1)  # PACKET_AUXDATA: where the kernel keeps VLAN tags
        end.bind((name, _ETH_P_ALL))
    stop_read, stop_write = os.pipe()

    def forward() -> None:
        while True:
            waiting: list[Any] = [*ends, stop_read]
            ready = select.select(waiting, [], [])[0]
            if stop_read in ready:
                return
            for end in ready:
                octets, auxiliary, _, _ = end.recvmsg(2048, 256)
                for _, _, data in auxiliary:
                    if int.from_bytes(data[:4], "little") & 1 << 4:
                        octets = octets[:12] + b"\x81\x00" + data[16:18][::-1] + octets[12:]
                left = change(octets) if end is ends[0] else octets
                if left is not None and octets[12:14] != b"\x88\x08":
                    ends[end is ends[0]].send(left)

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.write(stop_write, b"x")
        thread.join()
        for end in ends:
            end.close()
        os.close(stop_read)
        os.close(stop_write)


def judged(words: list[str], capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, str]]:
    code = run(["send", "-i", NEAR, *words, "--receive", DISTANT, "-T", "json", *more])
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert document["sent"]["frames"] > 0
    return code, {each["name"]: f"{each['outcome']}: {each['found']}" for each in document["verdicts"]}


@pytest.mark.alone
def test_a_bridge_forwards_but_ignores_pfc(
    ports: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ("link add name switch type bridge", f"link set {FAR} master switch"):
        ports.ip(words)
    ports.ip(f"link set {OTHER} master switch")
    ports.ip("link set switch addrgenmode none")
    ports.ip("link set switch up")
    junit = tmp_path / "out.xml"
    code, verdicts = judged(["pfc-storm", *_BRIEF, "duration=200ms"], capsys, "--junit", str(junit))
    failed = [name for name, found in verdicts.items() if found.startswith("failed")]
    assert (code, failed) == (1, ["priority 3 is stopped"]), verdicts
    assert [case.attrib["name"] for case in ElementTree.parse(junit).iter("testcase")] == list(verdicts)
    # Expectations without requirements pass: lossy priorities, because the bridge ignores PFC.
    code, verdicts = judged(["pfc-lossy", *_BRIEF], capsys)
    assert code == 0, verdicts
    assert all(found.startswith("passed") for found in verdicts.values()), verdicts


def test_drops_and_rewritten_priorities_fail_the_expectations(
    ports: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    def drops(octets: bytes) -> bytes | None:
        return None if octets[14] >> 5 == 5 else octets

    def rewrites(octets: bytes) -> bytes:
        return octets[:14] + bytes([2 << 5]) + octets[15:] if octets[14] >> 5 == 6 else octets

    for change, priority, told in ((drops, 5, "got 0 frames"), (rewrites, 6, "changed on the way")):
        with device(change):
            code, verdicts = judged(["pfc-lossy", *_BRIEF, "duration=50ms"], capsys)
        failed = {name: found for name, found in verdicts.items() if found.startswith("failed")}
        assert code == 1
        assert list(failed) == [f"priority {priority} comes through from the side that pauses"]
        assert told in next(iter(failed.values()))


def test_wrong_receiving_interfaces_are_refused(ports: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["send", "-i", NEAR, "pfc-storm", "--receive", NEAR]) == 4
    assert "expected an interface other than the sending one" in capsys.readouterr().err
    assert run(["send", "-i", NEAR, "pfc-storm", "--receive", "nowhere"]) == 4
    assert "nowhere" in capsys.readouterr().err
