"""Sweeps: frames from a vectorised build equal frames that are built separately."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.errors import EncodeError, SpecError
from ecmproto.tools.craft import sweep as sweep_module
from ecmproto.tools.craft.recipe import Recipe, WireRate, chunks, count_of
from ecmproto.tools.craft.spec import plan_of
from ecmproto.tools.craft.stack import stack_from_line
from ecmproto.tools.craft.sweep import Plan, Sweep
from ecmproto.wire.codec import CNM, UDP, IPv4, decode, encode
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.schema import Field


def plan(line: str, sweeps: dict[str, object], **options: Any) -> Plan:
    stack = stack_from_line(line)
    stack.settle()
    return plan_of(stack, sweeps, random=Random(1), **options)


def swept(line: str, sweeps: dict[str, object], count: int | None = None, **options: Any) -> list[bytes]:
    made = chunks([Recipe(plan=plan(line, sweeps, **options), count=count)])
    return [octets for chunk in made for octets in chunk.octets()]


def one_by_one(made: Plan) -> list[bytes]:
    """Build a frame for each combination of values; the last axis varies fastest."""
    shape = [axis.count for axis in made.axes]
    frames = []
    for digits in np.ndindex(*shape):
        for axis, digit in zip(made.axes, digits, strict=True):
            axis.part.values[axis.field.key] = axis.at(digit)
        frames.append(encode(made.finished().frame))
    return frames


LINES = [
    "eth cnm flow_id=1 vlan=5", "eth ecm vlan=100,5", "bcn", "e2cm type=0", "e2cm type=3", "fecn", "dbp",
    "inttag ip udp", "hpcc", "cim",
    "pfc", "pause", "lldpcn", "cmtag rdtag csig ip udp data data=00ff", "eth arp", "ipv6 udp data data=0102",
    "tcp data data=010203", "ieee8021ah vlan ip tcp", "ip udp", "vlan vlan cntag ip udp data data=aa",
    "bth opcode=0x52", "bth opcode=0x53 data data=00ff", "ipv6 cnp", "grh bth opcode=0x0b", "ieth", "immdt",
    "expmsg body=00", "eth arp_ipv4", "vlan arp_mac src_proto=0102", "arp_other",
    "lldpets lldpetsrec lldppfc lldpapp lldpapp.entry",
    "lldpcee lldpcee.control lldpcee.pg lldpcee.pfc lldpcee.app lldpcee.app.entry lldpcee.tlv",
    "gre flags=0xb000 gresum grekey greseq udp",
    "erspan cnm", "erspan3 erspan3.platform vlan udp", "vxlan cnp",
    "gpe ipv6 udp",
    "eth llc_other data data=00", "eth llc_snap data data=00",
    "lldp8021 value=00 lldp8023 value=01 lldporg value=02",
    "geneve arp", "mpls mpls pwethcw pause", "tzsp tzsp.tag value=00 tzsp.mark udp",
]  # fmt: skip


def text(field: Field, value: int) -> str:
    if field.is_number:
        return f"{value:016x}" if field.kind == "cpid" else str(value)
    octets = value.to_bytes((field.bits or 0) // 8, "big")
    if field.kind == "mac":
        return octets.hex(":")
    return ".".join(map(str, octets)) if field.kind == "ipv4" else octets.hex(":", 2)


@st.composite
def sweeps(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    line = draw(st.sampled_from(LINES))
    stack = stack_from_line(line)
    chosen: dict[str, object] = {}
    for _ in range(draw(st.integers(1, 3))):
        part = draw(st.sampled_from([part for part in stack.parts if part.cls.fixed_octets]))
        field = draw(st.sampled_from([field for field in part.cls.layout if field.bits is not None]))
        first = next(each for each in stack.parts if each.own(field.name)).values
        if field.name in chosen or field.key in first:
            continue
        low, high = (field.minimum, field.maximum) if field.is_number else (0, (1 << (field.bits or 0)) - 1)
        values = draw(st.lists(st.integers(low, high), min_size=1, max_size=4))
        if draw(st.booleans()):
            start = min(values[0], high - 4 if high - 4 >= low else low)
            chosen[field.name] = f"{text(field, start)}..{text(field, min(high, start + 4))}"
        else:
            chosen[field.name] = ",".join(text(field, value) for value in values)
    return line, chosen


@given(sweeps())
@example(("ip udp data data=0102", {"ip.src": "10.0.0.1..10.0.0.9", "udp.srcport": "1..3"}))
@example(("ipv6 tcp", {"ipv6.src": "2001:db8::ffff..2001:db8::1:2", "tcp.seq_raw": "0,4294967295"}))
@example(("ip udp", {"ip.len": "20..24", "ip.proto": "16,17"}))
@example(("pfc", {"macc.cbfc.pause_time.c3": "0..5"}))
@example(("cnm", {"cnm.q_offset": "-3..3"}))
@example(("eth arp_ipv4", {"arp.src.proto_ipv4": "192.0.2.1..192.0.2.9"}))
@example(("e2cm type=0", {"eth.src": "02:00:00:00:00:fe..02:00:00:00:01:01"}))
def test_swept_frames_equal_single_frames(case: tuple[str, dict[str, object]]) -> None:
    line, values = case
    template = plan(line, values)
    # Defaults are derived from the template. A sweep changes only its field and computed fields.
    for part, layer in zip(template.finished().parts, template.finished().frame.layers, strict=True):
        fixed = {
            "cpid",
            "payload",
            "encap_dst",
            "msdu",
            "flow_id",
            "src_hw",
            "class_enable_vector",
            "cnpv",
            "ready",
        }
        for key in fixed & {field.key for field in layer.layout}:
            part.values.setdefault(key, getattr(layer, key))
    assert swept(line, values) == one_by_one(template)


def test_the_last_sweep_runs_fastest() -> None:
    frames = [decode(octets)[CNM] for octets in swept("cnm", {"qntz_fb": "1,2", "encap_prio": "0..2"})]
    assert [(frame.qntz_fb, frame.encap_prio) for frame in frames] == [
        (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2),
    ]  # fmt: skip


def test_count_ends_sweep_early_or_starts_it_over() -> None:
    three = swept("cnm", {"qntz_fb": "0..2"})
    assert swept("cnm", {"qntz_fb": "0..2"}, count=2) == three[:2]
    assert swept("cnm", {"qntz_fb": "0..2"}, count=7) == (three * 3)[:7]
    assert swept("cnm", {}, count=3) == swept("cnm", {}) * 3


def test_values_run_down_in_steps_and_in_lists() -> None:
    def fb(values: object) -> list[int]:
        return [decode(octets)[CNM].qntz_fb for octets in swept("cnm", {"qntz_fb": values})]

    assert fb("9..0:4") == [9, 5, 1]
    assert fb("0..9:4") == [0, 4, 8]
    assert fb("63,0..2,0x10") == [63, 0, 1, 2, 16]
    assert fb([5, "6"]) == [5, 6]
    assert len(set(fb("random:20"))) > 5


def test_octets_of_variable_length_get_a_template_each() -> None:
    frames = [
        decode(octets) for octets in swept("udp data", {"data.data": "00,0102,ff", "udp.srcport": "1..2"})
    ]
    assert [frame[UDP].length for frame in frames] == [9, 9, 10, 10, 9, 9]
    assert [frame[UDP].srcport for frame in frames] == [1, 2] * 3
    outside = [
        decode(octets) for octets in swept("udp data", {"udp.srcport": "1..2", "data.data": "00,0102"})
    ]
    assert [(f[UDP].srcport, f[IPv4].len) for f in outside] == [(1, 29), (1, 30), (2, 29), (2, 30)]
    assert [octets[24 + 14 :] for octets in swept("cnm", {"msdu": "0000..0003"})][3].startswith(b"\x00\x03")


def test_type_of_e2cm_message_decides_its_payload() -> None:
    frames = swept("e2cm", {"type": "0..4"})
    assert [len(octets) for octets in frames] == [86, 86, 86, 60, 60]
    assert all(decode(octets).error is None for octets in frames)


def test_chunks_are_bounded_and_carry_on(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = swept("udp data", {"data.data": "00,0102", "udp.srcport": "0..30"})
    monkeypatch.setattr(sweep_module, "_CHUNK_FRAMES", 7)
    made = Sweep(plan("udp data", {"data.data": "00,0102", "udp.srcport": "0..30"}))
    pieces = list(made.chunks(62))
    assert max(map(len, pieces)) == 7
    assert [bytes(octets) for piece in pieces for octets in piece] == whole


def test_second_of_two_equal_tags_can_be_swept() -> None:
    frames = swept("vlan id=1 vlan id=2 ip", {"vlan.priority#2": "0..7"})
    assert [octets[18] >> 5 for octets in frames] == list(range(8))
    assert {octets[14] >> 5 for octets in frames} == {0}


def test_implied_layers_are_put_in_for_a_sweep() -> None:
    frames = [decode(octets) for octets in swept("cnm", {"prio": "0..7", "cntag.flow_id": "1,2"})]
    assert [layer.prefix for layer in frames[0].layers] == ["eth", "vlan", "cntag", "cnm"]
    assert len(frames) == 16


def test_layers_frame_has_by_default_can_be_swept() -> None:
    frames = [decode(octets) for octets in swept("cntag", {"ip.ttl": "1..3", "srcport": "7,8"})]
    assert [(frame[IPv4].ttl, frame[UDP].srcport) for frame in frames] == [
        (1, 7), (1, 8), (2, 7), (2, 8), (3, 7), (3, 8),
    ]  # fmt: skip
    with pytest.raises(SpecError, match=r"got 'ip\.ttl'"):
        plan("eth type=1", {"ip.ttl": "1..3"})


def test_the_largest_numbers_are_reached() -> None:
    sweep: dict[str, object] = {"cpid": "0000000000000000..ffffffffffffffff"}
    assert decode(swept("cnm", sweep, count=3)[2])[CNM].cpid == 2
    down: dict[str, object] = {"cpid": "ffffffffffffffff..0000000000000000"}
    assert decode(swept("cnm", down, count=3)[2])[CNM].cpid == 2**64 - 3


def test_more_frames_than_anyone_means_need_a_count() -> None:
    huge = Recipe(plan=plan("cnm", {"cpid": "0000000000000000..00000000ffffffff", "qntz_fb": "0..63"}))
    with pytest.raises(SpecError) as caught:
        count_of(huge)
    assert str(caught.value) == (
        "sweep: expected at most 100,000,000 frames, or a count,"
        " got 4,294,967,296 × 64 = 274,877,906,944 frames (a count of N builds the first N of them)"
    )


_RANDOM = "expected random:N with N in 1..1,000,000, for a field of fixed width"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ("", "cnm.qntz_fb: expected an integer in 0..63, got ''"),
        ("1,,2", "cnm.qntz_fb: expected an integer in 0..63, got ''"),
        ("0..3:0", "sweep cnm.qntz_fb: expected a step of at least 1, got 0"),
        ("0..x", "cnm.qntz_fb: expected an integer in 0..63, got 'x'"),
        ("random:0", f"sweep cnm.qntz_fb: {_RANDOM}, got 'random:0'"),
        ([], "sweep cnm.qntz_fb: expected values such as 0..63, 0..63:2, 1,5,9 or random:1000, got []"),
        (7, "sweep cnm.qntz_fb: expected values such as 0..63, 0..63:2, 1,5,9 or random:1000, got 7"),
    ],
)  # fmt: skip
def test_bad_values_are_refused(values: object, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan("cnm", {"qntz_fb": values})
    assert str(caught.value) == sentence


def test_unknown_and_repeated_fields_are_refused() -> None:
    with pytest.raises(SpecError, match=r"got 'qntzfb' \(did you mean 'qntz_fb'\?\)"):
        plan("cnm", {"qntzfb": "0..3"})
    with pytest.raises(SpecError, match="each field once, as a value or as a sweep"):
        plan("cnm qntz_fb=3", {"qntz_fb": "0..3"})
    with pytest.raises(SpecError, match=r"expected 2 layers with vlan\.id, got 1 of them"):
        plan("vlan ip", {"vlan.id#2": "0..3"})
    with pytest.raises(EncodeError, match=r"expected an integer in 0\.\.63, got 64"):
        plan("cnm", {"qntz_fb": "0..64"})
    with pytest.raises(SpecError, match="expected first and last values of equal length, got 1 and 2 octets"):
        plan("cnm", {"msdu": "00..ffff"})


def test_times_are_exact_at_any_rate() -> None:
    made = list(chunks([Recipe(plan=plan("cnm", {}), count=100_000, spacing=Fraction(10**9, 3))]))
    times = [time for chunk in made for time in chunk.times().tolist()]
    assert times[:4] == [0, 333_333_333, 666_666_666, 1_000_000_000]
    assert times[99_999] == 33_333 * 10**9


def test_times_go_on_from_recipe_to_recipe() -> None:
    first = Recipe(plan=plan("cnm", {}), count=2, spacing=Fraction(1))
    later = Recipe(plan=plan("cnm", {}), time_ns=100)
    made = chunks([first, first, later, first], start_ns=5)
    assert [time for chunk in made for time in chunk.times().tolist()] == [5, 6, 7, 8, 100, 100, 101]


def test_times_on_wire_follow_from_frames_before() -> None:
    swept = Recipe(plan=plan("cnm", {"msdu": "00..ff"}), count=3, spacing=WireRate(10**9))
    first, *_ = (len(octets) for chunk in chunks([swept]) for octets in chunk.octets())
    later, last = Recipe(plan=plan("cnm", {}), time_ns=10**6), Recipe(plan=plan("pause", {}))
    made = chunks([swept, swept, later, last], start_ns=5, spacing=WireRate(2 * 10**9))
    times = [time for chunk in made for time in chunk.times().tolist()]
    apart = 8 * (first + 24)
    assert times[:6] == [5 + apart * number for number in range(6)]
    cnm = len(next(chunks([later])).batch().frame(0))
    assert times[6:] == [10**6, 10**6 + 4 * (cnm + 24)], "four ns an octet"


def test_times_beyond_any_capture_are_refused() -> None:
    late = Recipe(plan=plan("cnm", {}), count=3, time_ns=2**63 - 2, spacing=WireRate(1))
    with pytest.raises(SpecError, match="rate: expected times of less than 2"):
        list(chunks([late]))
    with pytest.raises(SpecError, match="expected times of less than 2"):
        list(chunks([Recipe(plan=plan("cnm", {}), count=2**53, spacing=Fraction(10**9))]))


def test_every_format_has_a_line_that_sweeps_it() -> None:
    swept_formats = {part.cls for line in LINES for part in plan(line, {}).finished().parts}
    left = {cls.prefix for cls in FORMATS if cls not in swept_formats}
    headers = {"llc", "ah", "ipv6.hopopts", "ipv6.dstopts", "ipv6.routing", "ipv6.fraghdr"}
    unswept = {"rrttag", "exptag", "keyframe", "macc", "lrh", "msdu", "sll", "sll2"} | headers
    assert left == unswept, "write a line with the new format into LINES"
