"""PAUSE and PFC rules: each rule finds its planted fault, and no other rule reports the fault."""

from __future__ import annotations

import dataclasses
import math

import pytest

from ecmproto.frames.capture import Interface
from ecmproto.tools.check import FAMILIES, Checked, Checker, chosen
from tests.check.planting import MS, US, Event, batch_of, checked, faults, frame

QUANTUM_NS = 51.2
"""Duration of a quantum in ns at 10 Gb/s."""
GOOD = frame("pfc prio3=100")


def octets(at: int, new: bytes, of: bytes = GOOD) -> bytes:
    return of[:at] + new + of[at + len(new) :]


PAUSE = frame("pause quanta=100")


def pfc(events: list[Event], **parameters: str) -> Checked:
    return checked(
        events, ["PFC", "PAUSE", "MACC"], {f"pfc.{name}": value for name, value in parameters.items()}
    )


@pytest.mark.parametrize(
    ("rule", "bad", "measured"),
    [
        ("PFC001", octets(5, b"\x02"), "01:80:c2:00:00:02"),
        ("PFC002", octets(6, b"\x03"), "03:00:00:00:00:c1"),
        ("PFC002", octets(6, bytes(6)), "00:00:00:00:00:00"),
        ("PFC003", frame("vlan id=5 priority=3 pfc prio3=100")[:60], None),
        ("PFC005", octets(16, b"\x80"), 128),
        ("PFC006", octets(20, b"\x00\x01"), "priority 1"),
        ("PFC007", octets(59, b"\x01"), None),
        ("PFC008", GOOD + bytes(40), 100),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_frames_a_receiver_may_refuse_are_found(rule: str, bad: bytes, measured: object) -> None:
    result = pfc([(0, GOOD), (10 * MS, bad), (20 * MS, GOOD)])
    assert faults(result) == [(rule, 2)]
    assert result.findings[0].measured == measured
    judged = {each.rule.id: each.judged for each in result.results}
    assert judged["PFC001"] == judged["PFC008"] == 3


def test_an_undeclared_fcs_is_not_padding() -> None:
    fcs = b"\x12\x34\x56\x78"
    assert faults(pfc([(0, GOOD + fcs), (MS, PAUSE + fcs)])) == []


@pytest.mark.parametrize(
    ("rule", "bad", "measured"),
    [
        ("PAUSE001", octets(0, b"\xff" * 6, PAUSE), "ff:ff:ff:ff:ff:ff"),
        ("PAUSE002", octets(6, b"\x03", PAUSE), "03:00:00:00:00:c1"),
        ("PAUSE002", octets(6, bytes(6), PAUSE), "00:00:00:00:00:00"),
        ("PAUSE003", frame("vlan id=5 priority=3 pause quanta=100"), None),
        ("PAUSE004", octets(18, b"\x01", PAUSE), None),
        ("MACC001", octets(14, b"\x02\x01", PAUSE), "0x0201"),
        ("MACC001", octets(14, b"\x00\x00", PAUSE), "0x0000"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_pause_or_opcode_is_found(rule: str, bad: bytes, measured: object) -> None:
    known = [octets(14, opcode, PAUSE) for opcode in (b"\x00\x02", b"\x00\x06", b"\xff\xfe")]
    events: list[Event] = [(0, PAUSE), (10 * MS, bad), (20 * MS, PAUSE)]
    result = pfc([*events, *[(30 * MS, each) for each in known]])
    assert faults(result) == [(rule, 2)]
    assert result.findings[0].measured == measured


def test_a_paused_lossy_priority_is_found() -> None:
    events: list[Event] = [(0, frame("pfc prio3=100")), (10 * MS, frame("pfc prio3=100 prio5=1"))]
    assert faults(pfc(events)) == []
    assert any("PFC004 was skipped" in note for note in pfc(events).notes)
    result = pfc(events, lossless="3,4")
    assert faults(result) == [("PFC004", 2)]
    assert (result.findings[0].measured, result.findings[0].allowed) == ("priority 3, 5", "priority 3, 4")
    assert not any("PFC004" in note for note in result.notes)


def test_a_pause_expiring_before_renewal_is_found() -> None:
    end_ns = int(1000 * QUANTUM_NS)
    events: list[Event] = [
        (0, frame("pfc prio3=1000")),
        (end_ns, frame("pfc prio3=1000")),  # in the very last moment
        (2 * end_ns + 2 * US, frame("pfc prio3=1000")),  # late
        (2 * end_ns + 3 * US, frame("pfc prio3=0")),
        (2 * end_ns + 4 * US, frame("pfc prio3=1000")),  # after an end: another pause
        (4 * end_ns + 100 * US, frame("pfc prio3=1000")),  # long after
    ]
    result = pfc(events)
    assert faults(result) == [("PFC009", 3)]
    assert result.findings[0].measured == "renewed 2 µs late"
    assert result.findings[0].what == "the pause of priority 3 expired before the renewal"
    assert any("10 Gb/s" in note for note in result.notes)
    assert ("PFC009", 6) in faults(pfc(events, late="10ms"))
    assert faults(pfc(events, rate="1G")) == []


@pytest.mark.parametrize(
    ("speed_bps", "assumed"), [(0, True), (1, False), ((1 << 62) - 1, False), (1 << 62, True)]
)
def test_a_plausible_interface_speed_is_used(speed_bps: int, assumed: bool) -> None:
    checker = Checker(chosen(["PFC009"], (), FAMILIES))
    link = Interface(index=0, linktype=1, name="east", speed_bps=speed_bps)
    checker.add(batch_of([(0, frame("pause quanta=1"))]), interfaces=[link])
    assert any("not contain the link speed" in note for note in checker.result().notes) == assumed


def test_pauses_are_tracked_per_class_sender_and_interface() -> None:
    first, end_ns = frame("pause quanta=1000"), int(1000 * QUANTUM_NS)
    others: list[Event] = [
        (end_ns + US, frame("pfc prio0=1000")),
        (end_ns + US, octets(11, b"\x77", first)),
        (end_ns + US, first, 1),
    ]
    assert faults(pfc([(0, first), *others])) == []
    assert faults(pfc([(0, first), (end_ns + US, first)])) == [("PFC009", 2)]


def test_a_pause_storm_differs_from_a_busy_link() -> None:
    renewed = int(0xFFFF * QUANTUM_NS) // 2
    count = 220 * MS // renewed
    storm: list[Event] = [(turn * renewed, frame("pfc prio3=65535")) for turn in range(count)]
    result = pfc(storm)
    assert faults(result) == [("PFC010", None)]
    assert result.findings[0].what == "priority 3 is in a pause storm"
    assert faults(pfc(storm, detect="10s")) == []
    half: list[Event] = [
        (turn * 4 * renewed + later, frame(f"pfc prio3={quanta}"))
        for turn in range(count // 4)
        for later, quanta in ((0, 65535), (renewed, 0))
    ]
    result = pfc(half)
    assert faults(result) == []
    (storms,) = [each for each in result.results if each.rule.id == "PFC010"]
    assert (storms.judged, storms.wrong) == (1, 0)


def test_untimed_frames_are_judged_one_by_one() -> None:
    from ecmproto.tools.check import Checker, chosen
    from tests.check.planting import batch_of

    batch = batch_of([(0, GOOD), (1, octets(5, b"\x02"))])
    batch = dataclasses.replace(batch, timed=batch.time_ns < 0)
    checker = Checker(chosen(["PFC"]))
    checker.add(batch)
    assert faults(checker.result()) == [("PFC001", 2)]


@pytest.mark.parametrize(("late_ns", "found"), [(50_000, [("PFC009", 2)]), (50_001, [])])
def test_a_pause_beyond_late_is_another_one(late_ns: int, found: list[tuple[str, int]]) -> None:
    asked, end_ns = frame("pfc prio3=1000"), int(1000 * QUANTUM_NS)
    assert faults(pfc([(0, asked), (end_ns + late_ns, asked)], late="50us")) == found


@pytest.mark.parametrize(("late_ns", "found"), [(0, []), (1, [("PFC009", 2)])])
def test_a_renewal_at_the_pauses_end_is_timely(late_ns: int, found: list[tuple[str, int]]) -> None:
    asked, end_ns = frame("pfc prio3=1000"), int(1000 * QUANTUM_NS)
    assert faults(pfc([(0, asked), (end_ns + late_ns, asked)], late="50us")) == found


def test_pauses_of_one_quantum_need_renewal_too() -> None:
    asked, end_ns = frame("pfc prio3=1"), math.ceil(QUANTUM_NS)
    assert faults(pfc([(0, asked), (end_ns + 1, asked)], late="50us")) == [("PFC009", 2)]


@pytest.mark.parametrize("quanta", [(1000, 0), (0, 1000)])
def test_a_release_is_not_a_renewal(quanta: tuple[int, int]) -> None:
    first, second = (frame(f"pfc prio3={each}") for each in quanta)
    assert faults(pfc([(0, first), (int(quanta[0] * QUANTUM_NS) + 1000, second)], late="50us")) == []
