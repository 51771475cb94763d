"""Open-loop replay with several ports: the port of each frame, and the independence of ports."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from ecmproto.control.engine.config import PortConfig
from ecmproto.control.engine.frames import GeneratedFrame
from ecmproto.control.engine.port import PASSED_BY
from ecmproto.control.replay.open_loop import (
    ONE_PORT,
    OpenLoopReplay,
    PortPerDestination,
    Ports,
    ReplayedBatch,
    merged,
    ports_from,
)
from ecmproto.errors import FilterError
from ecmproto.frames.capture.batch import Batch, Interface
from ecmproto.wire.codec import CNM, Ethernet, decode
from tests.replay.loops import CP_MAC, Sent, batches_of, machine, octets_of

FACTS = PortConfig(rate_bps=10**9, buffer_octets=100_000, cp_mac=CP_MAC)
SAMPLING = ("cp.qeq=10kB", "cp.sample_base=10kB")
INTERFACES = [Interface(index=n, linktype=1) for n in range(3)]


def burst(count: int = 900, *, seed: int = 1) -> list[Sent]:
    """Return frames to three destinations and some groups, far more than 1 Gb/s."""
    draws = np.random.default_rng(seed)
    return [
        Sent(1_000 * n, 1 + n % 4, 1_500, int(draws.choice([0, 3])), destination=int(draws.integers(20, 23)),
             to_group=bool(draws.random() < 0.05))
        for n in range(count)
    ]  # fmt: skip


def batches(frames: list[Sent], *sizes: int) -> list[Batch]:
    made = batches_of(frames, sizes=sizes)
    return [
        dataclasses.replace(batch, interface=np.array([octets[5] % 3 for octets in batch.frames()], np.int64))
        for batch in made
    ]


def through(
    frames: list[Sent], ports: str | Ports, *, name: str = "qcn", sizes: tuple[int, ...] = ()
) -> tuple[OpenLoopReplay, list[ReplayedBatch]]:
    chosen = ports_from(ports, INTERFACES) if isinstance(ports, str) else ports
    run = OpenLoopReplay(
        batches(frames, *sizes),
        machine=machine(name, *(SAMPLING if name == "qcn" else ())),
        port=FACTS,
        seed=1,
        ports=chosen,
    )
    return run, list(run)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("dst", ["to 02:00:00:00:00:15", "to 02:00:00:00:00:16", "to 02:00:00:00:00:14"]),
        ("interface", ["interface 0", "interface 1", "interface 2"]),
        ("vlan.priority == 3; eth.src[5] == 1", ["vlan.priority == 3", "eth.src[5] == 1"]),
        ("one", ["port"]),
    ],
)  # fmt: skip
def test_ports_are_named_after_their_selection(text: str, names: list[str]) -> None:
    run, _ = through(burst(), text)
    assert sorted(port.name for port in run.summary().ports) == sorted(names)


def of_port(frames: list[Sent], text: str) -> dict[str, list[int]]:
    """Return the frames of each port by the port's name. The contents identify the frames."""
    chosen: dict[str, list[int]] = {}
    for number, frame in enumerate(frames):
        if text == "dst" and not frame.to_group:
            chosen.setdefault(f"to 02:00:00:00:00:{frame.destination:02x}", []).append(number)
        elif text == "interface":
            chosen.setdefault(f"interface {frame.destination % 3}", []).append(number)
        elif text.startswith("vlan") and frame.priority == 3:
            chosen.setdefault("vlan.priority == 3", []).append(number)
        elif text.startswith("vlan") and frame.station == 1:
            chosen.setdefault("eth.src[5] == 1", []).append(number)
    return chosen


