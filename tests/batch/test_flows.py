"""Stations and flows have the numbers that a dictionary of their keys assigns, for any batches and any
order.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.frames import headers, outer_vlan, priority_of, tags
from ecmproto.control.mechanisms.ecm.parameters import ECMReactionPointParameters
from ecmproto.errors import ParameterError
from ecmproto.frames.batch.flows import Flow, FlowTable
from ecmproto.frames.batch.keys import EMPTY, Keys, has_capacity, larger_keys, new_keys, slot_of
from ecmproto.wire.codec import CNTag, EtherTypes
from ecmproto.wire.flow import FlowHash, FlowKey
from tests.batch.frames import CUT, ORDINARY, STACKS, batch_of
from tests.mechanisms.aimd.flow import flow_of

KEYS = st.builds(FlowKey, st.booleans(), st.booleans(), st.booleans(), st.booleans())
ALL = FlowKey(vlan=True, dst=True, priority=True, cn_tag=True)
GROUP = 1
FRAME = "020000000001 020000000002 "
SOURCES = [bytes.fromhex(text) for text in ("020000000002", "800000000001", "00ffffffffff", "030000000001")]
DESTINATIONS = [bytes.fromhex(text) for text in ("020000000001", "feffffffffff", "ffffffffffff")]


def _addressed(octets: bytes, destination: bytes, source: bytes) -> bytes:
    return (destination + source)[: len(octets)] + octets[12:]


SHALLOW = st.one_of(STACKS, ORDINARY, st.binary(max_size=60)).filter(lambda octets: len(octets) <= 250)
FRAMES = st.lists(
    st.builds(
        _addressed,
        st.one_of(SHALLOW, CUT.filter(lambda octets: len(octets) <= 250)),
        st.sampled_from(DESTINATIONS),
        st.sampled_from(SOURCES),
    ),
    max_size=30,
)


def expected(frames: list[bytes], key: FlowKey, max_stations: int, max_flows: int) -> list[tuple[int, int]]:
    stations: dict[bytes, dict[object, int]] = {}
    numbers = []
    for octets in frames:
        source = octets[6:12]
        known = len(source) == 6 and not source[0] & GROUP
        if not known or (source not in stations and len(stations) == max_stations):
            numbers.append((-1, -1))
            continue
        flows = stations.setdefault(source, {})
        told = _key(octets, key)
        flow = flows.setdefault(told, len(flows)) if told in flows or len(flows) < max_flows else -1
        numbers.append((list(stations).index(source), flow))
    return numbers


def _key(octets: bytes, key: FlowKey) -> object:
    frame = headers(octets)
    vlan, priority = outer_vlan(frame), priority_of(frame)
    cn_tag = next((layer for layer in tags(frame) if isinstance(layer, CNTag)), None)
    if key.cn_tag and cn_tag is not None:
        return "cn", priority, cn_tag.flow_id
    return (
        None if vlan is None or not key.vlan else vlan.id,
        octets[:6] if key.dst else None,
        priority if key.priority else None,
    )


@given(
    frames=FRAMES,
    key=KEYS,
    limits=st.tuples(st.integers(1, 4), st.integers(1, 6)),
    cuts=st.lists(st.integers(0, 30), max_size=4),
)
def test_numbers_equal_a_dictionarys_in_any_batches(
    frames: list[bytes], key: FlowKey, limits: tuple[int, int], cuts: list[int]
) -> None:
    table = FlowTable(key, max_stations=limits[0], max_flows=limits[1])
    numbers = []
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(frames)]):
        batch = table.number(*batch_of(frames[start:stop]))
        numbers += list(zip(batch.station.tolist(), batch.flow.tolist(), strict=True))
    wanted = expected(frames, key, *limits)
    assert numbers[: len(frames)] == wanted
    counts = table.counts
    assert table.stations == len({station for station, _ in wanted} - {-1})
    assert table.count == len({pair for pair in wanted if -1 not in pair})
    without_station = counts.group_sources + counts.cut_sources + counts.beyond_stations
    assert without_station == sum(station < 0 for station, _ in wanted)
    assert counts.beyond_flows == sum(station >= 0 > flow for station, flow in wanted)


@given(frames=FRAMES)
def test_flows_equal_those_of_reaction_points(frames: list[bytes]) -> None:
    frames = [octets for octets in frames if len(octets) >= 14]
    table = FlowTable(FlowKey(vlan=True, dst=True, priority=True, cn_tag=False))
    batch = table.number(*batch_of(frames))
    parameters = ECMReactionPointParameters()
    for (i, one), (j, other) in itertools.combinations(enumerate(frames), 2):
        if batch.station[i] >= 0 and batch.station[j] >= 0:
            same = (batch.station[i], batch.flow[i]) == (batch.station[j], batch.flow[j])
            assert same == (flow_of(one, parameters).key == flow_of(other, parameters).key)


@pytest.mark.parametrize(("bits", "src"), [(1, True), (1, False), (4, True), (32, True)])
def test_keys_with_equal_hash_share_one_flow(bits: int, src: bool) -> None:
    heads = ("", "8100 a005", "8100 6fff", "88a8 0001")
    frames = [
        bytes.fromhex(f"0200000000{n:02x} 0200000000{station:02x} {head} 0800")
        for n in range(8)
        for station in (1, 2)
        for head in heads
    ]
    parameters = ECMReactionPointParameters(hash_bits=bits, key_src=src)
    table = FlowTable(FlowKey(True, True, True, False), hashed=FlowHash(bits, src))
    batch = table.number(*batch_of(frames))
    keys: dict[int, dict[bytes, int]] = {0: {}, 1: {}}
    for octets, station, flow in zip(frames, batch.station.tolist(), batch.flow.tolist(), strict=True):
        assert flow == keys[station].setdefault(flow_of(octets, parameters).key, len(keys[station]))
        outer = outer_vlan(headers(octets))
        found = table.find(
            octets[6:12],
            destination=octets[:6],
            vlan=None if outer is None else outer.id,
            priority=priority_of(headers(octets)),
        )
        assert found == (station, flow)
    one = table.flows()[0]
    assert (one.destination, one.vlan, one.priority) == (None, None, None)
    assert one.label == f"02:00:00:00:00:01, hash {one.hash}"
    assert one.hash == int.from_bytes(flow_of(frames[0], parameters).key)


def test_flow_id_and_priority_identify_cn_tagged_flows() -> None:
    tags = ("8100 a005 22e9 0007", "8100 a006 22e9 0007", "8100 c005 22e9 0007", "8100 a005 22e9 0008")
    frames = [bytes.fromhex(f"{FRAME}{tag} 0800") for tag in (*tags, "8100 a005", "22e9 0007")]
    frames.append(b"\4" + frames[0][1:])
    for vlan, dst, priority in itertools.product([False, True], repeat=3):
        key = FlowKey(vlan, dst, priority, cn_tag=True)
        batch = FlowTable(key).number(*batch_of(frames))
        assert batch.flow.tolist() == [0, 0, 1, 2, 3, 4, 0]


def many(stations: int, flows: int) -> list[bytes]:
    frames = []
    for number in np.random.default_rng(1).permutation(stations * flows).tolist():
        station, flow = divmod(number, flows)
        frames.append(b"\2" + flow.to_bytes(5) + b"\2" + station.to_bytes(5) + b"\x08\0")
    return frames


@given(frames=FRAMES, others=FRAMES, key=KEYS)
def test_find_returns_flows_and_creates_none(frames: list[bytes], others: list[bytes], key: FlowKey) -> None:
    table = FlowTable(key, max_stations=3, max_flows=4)
    numbers = table.number(*batch_of(frames))
    flows, slots = table.flows(), (len(table._stations.number), len(table._flows.number))
    wanted = {
        (octets[6:12], _key(octets, key)): (int(station), int(flow))
        for octets, station, flow in zip(frames, numbers.station, numbers.flow, strict=True)
        if flow >= 0
    }
    stations = {source: station for (source, _), (station, _) in wanted.items()}
    for octets in frames + others:
        if len(octets) < 12:
            continue
        frame, source = headers(octets), octets[6:12]
        vlan = outer_vlan(frame)
        cn_tag = next((layer for layer in tags(frame) if isinstance(layer, CNTag)), None)
        found = table.find(
            source,
            destination=octets[:6],
            vlan=None if vlan is None else vlan.id,
            priority=priority_of(frame),
            cn_flow=None if cn_tag is None or not key.cn_tag else cn_tag.flow_id,
        )
        unknown = stations.get(source, -1), -1
        assert found == wanted.get((source, _key(octets, key)), unknown)
    assert table.flows() == flows
    assert (len(table._stations.number), len(table._flows.number)) == slots


def test_find_needs_every_value_of_the_key() -> None:
    frames = [bytes.fromhex(f"{FRAME}8100 a005 0800"), bytes.fromhex(f"{FRAME}8100 a005 22e9 0007 0800")]
    # With the values that might stand for unknown ones.
    frames += [bytes.fromhex(f"{FRAME}{tags} 0800") for tags in ("8100 0005", "8100 0005 22e9 0007")]
    frames += [bytes.fromhex(f"000000000000 020000000002 {tags} 0800") for tags in ("8100 a005", "8100 0005")]
    source, destination = frames[0][6:12], frames[0][:6]
    table = FlowTable(ALL)
    table.number(*batch_of(frames))
    assert table.find(source, destination=destination, vlan=5, priority=5) == (0, 0)
    assert table.find(source, priority=5, cn_flow=7) == (0, 1)
    assert table.find(source) == (0, -1)
    assert table.find(source, destination=destination, vlan=5) == (0, -1)
    assert table.find(source, vlan=5, priority=5) == (0, -1)
    assert table.find(source, destination=destination, priority=5) == (0, -1)
    assert table.find(source, cn_flow=7) == (0, -1)
    assert table.find(destination, priority=5, cn_flow=7) == (-1, -1)
    assert table.find(b"") == (-1, -1)
    table = FlowTable(FlowKey(vlan=False, dst=False, priority=False, cn_tag=False))
    assert table.find(source, cn_flow=7) == (-1, -1)
    table.number(*batch_of(frames))
    assert table.find(source) == (0, 0)
    assert table.find(source, priority=5, cn_flow=7) == (0, -1)


def test_numbers_are_fresh_until_the_next_batch() -> None:
    table = FlowTable(ALL)
    table.number(*batch_of(many(2, 1)))
    assert table.is_fresh(0)
    assert table.is_fresh(1, 0)
    table.number(*batch_of(many(3, 2)))
    assert [table.is_fresh(station) for station in range(3)] == [False, False, True]
    assert [table.is_fresh(station, 0) for station in range(3)] == [False, False, True]
    assert [table.is_fresh(station, 1) for station in range(3)] == [True, True, True]
    table.number(*batch_of([]))
    assert not table.is_fresh(2, 1)


def test_a_table_grows_without_a_trace() -> None:
    frames = many(200, 3)
    table = FlowTable(FlowKey(vlan=False, dst=True, priority=False, cn_tag=False), max_stations=190)
    batch = table.number(*batch_of(frames + frames))
    wanted = expected(frames + frames, table.key, 190, 1024)
    assert list(zip(batch.station.tolist(), batch.flow.tolist(), strict=True)) == wanted
    assert (table.stations, table.count) == (190, 570)
    assert table.counts.beyond_stations == 60
    assert [flow.source for flow in table.flows()[:3]] == [octets[6:12] for octets in frames[:3]]


TAGGED = FRAME + "8100 a005 22e9 0007 0800"


@pytest.mark.parametrize(
    ("frame", "key", "label"),
    [
        (FRAME + "0800", ALL, "02:00:00:00:00:02 → 02:00:00:00:00:01"),
        (TAGGED, ALL, "02:00:00:00:00:02, CN flow 7, priority 5"),
        (TAGGED, FlowKey(True, True, True, False),
         "02:00:00:00:00:02 → 02:00:00:00:00:01, VLAN 5, priority 5"),
        (TAGGED, FlowKey(True, False, False, False), "02:00:00:00:00:02, VLAN 5"),
        (TAGGED, FlowKey(False, False, False, False), "02:00:00:00:00:02"),
        (FRAME + "8100 e000 0800", ALL, "02:00:00:00:00:02 → 02:00:00:00:00:01, VLAN 0, priority 7"),
        (FRAME + "22e9 0000 0800", ALL, "02:00:00:00:00:02, CN flow 0"),
    ],
)  # fmt: skip
def test_flows_have_labels(frame: str, key: FlowKey, label: str) -> None:
    table = FlowTable(key, max_flows=100)
    octets = bytes.fromhex(frame)
    other = octets[:6] + b"\4" + octets[7:]
    batch = table.number(*batch_of([other, octets]))
    numbers = table.numbers(*batch)
    assert numbers.tolist() == [0, 100]
    assert table.labels()[100] == table.labels([100])[100] == table.flow(100).label == label


def test_a_flow_has_its_key_as_values() -> None:
    table = FlowTable(ALL)
    table.number(*batch_of([bytes.fromhex(TAGGED), bytes.fromhex(FRAME + "8100 2fff 0800")]))
    source, destination = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
    assert table.flows() == [
        Flow(station=0, flow=0, source=source, destination=None, vlan=None, priority=5, cn_flow=7),
        Flow(station=0, flow=1, source=source, destination=destination, vlan=4095, priority=1, cn_flow=None),
    ]
    assert table.source(0) == source
    for number in (-1, 2, 1024):
        with pytest.raises(KeyError):
            table.flow(number)
    for station in (-1, 1):
        with pytest.raises(IndexError):
            table.source(station)


def test_unchosen_frames_get_no_numbers() -> None:
    frames = [bytes.fromhex(FRAME + "0800"), bytes.fromhex(FRAME.replace("2 ", "3 ") + "0800")]
    table = FlowTable(ALL)
    batch = table.number(*batch_of(frames), chosen=np.array([False, True]))
    assert batch.station.tolist() == batch.flow.tolist() == [-1, 0]
    assert table.numbers(*batch).tolist() == [-1, 0]
    assert table.source(0) == frames[1][6:12]
    with pytest.raises(ParameterError, match="chosen: expected 2 values, got 1"):
        table.number(*batch_of(frames), chosen=np.array([True]))
    none = table.number(*batch_of([]), chosen=np.zeros(0, np.bool_))
    assert len(none.station) == 0


def test_a_map_of_ethertypes_replaces_the_default_one() -> None:
    frame = bytes.fromhex(FRAME + "9abc 0007 0800")
    table = FlowTable(ALL, ethertypes=EtherTypes(cn_tag=0x9ABC))
    table.number(*batch_of([frame]))
    assert table.flows()[0].cn_flow == 7


@pytest.mark.parametrize(
    ("stations", "flows", "told"),
    [
        (0, 1, "max_stations: expected 1 to"),
        (1, 0, "max_flows: expected 1 to"),
        (2**20, 2**11, "max_flows: expected 1 to 2047"),
    ],
)
def test_limits_are_checked(stations: int, flows: int, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        FlowTable(ALL, max_stations=stations, max_flows=flows)


LIMIT = 2**63
NUMBERS = st.one_of(
    st.integers(-LIMIT, LIMIT - 1), st.integers(0, 3), st.sampled_from([-LIMIT, LIMIT - 1, -1])
)


def numbered(keys: Keys, pairs: list[tuple[int, int]]) -> tuple[list[int], Keys]:
    numbers, used = [], 0
    for low, high in pairs:
        if not has_capacity(keys.number, used):
            keys = larger_keys(keys)
        slot = slot_of(*keys, low, high)
        if keys.number[slot] == EMPTY:
            keys.low[slot], keys.high[slot], keys.number[slot] = low, high, used
            used += 1
        numbers.append(int(keys.number[slot]))
    return numbers, keys


@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=60))
def test_keys_are_numbered_in_order_of_appearance(pairs: list[tuple[int, int]]) -> None:
    known: dict[tuple[int, int], int] = {}
    expected = [known.setdefault(pair, len(known)) for pair in pairs]
    numbers, keys = numbered(new_keys(2), pairs)
    assert numbers == expected
    assert 2 * len(known) <= len(keys.number)


def test_keys_with_equal_table_hash_stay_distinct() -> None:
    keys = new_keys(64)
    keys.coefficients[:] = 0
    pairs = [(low, high) for low in range(5) for high in range(5)]
    assert numbered(keys, pairs + pairs)[0] == [*range(25), *range(25)]


@pytest.mark.parametrize("step", [1, 2, 1 << 8, 1 << 16, 1 << 24, 1 << 32, 1 << 40, 1 << 48, 0x010001000100])
@pytest.mark.parametrize("part", [0, 1])
def test_regular_keys_do_not_pile_up(step: int, part: int) -> None:
    keys = new_keys(4096)
    pairs = [(0, step * i) if part else (step * i, 0) for i in range(1024)]
    _, keys = numbered(keys, pairs)
    runs = np.diff(np.flatnonzero(keys.number == EMPTY))
    assert runs.max() < 200
