"""Every state and every event of an ECM reaction point: the invariants of `Station.check`."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.ecm.parameters import ECMReactionPointParameters
from ecmproto.control.mechanisms.ecm.reaction_point import ECMFields, receive, settings_record
from tests.mechanisms.aimd.station import Station, new_reaction_point

MESSAGES = st.builds(
    ECMFields,
    cpid=st.sampled_from([0, 1, 2, -(2**63), 2**63 - 1]),
    q_off=st.one_of(st.sampled_from([0, 0, -32_768, 32_767]), st.integers(-400, 400)),
    q_delta=st.one_of(st.sampled_from([0, 0, -32_768, 32_767]), st.integers(-800, 800)),
    q=st.integers(0, 1),
    timestamp=st.integers(0, 0xFFFF),
    unit=st.integers(0, 15),
    tagged=st.booleans(),
    type=st.just(0),
)
FLOWS = st.sampled_from([(-1, 0), (0, 0), (1, 0), (2, 0), (3, 3), (4, 3)])
"""Flows with one priority each, because the priority is part of the flow's key."""
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("receive"), MESSAGES, FLOWS),
        st.tuples(st.just("receive"), MESSAGES, st.sampled_from([(1, -1), (1, 8), (-1, 3), (10**12, 7)])),
        st.tuples(st.just("send"), st.sampled_from([64, 1500, 9000]), FLOWS),
        st.tuples(st.just("advance"), st.one_of(st.integers(0, 3_000), st.integers(0, 5_000_000))),
    ),
    max_size=80,
)
PARAMETERS = st.builds(
    ECMReactionPointParameters,
    limiters=st.integers(0, 3),
    largest_decrease=st.sampled_from([0.1, 1.0]),
    largest_increase=st.sampled_from([0.01, 1.0]),
    increase_gain=st.sampled_from([0.17, 100.0]),
    decrease_gain=st.sampled_from([0.0005, 0.1]),
    tmax_ns=st.sampled_from([1_000, 2_000_000]),
    self_increase_bps=st.sampled_from([1_000_000, 100_000_000]),
)
LINKS = st.sampled_from([10_000_000, 1_000_000_000, 10_000_000_000])


@given(parameters=PARAMETERS, link=LINKS, seed=st.integers(0, 2**32), events=EVENTS)
def test_promises_hold_in_every_state(
    parameters: ECMReactionPointParameters, link: int, seed: int, events: list[tuple[Any, ...]]
) -> None:
    settings = settings_record(parameters, link)
    subject = Station(new_reaction_point(parameters, settings, 0), settings, receive, seed)
    for event in events:
        perform(subject, event)
        subject.check()
    # Without further events, every limiter rises to the link's rate, empties and ends.
    subject.advance(10_000_000)
    subject.advance(3_000_000_000_000)
    subject.check()
    assert subject.point.active == 0
    assert len(subject.sent) == subject.numbers


def perform(subject: Station, event: tuple[Any, ...]) -> None:
    kind, *values = event
    if kind == "advance":
        subject.advance(values[0])
        return
    flow, priority = values[1]
    if kind == "receive":
        subject.advance(0)
        subject.receive(values[0], flow, priority)
    else:
        subject.send(flow, priority, values[0])
