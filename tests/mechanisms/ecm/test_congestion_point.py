"""The ECM congestion point, rule by rule (algorithms §1, CP), and against S000's pseudo-code."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.congestion_point import count, start
from ecmproto.control.mechanisms.ecm.congestion_point import (
    REGULAR,
    SATURATED,
    SEVERE,
    SILENT,
    ECMFeedback,
    ECMPointState,
    sample,
    settings_record,
)
from ecmproto.control.mechanisms.ecm.parameters import ECMCongestionPointParameters
from tests.mechanisms.aimd.station import new_state
from tests.mechanisms.ecm.literal import LiteralCongestionPoint

CPID = 0xF200_0000_00CC_0001
QEQ = 64 * 100


class Point:
    """A congestion point with a separate generator. Every frame is a sample by default."""

    def __init__(self, *, seed: int = 1, **options: Any) -> None:
        chosen = {"fixed_octets": 0, "qeq_octets": QEQ, "qsc_octets": 10 * QEQ} | options
        self.settings = settings_record(ECMCongestionPointParameters(**chosen))
        self.state = new_state(ECMPointState, CPID)
        self.generator = np.random.default_rng(seed)
        start(self.state, self.settings, self.generator)

    def arrive(
        self, octets: int, qlen: int, *, own_tag: bool = False, enqueued: bool = True
    ) -> ECMFeedback | None:
        if not count(self.state, self.settings, octets, qlen, enqueued):
            return None
        tag_cpid = int(self.state.cpid) if own_tag else 0
        return sample(self.state, self.settings, self.generator, qlen, tag_cpid)

    def sample(self, qlen: int, *, own_tag: bool = False) -> ECMFeedback:
        found = self.arrive(64, qlen, own_tag=own_tag)
        assert found is not None
        return found

    def intervals(self, frames: int, octets: int = 10) -> list[int]:
        """Octets between samples of an idle-free queue."""
        found = []
        last = 0
        for number in range(1, frames + 1):
            if self.arrive(octets, QEQ) is not None:
                found.append(number * octets - last)
                last = number * octets
        return found


# Rule 1


def test_rule_1_sample_comes_when_count_reaches_interval() -> None:
    point = Point(fixed_octets=1000, random_octets=0)
    assert point.arrive(999, QEQ) is None
    assert point.arrive(1, QEQ) is not None
    assert point.arrive(1000, QEQ) is not None


def test_rule_1_interval_without_fixed_part_is_random() -> None:
    point = Point(random_octets=64_000)
    drawn = []
    for _ in range(2_000):
        drawn.append(int(point.state.interval_octets))
        point.arrive(64_000, 0)
    assert 0 <= min(drawn) < 500
    assert 63_500 < max(drawn) <= 64_000
    assert np.mean(drawn) == pytest.approx(32_000, rel=0.03)


def test_rule_1_count_starts_anew_at_each_sample() -> None:
    point = Point(fixed_octets=1000, random_octets=0)
    assert point.arrive(5000, QEQ) is not None
    assert point.arrive(999, QEQ) is None


def test_rule_1_trap_first_interval_is_already_drawn() -> None:
    for seed in range(20):
        point = Point(fixed_octets=150_000, random_octets=45_000, seed=seed)
        assert 105_000 <= point.state.interval_octets <= 195_000
        assert point.arrive(104_999, QEQ) is None


def test_rule_1_trap_intervals_count_octets_not_chances() -> None:
    found = Point(fixed_octets=1000, random_octets=300).intervals(100_000)
    assert 700 <= min(found) <= 720
    assert 1290 <= max(found) <= 1310
    assert abs(sum(found) / len(found) - 1005) < 10
    # A Bernoulli choice of frames of 10 octets spreads its intervals over ±1000 octets.
    assert np.std(found) < 200


def test_rule_1_each_sample_draws_a_new_interval() -> None:
    assert len(set(Point(fixed_octets=1000, random_octets=300).intervals(10_000))) > 30


def test_rule_1_dropped_octets_count_like_enqueued_ones() -> None:
    point = Point(fixed_octets=3000, random_octets=0)
    assert point.arrive(1500, QEQ, enqueued=False) is None
    assert point.arrive(1500, QEQ, enqueued=True) is not None


@pytest.mark.parametrize(
    ("qlen", "octets", "enqueued", "shifted"),
    [
        (250, 250, True, True),  # nothing else in the queue
        (251, 250, True, False),
        (0, 250, False, True),  # dropped by an empty queue
        (250, 250, False, False),  # dropped, and the queue holds something else
        (3 * QEQ, 250, True, False),
        (3 * QEQ + 1, 250, True, True),  # above Qmc
    ],
)
def test_rule_1_over_sampling(qlen: int, octets: int, enqueued: bool, shifted: bool) -> None:
    point = Point(fixed_octets=1000, random_octets=0, oversampling_shift=2, qmc_octets=3 * QEQ)
    assert (point.arrive(octets, qlen, enqueued=enqueued) is not None) == shifted


def test_rule_1_over_sampling_divides_exactly() -> None:
    point = Point(fixed_octets=1001, random_octets=0, oversampling_shift=2)
    assert point.arrive(250, 250) is None
    assert point.arrive(1, 1) is not None


# Rule 2


def test_rule_2_above_qsc_is_ecm_0_0() -> None:
    point = Point(qsc_octets=4 * QEQ, qmc_octets=3 * QEQ)
    assert point.sample(4 * QEQ + 1) == ECMFeedback(SEVERE, 0, 0, 0, 0, 0)
    assert point.sample(4 * QEQ).kind == SATURATED


def test_rule_2_above_qmc_is_ecm_max() -> None:
    point = Point(qsc_octets=4 * QEQ, qmc_octets=3 * QEQ)
    assert point.sample(3 * QEQ + 1) == ECMFeedback(SATURATED, QEQ, 2 * QEQ, 100, 200, 0)
    assert point.sample(3 * QEQ).kind == REGULAR


def test_rule_2_both_thresholds_can_be_off() -> None:
    assert Point(qsc_octets=0).sample(10**9).kind == REGULAR


@pytest.mark.parametrize(
    ("qlen", "qoff"),
    [(0, -QEQ), (64, 64 - QEQ), (QEQ + 64, 64), (2 * QEQ, QEQ), (2 * QEQ + 64, QEQ), (9 * QEQ, QEQ)],
)
def test_rule_2_trap_qoff_is_clamped_both_ways(qlen: int, qoff: int) -> None:
    found = Point().sample(qlen, own_tag=True)
    assert found.qoff_octets == qoff
    assert found.q_off == qoff // 64


@pytest.mark.parametrize(
    ("before", "qlen", "qdelta"),
    [
        (0, QEQ // 2 + 64, QEQ // 2 + 64),  # the misprinted "½·Qeq" would make this 2·Qeq
        (0, 2 * QEQ - 64, 2 * QEQ - 64),
        (0, 2 * QEQ, 2 * QEQ),
        (0, 3 * QEQ, 2 * QEQ),
        (3 * QEQ, QEQ + 64, 64 - 2 * QEQ),
        (5 * QEQ, 2 * QEQ, -2 * QEQ),
    ],
)
def test_rule_2_trap_qdelta_clamp_is_twice_qeq(before: int, qlen: int, qdelta: int) -> None:
    point = Point()
    point.sample(before)
    assert point.sample(qlen).qdelta_octets == qdelta


def test_rule_2_q_bit_reports_saturated_qdelta_only() -> None:
    point = Point(q_bit=True, qmc_octets=8 * QEQ)
    assert point.sample(2 * QEQ).q == 1
    assert point.sample(4 * QEQ - 64).q == 0
    assert point.sample(4 * QEQ).q == 0
    assert point.sample(2 * QEQ).q == 1
    assert point.sample(9 * QEQ) == ECMFeedback(SATURATED, QEQ, 2 * QEQ, 100, 200, 1)


def test_rule_2_q_bit_is_off_by_default() -> None:
    assert Point().sample(9 * QEQ).q == 0


# Rule 3


def test_rule_3_unmoved_queue_at_equilibrium_says_nothing() -> None:
    point = Point()
    point.sample(QEQ)
    assert point.sample(QEQ, own_tag=True).kind == SILENT
    assert point.state.balanced == 1


@pytest.mark.parametrize(("qlen", "own_tag", "kind"), [
    (QEQ - 64, False, SILENT), (QEQ - 64, True, REGULAR), (QEQ, False, SILENT), (QEQ, True, REGULAR),
    (QEQ + 64, False, REGULAR), (QEQ + 64, True, REGULAR),
])  # fmt: skip
def test_rule_3_low_queue_answers_only_associated_frames(qlen: int, own_tag: bool, kind: int) -> None:
    point = Point()
    assert point.sample(qlen, own_tag=own_tag).kind == kind
    assert point.state.unassociated == (kind == SILENT)


def test_rule_3_foreign_cm_tag_counts_as_none() -> None:
    point = Point()
    count(point.state, point.settings, 64, 64, True)
    found = sample(point.state, point.settings, point.generator, 64, int(point.state.cpid) ^ 1)
    assert found.kind == SILENT


# Rule 4


def test_rule_4_scaling_applies_to_ecm_max_too() -> None:
    point = Point(qscale=2.5, qmc_octets=3 * QEQ)
    assert point.sample(QEQ + 640)[3:] == (25, 275, 0)
    assert point.sample(3 * QEQ + 1)[3:] == (250, 500, 0)


def test_rule_4_each_field_truncates_toward_zero() -> None:
    point = Point()
    point.sample(QEQ + 2 * 64 - 1)
    assert point.sample(QEQ + 64 + 62, own_tag=True)[3:5] == (1, 0)
    assert point.sample(QEQ - 127, own_tag=True)[3:5] == (-1, -3)


def test_rule_4_scaling_comes_before_truncation() -> None:
    point = Point(qscale=1.5)
    point.sample(QEQ)
    assert point.sample(QEQ + 43)[3:5] == (1, 1)


def test_rule_4_truncation_never_produces_ecm_0_0() -> None:
    point = Point()
    point.sample(QEQ)
    assert point.sample(QEQ + 63) == ECMFeedback(SILENT, 63, 63, 0, 0, 0)
    assert point.state.truncated == 1
    assert point.sample(QEQ + 64).kind == REGULAR


# Rule 5


def test_rule_5_every_sample_updates_the_previous_queue() -> None:
    point = Point(qmc_octets=3 * QEQ)
    assert point.sample(QEQ // 2).kind == SILENT
    assert point.sample(2 * QEQ).qdelta_octets == QEQ * 3 // 2
    assert point.sample(10 * QEQ + 1).kind == SEVERE
    assert point.sample(9 * QEQ).kind == SATURATED
    assert point.sample(3 * QEQ).qdelta_octets == -2 * QEQ
    assert point.sample(3 * QEQ).qdelta_octets == 0


# All of it


@given(
    seed=st.integers(0, 2**32),
    fixed=st.integers(0, 5000),
    share=st.integers(0, 10),
    sscale=st.integers(0, 4),
    qeq=st.integers(600, 10_000),
    thresholds=st.tuples(st.integers(0, 10_000), st.integers(0, 20_000)),
    qscale=st.sampled_from([0.125, 0.375, 1.0, 1.5, 8.0]),
    q_bit=st.booleans(),
    frames=st.lists(
        st.tuples(
            st.integers(1, 2000), st.integers(0, 40_000), st.booleans(), st.sampled_from([0, CPID, CPID ^ 1])
        ),
        max_size=120,
    ),
)
def test_equals_the_literal_transcription(
    seed: int,
    fixed: int,
    share: int,
    sscale: int,
    qeq: int,
    thresholds: tuple[int, int],
    qscale: float,
    q_bit: bool,
    frames: list[tuple[int, int, bool, int]],
) -> None:
    qmc, qsc = (step and qeq + sum(thresholds[: n + 1]) for n, step in enumerate(thresholds))
    point = Point(
        seed=seed, fixed_octets=fixed, random_octets=fixed * share // 10, oversampling_shift=sscale,
        qeq_octets=qeq, qmc_octets=qmc, qsc_octets=qsc, qscale=qscale, q_bit=q_bit,
    )  # fmt: skip
    literal = LiteralCongestionPoint(
        urand=np.random.default_rng(seed).random, cpid=CPID, fixed=fixed, random=fixed * share // 10,
        sscale=sscale, q_eq=qeq, q_mc=qmc or float("inf"), q_sc=qsc or float("inf"),
        q_scale=Fraction(qscale), qsat_enable=q_bit,
    )  # fmt: skip
    for octets, others, enqueued, tag in frames:
        qlen = others + octets * enqueued
        expected = literal.frame_arrival(octets, qlen, others == 0, tag or None)
        found: ECMFeedback | None = None
        if count(point.state, point.settings, octets, qlen, enqueued):
            cpid = tag - 2**64 if tag else 0
            found = sample(point.state, point.settings, point.generator, qlen, cpid)
        sent = found is not None and found.kind != SILENT
        assert sent == (expected is not None)
        if sent and found is not None:
            assert found[3:] == expected
            assert (found.kind == SEVERE) == (found[3:] == (0, 0, 0))
    state = point.state
    suppressed = state.balanced + state.unassociated + state.truncated
    assert state.samples == state.regular + state.saturated + state.severe + suppressed
