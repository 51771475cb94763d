"""The port and its congestion points, compared with a simple event simulation and rule by rule."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.engine.config import RateChange
from ecmproto.control.engine.port import DROPPED, ENQUEUED, PASSED_BY
from ecmproto.control.mechanisms.api.protocol import payload_columns
from ecmproto.control.mechanisms.qcn.congestion_point import CNMPayload
from ecmproto.control.mechanisms.qcn.parameters import QCNCongestionPointParameters
from ecmproto.control.replay.open_loop import ReplayedBatch
from ecmproto.frames.capture.batch import Batch
from tests.replay.captures import batch_of, octets_of, overload, replay
from tests.replay.slow_port import Arriving, Level, SlowPort

FATES = {PASSED_BY: "passed by", ENQUEUED: "enqueued", DROPPED: "dropped"}


def flattened(parts: list[ReplayedBatch]) -> dict[str, list[int]]:
    starts = np.cumsum([0] + [len(part.batch) for part in parts])
    found: dict[str, list[int]] = {
        "disposition": [int(disposition) for part in parts for disposition in part.disposition],
        "qlen": [int(qlen) for part in parts for qlen in part.qlen_octets],
        "position": [
            int(start + position)
            for start, part in zip(starts, parts, strict=False)
            for position in part.messages["cause"]
        ],
    }
    for name in ("time_ns", "priority", "qlen_octets", "qoff_octets", "qdelta_octets"):
        found[name] = [int(value) for part in parts for value in part.messages[name]]
    found["qntz_fb"] = [
        int(value) for part in parts for value in payload_columns(part.messages, CNMPayload)["qntz_fb"]
    ]
    found["fb_1024"] = [int(1024 * value) for part in parts for value in part.messages["fb_octets"]]
    return found


ARRIVALS = st.lists(
    st.builds(
        Arriving,
        time_ns=st.integers(0, 300_000),
        octets=st.one_of(st.integers(18, 9_000), st.sampled_from([60, 1_514, 30_000, 60_000])),
        priority=st.integers(0, 7),
        occupies=st.sampled_from([True] * 9 + [False]),
        sampled=st.sampled_from([True] * 9 + [False]),
    ),
    min_size=1,
    max_size=120,
)


@settings(max_examples=80, deadline=None)
@given(
    frames=ARRIVALS,
    in_order=st.booleans(),
    rate=st.sampled_from([10**10, 7_777_777_777, 10**9, 2_500_000_001, 99_999_989]),
    buffer=st.sampled_from([9_000, 100_000, 2_000_000]),
    overhead=st.sampled_from([0, 24]),
    seed=st.integers(0, 2**32),
    cuts=st.lists(st.integers(0, 120), max_size=4),
    changes=st.dictionaries(
        st.integers(1, 310_000), st.sampled_from([10**10, 10**9, 33_333_333, 7_777_777_777]), max_size=4
    ),
)
def test_any_batches_equal_the_event_simulation(
    frames: list[Arriving],
    in_order: bool,
    rate: int,
    buffer: int,
    overhead: int,
    seed: int,
    cuts: list[int],
    changes: dict[int, int],
) -> None:
    frames = sorted(frames) if in_order else frames
    earliest = frames[0].time_ns
    frames = [frame._replace(time_ns=frame.time_ns - earliest) for frame in frames]
    slow = SlowPort(rate, buffer, overhead, seed, changes=changes)
    slow.run(frames)
    edges = sorted({0, len(frames), *(cut for cut in cuts if cut < len(frames))})
    batches = [batch_of(frames[a:b], first=a) for a, b in pairwise(edges)]
    real = replay(
        *batches,
        rate_bps=rate,
        rate_changes=tuple(RateChange(time_ns, changes[time_ns]) for time_ns in sorted(changes)),
        buffer_octets=buffer,
        overhead_octets=overhead,
        seed=seed,
    )
    found = flattened(list(real))

    assert [FATES[disposition] for disposition in found["disposition"]] == slow.dispositions
    assert found["qlen"] == slow.qlens
    columns = (found[name] for name in ("position", "qoff_octets", "qdelta_octets", "fb_1024", "qntz_fb"))
    expected = [(i, qoff, qdelta, fb * 1024, q) for i, qoff, qdelta, fb, q in slow.samples]
    assert list(zip(*columns, strict=True)) == expected
    summary = real.summary()
    (port,) = summary.ports
    assert_statistics(port.queue, slow.total)
    for priority, statistics in port.queue_by_priority.items():
        assert_statistics(statistics, slow.levels[priority])
    assert set(port.queue_by_priority) == {p for p, level in slow.levels.items() if level.peak}
    idle, whole = slow.total.held[0], sum(slow.total.held.values())
    assert port.utilisation == pytest.approx(1 - idle / whole if whole else 0, abs=1e-12)


def assert_statistics(got: Any, exact: Level) -> None:
    assert got.peak_octets == exact.peak
    assert got.mean_octets == pytest.approx(float(exact.mean()), rel=1e-12)
    for percent in (50, 90, 99):
        expected = min(exact.peak, -(-exact.percentile(percent) // 64) * 64)
        assert getattr(got, f"p{percent}_octets") == expected


def test_departures_are_exact_in_a_long_busy_period() -> None:
    # 60 + 24 octets take exactly 96 ns at 7 Gb/s. 61 + 24 octets take 97 1/7 ns, and seven of these frames
    # take 680 ns.
    frames = [Arriving(0, 61, 0)] * 7 + [Arriving(679, 60, 0), Arriving(680, 60, 0)]
    (part,) = replay(batch_of(frames), rate_bps=7 * 10**9)
    assert part.qlen_octets.tolist()[-2:] == [61 + 60, 60 + 60]


def test_a_rate_change_applies_to_following_frames() -> None:
    # Without overhead 1000 octets take 8000 ns at 1 Gb/s and 800 ns at 10 Gb/s.
    at = [0, 0, 0, 7_999, 8_000, 8_799, 8_800, 9_599, 9_600]
    (part,) = replay(
        batch_of([Arriving(time_ns, 1000, 0) for time_ns in at]),
        rate_bps=10**9,
        overhead_octets=0,
        rate_changes=(RateChange(1, 10**10),),
    )
    assert part.qlen_octets.tolist() == [1000, 2000, 3000, 4000, 4000, 5000, 5000, 6000, 6000]


def test_strict_priority_never_preempts() -> None:
    # At 1 Gb/s without overhead an octet takes 8 ns.  The 0 in service finishes first, then 7, then 3.
    frames = [
        Arriving(0, 1000, 0), Arriving(10, 1000, 0), Arriving(20, 1000, 3), Arriving(30, 1000, 7),
        Arriving(7_999, 100, 7), Arriving(8_000, 100, 0), Arriving(16_800, 100, 3), Arriving(24_799, 100, 3),
        Arriving(24_800, 100, 3),
    ]  # fmt: skip
    (part,) = replay(batch_of(frames), rate_bps=10**9, overhead_octets=0)
    assert part.qlen_octets.tolist() == [1000, 2000, 1000, 1000, 1100, 1100, 1100, 1200, 300]


def test_only_frames_exceeding_the_buffer_are_dropped() -> None:
    frames = [Arriving(0, 600, 0), Arriving(1, 500, 0), Arriving(1, 400, 5), Arriving(1, 1, 0)]
    (part,) = replay(batch_of(frames), buffer_octets=1_000)
    assert part.disposition.tolist() == [ENQUEUED, DROPPED, ENQUEUED, DROPPED]
    assert part.qlen_octets.tolist() == [600, 600, 400, 600]


def test_tags_do_not_count_towards_the_buffer() -> None:
    """A CN-TAG does not use the buffer: a tagged frame of 504 octets fits if an untagged frame of 500 octets
    fits.
    """
    tagged = octets_of(Arriving(0, 500, 0))[:16] + bytes.fromhex("22e9 0007 0800").ljust(44, b"\0")
    octets = [octets_of(Arriving(0, 500, 0)), tagged, tagged, tagged]
    batch = Batch.from_frames(octets, time_ns=[0, 1, 2, 3], original=[500, 504, 505, 504])
    (part,) = replay(batch, buffer_octets=1_504)
    assert part.disposition.tolist() == [ENQUEUED, ENQUEUED, DROPPED, ENQUEUED]
    assert part.qlen_octets.tolist() == [500, 1_004, 1_004, 1_508]


def test_a_buffer_in_frames_ignores_frame_length() -> None:
    frames = [Arriving(0, 9_000, 0), Arriving(1, 60, 5), Arriving(2, 60, 0), Arriving(3, 1, 7)]
    late = [Arriving(10**9, 2_000_000, 0), Arriving(10**9, 3_000_000, 3), Arriving(10**9, 60, 7)]
    run = replay(batch_of([*frames, *late]), buffer_octets=2 * 1518, buffer_frames=2)
    (part,) = run
    assert part.disposition.tolist() == [ENQUEUED, ENQUEUED, DROPPED, DROPPED, ENQUEUED, ENQUEUED, DROPPED]
    assert run.summary().ports[0].queue.peak_octets == 5_000_000
    assert (run.summary().buffer_frames, run.summary().buffer) == (2, "2 frames")


def test_peak_covers_oversized_frames_in_a_buffer() -> None:
    run = replay(
        batch_of([Arriving(0, 10**9, 0), Arriving(1, 1, 0), Arriving(10**9, 60, 0)]), buffer_frames=1
    )
    (part,) = run
    assert part.disposition.tolist() == [ENQUEUED, DROPPED, ENQUEUED]
    queue = run.summary().ports[0].queue
    assert queue.peak_octets == 10**9
    assert queue.mean_octets > 0


def test_dropped_arrivals_do_not_count_towards_sampling() -> None:
    frames = [Arriving(0, 100_000, 0)] + [Arriving(1, 1_514, 0)] * 500
    (part,) = replay(batch_of(frames), buffer_octets=100_000)
    assert (part.disposition == DROPPED).sum() == 500
    assert len(part.messages) == 0
    (part,) = replay(batch_of(frames), buffer_octets=1_000_000)
    assert len(part.messages) > 0


def test_unsampled_frames_do_not_count_towards_sampling() -> None:
    (part,) = replay(batch_of([Arriving(i, 1_514, 0, sampled=False) for i in range(300)]))
    assert (part.disposition == ENQUEUED).all()
    assert len(part.messages) == 0


def test_mac_control_passes_by_and_extends_duration() -> None:
    frames = [Arriving(0, 60, 0), Arriving(10**6, 60, 0, occupies=False)]
    run = replay(batch_of(frames))
    (part,) = run
    assert part.disposition.tolist() == [ENQUEUED, PASSED_BY]
    assert run.summary().duration_ns == 10**6


def test_thousands_of_queued_frames_keep_order() -> None:
    generator = np.random.default_rng(2)
    frames = [Arriving(i, int(generator.integers(20, 90)), int(generator.integers(8))) for i in range(9_000)]
    frames += [Arriving(10**5 + 1_000 * i, 60, 7) for i in range(500)]
    slow = SlowPort(10**9, 10**6, 24, 1)
    slow.run(frames)
    found = flattened(list(replay(batch_of(frames), rate_bps=10**9, buffer_octets=10**6)))
    assert found["qlen"] == slow.qlens


def test_a_batch_may_exceed_the_sample_capacity() -> None:
    frames = [Arriving(i * 100, 60_000, 0) for i in range(9_000)]
    parameters = QCNCongestionPointParameters(sample_base_octets=10_000)
    (part,) = replay(batch_of(frames), buffer_octets=10**9, parameters=parameters)
    assert part.messages["cause"].tolist() == list(range(9_000))


def test_the_snap_length_does_not_matter() -> None:
    frames = overload(3_000)
    whole = [bytes(batch_of([frame]).frame(0)).ljust(frame.octets, b"\0") for frame in frames]
    times = [frame.time_ns for frame in frames]
    cut = Batch.from_frames([octets[:18] for octets in whole], time_ns=times, original=1_514)
    results = [flattened(list(replay(batch))) for batch in (Batch.from_frames(whole, time_ns=times), cut)]
    assert results[0] == results[1]
    assert results[0]["position"]
