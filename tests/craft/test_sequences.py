"""Sequences: all frames, as specifications, and the expectations."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ecmproto.errors import EcmprotoError, ParameterError, SpecError
from ecmproto.tools.craft.recipe import Chunk, chunks
from ecmproto.tools.craft.sequences import Step
from ecmproto.tools.craft.spec import Reading, read_items, read_toml, toml_of
from ecmproto.tools.craft.switch_tests import SEQUENCES, sequence_named
from ecmproto.wire.codec import (
    CNM,
    UDP,
    VLAN,
    CNTag,
    CongestionNotificationTLV,
    Data,
    EtherTypes,
    Frame,
    decode,
)


def steps(name: str, **given: str) -> list[Step]:
    return sequence_named(name).steps(given)


def made(of: list[Step]) -> Iterator[Chunk]:
    return chunks(read_items((step.item for step in of), "sequence", Reading()))


def frames(of: list[Step]) -> list[bytes]:
    return [octets for chunk in made(of) for octets in chunk.octets()]


@pytest.mark.parametrize("name", SEQUENCES)
def test_recipe_as_specification_makes_equal_frames(name: str) -> None:
    of = steps(name, **({"rate": "10pps"} if name.startswith("pfc-") else {}))
    text = "".join(toml_of(step.item for step in of))
    again = chunks(read_toml(io.BytesIO(text.encode()), "x.toml", Reading()))
    for one, other in zip(made(of), again, strict=True):
        assert list(one.octets()) == list(other.octets())
        assert (one.times() == other.times()).all()
        assert one.comments == other.comments


def test_a_flood_has_every_message_and_a_rate() -> None:
    of = steps(
        "cnm-flood", flows="5..7", cpids="02:00:00:00:00:c1/1,02:00:00:00:00:c2/9", fb="1,63", rate="1000pps"
    )
    (chunk,) = made(of)
    found = [decode(octets) for octets in chunk.octets()]
    assert [(f[CNM].qntz_fb, f[CNM].cpid & 0xFFFF, f[CNTag].flow_id) for f in found] == [
        (fb, cp, flow) for fb in (1, 63) for cp in (1, 9) for flow in (5, 6, 7)
    ]
    assert chunk.times().tolist() == [i * 10**6 for i in range(12)]


def test_flood_has_the_given_addresses() -> None:
    of = steps(
        "cnm-flood",
        vlan="7",
        prio="5",
        dst="02:00:00:00:00:77",
        src="02:00:00:00:00:c9",
        count="3",
        flows="1",
    )
    assert len(frames(of)) == 3
    frame = decode(frames(of)[0])
    assert (frame[VLAN].id, frame[VLAN].priority) == (7, 5)
    assert frames(of)[0][:12].hex() == "0200000000770200000000c9"


def test_a_sweep_has_every_flow_id_once() -> None:
    seen = np.zeros(65536, np.int64)
    for chunk in made(steps("cntag-sweep")):
        assert isinstance(chunk.frames, np.ndarray)
        assert chunk.frames[:, 12:18].tobytes() == bytes.fromhex("8100600122e9") * len(chunk)
        np.add.at(seen, chunk.frames[:, 18].astype(int) << 8 | chunk.frames[:, 19], 1)
    assert (seen == 1).all()


def test_a_flood_of_any_length_takes_bounded_memory() -> None:
    of = steps("cnm-flood", count="3000000")
    tracemalloc.start()
    total = sum(len(chunk) for chunk in made(of))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 3_000_000
    assert peak < 30_000_000, "of 318 MB of frames"


def test_huge_flood_without_count_is_refused() -> None:
    with pytest.raises(
        SpecError, match=r"expected at most 100,000,000 frames, or a count, got 63 × 65,536 × 65,536"
    ):
        list(made(steps("cnm-flood", flows="0..65535", cpids="0000000000000000..000000000000ffff")))


# -- the boundary of a domain -----------------------------------------------------------------------------


def expected(of: list[Step]) -> list[dict[str, Any]]:
    return [dict(step.expected or {}) for step in of]


def data(of: list[Step], announcement: int) -> list[dict[str, Any]]:
    """Return the expectations for the data frames after an announcement, from 0 on."""
    found = expected(of)
    starts = [place for place, each in enumerate(found) if each["kind"] == "lldp"] + [len(found)]
    return found[starts[announcement] + 1 : starts[announcement + 1]]


def test_expectations_describe_their_frames() -> None:
    of = steps("cnd-boundary")
    octets = frames(of)
    times = [time for chunk in made(of) for time in chunk.times().tolist()]
    assert len(of) == len(octets) == 6 * 19
    for number, (frame, time, each) in enumerate(
        zip(map(decode, octets), times, expected(of), strict=True), 1
    ):
        assert (each["schema"], each["frame"], each["time_ns"]) == ("ecmproto/expectation/1", number, time)
        if each["kind"] == "lldp":
            tlv = frame[CongestionNotificationTLV]
            assert (each["cnpv"], each["ready"]) == (tlv.cnpv, tlv.ready)
            continue
        assert each["priority"] == (frame[VLAN].priority if VLAN in frame else None)
        assert each["cn_tag"] == (CNTag in frame)
        assert not each["cn_tag"] or frame[CNTag].flow_id == number
        assert frame[Data].data[:4] == number.to_bytes(4, "big")
    assert all(before < after for before, after in pairwise(times))


def test_announcements_lead_through_every_mode() -> None:
    found = [each for each in expected(steps("cnd-boundary", cnpv="3,4")) if each["kind"] == "lldp"]
    said = [(each["cnpv"], each["ready"], each["modes"]["3"], each["modes"]["4"]) for each in found]
    assert said == [
        (0, 0, "edge", "edge"),
        (0x18, 0, "interior", "interior"),
        (0x18, 0x18, "interiorReady", "interiorReady"),
        (0, 0x18, "edge", "edge"),
        (0xFF, 0xFF, "interiorReady", "interiorReady"),
        (0, 0, "edge", "edge"),
    ]
    others = {each["modes"][p] for each in found for p in "012567"}
    assert others == {"disabled"}, "others' CNPVs are not this port's"


@pytest.mark.parametrize(
    ("announcement", "mode", "received", "tag_stays"),
    # wire-formats 9: edge remaps to the alternate priority and strips, interior strips, interiorReady keeps
    [(0, "edge", 2, False), (1, "interior", 3, False), (2, "interiorReady", 3, True)],
)
def test_expectations_follow_the_defense_mode(
    announcement: int, mode: str, received: int, tag_stays: bool
) -> None:
    found = data(steps("cnd-boundary", cnpv="3"), announcement)
    assert [(each["priority"], each["cn_tag"]) for each in found] == [
        (priority, tagged) for priority in (None, *range(8)) for tagged in (False, True)
    ]
    for each in found:
        is_cnpv = each["priority"] == 3
        assert each["mode"] == (mode if is_cnpv else "disabled")
        in_frame, out_frame = (
            decode(bytes.fromhex(each[way]["octets"])) for way in ("received", "transmitted")
        )
        assert each["received"]["priority"] == (received if is_cnpv else each["priority"] or 0)
        assert priority_of(in_frame) == (received if is_cnpv else each["priority"])
        assert (CNTag in in_frame) == each["received"]["cn_tag"] == each["cn_tag"]
        assert priority_of(out_frame) == each["priority"]
        stays = each["cn_tag"] and (tag_stays or not is_cnpv)
        assert (CNTag in out_frame) == each["transmitted"]["cn_tag"] == stays
        assert in_frame[UDP] == out_frame[UDP]


def priority_of(frame: Frame) -> int | None:
    return frame[VLAN].priority if VLAN in frame else None


@pytest.mark.parametrize("mode", ["disabled", "interior", "interiorReady", "edge"])
def test_configured_mode_ignores_the_neighbour(mode: str) -> None:
    of = steps("cnd-boundary", mode=mode)
    assert {each["modes"]["3"] for each in expected(of) if each["kind"] == "lldp"} == {mode}
    first, second = (
        [
            (e["priority"], e["cn_tag"], e["received"]["priority"], e["transmitted"]["cn_tag"])
            for e in data(of, which)
        ]
        for which in (0, 2)
    )
    assert first == second


def test_disabled_changes_nothing() -> None:
    of = steps("cnd-boundary", mode="disabled")
    for octets, each in zip(frames(of), expected(of), strict=True):
        if each["kind"] == "data":
            assert each["received"]["octets"] == each["transmitted"]["octets"] == octets.hex()


def test_untagged_frames_count_as_priority_0() -> None:
    untagged = data(steps("cnd-boundary", cnpv="0"), 0)[1]
    assert (untagged["priority"], untagged["mode"], untagged["received"]["priority"]) == (None, "edge", 1)
    assert untagged["transmitted"]["cn_tag"] is False


def test_an_alternate_priority_is_heeded() -> None:
    found = data(steps("cnd-boundary", cnpv="3,4", alternate="7"), 0)
    assert {each["received"]["priority"] for each in found if each["priority"] in (3, 4)} == {7}


def test_comments_agree_with_the_expectations() -> None:
    of = steps("cnd-boundary")
    for step, each in zip(of, expected(of), strict=True):
        comment = step.item["comment"]
        if each["kind"] == "lldp":
            assert f"CNPV {each['cnpv']:#04x}, Ready {each['ready']:#04x}: not forwarded" in comment
            assert f"priority 3 {each['modes']['3']}" in comment
            continue
        becomes = each["received"]["priority"]
        changed = f"priority {becomes}" if becomes != (each["priority"] or 0) else "unchanged"
        assert f"received by the port: {changed};" in comment
        stripped = each["cn_tag"] and not each["transmitted"]["cn_tag"]
        assert comment.endswith("CN-TAG stripped" if stripped else "transmitted by the port: unchanged")


def test_expectations_use_the_given_ethertypes() -> None:
    types = EtherTypes(cn_tag=0x9999)
    of = sequence_named("cnd-boundary").steps({}, ethertypes=types)
    each = next(each for each in expected(of) if each.get("priority") == 3 and each["cn_tag"])
    assert bytes.fromhex("9999") in bytes.fromhex(each["received"]["octets"])[:20]
    assert bytes.fromhex("9999") not in bytes.fromhex(each["transmitted"]["octets"])[:20]


# -- mistakes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("cnm-flood", {"flow": "3"}, r"got 'flow' \(did you mean 'flows'\?\)"),
        ("cnm-flood", {"flows": "0..70000"}, r"cntag.flow_id: expected an integer in 0..65535, got 70000"),
        ("cnm-flood", {"fb": "64"}, r"cnm.qntz_fb: expected an integer in 0..63, got 64"),
        ("cnm-flood", {"rate": "5"}, r"rate: expected a number with its unit: 5pps\?, got '5'"),
        ("cnm-flood", {"rate": "0"}, r"rate: expected an integer in 1..1000000000, got '0'"),
        ("cnm-flood", {"count": "-1"}, r"count: expected an integer"),
        ("cntag-sweep", {"flows": ""}, r"flow_id"),
        (
            "cnd-boundary",
            {"cnpv": "0,1,2,3,4,5,6,7"},
            r"cnpv: expected at most seven priorities, got all eight",
        ),
        ("cnd-boundary", {"cnpv": "8"}, r"cnpv: expected an integer in 0..7, got '8'"),
        ("cnd-boundary", {"cnpv": ""}, r"cnpv: expected an integer in 0..7, got ''"),
        ("cnd-boundary", {"mode": "both"}, r"mode: expected one of automatic, disabled"),
        ("cnd-boundary", {"alternate": "3"}, r"alternate_priority: expected a priority that is no CNPV"),
        ("cnd-boundary", {"vlan": "5000"}, r"vlan: expected an integer in 0..4095"),
        ("cnd-boundary", {"settle": "1000000s"}, r"settle: expected at most a day"),
        ("cnd-boundary", {"neighbour": "x"}, r"eth.src: expected a MAC address"),
        ("cnd-boundary", {"src": "x y"}, r"eth.src: expected a MAC address"),
        ("cnd-boundary", {"rate": "many"}, r"rate: expected an integer"),
    ],
)
def test_invalid_parameters_are_refused(name: str, given: dict[str, str], sentence: str) -> None:
    with pytest.raises(EcmprotoError, match=sentence):
        list(made(steps(name, **given)))


def test_unknown_recipe_is_refused() -> None:
    with pytest.raises(SpecError, match=r"got 'cnd-boundry' \(did you mean 'cnd-boundary'\?\)"):
        sequence_named("cnd-boundry")


def test_digits_of_other_scripts_are_refused() -> None:
    with pytest.raises(ParameterError, match="cnpv: expected"):
        steps("cnd-boundary", cnpv="٣")
