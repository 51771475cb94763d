"""Checks that the installed mechanism of docs/control.md works like the mechanisms of ecmproto.

``python -m tests.mechanisms.check_added NAME…`` runs checks, and prints the errors of failed checks as JSON.
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import ecmproto
from ecmproto.control.mechanisms.registry import find_mechanism, mechanism_names
from ecmproto.frames.capture import PcapWriter, open_capture
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.dissect import describe
from ecmproto.wire.codec import VLAN, Ethernet, decode, encode
from ecmproto.wire.codec.tags import TagFormat, without_tags
from ecmproto.wire.formats.registry import BY_PREFIX
from tests.mechanisms.fecn.frames import with_fields
from tests.tags import find_tag, with_tag

NAMES = ("known", "tags", "open_loop", "closed_loop", "compared", "laboratory", "live", "shown")
DATA = encode(Ethernet(dst="02:00:00:00:00:fa", src="02:00:00:00:00:01"), VLAN(id=5, priority=3), fix=True)
DATA = DATA[:-2] + b"\x99\x99" + bytes(60)
TAG: type[Any] = BY_PREFIX.get("share", VLAN)
REPORT: type[Any] = BY_PREFIX.get("sharer", VLAN)


def check_known() -> None:
    assert mechanism_names()[-1] == "share"
    assert find_mechanism("share").title == "Shares of a port"


def check_tags() -> None:
    from ecmproto.frames.batch.classes import classify
    from ecmproto.frames.columns.building.frames import tagged_batch

    kind, tag = TagFormat(format=TAG, tag="rate"), TAG(rate=1000)
    tagged, replaced = with_tag(DATA, tag)
    assert (tagged[16:22].hex(), replaced) == ("8953000003e8", 0)
    assert tagged_batch(Batch.from_frames([DATA, tagged]), TAG, rate=1000).frame(0) == tagged
    assert with_tag(tagged, TAG(rate=7)) == (with_fields(tagged, kind, rate=7), 1)
    assert without_tags(tagged, kind) == (DATA, 1)
    assert find_tag(DATA, kind) is None
    # What stands behind the tag is found, and the mechanism's messages are no data to sample.
    report = DATA[:12] + bytes.fromhex("8954 000003e8") + bytes(42)
    inner = DATA[:12] + tagged[16:22] + DATA[12:]
    batch = Batch.from_frames([tagged, report, inner])
    classes = classify(batch.buffer, batch.offset, batch.captured)
    assert classes.msdu_offset.tolist() == [22, 12, 22]
    assert classes.priority.tolist() == [3, 0, 3]
    assert classes.sampled.tolist() == [True, False, True]


def written(path: Path, *, tagged: bool) -> str:
    """A capture of two senders that offer 2 Gb/s for 6 ms, with or without tags of any rate."""
    with PcapWriter(str(path)) as writer:
        for number in range(1000):
            octets = DATA[:6] + bytes.fromhex("0200000000") + bytes([1 + number % 2]) + DATA[12:]
            octets = octets.ljust(1500, b"\0")
            writer.write_frame(with_tag(octets, TAG())[0] if tagged else octets, 6000 * number)
    return str(path)


def rates(path: Path, kind: type[Any]) -> list[int]:
    """The rates in the tags, or the reports, of a capture's frames."""
    frames = [decode(octets) for batch in open_capture(str(path)) for octets in batch]
    return [int(found.rate) for frame in frames if (found := frame.get(kind)) is not None]


def check_open_loop() -> None:
    """An overloaded port writes lower and lower rates into the tags that come."""
    out = Path("open.pcap")
    outcome = ecmproto.replay(written(Path("tagged.pcap"), tagged=True), "share", speed="1G", output=out)
    found = rates(out, TAG)
    assert len(found) == 1000
    assert found[0] == 1_000_000
    assert min(found) < 200_000
    assert "through Shares of a port, open loop" in repr(outcome)


