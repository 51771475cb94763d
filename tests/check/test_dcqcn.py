"""Rules of RoCEv2 and DCQCN: each finds the fault that was planted, and nothing else."""

from __future__ import annotations

import pytest

from ecmproto.check import Checked
from tests.check.planting import MS, US, Event, checked, faults, frame

QP, SENDERS_QP = 0x118, 0x200
BACKWARDS = "ip src=10.0.0.2 dst=10.0.0.1"
CNP = frame(f"{BACKWARDS} cnp qp={SENDERS_QP}")
BACK = frame(f"{BACKWARDS} bth opcode=0x11 qp={SENDERS_QP} psn=7 aeth")


def data(ecn: int, psn: int = 7, source: str = "10.0.0.1") -> bytes:
    line = f"bth opcode=4 qp={QP} psn={psn} data data=00010203"
    return frame(f"ip src={source} dst=10.0.0.2 ip.dsfield.ecn={ecn} {line}")


def to(queue_pair: int) -> bytes:
    return frame(f"{BACKWARDS} cnp qp={queue_pair}")


def dcqcn(events: list[Event], **parameters: str) -> Checked:
    given = {f"dcqcn.{name}": value for name, value in parameters.items()}
    return checked(events, ["CNP", "ROCE"], given)


@pytest.mark.parametrize("change", ["becn=0", "psn=1", "cnp.reserved=" + "00" * 15 + "01"])
def test_a_cnp_that_is_none_is_found(change: str) -> None:
    bad = frame(f"{BACKWARDS} cnp qp={SENDERS_QP} {change}")
    result = dcqcn([(0, CNP), (MS, bad), (2 * MS, CNP)])
    assert faults(result) == [("CNP001", 2)]
    assert result.findings[0].subject == "QP 0x000200"


def test_a_marked_cnp_is_found() -> None:
    marked = frame(f"{BACKWARDS} ip.dsfield.ecn=3 cnp qp={SENDERS_QP}")
    assert faults(dcqcn([(0, CNP), (MS, marked)])) == [("CNP002", 2)]
    ipv6 = frame(f"ipv6 src=fe80::2 dst=fe80::1 ipv6.tclass.ecn=3 cnp qp={SENDERS_QP}")
    assert faults(dcqcn([(0, ipv6)])) == [("CNP002", 1)]


def test_cnps_of_one_queue_pair_that_come_too_often_are_found() -> None:
    other_sender = frame(f"ip src=10.0.0.3 dst=10.0.0.1 cnp qp={SENDERS_QP}")
    events: list[Event] = [
        (0, CNP),
        (1 * US, to(SENDERS_QP + 1)),
        (2 * US, other_sender),
        (3 * US, CNP, 1),
        (45 * US, CNP),
        (70 * US, CNP),
    ]
    result = dcqcn(events)
    assert faults(result) == [("CNP003", 6)]
    assert result.findings[0].measured == "25 µs"
    assert faults(dcqcn(events, interval="4us")) == []


def test_marks_that_nobody_answers_are_found() -> None:
    marked: list[Event] = [(turn * MS, data(3, turn)) for turn in range(4)]
    assert faults(dcqcn([*marked, (4 * MS, BACK)])) == []  # nobody sends a CNP: an open loop
    result = dcqcn([*marked, (4 * MS, BACK)], closed="yes")
    assert faults(result) == [("CNP004", None)]
    assert result.findings[0].what == "no CNP goes from 10.0.0.2 to 10.0.0.1"
    assert result.findings[0].measured == "4 CE-marked frames"
    assert faults(dcqcn([*marked, (4 * MS, CNP)])) == []


@pytest.mark.parametrize(
    "events",
    [
        [(0, data(3)), (5 * MS, data(2, 8))],
        [(0, data(2)), (5 * MS, BACK)],
        [(0, data(2)), (MS, BACK), (5 * MS, data(3, 8))],
    ],
    ids=["the way back is not there", "not marked", "the capture ends"],
)
def test_marks_are_not_missed_where_nobody_can_tell(events: list[Event]) -> None:
    assert faults(dcqcn(events)) == []


def test_an_invariant_crc_that_does_not_hold_is_found() -> None:
    good = data(2)
    bad = good[:-1] + bytes([good[-1] ^ 1])
    result = dcqcn([(0, good), (MS, bad)])
    assert faults(result) == [("ROCE001", 2)]
