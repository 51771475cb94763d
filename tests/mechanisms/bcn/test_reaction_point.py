"""The BCN reaction point: what algorithms §2 changes against §1, and against a literal transcription."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.reaction_point import TIMED_OUT
from ecmproto.control.mechanisms.api.protocol import NO_LIMITER
from ecmproto.control.mechanisms.bcn.parameters import BCNReactionPointParameters
from ecmproto.control.mechanisms.bcn.reaction_point import BCNFields, receive, settings_record
from ecmproto.wire.formats.bcn import NORMAL, STOP
from tests.mechanisms.aimd.station import Station, new_reaction_point
from tests.mechanisms.bcn.literal import LiteralRegulator

LINK = 10_000_000_000
CP, OTHER_CP = 7, -8
MS = 1_000_000
C10, C1 = 10_000_000, 1_000_000
"""Capacities in kb/s: 10 and 1 Gb/s."""


def station(*, seed: int = 1, link: int = LINK, **options: Any) -> Station:
    parameters = BCNReactionPointParameters(**({"limiters": 4} | options))
    settings = settings_record(parameters, link)
    return Station(new_reaction_point(parameters, settings, 0), settings, receive, seed)


def message(e: int, *, cpid: int = CP, c: int = C10, stop: bool = False) -> BCNFields:
    return BCNFields(STOP if stop else NORMAL, cpid, e, c)


@pytest.mark.parametrize(
    ("scaling", "capacity", "ru"),
    [(True, C10, 4e6), (True, C1, 4e5), (True, 4 * C10, 16e6), (False, C1, 4e6), (True, 0, 4e6)],
)
def test_the_rate_unit_follows_the_congested_links_capacity(scaling: bool, capacity: int, ru: float) -> None:
    subject = station(capacity_scaling=scaling, increase_gain=2.0)
    subject.receive(message(-1))
    subject.receive(message(5, c=capacity))
    assert subject.rate() == pytest.approx(LINK / 2 + 2 * 5 * ru)


def test_the_gains_are_those_of_s004_in_packets() -> None:
    subject = station()
    subject.receive(message(-1))
    subject.receive(message(-1500))  # 64 packets
    assert subject.rate() == pytest.approx(LINK / 2 * (1 - 0.0124 * 64))
    before = subject.rate()
    assert before is not None
    subject.receive(message(1500))
    assert subject.rate() == pytest.approx(before + 4 * 64 * 4e6)


def test_sign_of_e_alone_decides_the_direction() -> None:
    subject = station()
    subject.receive(message(-1))
    # "positive" because the queue was short and the CPID matched, but e < 0
    subject.receive(message(-100))
    assert subject.rate() == pytest.approx(LINK / 2 * (1 - 100 * 0.0124 * 64 / 1500))


def test_only_negative_feedback_or_stop_limits_a_flow() -> None:
    subject = station()
    assert subject.receive(message(100)) == NO_LIMITER
    assert subject.receive(message(0)) == NO_LIMITER
    assert subject.point.unlimited == 2
    assert subject.receive(message(-1), flow=2) != NO_LIMITER
    assert subject.receive(message(0, stop=True), flow=3) != NO_LIMITER


def test_positive_feedback_needs_matching_cpid_negative_moves_it() -> None:
    subject = station()
    subject.receive(message(-1))
    subject.receive(message(100, cpid=OTHER_CP))
    assert (subject.rate(), subject.point.unassociated) == (LINK / 2, 1)
    subject.receive(message(-1, cpid=OTHER_CP))
    assert subject.limiter().cpid == OTHER_CP


def test_the_floor_is_1_mbps() -> None:
    subject = station()
    for _ in range(300):
        subject.receive(message(-1500))
    assert subject.rate() == 1e6


@pytest.mark.parametrize(("capacity", "rate"), [(C10, 100e6), (C1, 10e6), (50_000, 1e6), (0, 100e6)])
def test_restart_rate_is_one_percent_of_message_capacity(capacity: int, rate: float) -> None:
    subject = station(seed=2)
    subject.receive(message(0, stop=True, c=capacity))
    assert subject.limiter().status == TIMED_OUT
    subject.now_ns = int(subject.limiter().expires_ns)
    subject.advance(0)
    assert subject.rate() == rate


def test_restart_does_not_back_off_but_tmax_does() -> None:
    subject = station()
    seen = []
    for _ in range(3):
        subject.receive(message(0, stop=True))
        subject.now_ns = int(subject.limiter().expires_ns)
        subject.advance(0)
        seen.append((subject.rate(), int(subject.limiter().tmax_ns)))
    assert seen == [(100e6, 20_000), (100e6, 40_000), (100e6, 80_000)]
    subject.receive(message(1))
    assert subject.limiter().tmax_ns == 10_000


def test_self_increase_can_be_off() -> None:
    subject = station(self_increase_bps=0)
    subject.receive(message(-1))
    subject.advance(1_000 * MS)
    assert subject.rate() == LINK / 2


def test_messages_during_a_time_out_are_ignored() -> None:
    subject = station(tmax_ns=MS // 2)
    subject.receive(message(0, stop=True))
    for ignored in (message(0, stop=True, c=C1), message(-100), message(100)):
        assert subject.receive(ignored) == NO_LIMITER
    subject.advance(MS // 2)
    assert subject.rate() == 100e6
    assert subject.point.in_time_out == 3


_MESSAGES = st.builds(
    BCNFields,
    type=st.sampled_from([NORMAL, NORMAL, NORMAL, STOP]),
    cpid=st.sampled_from([CP, OTHER_CP]),
    e=st.one_of(st.sampled_from([-(2**31), 0, 2**31 - 1]), st.integers(-300, 300)),
    capacity=st.sampled_from([C10, C1, 40_000_000, 0xFFFFFFFF, 1]),
)


@given(
    seed=st.integers(0, 2**32),
    scaling=st.booleans(),
    events=st.lists(st.one_of(_MESSAGES, st.integers(0, 50_000)), max_size=60),
)
def test_equals_the_literal_transcription(seed: int, scaling: bool, events: list[BCNFields | int]) -> None:
    subject = station(seed=seed, capacity_scaling=scaling, self_increase_bps=0, self_increase_ns=10 * MS)
    slow = LiteralRegulator(
        urand=np.random.default_rng(seed).random, link=LINK, gi=4 * 64 / 1500, gd=0.0124 * 64 / 1500, ru=4e6,
        scaling=scaling,
    )  # fmt: skip
    for event in events:
        if isinstance(event, int):
            subject.advance(event)
            slow.advance(subject.now_ns)
            if subject.rate() is None:
                slow.rate = None  # released at a tick
                slow.tmax = 10_000
        else:
            subject.advance(0)
            slow.advance(subject.now_ns)
            subject.receive(event)
            slow.message(subject.now_ns, event.type == STOP, event.cpid, event.e, event.capacity * 1000.0)
        subject.check()
        assert subject.rate() == (None if slow.rate is None else pytest.approx(slow.rate, rel=1e-12))


@given(
    seed=st.integers(0, 2**32),
    link=st.sampled_from([100_000_000, LINK]),
    events=st.lists(
        st.one_of(
            st.tuples(_MESSAGES, st.sampled_from([(0, 0), (1, 0), (2, 0), (3, 3), (-1, 0), (1, 8)])),
            st.tuples(st.sampled_from([64, 1500]), st.sampled_from([(0, 0), (1, 0), (2, 0), (3, 3)])),
            st.integers(0, 2 * MS),
        ),
        max_size=60,
    ),
)
def test_promises_hold_in_every_state(seed: int, link: int, events: list[Any]) -> None:
    subject = station(seed=seed, link=link, limiters=2, tmax_ns=MS)
    for event in events:
        if isinstance(event, int):
            subject.advance(event)
        elif isinstance(event[0], int):
            subject.send(event[1][0], event[1][1], event[0])
        else:
            subject.advance(0)
            subject.receive(event[0], event[1][0], event[1][1])
        subject.check()
