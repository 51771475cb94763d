"""Frames of a simulated network as a capture: the frames on each link, octet by octet, and replays of the
capture.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecmproto import (
    CNM,
    PFC,
    TCP,
    UDP,
    Batch,
    CNTag,
    Ethernet,
    Frame,
    IPv4,
    Pause,
    PcapngWriter,
    PcapWriter,
    decode,
    open_capture,
)
from ecmproto.control.engine.config import Buffer, PortConfig
from ecmproto.control.lab import model
from ecmproto.control.lab.model import (
    Control,
    Experiment,
    Flow,
    Host,
    Link,
    Measure,
    Network,
    Pattern,
    Switch,
)
from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.simulation.series import RunResult
from ecmproto.control.lab.simulation.simulate import Simulation, simulate
from ecmproto.control.lab.simulation.trace import FAR_PORT, FIRST_PORT, OUT_OF_BAND
from ecmproto.control.lab.simulation.wiring import host_mac
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, machine_of
from ecmproto.control.mechanisms.api.protocol import PROBE_KIND, CongestionPoint
from ecmproto.control.mechanisms.registry import find_mechanism, mechanism_names
from ecmproto.control.replay.open_loop import OpenLoopReplay
from ecmproto.kernels.record import columns
from ecmproto.wire.codec.tags import ECNField
from ecmproto_cli.main import run

MS = 1_000_000
BUFFER_OCTETS = 150_000
_SATURATING = (
    Flow(name="a", source="h1", destination="h3", pattern=Pattern.SATURATING, priority=3),
    Flow(name="b", source="h2", destination="h3", pattern=Pattern.CBR, rate_bps=9 * 10**9, priority=3),
)
_TCP = Flow(
    name="t", source="h3", destination="h1", pattern=Pattern.TRANSACTIONS, tcp=model.TCP(rto_max_ns=MS),
    response_octets=4_000, request_octets=200, idle_ns=10_000,
)  # fmt: skip


def star(
    mechanism: str, *flows: Flow, duration_ns: int = 2 * MS, names: str = "s", **control: Any
) -> Experiment:
    """Return three hosts around a switch, or after a row of them, each line 500 ns long."""
    switches = names.split()
    links = [Link(a="h1", b=switches[0]), Link(a="h2", b=switches[0])]
    links += [Link(a=one, b=other) for one, other in pairwise(switches)]
    links.append(Link(a="h3", b=switches[-1]))
    return Experiment(
        name="star",
        title="two into one",
        duration_ns=duration_ns,
        network=Network(
            hosts=tuple(Host(name=f"h{number}") for number in (1, 2, 3)),
            switches=tuple(Switch(name=name, buffer=Buffer(BUFFER_OCTETS, 0)) for name in switches),
            links=tuple(links),
        ),
        flows=flows or _SATURATING,
        control=Control(mechanism=mechanism, **control),
        measure=Measure(from_ns=0, window_ns=100_000),
    )


def traced(path: Path, experiment: Experiment) -> tuple[Simulation, RunResult]:
    """Run an experiment with seed 1 and write its trace."""
    simulation = Simulation(experiment, seed=1)
    with PcapngWriter(path, interfaces=()) as writer:
        simulation.trace_to(writer)
        return simulation, simulation.run()


def links_of(path: Path) -> dict[str, list[tuple[int, bytes, Frame]]]:
    """Return the frames of each interface of a trace, with times, octets and decoded layers."""
    with open_capture(path) as reader:
        batches = list(reader)
        names = [interface.name for interface in reader.interfaces]
    found: dict[str, list[tuple[int, bytes, Frame]]] = {name: [] for name in names}
    for batch in batches:
        assert (batch.captured == batch.original).all()
        for number, octets in enumerate(batch):
            place = found[names[int(batch.interface[number])]]
            place.append((int(batch.time_ns[number]), bytes(octets), decode(bytes(octets))))
    return found


def is_stop(frame: Frame) -> bool:
    """Return whether a frame is PAUSE or PFC."""
    return PFC in frame or Pause in frame


def is_message(frame: Frame) -> bool:
    """Return whether a frame carries a message of a mechanism."""
    return any(layer.role == "message" for layer in frame.layers)


def port(result: RunResult, name: str):  # type: ignore[no-untyped-def]
    """Return the events at a port."""
    (found,) = (each for each in result.ports if each.name == name)
    return found


@pytest.mark.parametrize("mechanism", mechanism_names())
def test_each_link_traces_every_frame_its_port_counts(mechanism: str, tmp_path: Path) -> None:
    simulation, result = traced(tmp_path / "t.pcapng", star(mechanism))
    links = links_of(tmp_path / "t.pcapng")
    names = [each.name for each in result.ports]
    assert list(links) == [*names, OUT_OF_BAND]
    for name in names[:3]:
        data = [
            (ns, octets)
            for ns, octets, frame in links[name]
            if not {PFC, Pause} & set(map(type, frame.layers))
        ]
        assert len(data) == port(result, name).sent_frames.sum()
        assert sum(len(octets) for _, octets in data) == port(result, name).sent_octets.sum()
        ends_ns = np.array([ns for ns, _ in data], np.int64)
        lengths = np.array([len(octets) for _, octets in data], np.int64)
        # One frame at a time is on a line of 10 Gb/s.
        assert (np.diff(ends_ns) >= lengths[1:] * 8 // 10).all()
        assert (ends_ns <= result.duration_ns).all()
    counts = columns(simulation.network.flow_counts)
    sent = [each for name in names[3:] for each in links[name] if UDP in each[2]]
    assert len(sent) == counts["sent_frames"].sum()
    assert sum(len(octets) for _, octets, _ in sent) == counts["sent_octets"].sum()
    # The same frames use both links of their path.
    through = [octets[-1400:] for _, octets, frame in links["s>h3"] if UDP in frame]
    assert not Counter(through) - Counter(octets[-1400:] for _, octets, _ in sent)


@pytest.mark.parametrize("mechanism", mechanism_names())
def test_messages_and_tags_are_those_of_the_run(mechanism: str, tmp_path: Path) -> None:
    # DBP's destinations report each 10 ms.
    simulation, result = traced(tmp_path / "t.pcapng", star(mechanism))
    links = links_of(tmp_path / "t.pcapng")
    machine = simulation.machine
    sent = sum(int(each.frames.sum()) for each in result.messages)
    assert len(links[OUT_OF_BAND]) == sent
    # A CIM is for another switch.
    assert (sent > 0) == (bool(machine.kinds) and mechanism not in ("dbp", "isolation"))
    assert all(is_message(frame) or Pause in frame for _, _, frame in links[OUT_OF_BAND])
    hosts = {host_mac(number) for number in range(3)}
    for _, octets, frame in links[OUT_OF_BAND]:
        assert frame[Ethernet].dst in hosts
        # The station receives exactly the frames that were sent to it.
        place = simulation._contexts[2]
        parsed = machine.parse_feedback(octets, frame[Ethernet].dst, place, _refusals(machine))
        assert parsed is not None
    tagged = [frame for name in ("h1>s", "h2>s") for _, _, frame in links[name] if UDP in frame]
    kind = machine.tag
    with_tag = 0
    if isinstance(kind, ECNField):
        with_tag = sum(frame[IPv4].dsfield & 3 > 0 for frame in tagged)
    elif kind is not None:
        with_tag = sum(kind.format in frame for frame in tagged)
    # Senders of CSIG and ECN bring no tags.
    assert (with_tag > 0) == (kind is not None and machine.name not in ("csig", "ecn"))
    events = result.flow_control.time_ns
    stops = [
        ns for name in links for ns, _, frame in links[name] if {PFC, Pause} & set(map(type, frame.layers))
    ]
    assert sorted(ns + 500 for ns in stops if ns + 500 < result.duration_ns) == sorted(events.tolist())
    assert (len(events) > 0) == (mechanism in ("pause", "pfc"))


def _refusals(machine: Machine) -> Any:
    from ecmproto.kernels.record import new_record

    return new_record(machine.refusal_record)


@pytest.mark.parametrize("mechanism", ["qcn", "ecm", "bcn", "fecn"])
def test_messages_in_band_are_frames_of_the_links(mechanism: str, tmp_path: Path) -> None:
    simulation, _ = traced(tmp_path / "t.pcapng", star(mechanism, names="s1 s2", in_band=True))
    links = links_of(tmp_path / "t.pcapng")
    assert links[OUT_OF_BAND] == []
    on_line = 0
    for number, each in enumerate(simulation.wiring.ports):
        counts = simulation.network.port_counts[number]
        data = [octets for _, octets, frame in links[each.name] if not is_message(frame)]
        messages = len(links[each.name]) - len(data)
        on_line += messages
        assert messages == counts.message_frames
        assert len(data) == counts.sent_frames - counts.message_frames
        assert sum(map(len, data)) == counts.sent_octets - counts.message_octets
    assert on_line > 0


def test_message_in_band_is_identical_on_each_link(tmp_path: Path) -> None:
    flows = (
        Flow(name="a", source="h3", destination="h1", pattern=Pattern.SATURATING),
        Flow(name="b", source="h2", destination="h1", pattern=Pattern.SATURATING),
    )
    traced(tmp_path / "t.pcapng", star("qcn", *flows, names="s1 s2", in_band=True))
    links = links_of(tmp_path / "t.pcapng")
    first, last = (
        [(ns, octets) for ns, octets, frame in links[name] if is_message(frame)]
        for name in ("s1>s2", "s2>h3")
    )
    assert len(last) > 2
    assert [octets for _, octets in first[: len(last)]] == [octets for _, octets in last]
    # 106 octets take 84.8 ns on each link.
    assert [ns for ns, _ in last] == [ns + 500 + 85 for ns, _ in first[: len(last)]]
    assert all(decode(octets)[Ethernet].dst == host_mac(2) for _, octets in last)


def test_pause_to_all_stations_stays_out_of_band(tmp_path: Path) -> None:
    thresholds = ("cp.qeq=10kB", "cp.qsc=50kB", "cp.qst=60kB", "cp.qst_low=30kB")
    _, result = traced(tmp_path / "t.pcapng", star("bcn", in_band=True, parameters=thresholds))
    paused = links_of(tmp_path / "t.pcapng")[OUT_OF_BAND]
    assert all(Pause in frame for _, _, frame in paused)
    assert len(paused) >= 2
    assert result.flow_control.time_ns.size >= 2 * len(paused), "each station has it"


def test_traced_frame_has_exact_times_on_both_links(tmp_path: Path) -> None:
    burst = Flow(
        name="f", source="h1", destination="h3", pattern=Pattern.SCHEDULE,
        bursts=((1_000, 3_000), (9_000, 100)), priority=5,
    )  # fmt: skip
    traced(tmp_path / "t.pcapng", star("none", burst, duration_ns=MS))
    links = links_of(tmp_path / "t.pcapng")
    # 1500 octets take 1200 ns, 100 octets 80; each line is 500 ns long.
    assert [ns for ns, _, _ in links["h1>s"]] == [2_200, 3_400, 9_080]
    assert [ns for ns, _, _ in links["s>h3"]] == [3_900, 5_100, 9_660]
    assert [octets for _, octets, _ in links["h1>s"]] == [octets for _, octets, _ in links["s>h3"]]
    frame = links["h1>s"][0][2]
    assert [type(layer).__name__ for layer in frame.layers[:4]] == ["Ethernet", "VLAN", "IPv4", "UDP"]
    assert (frame[Ethernet].src, frame[Ethernet].dst) == (host_mac(0), host_mac(2))
    assert frame["vlan.priority"] == 5
    assert (frame[UDP].srcport, frame[UDP].dstport) == (FIRST_PORT, FAR_PORT)
    assert [len(octets) for _, octets, _ in links["h1>s"]] == [1_500, 1_500, 100]


def test_a_notification_shows_the_frame_that_was_sampled(tmp_path: Path) -> None:
    traced(tmp_path / "t.pcapng", star("qcn"))
    links = links_of(tmp_path / "t.pcapng")
    came = {
        ns + 500: octets for name in ("h1>s", "h2>s") for ns, octets, frame in links[name] if CNTag in frame
    }
    assert links[OUT_OF_BAND]
    for ns, _, frame in links[OUT_OF_BAND]:
        sampled = decode(came[ns])
        assert frame[Ethernet].dst == sampled[Ethernet].src
        assert frame[CNM].encap_dst == sampled[Ethernet].dst
        assert frame[CNTag].flow_id == sampled[CNTag].flow_id
        at = came[ns].index(bytes([8, 0, 0x45]))
        assert frame[CNM].msdu == came[ns][at : at + 64]


def test_segments_of_a_connection_follow_one_another(tmp_path: Path) -> None:
    traced(tmp_path / "t.pcapng", star("none", _TCP))
    links = links_of(tmp_path / "t.pcapng")
    ends: dict[bytes, list[tuple[int, int, int, int]]] = {host_mac(0): [], host_mac(2): []}
    for _, _, frame in sorted(links["h1>s"] + links["h3>s"], key=lambda each: each[0]):
        segment = frame[TCP]
        each = (segment.flags, segment.seq_raw, segment.ack_raw, frame[IPv4].len - 40)
        ends[frame[Ethernet].src].append(each)
    for segments in ends.values():
        assert len(segments) > 50
        following = 0
        for flags, seq, _, length in segments:
            # A handshake uses the number before the first octet of its transaction.
            assert seq == (following - 1 if flags & 2 and following else following)
            following = seq + (1 if flags & 2 else length)
    requests = {seq + length for flags, seq, _, length in ends[host_mac(0)] if flags == 0x18}
    assert len(requests) > 5
    assert {ack for _, _, ack, length in ends[host_mac(2)] if length} <= requests
    responses = {seq + length for _, seq, _, length in ends[host_mac(2)] if length}
    assert {ack for flags, _, ack, _ in ends[host_mac(0)][3:] if flags == 0x10} <= responses


@pytest.mark.parametrize("mechanism", ["none", "ecm", "pfc"])
def test_tshark_reads_it_without_complaint(mechanism: str, tshark: str, tmp_path: Path) -> None:
    path = tmp_path / "t.pcapng"
    flows = (_TCP,) if mechanism == "none" else (*_SATURATING, _TCP)
    traced(path, star(mechanism, *flows, duration_ns=MS))
    fields = (
        "frame.interface_name", "frame.len", "_ws.malformed", "ip.checksum.status", "udp.checksum.status",
        "tcp.checksum.status", "tcp.analysis.flags",
    )  # fmt: skip
    command = [tshark, "-r", str(path), "-T", "fields", "-E", "separator=;"]
    for name in ("ip", "udp", "tcp"):
        command += ["-o", f"{name}.check_checksum:TRUE"]
    command += [part for name in fields for part in ("-e", name)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split(";") for line in lines]
    with open_capture(path) as reader:
        lengths = np.concatenate([batch.original for batch in reader])
    assert [int(row[1]) for row in rows] == lengths.tolist()
    assert len(rows) > 100
    assert not any(row[2] for row in rows)
    assert {row[3] for row in rows} <= {"1", ""}
    assert {row[4] for row in rows} | {row[5] for row in rows} <= {"1", ""}


def test_tshark_finds_each_segment_in_its_place(tshark: str, tmp_path: Path) -> None:
    path, of_host = tmp_path / "t.pcapng", tmp_path / "h1.pcap"
    bulk = Flow(name="t", source="h1", destination="h3", pattern=Pattern.TCP, priority=2)
    traced(path, star("none", bulk, duration_ns=MS))
    # Frames are observed on the link of a host, as the host sees them.
    with PcapWriter(of_host) as writer:
        for batch in _only(path, ["h1>s", "s>h1"]):
            writer.write_batch(batch)
    command = [tshark, "-r", str(of_host), "-T", "fields", "-E", "separator=;"]
    command += ["-e", "tcp.len", "-e", "tcp.analysis.flags"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split(";") for line in lines]
    assert sum(row[0] == "1442" for row in rows) > 100
    assert not [row for row in rows if row[1]]


def with_draws_of_the_laboratory(machine: Machine, seed: int) -> Machine:
    """Return a machine whose congestion point uses the random generator of the simulation."""
    own = machine.congestion_point

    def congestion_point(context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        return own(context, np.random.default_rng([seed, 0]))

    machine.congestion_point = congestion_point  # type: ignore[method-assign]
    return machine


def _only(path: Path, interfaces: Sequence[str]) -> Iterator[Batch]:
    """Yield the frames of some interfaces of a trace."""
    with open_capture(path) as reader:
        for batch in reader:
            names = np.array([interface.name for interface in reader.interfaces])
            chosen = batch.select(np.flatnonzero(np.isin(names[batch.interface], interfaces)))
            yield dataclasses.replace(chosen, interface=np.zeros(len(chosen), np.int64))


_BUSY = {
    "qcn": ("cp.sample_base=15kB",),
    "ecm": ("cp.sf=10kB", "cp.sr=3kB", "cp.qsc=100kB"),
    "bcn": ("cp.sf=10kB", "cp.sr=3kB", "cp.qsc=100kB"),
    "e2cm": ("cp.sf=10kB", "cp.sr=3kB"),
}


@pytest.mark.parametrize("mechanism", _BUSY)
def test_replayed_trace_has_the_same_samples_and_messages(mechanism: str, tmp_path: Path) -> None:
    path = tmp_path / "t.pcapng"
    experiment = star(mechanism, points=("s>h3",), parameters=_BUSY[mechanism])
    simulation = Simulation(experiment, seed=1)
    # Silent samples are kept too.
    simulation.network.loop.is_logging = 1
    with PcapngWriter(path, interfaces=()) as writer:
        simulation.trace_to(writer)
        simulation.run()
    posted = columns(simulation.network.outbox.messages)[: simulation.network.outbox.posted.count]
    # Destinations answer, and senders probe, outside of the queue.
    own = posted[~np.isin(posted["kind"], [*simulation.machine.answers, PROBE_KIND])]
    found = find_mechanism(mechanism)
    machine = with_draws_of_the_laboratory(machine_of(found, found.parse(_BUSY[mechanism])), 1)
    replay = OpenLoopReplay(
        _only(path, ["h1>s", "h2>s"]),
        machine=machine,
        port=PortConfig(
            rate_bps=10**10, buffer_octets=BUFFER_OCTETS, overhead_octets=0,
            cp_mac=simulation._contexts[2].cp_mac,
        ),
        seed=1,
    )  # fmt: skip
    parts = list(replay)
    replayed = np.concatenate([part.messages for part in parts])
    # Frames that had not reached the queue at the end of the run are in its trace.
    own_ns = replayed["time_ns"] + parts[0].first_time_ns + 500
    replayed = replayed[own_ns < experiment.duration_ns]
    assert len(own) == len(replayed) > 5
    assert (own["time_ns"] == own_ns[: len(own)]).all()
    for name in (
        "kind",
        "sent",
        "priority",
        "qlen_octets",
        "qoff_octets",
        "qdelta_octets",
        "fb_octets",
        "payload",
    ):
        assert (own[name] == replayed[name]).all(), name
    assert (own["kind"] > 0).any()


def test_traced_queue_replays_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, samples = tmp_path / "t.pcapng", tmp_path / "samples.csv"
    experiment = star("qcn", parameters=("cp.jitter=0",))
    result = simulate(experiment, seed=1, trace=path)
    (cnms,) = (int(each.frames.sum()) for each in result.messages)
    arguments = [
        "replay", "-r", str(path), "-Y", "frame.interface_id in {3, 4}",
        "--cp", "qcn", "--set", "jitter=0",
        "--speed", "10G", "--buffer", "150kB", "--overhead", "0",
        "--cp-mac", "02:00:00:cc:00:03", "--seed", "7",
        "--samples", str(samples), "-w", str(tmp_path / "out.pcapng"), "-T", "json",
    ]  # fmt: skip
    assert run(arguments) == 0
    assert json.loads(capfd.readouterr().out)
    rows = list(csv.DictReader(samples.read_text().splitlines()))
    assert len(rows) >= cnms > 3
    with open_capture(tmp_path / "out.pcapng") as reader:
        made = [bytes(octets) for batch in reader for octets in batch if CNM in decode(bytes(octets))]
    links = links_of(path)
    assert made == [octets for _, octets, _ in links[OUT_OF_BAND]]


def test_tracing_does_not_change_a_run(tmp_path: Path) -> None:
    experiment = star("qcn", names="s1 s2", in_band=True)
    plain, result = simulate(experiment, seed=3), simulate(experiment, seed=3, trace=tmp_path / "t.pcapng")
    assert result.events == plain.events
    for one, other in zip(result.ports, plain.ports, strict=True):
        assert (one.sent_octets == other.sent_octets).all()
        assert (one.level_octets == other.level_octets).all()


def test_traces_are_chronological_however_often_drained(tmp_path: Path) -> None:
    fine = star("ecm")
    coarse = dataclasses.replace(fine, measure=Measure(from_ns=0, window_ns=2 * MS))
    octets = []
    for number, experiment in enumerate((fine, coarse)):
        path = tmp_path / f"{number}.pcapng"
        traced(path, experiment)
        octets.append(path.read_bytes())
        with open_capture(path) as reader:
            times = np.concatenate([batch.time_ns for batch in reader])
        assert (np.diff(times) >= 0).all()
    assert octets[0] == octets[1]


@pytest.mark.parametrize("in_band", [False, True])
@pytest.mark.parametrize("mechanism", ["qcn", "ecm", "bcn", "e2cm", "fecn"])
def test_message_counts_use_octets_of_traced_frames(mechanism: str, in_band: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.pcapng"
    result = simulate(star(mechanism, in_band=in_band), seed=1, trace=path)
    links = links_of(path)
    traced_frames = [octets for frames in links.values() for _, octets, frame in frames if is_message(frame)]
    counted = {int(each.octets.sum() / each.frames.sum()) for each in result.messages}
    assert {len(octets) for octets in traced_frames} == counted
    if not in_band:
        return
    # The octets that a link carried besides data equal the lengths of the other frames.
    for name in ("s>h1", "s>h2"):
        assert port(result, name).sent_octets.sum() == sum(len(octets) for _, octets, _ in links[name])


def test_a_port_is_never_more_than_busy() -> None:
    experiment = star("none")
    for from_ns, until_ns in ((0, 2 * MS), (700_000, 900_000), (1_900_000, 2 * MS)):
        figures = RunFigures(
            simulate(
                dataclasses.replace(experiment, measure=Measure(from_ns=from_ns, window_ns=100_000)), seed=1
            )
        )
        busy = figures.measure("utilisation", "s>h3", (), from_ns, until_ns)
        assert busy <= 1 + 1e-12
        assert from_ns == 0 or busy == pytest.approx(1, abs=1e-12)
