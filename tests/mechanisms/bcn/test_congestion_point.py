"""The BCN congestion point: the conditions of algorithms §2, and against a literal transcription."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.congestion_point import count, start
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    PAUSE_KIND,
    flow_control_payload,
    new_outbox,
)
from ecmproto.control.mechanisms.bcn.congestion_point import (
    SILENT,
    BCNFeedback,
    BCNPointState,
    PauseThreshold,
    is_sample,
    new_threshold,
    refresh,
    sample,
    settings_record,
    watch,
)
from ecmproto.control.mechanisms.bcn.parameters import BCNCongestionPointParameters
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.congestion_point import next_timer_ns
from ecmproto.errors import ParameterError
from ecmproto.wire.formats.bcn import NORMAL, STOP
from tests.mechanisms.aimd.station import new_state
from tests.mechanisms.bcn import literal

CPID = 0xF200_0000_00CC_0001
QEQ = 64 * 100
LINK = 10_000_000_000


class Point:
    """A congestion point with a separate generator. Every frame is a sample by default."""

    def __init__(self, *, seed: int = 1, **options: Any) -> None:
        chosen = {"fixed_octets": 0, "qeq_octets": QEQ, "qsc_octets": 5 * QEQ} | options
        self.settings = settings_record(BCNCongestionPointParameters(**chosen))
        self.state = new_state(BCNPointState, CPID)
        self.generator = np.random.default_rng(seed)
        start(self.state, self.settings, self.generator)

    def arrive(self, octets: int, qlen: int, tag: int | None = None) -> BCNFeedback | None:
        if not count(self.state, self.settings, octets, qlen, True):
            return None
        cpid = 0 if tag is None else tag - 2**64
        return sample(self.state, self.settings, self.generator, qlen, cpid)

    def sample(self, qlen: int, tag: int | None = None) -> BCNFeedback:
        found = self.arrive(64, qlen, tag)
        assert found is not None
        return found


def test_pm_samples_frames_independently_of_length_and_queue() -> None:
    for octets, qlen in ((60, 0), (60, 10 * QEQ), (9000, QEQ)):
        point = Point(probability=0.1, fixed_octets=150_000)
        drawn = [
            is_sample(point.state, point.settings, point.generator, octets, qlen, True) for _ in range(5_000)
        ]
        assert sum(drawn) == pytest.approx(500, abs=80)
        # Without memory: what follows a sample is a sample as often as any.
        after = [later for one, later in pairwise(drawn) if one]
        assert sum(after) / len(after) == pytest.approx(0.1, abs=0.05)
    always = Point(probability=1.0, fixed_octets=150_000)
    assert all(is_sample(always.state, always.settings, always.generator, 60, 0, True) for _ in range(99))


@pytest.mark.parametrize(
    ("qlen", "tag", "kind"),
    [
        (QEQ - 64, None, SILENT), (QEQ, None, SILENT), (QEQ + 64, None, NORMAL), (5 * QEQ, None, NORMAL),
        (5 * QEQ + 1, None, STOP),
        (QEQ - 64, CPID, NORMAL), (QEQ, CPID, NORMAL), (QEQ - 64, CPID ^ 1, SILENT), (QEQ, CPID ^ 1, SILENT),
        (QEQ + 64, CPID, NORMAL), (QEQ + 64, CPID ^ 1, NORMAL), (5 * QEQ, CPID ^ 1, NORMAL),
        (5 * QEQ + 1, CPID, STOP), (5 * QEQ + 1, CPID ^ 1, STOP),
    ],
)  # fmt: skip
def test_conditions_untagged_and_tagged(qlen: int, tag: int | None, kind: int) -> None:
    assert Point().sample(qlen, tag).kind == kind


def test_e_is_positive_when_the_queue_is_short() -> None:
    point = Point(weight=2.0)
    assert point.sample(QEQ + 640).e == -10 - 2 * 110
    assert point.sample(QEQ + 640).e == -10
    assert point.sample(QEQ - 640, CPID).e == 10 + 2 * 20


def test_a_positive_condition_may_carry_a_negative_e() -> None:
    point = Point()
    point.sample(0)
    assert point.sample(QEQ - 64, CPID) == BCNFeedback(
        NORMAL, -64, QEQ - 64, 8 * (64 - 2 * (QEQ - 64)), 1 - 2 * 99
    )


@pytest.mark.parametrize(("before", "qlen", "e"), [(0, 5 * QEQ, -100 - 400), (5 * QEQ, 0, 100 + 400)])
def test_both_parts_are_clamped(before: int, qlen: int, e: int) -> None:
    point = Point()
    point.sample(before, CPID)
    assert point.sample(qlen, CPID).e == e


def test_e_truncated_to_zero_is_not_sent() -> None:
    point = Point(weight=1.0)
    point.sample(QEQ // 2)
    assert point.sample(QEQ // 2 + QEQ // 4, CPID) == BCNFeedback(SILENT, -QEQ // 4, QEQ // 4, 0, 0)
    assert point.state.balanced == 1
    point.sample(QEQ)
    assert point.sample(QEQ + 31) == BCNFeedback(SILENT, 31, 31, -8 * 62, 0)
    assert point.state.truncated == 1
    assert point.sample(QEQ + 64).e == -1


def test_e_is_scaled_then_truncated_as_a_whole() -> None:
    point = Point(weight=0.125, qscale=1.5)
    point.sample(QEQ)
    # −(100 + 100/8)·1.5 / 64 = −2.6…
    assert point.sample(QEQ + 100).e == -2


def test_a_stop_carries_no_e() -> None:
    assert Point().sample(5 * QEQ + 64).e == 0


def test_qmc_oversamples_without_sending_ecm_max() -> None:
    point = Point(fixed_octets=1000, random_octets=0, qmc_octets=3 * QEQ, oversampling_shift=1)
    assert point.arrive(500, 3 * QEQ) is None
    found = point.arrive(1, 3 * QEQ + 1)
    assert found is not None
    assert found.e == -100 - 400


def test_the_previous_queue_follows_at_every_sample() -> None:
    point = Point()
    point.sample(QEQ // 2)
    point.sample(6 * QEQ)
    assert point.sample(5 * QEQ).e == -100 + 2 * 100


@given(
    seed=st.integers(0, 2**32),
    fixed=st.integers(0, 5000),
    share=st.integers(0, 10),
    qeq=st.integers(600, 10_000),
    above=st.integers(1, 20_000),
    w=st.sampled_from([0.125, 1.0, 1.375, 2.0, 8.0]),
    qscale=st.sampled_from([0.125, 1.0, 1.5]),
    frames=st.lists(
        st.tuples(
            st.integers(1, 2000), st.integers(0, 40_000), st.sampled_from([None, CPID, CPID ^ 1])
        ),
        max_size=120,
    ),
)  # fmt: skip
def test_equals_the_literal_transcription(
    seed: int, fixed: int, share: int, qeq: int, above: int, w: float, qscale: float,
    frames: list[tuple[int, int, int | None]],
) -> None:  # fmt: skip
    point = Point(
        seed=seed, fixed_octets=fixed, random_octets=fixed * share // 10, qeq_octets=qeq,
        qsc_octets=qeq + above, weight=w, qscale=qscale,
    )  # fmt: skip
    slow = literal.LiteralCongestionPoint(
        urand=np.random.default_rng(seed).random, cpid=CPID, fixed=fixed, random=fixed * share // 10,
        q_eq=qeq, q_sc=qeq + above, w=Fraction(w), q_scale=Fraction(qscale),
    )  # fmt: skip
    kinds = {NORMAL: literal.NORMAL, STOP: literal.STOP}
    for octets, others, tag in frames:
        found = point.arrive(octets, octets + others, tag)
        sent = None if found is None or found.kind == SILENT else (kinds[found.kind], found.e)
        assert sent == slow.arrival(octets, octets + others, tag)
    state = point.state
    suppressed = state.balanced + state.unassociated + state.truncated
    assert state.samples == state.normal + state.stops + suppressed


def paused(threshold: PauseThreshold, now_ns: int, port_octets: int, step: Any = watch) -> int | None:
    """Return the quanta that ``step`` makes the port send upstream, None if nothing."""
    outbox = new_outbox(1)
    step(threshold, now_ns, port_octets, outbox)
    if outbox.posted.count == 0:
        return None
    message = outbox.messages[0]
    assert (message.kind, message.station, message.sent) == (PAUSE_KIND, EVERY_STATION, 1)
    assert (message.time_ns, message.qlen_octets) == (now_ns, port_octets)
    return int(flow_control_payload(message).quanta)


def test_pause_above_qst_and_resume_at_lower_mark() -> None:
    parameters = BCNCongestionPointParameters(qst_octets=135_000, qst_low_octets=60_000)
    threshold = new_threshold(parameters, LINK)
    levels = [0, 135_000, 135_001, 140_000, 60_001, 60_000, 59_000, 135_001]
    expected = [None, None, 0xFFFF, None, None, 0, None, 0xFFFF]
    assert [paused(threshold, 5, level) for level in levels] == expected
    assert (threshold.pause_state.xoff_frames, threshold.pause_state.xon_frames) == (2, 1)


def test_a_pause_is_refreshed_at_half_its_time() -> None:
    threshold = new_threshold(BCNCongestionPointParameters(qst_octets=135_000), LINK)
    half_ns = 0xFFFF * 512 // 10 // 2
    assert paused(threshold, 7, 140_000) == 0xFFFF
    assert next_timer_ns(threshold.pause_state) == 7 + half_ns
    assert paused(threshold, 6 + half_ns, 130_000, refresh) is None
    assert paused(threshold, 7 + half_ns, 130_000, refresh) == 0xFFFF
    assert next_timer_ns(threshold.pause_state) == 7 + 2 * half_ns
    full = new_outbox(0)
    refresh(threshold, 7 + 2 * half_ns, 130_000, full)
    assert next_timer_ns(threshold.pause_state) == 7 + 2 * half_ns  # still due
    assert paused(threshold, 8 + 2 * half_ns, 0) == 0
    assert next_timer_ns(threshold.pause_state) == NEVER_NS


def test_pause_is_off_unless_asked_for() -> None:
    assert paused(new_threshold(BCNCongestionPointParameters(), LINK), 0, 10**9) is None


def test_thresholds_must_be_in_order() -> None:
    assert BCNCongestionPointParameters(qst_octets=135_000).qst_low_octets == 120_000
    with pytest.raises(ParameterError, match=r"qsc: expected less than qst \(120 kB\), got 120 kB"):
        BCNCongestionPointParameters(qst_octets=120_000)
    with pytest.raises(ParameterError, match=r"qst_low: expected less than qst \(135 kB\), got 135 kB"):
        BCNCongestionPointParameters(qst_octets=135_000, qst_low_octets=135_000)
    texts = BCNCongestionPointParameters(qst_octets=135_000).as_text()
    assert BCNCongestionPointParameters.parse(texts) == BCNCongestionPointParameters(qst_octets=135_000)