@pytest.mark.parametrize("text", ["dst", "interface", "vlan.priority == 3; eth.src[5] == 1"])
def test_each_port_equals_a_single_port(text: str) -> None:
    frames = burst()
    run, (whole,) = through(frames, text, name="pfc")
    summary = run.summary()
    chosen = of_port(frames, text)
    assert {port.name: port.frames for port in summary.ports} == {
        name: len(numbers) for name, numbers in chosen.items()
    }
    others = set(range(len(frames))) - {number for numbers in chosen.values() for number in numbers}
    assert set(np.flatnonzero(whole.disposition == PASSED_BY).tolist()) == others
    assert summary.passed_by == len(others)
    for numbers in chosen.values():
        _, (single,) = through([frames[number] for number in numbers], "one", name="pfc")
        assert single.disposition.tolist() == whole.disposition[numbers].tolist()
        assert single.qlen_octets.tolist() == whole.qlen_octets[numbers].tolist()
    assert sum(port.dropped_frames for port in summary.ports) > 50


def outputs(parts: list[ReplayedBatch]) -> list[tuple[Any, ...]]:
    """Return the output frame by frame: time, octets, and the comment of generated ones."""
    rows: list[tuple[Any, ...]] = []
    for piece in merged(parts):
        if isinstance(piece, GeneratedFrame):
            rows.append((piece.time_ns, piece.octets, piece.comment))
        else:
            rows += [(t, o, "") for t, o in zip(piece.time_ns.tolist(), piece.frames(), strict=True)]
    return rows


@pytest.mark.parametrize("text", ["dst", "interface", "vlan.priority == 3; vlan.priority == 0"])
def test_the_output_does_not_depend_on_the_batches(text: str) -> None:
    frames = burst()
    one = outputs(through(frames, text)[1])
    assert one == outputs(through(frames, text, sizes=(1, 0, *[13] * 60))[1])
    assert [row[0] for row in one] == sorted(row[0] for row in one)
    assert sum(row[2] != "" for row in one) > 20


def test_each_port_sends_from_its_own_address() -> None:
    frames = burst()
    run, parts = through(frames, "dst")
    sources: dict[int, set[int]] = {}
    for before, row in zip([(), *outputs(parts)], outputs(parts), strict=False):
        if row[2]:
            message = decode(row[1])
            number = int.from_bytes(message[Ethernet].src) - int.from_bytes(CP_MAC)
            assert message[CNM].cpid >> 16 == int.from_bytes(message[Ethernet].src)
            cause = int(row[2].split(" for frame ")[1].split(":")[0]) - 1
            sources.setdefault(number, set()).add(frames[cause].destination)
            assert before
    assert sorted(sources) == [0, 1, 2]
    names = [port.name for port in run.summary().ports]
    assert all(names[n] == f"to 02:00:00:00:00:{d:02x}" for n, (d,) in sources.items())


def test_first_port_is_independent_of_others() -> None:
    frames = [frame for frame in burst() if not frame.to_group]
    first = frames[0].destination
    alone = [frame for frame in frames if frame.destination == first]
    _, (whole,) = through(frames, "dst")
    _, (single,) = through(alone, "one")
    mine = whole.messages[whole.port == 0]
    for name in ("time_ns", "payload", "qlen_octets", "qoff_octets"):
        assert mine[name].tolist() == single.messages[name].tolist()
    assert len(mine) > 10


def test_destinations_beyond_the_limit_pass_by() -> None:
    frames = [frame for frame in burst(300) if not frame.to_group]
    run, (part,) = through(frames, PortPerDestination(max_ports=2))
    seen = list(dict.fromkeys(frame.destination for frame in frames))
    expected = [frame.destination == seen[2] for frame in frames]
    assert (part.disposition == PASSED_BY).tolist() == expected
    assert len(run.summary().ports) == 2


def test_the_first_matching_filter_selects_the_port() -> None:
    frames = [Sent(n, 1, priority=3) for n in range(5)]
    run, _ = through(frames, "vlan.priority == 0; vlan; vlan.priority == 3")
    assert [(port.name, port.frames) for port in run.summary().ports] == [
        ("vlan.priority == 0", 0),
        ("vlan", 5),
    ]


@pytest.mark.parametrize("text", ["dst;", "vlan.priority ==", "two", "vlan;;=="])
def test_wrong_port_selections_are_refused(text: str) -> None:
    with pytest.raises(FilterError):
        ports_from(text, INTERFACES)


def test_one_port_is_a_constant() -> None:
    assert ports_from("one", ()) is ONE_PORT
    assert octets_of(Sent(0, 1))[:6].hex() == "0200000000fa"
