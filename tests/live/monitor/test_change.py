"""The change between two reports, compared with the frames between the reports."""

from __future__ import annotations

import json

import pytest

from ecmproto.control.live.monitor import change_between
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.stats import Accumulator
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto.wire.formats.ip import CE
from ecmproto_cli.commands.live.monitor import document_line, monitor_table
from tests.stats import test_roce as roce

INTERFACES = [Interface(index=0, linktype=1, speed_bps=10**10)]
CNM = encode(build("cnm", cpid=1, vlan=5))
OTHER_CNM = encode(build("cnm", cpid=2, vlan=5))
PAUSE = encode(build("pause", pause_time=65535))
DATA = bytes(12) + b"\x99\x99" + bytes(46)


def batch(frames: list[bytes], start_ns: int) -> Batch:
    times = [10**18 + start_ns + 1000 * i for i in range(len(frames))]
    return Batch.from_frames(frames, time_ns=times)


def test_rates_count_frames_since_the_last_interval() -> None:
    counts = Accumulator()
    counts.add(batch([CNM, CNM, OTHER_CNM, DATA], 0), interfaces=INTERFACES)
    first = counts.result()
    counts.add(batch([CNM, DATA, DATA], 10**6), interfaces=INTERFACES)
    happened = change_between(first, counts.result(), 10**9 // 2)
    assert happened.frames == 7
    assert happened.frames_per_s == 6
    assert happened.bits_per_s == 2 * 8 * (len(CNM) + 2 * len(DATA))
    points = {point.cpid: (point.frames, point.frames_per_s) for point in happened.points}
    assert points == {1: (3, 2), 2: (1, 0)}
    kinds = {each.kind.name: (each.frames, each.frames_per_s, each.bits_per_s) for each in happened.kinds}
    expected = {"cnm": (4, 2, 2 * 8 * len(CNM)), "other": (3, 4, 4 * 8 * len(DATA))}
    assert {name: kinds[name] for name in expected} == expected


def test_the_first_interval_counts_all_frames() -> None:
    counts = Accumulator()
    counts.add(batch([CNM, DATA], 0), interfaces=INTERFACES)
    happened = change_between(None, counts.result(), 10**9)
    assert (happened.frames_per_s, happened.points[0].frames_per_s) == (2, 1)


def test_pause_time_is_a_share_of_interval() -> None:
    counts = Accumulator()
    counts.add(batch([DATA, PAUSE], 0), interfaces=INTERFACES)
    counts.add(batch([DATA], 10**9), interfaces=INTERFACES)
    first = counts.result()
    assert change_between(None, first, 10**9).pauses[0].priority is None
    counts.add(batch([PAUSE], 2 * 10**9), interfaces=INTERFACES)
    counts.add(batch([DATA], 3 * 10**9), interfaces=INTERFACES)
    (pause,) = change_between(first, counts.result(), 10**9).pauses
    # 65535 quanta of 512 bits at 10 Gb/s
    assert pause.share == pytest.approx(65535 * 512 / 10**10, rel=1e-3)
    assert pause.frames == 2


def test_pause_histories_and_storms_accumulate() -> None:
    counts = Accumulator(detect_ns=10**6)
    counts.add(batch([PAUSE, DATA], 0), interfaces=INTERFACES)
    counts.add(batch([PAUSE, DATA], 5 * 10**6), interfaces=INTERFACES)
    counts.add(batch([DATA], 6 * 10**6 + 10**5), interfaces=INTERFACES)
    (pause,) = change_between(None, counts.result(), 10**9).pauses
    assert (pause.transitions, pause.expired, pause.in_storm) == (2, 1, True)
    assert (pause.recent_ns, pause.recent_paused_ns) == (10**18 + 5 * 10**6, 11 * 10**5)
    counts.add(batch([DATA], 10**9), interfaces=INTERFACES)
    (pause,) = change_between(None, counts.result(), 10**9).pauses
    assert (pause.expired, pause.in_storm) == (2, False)


def test_marks_and_cnps_are_counted_per_interval() -> None:
    marked, told = roce.roce(roce.A, roce.B, 5, ecn=CE), roce.cnp(roce.B, roce.A, 6)
    counts = Accumulator()
    counts.add(batch([marked, marked, told], 0), interfaces=INTERFACES)
    first = counts.result()
    counts.add(batch([told, marked, roce.roce(roce.A, roce.B, 5), told], 10**6), interfaces=INTERFACES)
    found = change_between(first, counts.result(), 10**9 // 2).roce
    assert found is not None
    assert (found.frames, found.frames_per_s, found.ce_share, found.cnps_per_s) == (7, 8, 1 / 4, 4)
    assert change_between(None, Accumulator().result(), 1).roce is None


def test_queue_pairs_have_their_own_rows() -> None:
    counts = Accumulator()
    counts.add(batch([roce.roce(roce.A, roce.B, 5, ecn=CE)] * 2, 0), interfaces=INTERFACES)
    first = counts.result()
    added = [roce.roce(roce.A, roce.B, 5, ecn=CE), roce.cnp(roce.B, roce.A, 6), roce.roce(roce.A, roce.B, 5)]
    counts.add(batch(added, 10**6), interfaces=INTERFACES)
    happened = change_between(first, counts.result(), 10**9)
    pair = next(each for each in happened.queue_pairs if each.queue_pair == 5)
    assert (pair.frames, pair.bits_per_s) == (4, 8 * (len(added[0]) + len(added[2])))
    assert (pair.ce_share, pair.cnps) == (1 / 2, 1)
    (row,) = (line for line in monitor_table(happened, "x", 10**9, 0).splitlines() if "QP 0x5" in line)
    assert row.split("QP 0x5")[1].split()[3:6] == ["50.0", "%", "1"]


def test_rates_without_frames_are_zero() -> None:
    happened = change_between(None, Accumulator().result(), 0)
    assert (happened.frames, happened.frames_per_s, happened.kinds, happened.points) == (0, 0, (), ())


def test_neighbours_are_shown_with_their_pfc_priorities() -> None:
    counts = Accumulator()
    line = "eth src=02:00:00:00:00:01 lldppfc enable=8 lldpapp lldpapp.entry priority=3 protocol=4791"
    counts.add(Batch.from_frames([encode(build(line))]))
    happened = change_between(None, counts.result(), 10**9)
    assert [each.pfc_enabled for each in happened.neighbours] == [(3,)]
    table = monitor_table(happened, "eth0", 10**9, 0)
    assert "neighbour 02:00:00:00:00:01  PFC 3; udp port 4791: 3" in table
    assert json.loads(document_line(happened, "eth0", 10**9, 0))["neighbours"][0]["pfc_enabled"] == [3]
