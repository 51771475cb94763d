"""Pause storms: calculations, compared with other formulas, and frames that leave no gap."""

from __future__ import annotations

import io
import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.lossless import Renewal, share_of
from ecmproto.errors import EcmprotoError, ParameterError, SpecError
from ecmproto.tools.craft import build
from ecmproto.tools.craft.recipe import MAX_TIME_NS, Chunk, chunks
from ecmproto.tools.craft.sequences import Storm, storm_of
from ecmproto.tools.craft.spec import Reading, read_items, read_toml, toml_of
from ecmproto.tools.craft.stack import stack_from_line
from ecmproto.wire.codec import PFC, Ethernet, Pause, decode, encode

G = 10**9
LONGEST_MS = {1: 33.55392, 10: 3.355392, 25: 1.3421568, 40: 0.838848, 100: 0.3355392, 400: 0.0838848}
"""Duration in ms of 65535 quanta, by link speed in Gb/s (wire-formats 8)."""


def storm(line: str, rate_bps: int = 10 * G, share: Fraction = Fraction(1, 2)) -> Storm:
    stack = stack_from_line(line)
    stack.settle()
    return storm_of(stack, rate_bps, share=share)


def made(of: Storm, duration_ns: int, **options: int) -> list[Chunk]:
    return list(chunks(read_items(of.items(duration_ns, **options), "storm", Reading())))  # type: ignore[arg-type]


