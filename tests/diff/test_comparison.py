"""Edited captures: each edit is reported correctly, and nothing else is reported."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import CaptureError, ParameterError, SpecError
from ecmproto.frames.batch.inner import open_unwrapped
from ecmproto.frames.capture import Batch, CaptureReader, Interface, PcapngWriter, PcapWriter, open_capture
from ecmproto.frames.capture.source import zstd_module
from ecmproto.frames.filter import compile_filter
from ecmproto.tools.craft import build
from ecmproto.tools.diff import Comparison, captures, difference_document, rules_of, summary_document
from ecmproto.wire.codec import CNM, VLAN, CNTag, Ethernet, Layer, decode, encode
from ecmproto.wire.formats.ip import UDP, IPv4
from pcaps.manifest import FOLDER
from tests.diff.edited import GAP_NS, START_NS, Captured, captured, compared, data, octets_of, told, write

FIELDS: dict[str, tuple[type[Layer], str, Any]] = {
    "eth.src": (Ethernet, "src", bytes.fromhex("0200000000aa")),
    "vlan.id": (VLAN, "id", 6),
    "vlan.priority": (VLAN, "priority", 1),
    "cntag.flow_id": (CNTag, "flow_id", 9),
    "ip.ttl": (IPv4, "ttl", 63),
    "ip.dst": (IPv4, "dst", bytes((192, 0, 2, 9))),
    "udp.srcport": (UDP, "srcport", 4001),
}
EDITS = ("remove", "insert", "cut", "retime", "move", *FIELDS)


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[int], dict[int, str]]:
    """Draw frames by number, with repeated frames, and edits of frames that are not adjacent."""
    count = draw(st.integers(12, 40))
    numbers = [draw(st.integers(0, 4)) if draw(st.booleans()) else 100 + place for place in range(count)]
    places = draw(st.lists(st.integers(0, count // 4 - 1), unique=True, max_size=6))
    chosen = {4 * place + 1: draw(st.sampled_from(EDITS)) for place in places}
    moved = [place for place, edit in chosen.items() if edit == "move"]
    for place in moved[1:]:  # if two frames are exchanged, either of them may be reported
        chosen[place] = "remove"
    return numbers, chosen


@given(edits())
def test_each_edit_is_reported_as_its_type(tmp_path_factory: pytest.TempPathFactory, made: Any) -> None:
    numbers, chosen = made
    folder = tmp_path_factory.mktemp("edits")
    before = captured(numbers)
    after: list[tuple[int, Captured]] = []
    expected: list[tuple[str, int, tuple[str, ...]]] = []
    moving: list[tuple[int, Captured]] = []
    for place, frame in enumerate(before):
        edit = chosen.get(place, "")
        now = frame
        if edit == "remove":
            expected.append(("missing", place, ()))
            continue
        if edit == "insert":
            octets = octets_of(data(5000 + place))
            after.append((-1 - place, Captured(frame.time_ns - GAP_NS // 2, octets, len(octets))))
            expected.append(("added", -1 - place, ()))
        elif edit == "cut":
            now = dataclasses.replace(frame, octets=frame.octets[:50])
            expected.append(("changed", place, ("frame.cap_len", "data.data")))
        elif edit == "retime":
            now = dataclasses.replace(frame, time_ns=frame.time_ns + 7)
            expected.append(("retimed", place, ()))
        elif edit == "move":
            moving.append((place, frame))
            expected.append(("moved", place, ()))
            continue
        elif edit:
            cls, key, value = FIELDS[edit]
            octets = octets_of(data(numbers[place]), {cls: {key: value}})
            now = dataclasses.replace(frame, octets=octets)
            expected.append(("changed", place, (edit,)))
        after.append((place, now))
    after = moving + after if not moving or moving[0][0] > len(before) // 2 else after + moving
    where = {place: number for number, (place, _) in enumerate(after, 1)}
    a, b = write(folder / "a", before), write(folder / "b", (frame for _, frame in after))
    wanted = {
        (kind, place + 1 if place >= 0 else 0, 0 if kind == "missing" else where[place], fields)
        for kind, place, fields in expected
    }
    found = compared(a, b, list_times=True)
    assert told(found) == wanted
    # The same in reverse order.
    names = {"missing": "added", "added": "missing"}
    back = {(names.get(kind, kind), two, one, fields) for kind, one, two, fields in wanted}
    assert told(compared(b, a, list_times=True)) == back


@given(st.lists(st.integers(0, 6), max_size=30), st.lists(st.integers(0, 6), max_size=30), st.booleans())
def test_differences_account_for_every_frame(
    tmp_path_factory: pytest.TempPathFactory, one: list[int], other: list[int], timed: bool
) -> None:
    folder = tmp_path_factory.mktemp("any")
    before, after = captured(one), captured(other)
    if timed:
        after = [dataclasses.replace(frame, time_ns=frame.time_ns * 2 - START_NS) for frame in after]
    found = compared(write(folder / "a", before), write(folder / "b", after), list_times=True)
    pairs = [(each.a, each.b) for each in found]
    seen_a = [a.number for a, _ in pairs if a is not None]
    seen_b = [b.number for _, b in pairs if b is not None]
    assert len(set(seen_a)) == len(seen_a)
    assert len(set(seen_b)) == len(seen_b)
    # All frames without a reported difference are equal.
    rest_a = [frame for number, frame in enumerate(before, 1) if number not in seen_a]
    rest_b = [frame for number, frame in enumerate(after, 1) if number not in seen_b]
    assert rest_a == rest_b
    for each in found:
        assert (each.a is None, each.b is None) == (each.kind == "added", each.kind == "missing")
        if each.a is not None and each.b is not None:
            octets = before[each.a.number - 1].octets, after[each.b.number - 1].octets
            assert (octets[0] == octets[1]) == (each.kind in ("moved", "retimed"))
    # Missing frames and added frames have nothing in common.
    left = {
        kind: {before[e.a.number - 1].octets for e in found if e.kind == kind and e.a}
        for kind in ("missing",)
    }
    assert not left["missing"] & {after[e.b.number - 1].octets for e in found if e.kind == "added" and e.b}


@pytest.mark.parametrize("window", [20, 1000])
def test_small_windows_find_the_same_differences(tmp_path: Path, window: int) -> None:
    numbers = [100 + place for place in range(400)]
    before = captured(numbers)
    after = [frame for place, frame in enumerate(before) if place % 50 != 20]
    a, b = write(tmp_path / "a", before), write(tmp_path / "b", after)
    with Comparison(a, b, window=window) as comparison:
        # batches as small as the windows
        for digests in comparison._digests:
            assert digests._reader is not None
            digests._reader.batch_frames = window
        found = told(comparison)
    assert found == {("missing", place + 1, 0, ()) for place in range(20, 400, 50)}


def test_repeated_frames_are_matched_across_windows(tmp_path: Path) -> None:
    """A changed frame is not matched with the last frames of a window or with equal frames elsewhere."""
    before = captured([100 + place % 40 for place in range(600)])
    after: list[Captured] = []
    expected: set[tuple[str, int, int, tuple[str, ...]]] = set()
    for place, frame in enumerate(before):
        now = dataclasses.replace(frame, time_ns=frame.time_ns + 1500)
        if place % 50 == 20:
            expected.add(("missing", place + 1, 0, ()))
            continue
        if place % 70 == 33:
            changed = octets_of(data(100 + place % 40), {VLAN: {"id": 9}})
            now = dataclasses.replace(now, octets=changed)
            expected.add(("changed", place + 1, len(after) + 1, ("frame.time_epoch", "vlan.id")))
        after.append(now)
    a, b = write(tmp_path / "a", before), write(tmp_path / "b", after)
    for window in (150, 5000):
        with Comparison(a, b, window=window) as comparison:
            for digests in comparison._digests:
                assert digests._reader is not None
                digests._reader.batch_frames = 50
            assert told(comparison) == expected


def test_windows_of_only_changed_frames_align(tmp_path: Path) -> None:
    before = captured([100 + place for place in range(400)])
    after: list[Captured] = []
    expected: set[tuple[str, int, int, tuple[str, ...]]] = set()
    for place, frame in enumerate(before):
        if place % 50 == 20:
            expected.add(("missing", place + 1, 0, ()))
            continue
        octets = octets_of(data(100 + place), {VLAN: {"id": 9}})
        after.append(dataclasses.replace(frame, octets=octets))
        expected.add(("changed", place + 1, len(after), ("vlan.id",)))
    with Comparison(write(tmp_path / "a", before), write(tmp_path / "b", after), window=90) as comparison:
        for digests in comparison._digests:
            assert digests._reader is not None
            digests._reader.batch_frames = 30
        assert told(comparison) == expected


def test_times_by_a_clock_of_their_own(tmp_path: Path) -> None:
    before = captured([100 + place for place in range(200)])
    a = write(tmp_path / "a", before)
    later = [dataclasses.replace(frame, time_ns=frame.time_ns + 1_500_000) for frame in before]
    b = write(tmp_path / "b", later)
    with Comparison(a, b) as comparison:
        assert list(comparison) == []
        assert comparison.summary.kinds["retimed"] == comparison.summary.differences == 200
        times = comparison.summary.times
    assert times is not None
    assert (times.offset_ns, times.min_ns, times.max_ns, times.differing) == (
        1_500_000,
        1_500_000,
        1_500_000,
        200,
    )
    for rules in (
        rules_of(align_time="offset"),
        rules_of(["frame.time_epoch"]),
        rules_of(tolerance={"time": "2ms"}),
    ):
        with Comparison(a, b, rules) as comparison:
            assert comparison.run().differences == 0
    # A clock that is 50 ppm fast, and a frame that was delayed by 3 µs.
    drifting = [
        dataclasses.replace(frame, time_ns=frame.time_ns + 800 + place * GAP_NS // 20_000)
        for place, frame in enumerate(before)
    ]
    drifting[60] = dataclasses.replace(drifting[60], time_ns=drifting[60].time_ns + 3000)
    c = write(tmp_path / "c", drifting)
    rules = rules_of(align_time="drift", tolerance={"frame.time_epoch": "10ns"})
    with Comparison(a, c, rules) as comparison:
        assert told(comparison) == {("retimed", 61, 61, ())}
        times = comparison.summary.times
    assert times is not None
    assert times.drift_ppm == pytest.approx(50, rel=0.02)
    assert times.has_drift


def test_coarser_times_are_the_same_within_a_tolerance(tmp_path: Path) -> None:
    frames = captured(range(100, 120))
    frames = [dataclasses.replace(frame, time_ns=frame.time_ns + 123) for frame in frames]
    a, b = write(tmp_path / "ns", frames), write(tmp_path / "us", frames, resolution="us")
    assert {kind for kind, *_ in told(compared(a, b, list_times=True))} == {"retimed"}
    assert compared(a, b, rules_of(tolerance={"frame.time_epoch": "1us"})) == []


def test_format_and_compression_make_no_difference(tmp_path: Path) -> None:
    octets = (FOLDER / "mixed.pcap").read_bytes()
    (tmp_path / "x.gz").write_bytes(gzip.compress(octets))
    (tmp_path / "x.zst").write_bytes(zstd_module().compress(octets))
    for other in (str(FOLDER / "mixed.pcapng"), str(tmp_path / "x.gz"), str(tmp_path / "x.zst")):
        with Comparison(str(FOLDER / "mixed.pcap"), other) as comparison:
            summary = comparison.run()
        assert (summary.same, summary.differences) == (26, 0)


@pytest.mark.parametrize(
    "name", ["mixed.pcap", "qcn_cp.pcapng", "malformed.pcapng", "vlan_stacks.pcap", "pfc.pcap"]
)
def test_a_capture_against_itself(name: str) -> None:
    path = str(FOLDER / name)
    every = [
        "ip",
        "cntag",
        "vlan",
        "eth.padding",
        "encapsulated.ip.ttl",
        "data.data",
        "frame.len",
        "ip.dsfield.ecn",
    ]
    for rules in (rules_of(), rules_of(every, {"cnm.qntz_fb": "1", "rdtag.rate": "5%"})):
        with Comparison(path, path, rules) as comparison:
            assert list(comparison) == []
            assert comparison.summary.differences == 0


def test_ignored_field_ignores_its_checksums(tmp_path: Path) -> None:
    frames = captured([200, 201, 202])
    cases: tuple[tuple[dict[type[Layer], dict[str, Any]], str], ...] = (
        ({IPv4: {"ttl": 63, "checksum": 0x1234}}, "ip.ttl"),
        ({IPv4: {"src": bytes(4), "checksum": 1}, UDP: {"checksum": 2}}, "ip.addr"),
        ({IPv4: {"ttl": 1, "id": 9, "src": bytes(4)}}, "ip"),
        ({UDP: {"srcport": 1, "checksum": 5}}, "udp.srcport"),
        ({CNTag: {"flow_id": 1}}, "cntag"),
        ({VLAN: {"id": 1, "priority": 2}}, "vlan"),
        ({Ethernet: {"dst": bytes(6)}}, "eth"),
        ({Ethernet: {"dst": bytes(6)}}, "eth.addr"),
    )
    for changed, ignored in cases:
        after = [dataclasses.replace(frames[1], octets=octets_of(data(201), changed))]
        a, b = write(tmp_path / "a", frames), write(tmp_path / "b", [frames[0], *after, frames[2]])
        assert compared(a, b), ignored
        assert compared(a, b, rules_of([ignored])) == [], ignored
        other = rules_of(["vlan.dei"])
        assert [each.kind for each in compared(a, b, other)] == ["changed"], ignored


def test_a_layer_of_the_frame_shown_is_ignored(tmp_path: Path) -> None:
    message = encode(build("cnm", flow_id=1))
    ttl = decode(message).starts[2] + CNM.fixed_octets + 2 + 8
    other = message[:ttl] + b"\x09" + message[ttl + 1 :]
    paths = [
        write(tmp_path / name, [Captured(START_NS, octets, len(octets))])
        for name, octets in (("a", message), ("b", other))
    ]
    a, b = paths
    assert told(compared(a, b)) == {("changed", 1, 1, ("encapsulated.ip.ttl",))}
    assert compared(a, b, rules_of(["encapsulated.ip"])) == []
    assert len(compared(a, b, rules_of(["ip"]))) == 1


def test_invalid_name_is_not_suggested_again() -> None:
    for name in ("encapsulated", "frame"):
        with pytest.raises(SpecError) as caught:
            rules_of([name])
        assert "did you mean" not in str(caught.value)


def test_snap_length_rule_compares_only_common_octets(tmp_path: Path) -> None:
    frames = captured([200, 201, 202])
    cut = [dataclasses.replace(each, octets=each.octets[:50]) for each in frames]
    cut[1] = dataclasses.replace(cut[1], octets=cut[1].octets[:-1] + b"!")
    a, b = write(tmp_path / "a", frames), write(tmp_path / "b", cut)
    assert len(compared(a, b)) == 3
    assert told(compared(a, b, rules_of(snap_octets=50))) == {("changed", 2, 2, ("udp.checksum",))}
    assert compared(a, b, rules_of(snap_octets=49)) == []


def test_ignored_tag_may_be_present_or_absent(tmp_path: Path) -> None:
    frames = captured([200, 201, 202])
    bare = []
    for frame in frames:
        read = decode(frame.octets)
        layers = tuple(value for value in read.layers if not isinstance(value, CNTag))
        octets = encode(dataclasses.replace(read, layers=layers), fix=True)
        bare.append(Captured(frame.time_ns, octets, len(octets)))
    a, b = write(tmp_path / "a", frames), write(tmp_path / "b", bare)
    names = ("frame.len", "frame.cap_len", "vlan.etype", "cntag.flow_id", "cntag.etype")
    assert told(compared(a, b)) == {("changed", number, number, names) for number in (1, 2, 3)}
    assert compared(a, b, rules_of(["cntag"])) == []
    # of a frame that differs in something else too, that alone is told
    bare[1] = dataclasses.replace(bare[1], octets=bare[1].octets[:26] + b"\x01" + bare[1].octets[27:])
    b = write(tmp_path / "b", bare)
    assert told(compared(a, b, rules_of(["cntag"]))) == {("changed", 2, 2, ("ip.ttl",))}


def test_tolerances_of_numbers(tmp_path: Path) -> None:
    frames = captured([200, 201, 202])
    for ttl, tolerance, differs in ((62, "2", False), (61, "2", True), (63, "2%", False), (60, "2%", True)):
        after = [
            *frames[:1],
            dataclasses.replace(frames[1], octets=octets_of(data(201), {IPv4: {"ttl": ttl}})),
        ]
        a, b = write(tmp_path / "a", frames), write(tmp_path / "b", [*after, frames[2]])
        found = told(compared(a, b, rules_of(tolerance={"ip.ttl": tolerance})))
        assert found == ({("changed", 2, 2, ("ip.ttl",))} if differs else set())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"ignore": ["ip.tll"]}, SpecError),
        ({"ignore": ["frame"]}, SpecError),
        ({"tolerance": {"eth.src": "1"}}, ParameterError),
        ({"tolerance": {"ip.ttl": "some"}}, ParameterError),
        ({"tolerance": {"frame.time_epoch": "5"}}, ParameterError),
        ({"tolerance": {"frame.time_epoch": "5%"}}, ParameterError),
        ({"tolerance": {"frame.len": "5"}}, ParameterError),
    ],
)
def test_invalid_rules_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        rules_of(**arguments)


def test_a_filter_restricts_both(tmp_path: Path) -> None:
    frames = captured([200, 201, 202, 203])
    after = [
        frames[0],
        *(dataclasses.replace(each, octets=octets_of(data(300))) for each in frames[1:2]),
        *frames[2:],
    ]
    a, b = write(tmp_path / "a", frames), write(tmp_path / "b", after)
    assert told(compared(a, b, filter=compile_filter("ip.id >= 202"))) == {("added", 0, 2, ())}


def test_interfaces_are_compared_separately_on_request(tmp_path: Path) -> None:
    links = [Interface(index=index, linktype=1, name=f"port{index}") for index in range(2)]
    octets = [octets_of(data(number)) for number in range(100, 140)]
    times = START_NS + np.arange(40) * GAP_NS
    orders = (range(40), [*range(0, 40, 2), *range(1, 40, 2)])
    paths = []
    for name, order in zip("ab", orders, strict=True):
        paths.append(str(tmp_path / name))
        with PcapngWriter(paths[-1], interfaces=links) as writer:
            rows = [row for row in order if (name, row) != ("b", 7)]
            batch = Batch.from_frames(
                [octets[row] for row in rows], time_ns=times[rows], interface=[row % 2 for row in rows]
            )
            writer.write_batch(batch)
    a, b = paths
    assert {each.kind for each in compared(a, b)} == {"moved", "missing"}
    with Comparison(a, b, rules_of(by_interface=True)) as comparison:
        assert told(comparison) == {("missing", 8, 0, ())}
        kinds = {each.name: (each.same, each.kinds["missing"]) for each in comparison.summary.interfaces}
    assert kinds == {"port0": (20, 0), "port1": (19, 1)}
    with Comparison(a, b, rules_of(by_interface=True), window=3) as comparison:
        for digests in comparison._digests:
            assert digests._reader is not None
            digests._reader.batch_frames = 2
        with pytest.raises(ParameterError):
            comparison.run()


def write_ports(path: Path, frames: list[tuple[int, Captured]], ports: int) -> str:
    links = [Interface(index=index, linktype=1, name=f"port{index}") for index in range(ports)]
    with PcapngWriter(path, interfaces=links, force=True) as writer:
        for port, each in frames:
            writer.write_frame(each.octets, each.time_ns, interface=port)
    return str(path)


PORTS = 3
DRAWN = st.lists(st.tuples(st.integers(0, PORTS - 1), st.integers(0, 5)), max_size=24)


@given(DRAWN, DRAWN)
def test_frames_pair_within_an_interface_alone(
    tmp_path_factory: pytest.TempPathFactory, one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("ports")
    sides = []
    for drawn in (one, other):
        frames = captured([number for _, number in drawn])
        sides.append([(port, frame) for (port, _), frame in zip(drawn, frames, strict=True)])
    a, b = (write_ports(folder / name, side, PORTS) for name, side in zip("ab", sides, strict=True))
    found = compared(a, b, rules_of(["time"], by_interface=True))
    places = [[each.a for each in found if each.a], [each.b for each in found if each.b]]
    for each in found:
        of = {place.interface for place in (each.a, each.b) if place}
        assert len(of) == 1
    assert [each.interface for each in places[0]] == sorted(each.interface for each in places[0])
    for port in range(PORTS):
        rest = [
            [frame.octets for number, (of, frame) in enumerate(side, 1) if of == port and number not in seen]
            for side, seen in zip(sides, ({each.number for each in some} for some in places), strict=True)
        ]
        assert rest[0] == rest[1]


def test_many_interfaces_are_read_twice_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = 150
    frames = list(enumerate(captured(range(100, 100 + ports))))
    a = write_ports(tmp_path / "a", frames + frames[::-1], ports)
    b = write_ports(tmp_path / "b", frames, ports)
    opened: list[str] = []

    def opening(paths: tuple[str, ...], **options: Any) -> CaptureReader:
        opened.extend(paths)
        return open_unwrapped(paths, **options)

    monkeypatch.setattr(captures, "open_unwrapped", opening)
    found = compared(a, b, rules_of(["time"], by_interface=True))
    assert [each.kind for each in found] == ["missing"] * ports
    assert sorted(opened) == sorted([a, b] * 2)


def test_broken_capture_is_compared_up_to_break(tmp_path: Path) -> None:
    a = write(tmp_path / "a", captured(range(100, 110)))
    cut = tmp_path / "cut"
    cut.write_bytes(Path(a).read_bytes()[:-30])
    with Comparison(a, str(cut)) as comparison:
        assert told(comparison) == {("missing", 10, 0, ())}
        assert isinstance(comparison.problem, CaptureError)
    empty = write(tmp_path / "empty", [])
    with Comparison(empty, empty) as comparison:
        assert comparison.run().differences == 0
    with Comparison(a, empty) as comparison:
        assert comparison.run().kinds["missing"] == 10
    (tmp_path / "none").write_bytes(b"")
    (tmp_path / "text").write_bytes(b"no capture at all")
    for bad in ("none", "text", "not there"):
        with pytest.raises(CaptureError):
            Comparison(a, str(tmp_path / bad))


def test_every_octet_is_compared(tmp_path: Path) -> None:
    """A flipped bit at any position is reported as a difference in a field."""
    with open_capture(FOLDER / "mixed.pcap") as reader:
        frames = [frame for batch in reader for frame in batch.frames()]
    rng = np.random.default_rng(3)
    turned = []
    for frame in frames:
        octets = bytearray(frame)
        bit = int(rng.integers(0, 8 * len(octets)))
        octets[bit // 8] ^= 1 << bit % 8
        turned.append(bytes(octets))
    times = START_NS + np.arange(len(frames)) * GAP_NS
    for name, some in (("a", frames), ("b", turned)):
        with PcapWriter(tmp_path / name) as writer:
            writer.write_batch(Batch.from_frames(some, time_ns=times))
    found = compared(str(tmp_path / "a"), str(tmp_path / "b"))
    seen = {(each.kind, each.a.number if each.a else 0) for each in found if each.kind != "added"}
    assert {number for _, number in seen} == set(range(1, len(frames) + 1))
    assert all(each.fields for each in found if each.kind == "changed")
    assert sum(each.kind == "changed" for each in found) >= len(frames) - 2


def test_heavily_changed_frames_are_still_matched(tmp_path: Path) -> None:
    """As a router, a translator of addresses and a tagger that sets checksums right make them."""
    before = captured([200, 201, 1, 202, 203])
    mac, address = bytes.fromhex("0200000000ff"), bytes((198, 51, 100, 1))
    for changes in (
        {Ethernet: {"dst": mac, "src": mac}, IPv4: {"ttl": 63, "checksum": 1}},
        {Ethernet: {"dst": mac}, IPv4: {"src": address, "checksum": 1}, UDP: {"srcport": 99, "checksum": 77}},
        {IPv4: {"checksum": 1, "dst": address}, UDP: {"checksum": 77}, VLAN: {"id": 9, "priority": 6}},
    ):
        after = []
        for frame, number in zip(before, (200, 201, 1, 202, 203), strict=True):
            octets = octets_of(data(number), changes)  # type: ignore[arg-type]
            after.append(dataclasses.replace(frame, octets=octets))
        a, b = write(tmp_path / "a", before), write(tmp_path / "b", after)
        found = told(compared(a, b))
        assert {(kind, one, other) for kind, one, other, _ in found} == {
            ("changed", n, n) for n in range(1, 6)
        }
    # a tag more, and other octets behind it
    tagged = []
    for frame in before:
        spoilt = bytearray(frame.octets[:12] + bytes.fromhex("88a8002c") + frame.octets[12:])
        spoilt[60] ^= 0xFF
        tagged.append(Captured(frame.time_ns + 5, bytes(spoilt), len(spoilt)))
    found = told(compared(a, write(tmp_path / "b", tagged)))
    assert {(kind, one, other) for kind, one, other, _ in found} == {("changed", n, n) for n in range(1, 6)}


def test_documents_are_json(tmp_path: Path) -> None:
    frames = captured([200, 201, 202])
    after = [frames[0], dataclasses.replace(frames[1], octets=octets_of(data(201), {IPv4: {"ttl": 1}}))]
    a, b = write(tmp_path / "a", frames), write(tmp_path / "b", after)
    with Comparison(a, b) as comparison:
        changed, missing = (json.loads(json.dumps(difference_document(each))) for each in comparison)
        summary = json.loads(json.dumps(summary_document(comparison)))
    assert changed["fields"] == [{"name": "ip.ttl", "a": [64], "b": [1]}]
    assert (changed["a"]["number"], changed["b"]["time_ns"]) == (2, START_NS + GAP_NS)
    assert (missing["kind"], missing["a"]["number"], missing["b"]) == ("missing", 3, None)
    assert (summary["same"], summary["changed"], summary["missing"], summary["fields"]) == (
        1,
        1,
        1,
        {"ip.ttl": 1},
    )
