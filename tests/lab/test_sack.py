"""Selective acknowledgements, ECN and DCTCP, compared with hand calculations, sets and the steps of RFC
8257.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.lab.traffic import scoreboard
from ecmproto.control.lab.traffic.source import ACK, DATA, kind_of, value_of
from ecmproto.control.lab.traffic.tcp import _take_ack
from ecmproto.kernels.record import new_record
from tests.lab.test_tcp import MS, assert_all_came, losing, sent
from tests.lab.test_tcp import bulk as bulk_of
from tests.lab.tiny_network import Seen, TinyNetwork, sources_of


def bulk(**given: Any) -> Any:
    return bulk_of(sack=True, **given)


class Sets:
    """A SACK scoreboard of sets for the first 64 segments."""

    def __init__(self) -> None:
        self.acked, self.end = 0, 0
        self.sacked: set[int] = set()
        self.lost: set[int] = set()
        self.resent: set[int] = set()

    def advance(self, value: int) -> None:
        self.acked = value
        for each in (self.sacked, self.lost, self.resent):
            each.difference_update(range(value))

    def take_block(self, start: int, end: int) -> None:
        arrived = set(range(max(start, self.acked), end))
        self.sacked |= arrived
        self.lost -= arrived
        self.resent -= arrived

    def find_losses(self) -> None:
        for segment in range(self.acked, self.end):
            later = sum(each > segment for each in self.sacked)
            if later >= 3 and segment not in self.sacked:
                self.lost.add(segment)

    def lose_all(self) -> None:
        self.lost = set(range(self.acked, self.end)) - self.sacked
        self.resent = set()

    def next_lost(self) -> int:
        return min(self.lost - self.resent, default=scoreboard.NO_SEGMENT)


@given(st.lists(st.tuples(st.sampled_from(["ack", "block", "send", "time out", "resend"]), st.integers(0, 15),
                          st.integers(1, 6)), max_size=60))  # fmt: skip
def test_a_scoreboard_equals_sets(steps: list[tuple[str, int, int]]) -> None:
    board, segments, expected = new_record(scoreboard.Scoreboard), np.zeros(64, np.uint8), Sets()
    board.mask = 63
    for step, at, count in steps:
        if step == "send":
            expected.end = min(expected.end + at, expected.acked + 64)
        elif step == "ack":
            value = min(expected.acked + at, expected.end)
            scoreboard.advance(board, segments, value)
            expected.advance(value)
        elif step == "block":
            start = min(expected.acked + at, expected.end)
            end = min(start + count, expected.end)
            if end > start:
                scoreboard.take_block(board, segments, start, end)
                expected.take_block(start, end)
                scoreboard.find_losses(board, segments)
                expected.find_losses()
        elif step == "time out":
            scoreboard.lose_all(board, segments, expected.end)
            expected.lose_all()
        elif expected.next_lost() != scoreboard.NO_SEGMENT:
            segment = scoreboard.next_lost(board, segments)
            scoreboard.note_resent(board, segments, segment)
            expected.resent.add(segment)
        counts = (len(expected.sacked), len(expected.lost), len(expected.resent))
        assert (board.sacked, board.lost, board.resent) == counts
        assert scoreboard.next_lost(board, segments) == expected.next_lost()
        in_network = expected.end - expected.acked - counts[0] - counts[1] + counts[2]
        assert scoreboard.in_network(board, expected.end) == in_network


def test_several_losses_recover_in_a_round_trip() -> None:
    given = bulk(window=40, initial_window=20, syn=False, until_ns=1000)
    network = TinyNetwork(sources_of(given), lose=losing(2, 5, 6, 11)).run(5 * MS)
    assert_all_came(network)
    source = network.sources.records[0]
    assert (source.retransmits, source.timeouts) == (4, 0)
    again = [time_ns for time_ns, segment in sent(network) if segment in (2, 5, 6, 11) and time_ns > 0]
    assert len(again) == 4
    assert again[-1] - again[0] < 20 * 1200


def test_a_lost_retransmission_costs_a_time_out() -> None:
    given = bulk(window=20, initial_window=20, syn=False, until_ns=1000, rto_min_ns=MS)
    network = TinyNetwork(sources_of(given), lose=losing(4, 4)).run(50 * MS)
    assert_all_came(network)
    source = network.sources.records[0]
    assert (source.retransmits, source.timeouts) == (2, 1)


def _marking(*segments: int) -> Any:
    """Return a mark for the first frame of each of these segments."""
    left = list(segments)

    def mark(frame: Seen) -> bool:
        is_hit = kind_of(frame.number) == DATA and value_of(frame.number) in left
        if is_hit:
            left.remove(value_of(frame.number))
        return is_hit

    return mark


def test_a_mark_halves_the_window_once() -> None:
    given = bulk(window=16, initial_window=16, syn=False, ecn=True)
    network = TinyNetwork(sources_of(given), mark=_marking(3, 4, 9)).run(18_000)
    end = network.sources.connections.records[0]
    assert 8 <= end.cwnd < 10
    assert end.ssthresh == 8
    assert network.sources.records[0].retransmits == 0
    # Acknowledgements echo the mark until a segment that was sent after the reduction has come.
    network.run(60_000)
    echoes = [frame.echo & 1 for frame in network.offered if kind_of(frame.number) == ACK]
    assert echoes[:3] == [0, 0, 0]
    assert 16 <= sum(echoes) <= 20
    assert not any(echoes[24:])


def test_segments_are_not_marked_without_ecn() -> None:
    given = bulk(window=16, initial_window=16, syn=False)
    network = TinyNetwork(sources_of(given), mark=_marking(3, 4, 9)).run(18_000)
    assert not any(frame.is_ect or frame.echo for frame in network.offered)
    assert network.sources.connections.records[0].cwnd == 16


class RFC8257:
    """The sender of RFC 8257, 3.3, step by step, in segments instead of octets."""

    def __init__(self, cwnd: float) -> None:
        self.alpha, self.cwnd, self.una, self.nxt = 1.0, cwnd, 0, int(cwnd)
        self.window_end = 0
        self.acked = self.marked = 0
        self.reduced_at = 0

    def acknowledge(self, ack: int, ece: bool) -> None:
        acked = ack - self.una
        self.una = ack
        self.acked += acked
        if ece:
            self.marked += acked
        if ack > self.window_end:
            fraction = self.marked / self.acked
            self.alpha = self.alpha * (1 - 1 / 16) + 1 / 16 * fraction
            self.window_end = self.nxt
            self.acked = self.marked = 0
        if ece and ack > self.reduced_at:
            self.cwnd = max(self.cwnd * (1 - self.alpha / 2), 2.0)
            self.reduced_at = self.nxt
        elif ack > self.reduced_at:
            self.cwnd += 1 / self.cwnd


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(2, 40))
def test_dctcp_follows_the_steps_of_its_rfc(marks: list[bool], cwnd: int) -> None:
    given = bulk(window=1000, initial_window=cwnd, syn=False, algorithm="dctcp")
    sources = sources_of(given)
    network = TinyNetwork(sources)
    network.timer(0)
    tcp, source = sources.connections.records[0], sources.records[0]
    tcp.ssthresh = 2.0
    expected = RFC8257(float(cwnd))
    offers = network.offers
    for ack, ece in enumerate(marks, 1):
        expected.nxt = int(tcp.sent_end)
        _take_ack(sources.connections, tcp, source, 0, ack, int(ece), 1000 * ack, offers)
        while tcp.blocked:
            offers.count.posted = 0
            sources.on_source_timer(1000 * ack, offers)
        offers.count.posted = 0
        expected.acknowledge(ack, ece)
        assert tcp.alpha == pytest.approx(expected.alpha)
        assert tcp.cwnd == pytest.approx(expected.cwnd)


def test_dctcp_acknowledges_each_change_of_marks() -> None:
    given = bulk(window=12, initial_window=12, syn=False, algorithm="dctcp", delayed_ack=True, until_ns=1000)
    network = TinyNetwork(sources_of(given), mark=_marking(5, 6, 7)).run(5 * MS)
    acks = [(value_of(each.number), each.echo & 1) for each in network.offered if kind_of(each.number) == ACK]
    assert acks[:6] == [(2, 0), (4, 0), (5, 0), (7, 1), (8, 1), (10, 0)]
    assert_all_came(network)