def frames_and_times(found: list[Chunk]) -> list[tuple[bytes, int]]:
    return [
        each
        for chunk in found
        for each in zip(chunk.octets(), chunk.times().tolist(), strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize(("gigabits", "ms"), LONGEST_MS.items())
def test_renewal_arithmetic_at_each_speed(gigabits: int, ms: float) -> None:
    renewal = Renewal(quanta=65535, rate_bps=gigabits * G, octets=60)
    assert renewal.pause_ns == pytest.approx(ms * 1e6, abs=1)
    assert float(renewal.needed_fps) == pytest.approx(1000 / ms)
    assert renewal.interval_ns == pytest.approx(ms * 1e6 / 2, abs=1)
    assert float(renewal.frames_per_s) == pytest.approx(2000 / ms, rel=1e-4)
    # 60 octets, FCS 4, preamble 8, gap 12: 84 octets a frame, whatever the speed
    assert float(renewal.octets_per_s) == pytest.approx(84 * 2000 / ms, rel=1e-4)
    # a frame takes 672 bit times of every 65535 · 512 / 2
    assert float(renewal.link_share) == pytest.approx(672 / (65535 * 256), rel=1e-4)


def test_ten_gigabits_need_298_frames_a_second() -> None:
    assert float(Renewal(quanta=65535, rate_bps=10 * G, octets=60).needed_fps) == pytest.approx(
        298.0278, abs=1e-4
    )


@given(
    st.integers(1, 65535),
    st.integers(1, 10**13),
    st.fractions(min_value=0, max_value=1).filter(lambda share: 0 < share < 1),
)
def test_renewal_precedes_pause_end_and_fits_the_link(quanta: int, rate_bps: int, share: Fraction) -> None:
    pause_ns = Fraction(quanta * 512 * G, rate_bps)
    if math.floor(share * pause_ns) < math.ceil(Fraction(672 * G, rate_bps)):
        with pytest.raises(ParameterError, match=r"expected at least .* quanta: a frame takes"):
            Renewal(quanta=quanta, rate_bps=rate_bps, octets=60, share=share)
        return
    renewal = Renewal(quanta=quanta, rate_bps=rate_bps, octets=60, share=share)
    assert 1 <= renewal.interval_ns < pause_ns
    assert renewal.link_share <= 1
    assert renewal.frames_per_s > renewal.needed_fps


@pytest.mark.parametrize("quanta", [1, 2])
def test_too_short_pause_is_refused_with_minimum(quanta: int) -> None:
    with pytest.raises(ParameterError, match="expected at least 3 quanta"):
        Renewal(quanta=quanta, rate_bps=10 * G, octets=60)
    assert Renewal(quanta=3, rate_bps=10 * G, octets=60).link_share <= 1


def test_a_storm_holds_and_releases_in_time() -> None:
    of = storm("pfc prio3=65535 prio4=65535")
    frames = frames_and_times(made(of, G))
    assert len(frames) == 598 == of.frames(G) + 1
    *holding, (release, released) = frames
    hold = encode(build("pfc", prio3=65535, prio4=65535))
    assert {octets for octets, _ in holding} == {hold}
    assert [time for _, time in holding] == [1_677_696 * i for i in range(597)]
    assert released == G
    assert released - holding[-1][1] <= 1_677_696
    assert decode(release)[PFC].times == (0,) * 8
    assert decode(release)[PFC].class_enable_vector == 0b11000


def test_all_eight_timers_are_in_a_frame() -> None:
    of = storm("pfc " + " ".join(f"prio{p}={1000 + p}" for p in range(8)))
    assert of.priorities == tuple(range(8))
    assert of.renewal.quanta == 1000, "the shortest decides"
    (hold, _), *_, (release, _) = frames_and_times(made(of, 10**6))
    assert decode(hold)[PFC].times == tuple(range(1000, 1008))
    assert (decode(release)[PFC].class_enable_vector, decode(release)[PFC].times) == (0xFF, (0,) * 8)


def test_storm_keeps_times_of_other_priorities() -> None:
    # priority 1 is not enabled, priority 2 is being released: neither has a say in how often
    of = storm("pfc enable=0x0c prio1=3 prio2=0 prio3=500")
    assert (of.priorities, of.renewal.quanta) == ((3,), 500)
    (hold, _), *_, (release, _) = frames_and_times(made(of, 10**6))
    assert decode(hold)[PFC].times == (0, 3, 0, 500, 0, 0, 0, 0)
    assert decode(release)[PFC].times == (0, 3, 0, 0, 0, 0, 0, 0)
    assert decode(release)[PFC].class_enable_vector == 0x0C


def test_pause_storm_keeps_other_given_fields() -> None:
    of = storm("eth src=02:00:00:00:00:09 pause quanta=100", 100 * G)
    assert of.priorities is None
    (hold, _), *_, (release, _) = frames_and_times(made(of, 10**5))
    for octets, time in ((hold, 100), (release, 0)):
        frame = decode(octets)
        assert frame[Ethernet].src.hex(":") == "02:00:00:00:00:09"
        assert frame[Pause].pause_time == time


def test_a_raw_frame_stays_raw() -> None:
    stack = stack_from_line("eth dst=01:80:c2:00:00:01 src=02:00:00:00:00:09 type=0x8808 pause quanta=9")
    stack.settle()
    of = storm_of(stack, 10**6, raw=True)
    assert of.renewal.octets == 18
    assert {len(octets) for octets, _ in frames_and_times(made(of, 10**7))} == {18}


def test_start_shifts_all_and_release_is_optional() -> None:
    of = storm("pause", G)
    moved = frames_and_times(made(of, 10**8, start_ns=7))
    assert [time for _, time in moved] == [7 + time for _, time in frames_and_times(made(of, 10**8))]
    assert frames_and_times(made(of, 10**8, release=False)) == frames_and_times(made(of, 10**8))[:-1]


def test_storm_as_specification_makes_equal_frames() -> None:
    of = storm("pfc prio3=4096", 25 * G)
    text = "".join(toml_of(of.items(10**7)))
    again = list(chunks(read_toml(io.BytesIO(text.encode()), "x.toml", Reading())))
    assert frames_and_times(again) == frames_and_times(made(of, 10**7))


@pytest.mark.parametrize(
    "line", ["cnm", "pfc prio3=0", "pause quanta=0", "pfc enable=0", "pfc enable=0 prio3=5", "lldpcn"]
)
def test_frame_that_pauses_nothing_is_refused(line: str) -> None:
    with pytest.raises(SpecError, match="--storm: expected"):
        storm(line)


@pytest.mark.parametrize("rate", [0, -1])
def test_a_link_needs_a_speed(rate: int) -> None:
    with pytest.raises(ParameterError, match="expected a link of more than 0 bit/s"):
        storm("pause", rate)


@pytest.mark.parametrize("duration_ns", [0, -1, MAX_TIME_NS + 1])
def test_impossible_durations_are_refused(duration_ns: int) -> None:
    with pytest.raises(ParameterError, match="duration: expected"):
        storm("pause").items(duration_ns)
    with pytest.raises(ParameterError, match="duration: expected"):
        storm("pause").items(MAX_TIME_NS, start_ns=1)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0.5", Fraction(1, 2)),
        ("50%", Fraction(1, 2)),
        (".9", Fraction(9, 10)),
        ("99.5%", Fraction(199, 200)),
    ],
)
def test_shares(text: str, share: Fraction) -> None:
    assert share_of(text) == share


@pytest.mark.parametrize(
    "text", ["0", "1", "100%", "-0.5", "1e-3", "%", ".", "", "½", "0.5x", "1/2", "0" * 30]
)
def test_invalid_shares_are_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="renew: expected a share"):
        share_of(text)


@given(st.integers(1, 40), st.integers(1, 10**12), st.integers(1, 10**7))
def test_successive_pauses_leave_no_gap(quanta: int, rate_bps: int, duration_ns: int) -> None:
    try:
        of = storm(f"pfc prio0={quanta * 1000}", rate_bps)
    except EcmprotoError:
        assume(False)
    assume(of.frames(duration_ns) < 5000)
    times = [time for _, time in frames_and_times(made(of, duration_ns))]
    pause_ns = quanta * 1000 * 512 * G / rate_bps
    assert times[0] == 0
    assert all(0 < after - before < pause_ns for before, after in pairwise(times))
    assert times[-1] == duration_ns
