"""Neighbours: the latest LLDPDU of each station is used, for all batches."""

from __future__ import annotations

import json

from ecmproto.errors import escaped
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.stats import Accumulator, Neighbour, as_document
from ecmproto.frames.stats.neighbours import MAX_NEIGHBOURS, MAX_OCTETS
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.stats_table import stats_table

LINKS = (Interface(index=0, linktype=1, name="east"), Interface(index=1, linktype=1, name="west"))
HOST, SWITCH = "02:00:00:00:00:01", "02:00:00:00:00:c1"
SHARED = "lldpets willing=1 per0=50 per3=50 prio3=3 prio6=6 tsa0=2 tsa3=2"
Sent = tuple[bytes, int]


def lldp(source: str, tlvs: str, interface: int = 0) -> Sent:
    return encode(build(f"eth src={source} {tlvs}")), interface


def counted(*frames: Sent, at_once: int = 1000) -> Accumulator:
    counts = Accumulator()
    for first in range(0, len(frames), at_once):
        part = frames[first : first + at_once]
        batch = Batch.from_frames(
            [octets for octets, _ in part], time_ns=list(range(len(part))), first=first,
            interface=[interface for _, interface in part],
        )  # fmt: skip
        counts.add(batch, interfaces=LINKS)
    return counts


def neighbours(*frames: Sent) -> tuple[Neighbour, ...]:
    """The neighbours, which depend neither on batches nor on parts."""
    whole = counted(*frames).result().neighbours
    assert counted(*frames, at_once=1).result().neighbours == whole
    for cut in range(1, len(frames)):
        here, there = counted(*frames[:cut]), counted(*frames[cut:])
        here.merge(Accumulator.of_state(there.state()))
        assert here.result().neighbours == whole
    return whole


def test_8021qaz_settings_are_read() -> None:
    (one,) = neighbours(
        lldp(HOST, f"{SHARED} lldpetsrec per0=100 lldppfc enable=24 lldpcn cnpv=8 lldpapp lldpapp.entry "
             "priority=3 protocol=4791 lldpapp.entry priority=6 selector=5 protocol=48")
    )  # fmt: skip
    assert one.source == bytes.fromhex(HOST.replace(":", ""))
    assert (one.chassis, one.port, one.dialects, one.frames) == (HOST, "port1", ("802.1Qaz",), 1)
    assert (one.pfc_enabled, one.pfc_willing, one.cnpvs) == ((3, 4), False, (3,))
    assert one.traffic_classes == (0, 0, 0, 3, 0, 0, 6, 0)
    assert (one.bandwidths, one.strict, one.ets_willing) == ((50, 0, 0, 50, 0, 0, 0, 0), (6,), True)
    assert one.recommended_bandwidths == (100, 0, 0, 0, 0, 0, 0, 0)
    assert one.ets_text == "0-2,4-5,7 50 %; 3 50 %; 6 strict, willing"
    assert one.applications_text == "udp port 4791: 3; dscp 48: 6"


def test_cee_settings_are_read() -> None:
    (one,) = neighbours(
        lldp(HOST, "lldpcee lldpcee.pg per0=60 per1=40 prio3=1 prio7=15 lldpcee.pfc enable=8 willing=1 "
             "lldpcee.app lldpcee.app.entry protocol=0x8906 selector=0 priorities=12")
    )  # fmt: skip
    assert (one.dialects, one.pfc_enabled, one.pfc_willing) == (("CEE",), (3,), True)
    assert one.ets_text == "0-2,4-6 60 %; 3 40 %; 7 strict"
    assert one.applications_text == "ethertype 0x8906: 2,3"
    assert one.recommended_bandwidths is None


def test_other_lldp_advertises_nothing() -> None:
    (one,) = neighbours(lldp(HOST, "lldp type=5 value=7377"))
    assert (one.dialects, one.pfc_enabled, one.bandwidths, one.applications) == ((), None, None, ())
    assert neighbours(lldp(HOST, "lldpcee proto=1 value=00"))[0].dialects == ("CIN",)


def test_latest_advertisement_counts_and_survives_shutdown() -> None:
    before, after = lldp(HOST, "lldppfc enable=8"), lldp(HOST, "lldppfc enable=16")
    goodbye = lldp(HOST, "lldp type=1 value=0407 lldp type=2 value=0731 lldp type=3 value=0000")
    other = lldp(HOST, "lldppfc enable=1", 1)
    found = neighbours(before, lldp(SWITCH, "lldppfc enable=2"), other, after, goodbye, goodbye)
    assert [(each.interface, each.frames, each.pfc_enabled) for each in found] == [
        (0, 4, (4,)), (0, 1, (1,)), (1, 1, (0,))
    ]  # fmt: skip


def test_excess_neighbours_are_counted() -> None:
    frames = [
        lldp(f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}", "lldppfc")
        for number in range(MAX_NEIGHBOURS + 3)
    ]
    result = counted(*frames, (frames[0][0] + bytes(MAX_OCTETS), 0)).result()
    assert (len(result.neighbours), result.left_out["neighbours"]) == (MAX_NEIGHBOURS, 4)
    assert any("LLDP" in note for note in result.notes)


def test_names_of_hostile_neighbours_are_escaped() -> None:
    statistics = counted(lldp(HOST, "lldppfc enable=8 lldp type=5 value=1b5b33316d0a")).result()
    (one,) = statistics.neighbours
    assert one.system == "\x1b[31m\n"
    shown = stats_table(statistics, "x")
    assert escaped(one.system) in shown
    assert "\x1b" not in shown
    document = as_document(statistics, "x")["neighbours"][0]
    assert json.dumps(document)
    assert document["strict_priorities"] == []
