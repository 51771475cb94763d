"""The E²CM congestion point (algorithms §4, rule 1), and against the literal transcription."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.e2cm.congestion_point import count_arrival, sample, settings_record, start
from ecmproto.control.mechanisms.e2cm.parameters import E2CMCongestionPointParameters
from ecmproto.control.mechanisms.ecm.congestion_point import REGULAR, SATURATED, SEVERE, SILENT, ECMFeedback
from tests.mechanisms.e2cm.literal import LiteralCongestionPoint
from tests.mechanisms.e2cm.station import new_point

CPID = 0x0200_0000_00CC_0001
FIXED = E2CMCongestionPointParameters(random_octets=0, tagged_random_octets=0)


class Queue:
    """A congestion point with a separate generator."""

    def __init__(self, parameters: E2CMCongestionPointParameters = FIXED, seed: int = 1) -> None:
        self.settings = settings_record(parameters)
        self.point = new_point(CPID)
        self.generator = np.random.default_rng(seed)
        start(self.point, self.settings, self.generator)

    def arrival(self, tag: int | None, octets: int, qlen_octets: int) -> ECMFeedback | None:
        tagged = int(tag is not None)
        if not count_arrival(self.point, self.settings, tagged, octets, qlen_octets, True):
            return None
        return sample(self.point, self.settings, self.generator, tagged, qlen_octets, tag or 0)

    def sampled(self, qlen_octets: int, tag: int | None = None) -> ECMFeedback:
        feedback = self.arrival(tag, 400_000, qlen_octets)
        assert feedback is not None
        return feedback


def test_1_limited_flows_are_sampled_per_15_kb() -> None:
    queue = Queue()
    untagged = [queue.arrival(None, 1_500, 100_000) is not None for _ in range(200)]
    tagged = [queue.arrival(CPID, 1_500, 100_000) is not None for _ in range(200)]
    assert [index + 1 for index, hit in enumerate(untagged) if hit] == [50, 100, 150, 200]
    assert [index + 1 for index, hit in enumerate(tagged) if hit] == list(range(10, 201, 10))


def test_1_separate_counters_prevent_starvation_of_samples() -> None:
    # With a shared counter, the flow that sends after other flows gets the samples: here always untagged
    # frames.
    queue = Queue()
    samples = {"tagged": 0, "other": 0}
    for _ in range(100):
        samples["tagged"] += queue.arrival(CPID, 7_500, 100_000) is not None
        samples["other"] += queue.arrival(None, 15_000, 100_000) is not None
    assert samples == {"tagged": 50, "other": 20}


def test_1_sample_restarts_only_its_own_counter() -> None:
    queue = Queue()
    assert queue.arrival(None, 74_999, 100_000) is None
    assert queue.arrival(CPID, 15_000, 100_000) is not None
    assert queue.arrival(None, 1, 100_000) is not None


def test_1_any_congestion_points_tag_means_rate_limited() -> None:
    queue = Queue()
    assert queue.arrival(CPID + 1, 15_000, 100_000) is not None


def test_1_bcn_max_above_280_kb() -> None:
    queue = Queue()
    assert queue.sampled(280_000).kind == REGULAR
    saturated = queue.sampled(280_001)
    assert saturated == ECMFeedback(SATURATED, 75_000, 150_000, 75_000 // 64, 150_000 // 64, 0)


def test_1_bcn_zero_is_off_by_default() -> None:
    assert Queue().sampled(10**9).kind == SATURATED
    queue = Queue(E2CMCongestionPointParameters(qsc_octets=290_000))
    assert queue.sampled(290_001) == ECMFeedback(SEVERE, 0, 0, 0, 0, 0)


def test_1_qdelta_follows_previous_sample_of_either_type() -> None:
    queue = Queue()
    queue.sampled(90_000)
    assert queue.sampled(100_000, CPID).qdelta_octets == 10_000
    assert queue.sampled(90_000).qdelta_octets == -10_000


def test_1_increase_signals_are_sent_to_associated_alone() -> None:
    queue = Queue()
    queue.sampled(60_000)
    assert queue.sampled(50_000).kind == SILENT
    assert queue.sampled(50_000, CPID + 1).kind == SILENT
    assert queue.sampled(50_000, CPID).kind == REGULAR


def test_1_bridges_need_not_send_increase_signals() -> None:
    queue = Queue(E2CMCongestionPointParameters(increase_signals=False))
    meter = queue.point.meter
    queue.sampled(60_000)
    assert queue.sampled(50_000, CPID).kind == SILENT
    assert meter.withheld == 1
    assert meter.regular == 0
    # The sign of Fb determines the request: a growing queue below Qeq requests a decrease, and a draining
    # queue above Qeq an increase.
    assert queue.sampled(72_000, CPID).kind == REGULAR
    assert queue.sampled(100_000).kind == REGULAR
    assert queue.sampled(80_000).kind == SILENT
    assert queue.sampled(300_000).kind == SATURATED
    assert (meter.withheld, meter.regular, meter.saturated) == (2, 2, 1)


def test_every_sample_is_counted_once() -> None:
    queue = Queue(E2CMCongestionPointParameters(increase_signals=False, qsc_octets=300_000), seed=5)
    draw = np.random.default_rng(6)
    for _ in range(500):
        queue.sampled(int(draw.integers(0, 320_000)), [None, CPID, CPID + 1][draw.integers(3)])
    meter = queue.point.meter
    outcomes = (
        meter.regular, meter.saturated, meter.severe, meter.withheld, meter.balanced, meter.unassociated,
        meter.truncated,
    )  # fmt: skip
    assert meter.samples == sum(outcomes) == 500
    assert min(outcomes) >= 0


@given(
    seed=st.integers(0, 2**32),
    frames=st.lists(
        st.tuples(
            st.sampled_from([None, CPID, CPID + 1]),
            st.integers(1, 40_000),
            st.one_of(st.integers(0, 300_000), st.sampled_from([75_000, 280_000, 280_001, 0])),
        ),
        max_size=150,
    ),
)
def test_equals_the_literal_transcription(seed: int, frames: list[tuple[int | None, int, int]]) -> None:
    queue = Queue(E2CMCongestionPointParameters(), seed)
    literal = LiteralCongestionPoint(np.random.default_rng(seed).random, cpid=CPID)
    for tag, octets, qlen in frames:
        expected = literal.arrival(tag, octets, qlen)
        got = queue.arrival(tag, octets, qlen)
        if got is None or got.kind == SILENT:
            assert expected is None
        else:
            assert ({REGULAR: "BCN", SATURATED: "BCN_MAX"}[got.kind], got.q_off, got.q_delta) == expected
