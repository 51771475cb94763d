"""The effect of a received PAUSE or PFC frame (algorithms §6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.limiter import RateLimiter, leave, leaves_ns
from ecmproto.control.mechanisms.pause.parameters import PauseReactionParameters, PFCReactionParameters
from ecmproto.control.mechanisms.pause.reaction_point import (
    KIND_PAUSE,
    KIND_PFC,
    KIND_REFUSED,
    PauseFrame,
    PauseReactionSettings,
    PauseTimers,
    on_frame,
    pause_reaction_settings,
    paused_ns,
)
from ecmproto.kernels.record import columns, new_record, new_records
from ecmproto.units import quanta_to_ns
from tests.mechanisms.pause.literal import LiteralReceiver

Times = tuple[int, int, int, int, int, int, int, int]
REFUSED = PauseFrame(KIND_REFUSED, 0, (0,) * 8)


def starts_ns(state: PauseTimers, priority: int, now_ns: int) -> int:
    """Return the earliest start of a frame of ``priority`` ready at ``now_ns``."""
    return int(max(now_ns, state.until_ns[priority]))


def pause(quanta: int) -> PauseFrame:
    return PauseFrame(KIND_PAUSE, 0xFF, (quanta,) * 8)


def pfc(**quanta: int) -> PauseFrame:
    """Return a PFC frame for ``p3=100, p5=0``; the times of the others are nonsense that must not count."""
    chosen = {int(name[1:]): value for name, value in quanta.items()}
    times: Times = tuple(chosen.get(priority, 0xABCD) for priority in range(8))  # type: ignore[assignment]
    return PauseFrame(KIND_PFC, sum(1 << priority for priority in chosen), times)


class Receiver:
    def __init__(
        self,
        parameters: PauseReactionParameters | PFCReactionParameters | None = None,
        rate_bps: int = 10_000_000_000,
    ) -> None:
        self.settings: PauseReactionSettings = pause_reaction_settings(
            parameters or PFCReactionParameters(), rate_bps=rate_bps
        )
        self.records = new_records(PauseTimers, 1)
        self.state = self.records[0]

    def receive(self, now_ns: int, frame: PauseFrame) -> int:
        return on_frame(self.state, self.settings, now_ns, frame)

    def starts(self, now_ns: int) -> list[int]:
        return [starts_ns(self.state, priority, now_ns) for priority in range(8)]


@pytest.mark.parametrize(
    ("rate_bps", "lasts_ns"),
    [(10**9, 512), (10**10, 52), (25 * 10**9, 21), (40 * 10**9, 13), (10**11, 6)],
)
def test_one_quantum_is_512_bit_times_rounded_up(rate_bps: int, lasts_ns: int) -> None:
    receiver = Receiver(rate_bps=rate_bps)
    receiver.receive(1_000, pfc(p0=1))
    assert receiver.starts(1_000)[0] == 1_000 + lasts_ns


@given(st.integers(0, 0xFFFF), st.integers(1_000, 10**13))
def test_quanta_become_ns_exactly(quanta: int, rate_bps: int) -> None:
    receiver = Receiver(rate_bps=rate_bps)
    receiver.receive(7, pfc(p6=quanta))
    assert receiver.starts(7)[6] == 7 + quanta_to_ns(quanta, rate_bps)


def test_a_frame_overwrites_only_the_enabled_priorities_timers() -> None:
    receiver = Receiver()
    assert receiver.receive(0, pfc(p3=1000, p5=100)) == 0b101000
    assert receiver.receive(100, pfc(p3=10)) == 0b1000
    assert receiver.starts(100) == [100, 100, 100, 100 + 512, 100, 5_120, 100, 100]


def test_0_resumes() -> None:
    receiver = Receiver()
    receiver.receive(0, pfc(p3=1000, p4=1000))
    receiver.receive(500, pfc(p3=0))
    assert receiver.starts(500)[3:5] == [500, 51_200]


def test_pause_counts_from_end_of_its_reception() -> None:
    receiver = Receiver(PauseReactionParameters())
    # 60 octets with FCS, preamble and gap take 67.2 ns at 10 Gb/s. The gate receives the frame at the end of
    # this time.
    receiver.receive(1_068, pause(10))
    assert receiver.starts(1_000) == [1_068 + 512] * 8


def test_pause_stops_all_priorities_but_ignores_pfc() -> None:
    receiver = Receiver(PauseReactionParameters())
    assert receiver.receive(0, pfc(p3=1000)) == 0
    assert receiver.starts(0) == [0] * 8
    assert receiver.receive(0, pause(2)) == 0xFF
    assert receiver.starts(0) == [103] * 8
    assert (receiver.state.ignored_frames, receiver.state.pause_frames, receiver.state.pfc_frames) == (
        1,
        1,
        0,
    )


def test_pfc_does_not_obey_pause() -> None:
    receiver = Receiver()
    assert receiver.receive(0, pause(1000)) == 0
    assert receiver.starts(0) == [0] * 8
    assert receiver.state.ignored_frames == 1


def test_disabled_priorities_are_counted_and_continue() -> None:
    receiver = Receiver(PFCReactionParameters(priorities=frozenset({3})))
    assert receiver.receive(0, pfc(p2=100, p3=100, p4=100)) == 0b1000
    assert receiver.starts(0)[2:5] == [0, 5_120, 0]
    assert receiver.state.ignored_times == 2


def test_refused_and_empty_frames_are_only_counted() -> None:
    receiver = Receiver()
    receiver.receive(0, pfc(p1=1000))
    before = receiver.starts(5)
    assert receiver.receive(5, REFUSED) == 0
    assert receiver.receive(5, PauseFrame(KIND_PFC, 0, (0,) * 8)) == 0
    assert receiver.starts(5) == before
    assert (receiver.state.refused_frames, receiver.state.ignored_frames) == (1, 1)
    assert receiver.state.pfc_frames == 1


def test_pause_time_counts_overlaps_once() -> None:
    receiver = Receiver()
    receiver.receive(1_000, pfc(p3=100))
    receiver.receive(3_000, pfc(p3=100))
    assert paused_ns(receiver.state, 3, 4_000) == 3_000
    assert paused_ns(receiver.state, 3, 100_000) == 7_120
    receiver.receive(200_000, pfc(p3=100))
    receiver.receive(200_020, pfc(p3=0))
    assert paused_ns(receiver.state, 3, 300_000) == 7_140
    assert paused_ns(receiver.state, 4, 300_000) == 0


def test_pause_spares_frame_in_transmission_and_drains_debt() -> None:
    receiver = Receiver()
    limiter = new_record(RateLimiter)
    limiter.rate_bps = 1e9
    # t = 0: the first frame goes out, 1500 octets at 10 Gb/s, on the wire until 1200.
    ready_ns = leaves_ns(limiter, 0)
    assert starts_ns(receiver.state, 3, ready_ns) == 0
    leave(limiter, 0, 1500)
    on_the_wire_until_ns = 1_200
    # t = 600: XOFF arrives during the transmission, and the started frame ends normally.
    receiver.receive(600, pfc(p3=400))
    assert on_the_wire_until_ns == 1_200
    # The limiter's debt drains through the pause: the second frame waits for the pause alone.
    assert leaves_ns(limiter, 600) == 12_000
    assert starts_ns(receiver.state, 3, leaves_ns(limiter, 12_000)) == 600 + 20_480
    assert leaves_ns(limiter, 21_080) == 21_080
    # XON at 15 000 ends the pause early, and only the line delays the frame.
    receiver.receive(15_000, pfc(p3=0))
    assert starts_ns(receiver.state, 3, leaves_ns(limiter, 21_080)) == 21_080


_FRAMES = st.builds(
    lambda kind, vector, times: PauseFrame(kind, vector, times),
    st.sampled_from([KIND_PFC, KIND_PFC, KIND_PAUSE, KIND_REFUSED]),
    st.integers(0, 0xFF),
    st.tuples(*[st.one_of(st.just(0), st.integers(0, 300), st.just(0xFFFF))] * 8),
)


@given(
    rate_bps=st.sampled_from([10**9, 10**10, 3 * 10**9, 10**11]),
    steps=st.lists(st.tuples(st.integers(0, 20_000), _FRAMES), max_size=30),
)
def test_equals_the_literal_transcription(rate_bps: int, steps: list[tuple[int, PauseFrame]]) -> None:
    receiver, literal = Receiver(rate_bps=rate_bps), LiteralReceiver(rate_bps)
    now_ns = 0
    for gap_ns, frame in steps:
        now_ns += gap_ns
        receiver.receive(now_ns, frame)
        if frame.kind == KIND_PFC:
            literal.receive(now_ns, frame.enable_vector, frame.times_quanta)
        for priority, start_ns in enumerate(receiver.starts(now_ns)):
            assert (start_ns > now_ns) == literal.paused(priority, now_ns)
            assert not literal.paused(priority, start_ns)
    for priority in range(8):
        assert paused_ns(receiver.state, priority, now_ns) == literal.total(priority, now_ns)
        assert paused_ns(receiver.state, priority, now_ns + 10**12) == literal.total(
            priority, now_ns + 10**12
        )


@given(st.lists(st.tuples(st.integers(0, 10**8), _FRAMES), max_size=30))
def test_every_frame_counts_and_pauses_are_bounded(
    steps: list[tuple[int, PauseFrame]],
) -> None:
    receiver = Receiver()
    now_ns = 0
    for gap_ns, frame in steps:
        now_ns += gap_ns
        receiver.receive(now_ns, frame)
        assert max(receiver.starts(now_ns)) <= now_ns + quanta_to_ns(0xFFFF, 10**10)
        assert all(0 <= paused_ns(receiver.state, priority, now_ns) <= now_ns for priority in range(8))
    state = receiver.state
    counted = state.pause_frames + state.pfc_frames + state.ignored_frames + state.refused_frames
    assert counted == len(steps)
    assert all(
        np_field.min() >= 0
        for np_field in map(columns(receiver.records).__getitem__, PauseTimers.__annotations__)
    )