def check_closed_loop() -> None:
    """Senders tag, the port lowers, destinations report, and senders slow down; others do not."""
    bare, out = written(Path("bare.pcap"), tagged=False), Path("closed.pcap")
    outcome = ecmproto.replay(bare, "share", closed=True, speed="1G", buffer="2MB", seed=1, output=out)
    assert "Share report sent" in repr(outcome)
    tags, reports = rates(out, TAG), rates(out, REPORT)
    assert len(tags) == 1000
    assert len(reports) > 100
    assert set(reports) <= set(tags)
    assert min(reports) < 1_000_000


def check_compared() -> None:
    bare = written(Path("compared.pcap"), tagged=False)
    compared = ecmproto.replay(bare, ["share", "none"], speed="1G", buffer="2MB", seed=1)
    share, none = (outcome.summary.as_dict() for outcome in compared)
    assert share != none
    assert [name in repr(compared) for name in ("share", "none")] == [True, True]


def check_laboratory() -> None:
    """Destinations at the ends of switches' ports report, and their reports slow senders down."""
    from ecmproto.control.lab.results.measurements import RunFigures
    from ecmproto.control.lab.results.outcome import explanations
    from ecmproto.control.lab.setup.scenario import load_scenario
    from ecmproto.control.lab.simulation.simulate import simulate

    scenario = load_scenario("incast-victim").with_mechanism("share")
    scenario = scenario.with_value("duration", "1ms").with_value("measure.from", "0s")
    result = simulate(scenario.experiment(), seed=1)
    reports = sum(int(each.frames.sum()) for each in result.messages if each.kind == "Share report")
    assert reports > 100
    assert min(float(flow.limit_bps.min()) for flow in result.flows) < 9e9
    silent = replace(result, messages=())
    assert any(
        line.startswith("no share message: nothing caused one") for line in explanations([RunFigures(silent)])
    )


def check_scenarios() -> None:
    """Frames are conserved in each bundled scenario; messages are in band in every second scenario."""
    from ecmproto.control.lab.setup.scenario import load_scenario, scenario_names
    from ecmproto.control.lab.simulation.simulate import simulate

    reports = 0
    for name, in_band in zip(scenario_names(), cycle(("no", "yes")), strict=False):
        scenario = load_scenario(name).with_mechanism("share").with_value("in_band", in_band)
        experiment = scenario.experiment()
        start_ns = min(flow.start_ns for flow in experiment.flows)
        measure = replace(experiment.measure, from_ns=0, until_ns=None)
        short = replace(experiment, duration_ns=start_ns + 20_000, measure=measure)
        result = simulate(short, seed=1)
        assert result.conservation.missing_frames == 0, name
        reports += sum(int(each.frames.sum()) for each in result.messages)
    assert reports > 100


def check_live() -> None:
    from tests.live.network import RECEIVER, Network

    network = Network("share")
    network.run(60_000_000)
    assert network.port.counts.lowered_tags > 100
    assert network.edge.messages["Share report"] > 100
    assert network.edge.counts.stripped_frames > 100
    assert all(point.snapshot(0).mechanism["heard_messages"] > 30 for point in network.points)
    assert all(find_tag(got.octets, TagFormat(format=TAG)) is not None for got in network.at_port)
    # The hosts see neither tags nor reports.
    assert {got.octets[12:14] for got in network.received if got.octets[5] == RECEIVER} == {b"\x99\x99"}
    assert {octets[:6] for octets in network.to_hosts} <= {b"\xff" * 6}


def check_shown() -> None:
    report = DATA[:12] + bytes.fromhex("8954 000003e8") + bytes(42)
    assert "share rate 1000" in describe(decode(with_tag(DATA, TAG(rate=1000))[0]))[1]
    assert describe(decode(report))[1].startswith("rate 1000")


if __name__ == "__main__":
    failed = {}
    for name in sys.argv[1:]:
        try:
            globals()[f"check_{name}"]()
        except Exception:
            failed[name] = traceback.format_exc()
    print(json.dumps(failed))
