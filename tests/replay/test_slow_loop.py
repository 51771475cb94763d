"""The closed loop, compared with a simple simulation of its rules, frame by frame, including ties."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.control.engine.config import RateChange
from ecmproto.control.mechanisms.api.protocol import FlowControlPayload, payload_columns
from tests.replay.loops import TEN_G, Sent, run
from tests.replay.slow_loop import DROPPED, ENQUEUED, HELD_OUT, SlowLoop

# With 24 octets of overhead, these frames take 100, 200 and 800 ns at 10 Gb/s, so many events are
# simultaneous.
FRAME = st.builds(
    Sent,
    time_ns=st.integers(0, 60).map(lambda n: 100 * n),
    station=st.integers(1, 3),
    octets=st.sampled_from([101, 226, 976, 976, 1_000]),
    priority=st.sampled_from([0, 3, 6]),
    vlan=st.just(1),
    destination=st.just(250),
    to_group=st.sampled_from([False] * 9 + [True]),
)
FRAMES = st.lists(FRAME, max_size=59).map(
    lambda frames: [Sent(0, 1, 976), *sorted(frames, key=lambda frame: frame.time_ns)]
)
BURST = [Sent(100 * n, 1 + n % 3, 976, 3 * (n % 2)) for n in range(60)]


@pytest.mark.parametrize("kind", ["none", "pause", "pfc"])
@given(
    frames=FRAMES,
    rate_bps=st.sampled_from([TEN_G, TEN_G // 4, 9_999_999_967]),
    link_rate_bps=st.sampled_from([TEN_G, TEN_G // 2, 9_999_999_967]),
    buffer_octets=st.sampled_from([3_000, 8_000, 500_000]),
    queue_octets=st.sampled_from([1_000, 2_500, 10**6]),
    delay_ns=st.sampled_from([0, 100, 1_000, 10_000]),
    thresholds=st.sampled_from([(900, 0), (2_000, 1_000), (2_000, 2_000), (5_000, 300)]),
    sizes=st.lists(st.integers(0, 9), max_size=5),
    changes=st.dictionaries(
        st.integers(1, 90).map(lambda n: 100 * n), st.sampled_from([TEN_G, 10**9, 9_999_999_967]), max_size=3
    ),
)
@example(
    frames=BURST,
    rate_bps=TEN_G // 4,
    link_rate_bps=TEN_G,
    buffer_octets=8_000,
    queue_octets=2_500,
    delay_ns=100,
    thresholds=(2_000, 1_000),
    sizes=[],
    changes={1_000: 10**9, 9_000: TEN_G},
)
def test_passages_and_messages_equal_the_simulation(
    kind: str,
    frames: list[Sent],
    rate_bps: int,
    link_rate_bps: int,
    buffer_octets: int,
    queue_octets: int,
    delay_ns: int,
    thresholds: tuple[int, int],
    sizes: list[int],
    changes: dict[int, int],
) -> None:
    high, low = thresholds
    assignments = [] if kind == "none" else ["cp.pause_on=output", f"cp.high={high}B", f"cp.low={low}B"]
    loop = run(
        frames,
        kind,
        *assignments,
        rate_bps=rate_bps,
        link_rate_bps=link_rate_bps,
        buffer_octets=buffer_octets,
        queue_octets=queue_octets,
        delay_ns=delay_ns,
        sizes=sizes,
        rate_changes=tuple(RateChange(time_ns, rate) for time_ns, rate in sorted(changes.items())),
    )
    slow = SlowLoop(
        frames=frames,
        kind=kind,
        rate=rate_bps,
        link=link_rate_bps,
        buffer=buffer_octets,
        overhead=24,
        delay=delay_ns,
        queue=queue_octets,
        high=high,
        low=low,
        changes=sorted(changes.items()),
    )
    slow.run()
    names = ["serial", "time_ns", "disposition", "qlen_octets"]
    assert loop.passages[names].tolist() == slow.passages
    said = payload_columns(loop.messages, FlowControlPayload)
    sent = [
        (row["time_ns"], row["priority"], quanta > 0)
        for row, quanta in zip(loop.messages, said["quanta"], strict=True)
    ]
    assert sent == slow.messages
    assert loop.stations.messages == len(slow.messages)


def test_the_burst_contains_every_disposition() -> None:
    """Otherwise the comparison would prove little."""
    dispositions, late = set(), {}
    for kind in ("none", "pause", "pfc"):
        slow = SlowLoop(
            frames=BURST, kind=kind, rate=TEN_G // 4, link=TEN_G, buffer=8_000, overhead=24, delay=100,
            queue=2_500, high=2_000, low=1_000,
        )  # fmt: skip
        slow.run()
        dispositions |= {disposition for _, _, disposition, _ in slow.passages}
        late[kind] = sum(
            time > BURST[serial].time_ns for serial, time, disposition, _ in slow.passages if disposition < 3
        )
    assert dispositions == {ENQUEUED, DROPPED, HELD_OUT}
    assert late["none"] == 0
    assert min(late["pause"], late["pfc"]) > 5
