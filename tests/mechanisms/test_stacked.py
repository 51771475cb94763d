"""Two congestion points on one port."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import PortContext, StackedCongestionPoint, machine_of
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import (
    PFC_KIND,
    SILENT,
    Arrival,
    CongestionPoint,
    NullCongestionPoint,
    Outbox,
    flow_control_payload,
    new_outbox,
    post,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.congestion_point import FlowControlPoint
from ecmproto.control.mechanisms.pause.parameters import PFC, PFCGenerationParameters
from ecmproto.control.mechanisms.qcn.congestion_point import CNM_KIND, QCNPoints
from ecmproto.control.mechanisms.qcn.parameters import QCN, QCNCongestionPointParameters
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import columns
from tests.conftest import REPOSITORY
from tests.mechanisms.crossing import crossing, said, show, shown

PLACE = PortContext(rate_bps=10**10, link_rate_bps=10**10, cp_mac=bytes(6), stations=3, flows=1)
FRAMES = crossing(5, steps=1500, stations=3, buffer_octets=60_000, gap_ns=2_000)


def qcn() -> CongestionPoint:
    parameters = QCNCongestionPointParameters(qeq_octets=10_000)
    machine = machine_of(QCN, {Role.CONGESTION_POINT: parameters})
    return machine.congestion_point(PLACE, np.random.default_rng(3))


def pfc() -> CongestionPoint:
    parameters = PFCGenerationParameters(high_octets=8_000, low_octets=2_000, pause_quanta=300)
    machine = machine_of(PFC, {Role.CONGESTION_POINT: parameters})
    return machine.congestion_point(PLACE, np.random.default_rng(3))


def both_ways() -> list[Any]:
    """Return the messages of QCN over PFC about the crossing, and of PFC over QCN."""
    return [
        said(shown(StackedCongestionPoint(qcn(), pfc()), FRAMES)),
        said(shown(StackedCongestionPoint(pfc(), qcn()), FRAMES)),
    ]


def states(point: CongestionPoint) -> list[bytes]:
    """Return the octets of what a point remembers."""
    if isinstance(point, QCNPoints):
        return [columns(point.states).tobytes()]
    assert isinstance(point, FlowControlPoint)
    return [columns(point.links).tobytes(), columns(point.meters).tobytes(), point.octets.tobytes()]


def test_qcn_over_pfc_says_what_each_says_alone() -> None:
    alone_qcn, alone_pfc = qcn(), pfc()
    expected_qcn, expected_pfc = said(shown(alone_qcn, FRAMES)), said(shown(alone_pfc, FRAMES))
    both = StackedCongestionPoint(qcn(), pfc())
    outbox = shown(both, FRAMES)
    assert said(outbox, CNM_KIND, SILENT) == expected_qcn
    assert said(outbox, PFC_KIND) == expected_pfc
    assert said(outbox, CNM_KIND)
    assert {
        flow_control_payload(message).quanta for message in outbox.messages[: int(outbox.posted.count)]
    } == {0, 300}
    assert states(both.first) == states(alone_qcn)
    assert states(both.second) == states(alone_pfc)


def test_the_crossing_makes_pfc_refresh() -> None:
    # Or the equality above would say nothing about ticks.
    outbox = new_outbox(4 * FRAMES.now_ns.size)
    assert show(StackedCongestionPoint(qcn(), pfc()), FRAMES, outbox) > 3


def test_compiled_and_plain_runs_are_identical() -> None:
    other = "0" if os.environ.get("NUMBA_DISABLE_JIT", "0") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", "from tests.mechanisms.test_stacked import both_ways; print(both_ways())"],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_DISABLE_JIT": other},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(both_ways())


class Diary(NullCongestionPoint):
    """A congestion point that records its arguments, multiplies tags by ``factor`` and adds 1.

    The first element of ``seen`` is the number of following numbers. Each call adds three numbers.
    """

    kind: int
    factor: int
    due_ns: int
    seen: NDArray[np.int64]

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        note(self.seen, arrival.now_ns, arrival.station, arrival.octets)
        post(outbox, self.kind, arrival.now_ns, arrival.station, arrival.flow, arrival.priority)

    def rewrite_tag(self, priority: int, tag: int) -> int:
        return tag * self.factor + 1

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        note(self.seen, now_ns, station, octets + port_octets)
        post(outbox, self.kind, now_ns, station, -1, priority)

    def add_record(
        self, now_ns: int, line_octets: int, port_octets: int, mark: int, stack: NDArray[np.int64]
    ) -> int:
        stack[0] += 1
        return mark * self.factor + 1

    def next_timer_ns(self) -> int:
        return self.due_ns

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        note(self.seen, now_ns, qlens_octets[0], qlens_octets[7])
        post(outbox, self.kind, now_ns, -1, -1, 0)


@compiled
def note(seen: NDArray[np.int64], first: int, second: int, third: int) -> None:
    at = seen[0]
    seen[at + 1], seen[at + 2], seen[at + 3] = first, second, third
    seen[0] = at + 3


def diaries(first_due_ns: int = NEVER_NS, second_due_ns: int = NEVER_NS) -> tuple[Diary, Diary]:
    return (
        Diary(1, 2, first_due_ns, np.zeros(16, np.int64)),
        Diary(2, 10, second_due_ns, np.zeros(16, np.int64)),
    )


def seen_by(diary: Diary) -> list[int]:
    numbers: list[int] = diary.seen[1 : 1 + diary.seen[0]].tolist()
    return numbers


def test_both_see_every_frame_and_first_comes_first() -> None:
    first, second = diaries()
    both, outbox = StackedCongestionPoint(first, second), new_outbox(8)
    arrival = Arrival(5, 1, 2, 3, 100, True, True, True, True, 9, 8, 100, 200)
    both.on_arrival(arrival, outbox)
    both.on_dequeue(7, 1, 3, 100, 100, outbox)
    assert seen_by(first) == seen_by(second) == [5, 1, 100, 7, 1, 100 + 100]
    assert [int(outbox.messages[index].kind) for index in range(int(outbox.posted.count))] == [1, 2, 1, 2]


def test_tag_passes_first_and_then_second() -> None:
    assert StackedCongestionPoint(*diaries()).rewrite_tag(3, 5) == (5 * 2 + 1) * 10 + 1


def test_records_pass_first_and_then_second() -> None:
    stack = np.zeros(1, np.int64)
    assert StackedCongestionPoint(*diaries()).add_record(7, 0, 0, 5, stack) == (5 * 2 + 1) * 10 + 1
    assert stack[0] == 2


@pytest.mark.parametrize(
    ("first_due_ns", "second_due_ns", "called"),
    [(10, 20, [1]), (20, 10, [2]), (10, 10, [1, 2]), (NEVER_NS, 10, [2])],
)
def test_the_earlier_tick_calls_those_that_are_due(
    first_due_ns: int, second_due_ns: int, called: list[int]
) -> None:
    first, second = diaries(first_due_ns, second_due_ns)
    both, outbox = StackedCongestionPoint(first, second), new_outbox(8)
    assert both.next_timer_ns() == 10
    both.on_timer(10, np.arange(8), outbox)
    assert [int(outbox.messages[index].kind) for index in range(int(outbox.posted.count))] == called
    for diary in (first, second):
        assert seen_by(diary) == ([10, 0, 7] if diary.kind in called else [])


def test_two_that_say_nothing_need_no_tick() -> None:
    assert (
        StackedCongestionPoint(
            NullCongestionPoint(), StackedCongestionPoint(NullCongestionPoint(), NullCongestionPoint())
        ).next_timer_ns()
        == NEVER_NS
    )
