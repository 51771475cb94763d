"""The rate limiter of algorithms, heading: a debt in bits."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.limiter import NEVER_NS, RateLimiter, leave, leaves_ns, set_rate
from ecmproto.kernels.record import new_record


def limiter(rate_bps: float) -> RateLimiter:
    record = new_record(RateLimiter)
    record.rate_bps = rate_bps
    return record


def test_limiter_delays_next_frame_until_debt_is_paid() -> None:
    subject = limiter(1e9)
    assert leaves_ns(subject, 100) == 100
    leave(subject, 100, 1500)
    assert leaves_ns(subject, 100) == 100 + 12_000
    assert leaves_ns(subject, 100 + 11_999) == 100 + 12_000
    assert leaves_ns(subject, 100 + 12_000) == 100 + 12_000


def test_idleness_earns_no_credit() -> None:
    subject = limiter(1e9)
    leave(subject, 0, 1500)
    for _ in range(2):
        leave(subject, 10**9, 1500)
    assert leaves_ns(subject, 10**9) == 10**9 + 24_000


def test_change_of_rate_counts_from_its_time_on() -> None:
    subject = limiter(1e9)
    leave(subject, 0, 1500)
    set_rate(subject, 6_000, 5e8)
    assert leaves_ns(subject, 6_000) == 6_000 + 12_000
    set_rate(subject, 12_000, 1e9)
    assert leaves_ns(subject, 12_000) == 12_000 + 3_000


def test_rate_0_holds_everything_and_keeps_the_debt() -> None:
    subject = limiter(0.0)
    assert leaves_ns(subject, 5) == NEVER_NS
    leave(subject, 5, 1500)
    assert leaves_ns(subject, 10**12) == NEVER_NS
    set_rate(subject, 10**12, 1e9)
    assert leaves_ns(subject, 10**12) == 10**12 + 12_000


def test_rate_too_low_for_any_time_is_never() -> None:
    subject = limiter(1e-9)
    leave(subject, 0, 9000)
    assert leaves_ns(subject, 0) == NEVER_NS


@given(
    st.floats(1e6, 1e11),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(60, 9000)), min_size=1, max_size=50),
)
def test_limiter_spacing_equals_rate_within_one_ns(rate_bps: float, arrivals: list[tuple[int, int]]) -> None:
    subject = limiter(rate_bps)
    now_ns = 0
    exact = Fraction(0)
    for gap_ns, octets in arrivals:
        now_ns = max(now_ns + gap_ns, leaves_ns(subject, now_ns + gap_ns))
        assert now_ns >= exact - 1
        leave(subject, now_ns, octets)
        exact = now_ns + Fraction(8 * octets * 10**9) / Fraction(rate_bps)
        assert abs(leaves_ns(subject, now_ns) - exact) <= 1 + exact / 10**12
