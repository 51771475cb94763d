"""RoCE by queue pair: CNP delays from a known timetable, flows of CNPs, PSNs, NAKs and ECN marks."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture import Batch
from ecmproto.frames.stats import Accumulator, QueuePair, RoceTraffic, Statistics
from ecmproto.frames.stats.roce import MAX_QUEUE_PAIRS
from ecmproto.wire.codec import UDP, Data, Ethernet, Frame, IPv4, IPv6, Layer, encode
from ecmproto.wire.formats.infiniband import AETH, BTH, GRH, ICRC, RETH
from ecmproto.wire.formats.ip import CE, ECT0
from tests.formats.roce import cnp_frame
from tests.stats.test_against_slow import assert_same

START_NS, US = 10**18, 1000
A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
SEND, READ, READ_ONLY, ACK, UC_SEND, UD_SEND = 0x04, 0x0C, 0x10, 0x11, 0x24, 0x64
Event = tuple[int, bytes]


def roce(
    src: str,
    dst: str,
    qp: int,
    psn: int = 0,
    *more: Layer,
    opcode: int = SEND,
    ecn: int = ECT0,
    octets: int = 64,
) -> bytes:
    """Return a frame to a queue pair."""
    header = IPv6(src=src, dst=dst, tclass=ecn) if ":" in src else IPv4(src=src, dst=dst, dsfield=ecn)
    bth = BTH(opcode=opcode, qp=qp, psn=psn % (1 << 24))
    layers = (Ethernet(), header, UDP(dstport=4791), bth, *more, Data(data=bytes(octets)), ICRC())
    return encode(Frame(layers=layers), fix=True)


def ack(src: str, dst: str, qp: int, psn: int, syndrome: int = 0x1F) -> bytes:
    return roce(src, dst, qp, psn, AETH(syndrome=syndrome), opcode=ACK, octets=0)


def cnp(src: str, dst: str, qp: int) -> bytes:
    return encode(
        cnp_frame(qp, src="02:00:00:00:00:02", dst="02:00:00:00:00:01", src_ip=src, dst_ip=dst), fix=True
    )


def accumulated(events: Sequence[Event]) -> Accumulator:
    counts = Accumulator()
    if events:
        times = [START_NS + US * at for at, _ in events]
        counts.add(Batch.from_frames([octets for _, octets in events], time_ns=times))
    return counts


def counted(events: Sequence[Event]) -> Statistics:
    return accumulated(events).result()


def traffic(events: Sequence[Event]) -> RoceTraffic:
    found = counted(events).roce
    assert found is not None
    return found


def row(found: RoceTraffic, source: str, queue_pair: int) -> QueuePair:
    (one,) = [each for each in found.queue_pairs if (each.source, each.queue_pair) == (source, queue_pair)]
    return one


def test_the_delay_of_cnps() -> None:
    """Frames are marked at 10, 12, 30 and 90 µs.

    CNPs at 15, 35 and 140 µs have delays of 5, 5 and 50 µs. The CNP at 150 µs has no mark.
    """
    marked = [(at, roce(A, B, 0x22, psn, ecn=CE)) for psn, at in enumerate((10, 12, 30, 90), 1)]
    told = [(at, cnp(B, A, 0x11)) for at in (15, 35, 140, 150)]
    found = traffic(sorted([(0, roce(A, B, 0x22)), *marked, *told]))
    flow, back = row(found, A, 0x22), row(found, B, 0x11)
    assert (flow.frames, flow.ect_frames, flow.ce_frames, flow.cnps_against) == (5, 5, 4, 4)
    assert flow.delay_ns is not None
    assert (flow.delay_ns.count, flow.delay_ns.minimum, flow.delay_ns.maximum) == (3, 5000, 50_000)
    assert flow.delay_ns.mean == 20_000
    assert flow.delay_ns == found.delay_ns
    assert found.delay_quarters == ((4096, 5120, 2), (49152, 57344, 1))
    assert (back.cnps, back.data_frames, back.about, back.about_by) == (4, 0, (0x22,), "only one")
    assert (sum(found.ce_over_time), sum(found.cnps_over_time), sum(found.frames_over_time)) == (4, 4, 9)


def test_cnp_of_several_flows_is_ambiguous() -> None:
    frames = [(0, roce(A, B, 0x22, 5, ecn=CE)), (1, roce(A, B, 0x23, 90_000, ecn=CE)), (9, cnp(B, A, 0x11))]
    found = counted(frames)
    assert found.roce is not None
    back = row(found.roce, B, 0x11)
    assert (back.about, back.about_by, found.roce.delay_ns) == ((0x22, 0x23), "one of", None)
    assert [row(found.roce, A, qp).cnps_against for qp in (0x22, 0x23)] == [0, 0]
    assert any("cannot be assigned to one flow" in note for note in found.notes)


@pytest.mark.parametrize("place", [2, 3])
def test_an_acknowledge_ties_two_queue_pairs(place: int) -> None:
    """The acknowledge is before or after the CNP, because the flow of the CNP is determined at the end."""
    frames = [(0, roce(A, B, 0x22, 5, ecn=CE)), (1, roce(A, B, 0x23, 90_000, ecn=CE)), (9, cnp(B, A, 0x11))]
    frames.insert(place, (2 if place == 2 else 10, ack(B, A, 0x11, 90_000)))
    found = traffic(frames)
    back = row(found, B, 0x11)
    assert (back.about, back.about_by, back.acknowledges) == ((0x23,), "acknowledged", 1)
    assert (row(found, A, 0x22).cnps_against, row(found, A, 0x23).cnps_against) == (0, 1)
    delay = row(found, A, 0x23).delay_ns
    assert delay is not None
    assert delay.maximum == 8000


def test_acknowledge_of_unsent_psn_ties_nothing() -> None:
    frames = [(0, roce(A, B, 0x22, 5)), (1, roce(A, B, 0x23, 90_000)), (2, ack(B, A, 0x11, 50_000))]
    assert row(traffic(frames), B, 0x11).about_by == "one of"


def test_cnp_names_flow_by_its_addresses() -> None:
    found = traffic([(0, roce(A, B, 0x22, ecn=CE)), (1, roce(A, C, 0x22, ecn=CE)), (7, cnp(C, A, 0x11))])
    assert [(each.destination, each.cnps_against) for each in found.queue_pairs if each.source == A] == [
        (C, 1), (B, 0)
    ]  # fmt: skip
    assert (found.address_pairs, found.pairs_of_both_directions) == (3, 2)


@pytest.mark.parametrize(
    ("psns", "wanted"),
    [
        ((5, 6, 7, 8), (0, 0, 0)),
        ((5, 6, 9, 10), (1, 2, 0)),
        ((5, 6, 9, 7, 8, 9, 10), (1, 2, 3)),
        ((5, 5, 6), (0, 0, 1)),
        ((0xFFFFFE, 0xFFFFFF, 0, 2), (1, 1, 0)),
    ],
)
def test_gaps_and_repeats(psns: tuple[int, ...], wanted: tuple[int, int, int]) -> None:
    for opcode in (SEND, UC_SEND):
        found = row(traffic([(at, roce(A, B, 7, psn, opcode=opcode)) for at, psn in enumerate(psns)]), A, 7)
        assert (found.psn_gaps, found.psns_missing, found.psn_repeats) == wanted
    datagrams = row(traffic([(at, roce(A, B, 7, psn, opcode=UD_SEND)) for at, psn in enumerate(psns)]), A, 7)
    assert (datagrams.psn_gaps, datagrams.psn_repeats) == (0, 0)


def test_read_request_consumes_its_responses_psns() -> None:
    """4096 octets are 16 packets at the least path MTU, 4 at 1024 octets."""
    read = roce(A, B, 7, 10, RETH(dmalen=4096), opcode=READ, octets=0)
    assert row(traffic([(0, read), (1, roce(A, B, 7, 14))]), A, 7).psn_gaps == 0
    assert row(traffic([(0, read), (1, roce(A, B, 7, 26))]), A, 7).psn_gaps == 0
    assert row(traffic([(0, read), (1, roce(A, B, 7, 27))]), A, 7).psns_missing == 16


def test_responses_are_no_requests() -> None:
    response = (2, roce(B, A, 8, 10, AETH(), opcode=READ_ONLY))
    found = row(traffic([(0, roce(B, A, 8, 900)), response, (3, roce(B, A, 8, 901))]), B, 8)
    assert (found.psn_gaps, found.psn_repeats, found.data_frames) == (0, 0, 3)


def test_refusals() -> None:
    syndromes = (0x1F, 0x20, 0x2E, 0x60, 0x62, 0x62, 0x64, 0x7F)
    found = row(traffic([(at, ack(B, A, 0x11, 5, each)) for at, each in enumerate(syndromes)]), B, 0x11)
    assert (found.acknowledges, found.receiver_not_ready) == (8, 2)
    assert found.naks == {
        "PSN sequence error": 1, "remote access error": 2, "invalid RD request": 1, "other": 1
    }  # fmt: skip
    assert found.trouble == found.refusals == 7
    flow = (9, roce(A, B, 0x22, 5))
    events = [flow, *((10 + at, ack(B, A, 0x11, 5, each)) for at, each in enumerate(syndromes))]
    flows = traffic(events)
    assert (row(flows, A, 0x22).refusals_against, row(flows, A, 0x22).trouble) == (7, 7)
    assert row(flows, B, 0x11).trouble == 0


def test_capture_of_single_direction_is_noted() -> None:
    one = counted([(0, roce(A, B, 7, ecn=0)), (1, roce(A, B, 7, 1))])
    assert one.roce is not None
    flow = one.roce.queue_pairs[0]
    assert (flow.other_direction, flow.about_by, flow.ect_frames, flow.frames) == (False, "", 1, 2)
    assert any(note.startswith("The capture contains only one direction of RoCE") for note in one.notes)
    both = counted([(0, roce(A, B, 7)), (1, ack(B, A, 9, 0))])
    assert not any("direction" in note for note in both.notes)


def test_addresses_of_all_kinds() -> None:
    layers = (Ethernet(), GRH(sgid="fe80::1", dgid="fe80::2"), BTH(qp=3), Data(data=bytes(8)), ICRC())
    v1 = encode(Frame(layers=layers), fix=True)
    found = traffic([(0, roce("2001:db8::1", "2001:db8::2", 1)), (1, v1), (2, roce(A, B, 2))])
    assert {(each.source, each.destination, each.queue_pair) for each in found.queue_pairs} == {
        ("2001:db8::1", "2001:db8::2", 1), ("fe80::1", "fe80::2", 3), (A, B, 2)
    }  # fmt: skip


def test_a_million_queue_pairs_in_bounded_memory() -> None:
    """Random queue pairs and source ports, a tenth cut short, times that go back."""
    count = 100_000
    random = np.random.default_rng(4)
    matrix = np.tile(np.frombuffer(roce(A, B, 0, ecn=CE, octets=8), np.uint8), (count, 1))
    is_cnp = random.random(count) < 0.3
    at = 14 + 20 + 8
    matrix[is_cnp, at] = 0x81
    swapped = matrix[is_cnp, 26:30].copy()
    matrix[is_cnp, 26:30] = matrix[is_cnp, 30:34]
    matrix[is_cnp, 30:34] = swapped
    counts = Accumulator()
    tracemalloc.start()
    for _ in range(10):
        matrix[:, 34:36] = random.integers(0, 256, (count, 2))
        matrix[:, at + 5 : at + 8] = random.integers(0, 256, (count, 3))
        matrix[:, at + 9 : at + 12] = random.integers(0, 256, (count, 3))
        times = START_NS + random.integers(0, 10**9, count)
        counts.add(Batch.from_matrix(matrix, time_ns=times))
        before = tracemalloc.get_traced_memory()[0]
    found = counts.result()
    peak = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert found.roce is not None
    assert (found.roce.frames, len(found.roce.queue_pairs)) == (10 * count, MAX_QUEUE_PAIRS)
    assert found.left_out["queue_pairs"] > 9 * count
    assert f"to RoCE queue pairs beyond the first {MAX_QUEUE_PAIRS} counted" in " ".join(found.notes)
    assert before < 100e6
    assert peak < 120e6


def test_frames_cut_anywhere() -> None:
    whole = roce(A, B, 7, 1, AETH(), opcode=ACK, ecn=CE)
    frames = [whole[:octets] for octets in range(len(whole) + 1)]
    counts = Accumulator()
    counts.add(Batch.from_frames(frames, time_ns=START_NS, original=len(whole)))
    found = counts.result().roce
    assert found is not None
    assert 0 < found.frames <= len(whole)


HOSTS, QUEUE_PAIRS = st.sampled_from([A, B]), st.integers(1, 3)
PSNS = st.one_of(st.integers(0, 12), st.sampled_from([0xFFFFFE, 0xFFFFFF, 1 << 23]))
FRAMES = st.one_of(
    st.builds(
        lambda ends, qp, psn, opcode, ecn: roce(ends[0], ends[1], qp, psn, opcode=opcode, ecn=ecn, octets=8),
        st.permutations([A, B]), QUEUE_PAIRS, PSNS, st.sampled_from([SEND, UC_SEND, UD_SEND, 0x0D, 0x0E]),
        st.integers(0, 3),
    ),
    st.builds(lambda ends, qp: cnp(ends[0], ends[1], qp), st.permutations([A, B]), QUEUE_PAIRS),
    st.builds(
        lambda ends, qp, psn: ack(ends[0], ends[1], qp, psn), st.permutations([A, B]), QUEUE_PAIRS, PSNS
    ),
)  # fmt: skip


@given(events=st.lists(st.tuples(st.integers(0, 90), FRAMES), max_size=30), data=st.data())
def test_parts_make_the_whole(events: list[Event], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), min_size=1, max_size=3)))
    parts = [accumulated(events[low:high]) for low, high in itertools.pairwise([0, *cuts, len(events)])]
    for later in parts[1:]:
        parts[0].merge(later)
    assert_same(parts[0].result(), counted(events))


def test_cnp_delays_merge_after_any_cut() -> None:
    """A growing table has space for more entries than the table contains."""
    events: list[Event] = [
        (0, roce(A, B, 1, 0, ecn=3)),
        *((9, cnp(B, A, queue_pair)) for queue_pair in (1, 2, 3)),
    ]
    for cut in (2, 3):
        first, second = accumulated(events[:cut]), accumulated(events[cut:])
        first.merge(second)
        assert_same(first.result(), counted(events))


def orderly() -> list[Event]:
    """Return three flows that lose and mark some frames; CNPs and acknowledges come back a little later."""
    events = []
    for number in range(120):
        for flow in (1, 2, 3):
            at, psn = 10 * number + flow, 100_000 * flow + number
            if (number + flow) % 17 == 5:
                continue
            marked = (number * flow) % 7 == 3
            events.append((at, roce(A, B, flow, psn, ecn=CE if marked else ECT0, octets=8)))
            if number % 4 == flow:
                events.append((at + 23, ack(B, A, 0x10 + flow, psn)))
            if (number * flow) % 21 == 10:
                events.append((at + 37, cnp(B, A, 0x10 + flow)))
    return sorted(events)


@pytest.mark.parametrize("kept", [40, 100])
def test_parts_beyond_the_history_limit_merge(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    events = orderly()
    monkeypatch.setattr("ecmproto.frames.stats.roce.MAX_STORED", kept)
    wanted = counted(events)
    assert wanted.roce is not None
    assert wanted.roce.delay_ns is not None
    for cut in range(0, len(events), 29):
        first, second, third = (
            accumulated(part) for part in (events[:cut], events[cut : cut + 90], events[cut + 90 :])
        )
        second.merge(third)
        first.merge(second)
        assert_same(first.result(), wanted)


NAK_PSN = 0x60


def sent_again(*events: tuple[str, int]) -> QueuePair:
    """Return a flow of ``send`` with the replies ``nak``, in time order."""
    frames = [
        ack(B, A, 0x11, psn, NAK_PSN) if kind == "nak" else roce(A, B, 0x22, psn) for kind, psn in events
    ]
    # An acknowledge of the same flow shows the flow of these NAKs.
    frames[1:1] = [ack(B, A, 0x11, events[0][1])]
    return row(traffic(list(enumerate(frames))), A, 0x22)


def sends(first: int, last: int) -> list[tuple[str, int]]:
    return [("send", psn) for psn in range(first, last + 1)]


TO_9 = [*sends(1, 9)]


@pytest.mark.parametrize("start", [0, (1 << 24) - 6], ids=["", "PSNs begin anew"])
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([*TO_9, ("nak", 4), *sends(4, 9), *sends(10, 12)], (1, 0, 0)),
        ([*TO_9, ("nak", 4), *sends(4, 4), *sends(10, 12)], (0, 1, 0)),
        ([*TO_9, ("nak", 4), ("nak", 7), *sends(4, 4), *sends(7, 7), *sends(10, 12)], (0, 2, 0)),
        ([*TO_9, ("nak", 4), *sends(4, 6), ("nak", 5), *sends(5, 9), *sends(10, 12)], (1, 0, 0)),
        ([*TO_9, ("nak", 9), *sends(9, 9), *sends(10, 12)], (0, 0, 0)),  # the last packet
        ([*TO_9, *sends(4, 9), *sends(10, 12)], (0, 0, 1)),
        ([*TO_9, ("nak", 4), *sends(4, 9)], (0, 0, 0)),  # the following packets are missing
        ([*TO_9, ("nak", 4), *sends(10, 12), *sends(4, 12), *sends(13, 14)], (1, 0, 0)),
        ([*TO_9, ("nak", 4), *sends(4, 9), *sends(10, 12), *sends(2, 3), *sends(13, 14)], (1, 0, 1)),
        ([*sends(1, 3), *sends(5, 9), ("nak", 4), *sends(4, 9), *sends(10, 12)], (1, 0, 0)),
        ([*sends(1, 3), *sends(5, 9), ("nak", 4), *sends(4, 4), *sends(10, 12)], (0, 1, 0)),
    ],
)
def test_retransmissions_after_nak_are_classified(
    events: list[tuple[str, int]], expected: tuple[int, int, int], start: int
) -> None:
    flow = sent_again(*((kind, start + psn) for kind, psn in events))
    assert (flow.go_backs, flow.selective_repeats, flow.unasked_repeats) == expected
    by = {(1, 0): "go-back-N", (0, 1): "selective repeat", (0, 2): "selective repeat"}
    assert flow.retransmission == by.get(expected[:2])


def test_counters_under_the_names_of_cards() -> None:
    flow = sent_again(
        *sends(1, 3), *sends(5, 9), ("nak", 4), *sends(4, 9), *sends(10, 10), *sends(8, 10), *sends(11, 11)
    )
    assert flow.naks_against == {"PSN sequence error": 1}
    assert flow.card_counters == {
        "out_of_sequence": 1, "packet_seq_err": 1, "rnr_nak_retry_err": 0, "local_ack_timeout_err": 1
    }  # fmt: skip
