"""The QCN congestion point, rule by rule (algorithms §3), and against the literal transcription."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.qcn.congestion_point import (
    QCNFeedback,
    QCNPointSettings,
    QCNPointState,
    count,
    quantize,
    sample,
    settings_record,
    start,
)
from ecmproto.control.mechanisms.qcn.parameters import QCNCongestionPointParameters
from ecmproto.kernels.record import new_record
from tests.mechanisms.qcn.literal import LiteralCongestionPoint


class Point:
    """A congestion point with a separate generator."""

    def __init__(self, parameters: QCNCongestionPointParameters | None = None, seed: int = 1) -> None:
        self.settings: QCNPointSettings = settings_record(parameters or QCNCongestionPointParameters())
        self.state: QCNPointState = new_record(QCNPointState)
        self.generator = np.random.default_rng(seed)
        start(self.state, self.settings, self.generator)

    def enqueue(self, octets: int, qlen_octets: int) -> QCNFeedback | None:
        if not count(self.state, octets):
            return None
        return sample(self.state, self.settings, self.generator, qlen_octets)

    def sample_now(self, qlen_octets: int) -> QCNFeedback:
        feedback = self.enqueue(int(self.state.countdown_octets) + 1, qlen_octets)
        assert feedback is not None
        return feedback


@pytest.mark.parametrize(("fb", "expected"), [(-26_000, 12), (-65_000, 31), (-130_000, 63), (-(10**9), 63)])
def test_known_answers_of_section_7(fb: int, expected: int) -> None:
    assert quantize(settings_record(QCNCongestionPointParameters()), fb * 1024) == expected


@pytest.mark.parametrize(("fb", "expected"), [(0, 0), (1, 0), (26_000, 0), (-1, 0), (-2_063, 0), (-2_064, 1)])
def test_rule_2_slight_or_positive_feedback_is_0(fb: int, expected: int) -> None:
    # 130 000 / 63 = 2063.49…
    assert quantize(settings_record(QCNCongestionPointParameters()), fb * 1024) == expected


def test_rule_2_quantization_floors_just_under_full_scale() -> None:
    record = settings_record(QCNCongestionPointParameters())
    assert quantize(record, -129_999 * 1024) == 62
    assert quantize(record, -130_000 * 1024) == 63


def test_rule_1_countdown_of_0_is_no_sample() -> None:
    point = Point(QCNCongestionPointParameters(jitter=0.0))
    assert point.state.countdown_octets == 150_000
    assert point.enqueue(150_000, 30_000) is None
    assert point.state.countdown_octets == 0
    assert point.enqueue(1, 30_000) is not None


def test_rule_1_offset_delta_and_feedback() -> None:
    point = Point()
    assert point.sample_now(30_000) == (4_000, 30_000, -64_000 * 1024, 31)
    assert point.sample_now(20_000) == (-6_000, -10_000, 26_000 * 1024, 0)


def test_rule_1_every_sample_updates_qlen_old() -> None:
    point = Point()
    assert point.sample_now(1_000).qntz_fb == 0
    assert point.sample_now(26_000).qdelta_octets == 25_000
    assert point.sample_now(60_000).qdelta_octets == 34_000


def test_rule_3_the_first_qlen_old_is_0() -> None:
    assert Point().sample_now(40_000).qdelta_octets == 40_000


def test_rule_3_a_reload_replaces_what_is_left() -> None:
    point = Point(QCNCongestionPointParameters(jitter=0.0))
    assert point.enqueue(1_000_000, 0) is not None
    assert point.state.countdown_octets == 150_000


@pytest.mark.parametrize(
    ("qntz_fb", "base"),
    [(0, 150_000), (7, 150_000), (8, 75_000), (16, 50_000), (24, 37_500), (32, 30_000), (40, 25_000),
     (48, 21_500), (56, 18_500), (63, 18_500)],
)  # fmt: skip
def test_rule_3_reloads_by_quantized_feedback_div_8(qntz_fb: int, base: int) -> None:
    point = Point(QCNCongestionPointParameters(jitter=0.0))
    # An unchanged queue: Fb = −Qoff, and full scale is 5·Qeq.
    point.sample_now(26_000 + -(-qntz_fb * 130_000 // 63))
    assert point.sample_now(26_000 + -(-qntz_fb * 130_000 // 63)).qntz_fb == qntz_fb
    assert point.state.countdown_octets == base


def test_rule_3_table_scales_with_minimum_sample_base() -> None:
    record = settings_record(QCNCongestionPointParameters(sample_base_octets=15_000))
    assert record.reload_octets.tolist() == [15_000, 7_500, 5_000, 3_750, 3_000, 2_500, 2_150, 1_850]


def test_rule_3_margin_is_15_percent_each_way() -> None:
    point = Point(seed=3)
    reloads = []
    for _ in range(2_000):
        reloads.append(int(point.state.countdown_octets))
        point.sample_now(0)
    assert 127_500 <= min(reloads) < 128_500
    assert 171_500 < max(reloads) <= 172_500
    assert abs(sum(reloads) / len(reloads) - 150_000) < 1_000


_WEIGHTS = st.sampled_from([0.125, 0.5, 1.0, 1.375, 2.0, 8.0, 1024.0, 1 / 1024])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    qeq=st.integers(100, 10**6),
    weight=_WEIGHTS,
    base=st.integers(10_000, 10**6),
    frames=st.lists(
        st.tuples(st.integers(1, 200_000), st.one_of(st.integers(0, 10**6), st.just(10**9))), max_size=200
    ),
)
def test_equals_the_literal_transcription(
    seed: int, qeq: int, weight: float, base: int, frames: list[tuple[int, int]]
) -> None:
    parameters = QCNCongestionPointParameters(qeq_octets=qeq, weight=weight, sample_base_octets=base)
    point = Point(parameters, seed)
    literal = LiteralCongestionPoint(
        np.random.default_rng(seed).random, qeq=qeq, w=Fraction(weight), minimum_sample_base=base
    )
    for octets, qlen in frames:
        expected = literal.enqueue(octets, qlen)
        got = point.enqueue(octets, qlen)
        assert (got is None) == (expected is None)
        if got is not None and expected is not None:
            qoff, qdelta, fb, qntz_fb = expected
            assert got == QCNFeedback(qoff, qdelta, int(fb * 1024), qntz_fb)
            assert (fb * 1024).denominator == 1
