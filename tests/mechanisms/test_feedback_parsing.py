"""Parsing any octets raises no error and is counted, and all parsers refuse forged messages."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.machine import Machine, SampledFrame, StackedMachine
from ecmproto.control.mechanisms.api.protocol import PAUSE_KIND, PFC_KIND, fields_of, messages_of
from ecmproto.control.mechanisms.registry import MECHANISMS
from tests.mechanisms.fecn.driver import made, place
from tests.mechanisms.parsing import parse_frame

OWN, DST = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
PLACE = dataclasses.replace(place(1, 4), cp_mac=bytes.fromhex("8200000000cc"))
DATA = DST + OWN + bytes.fromhex("81006005") + b"\x08\x00" + b"\x45" * 100
VALUES = {
    "cpid": 0x0200_0000_0099_0001,
    "qntz_fb": 9,
    "q_off": 100,
    "q_delta": 200,
    "e": -3,
    "capacity": 10**6,
    "rate_kbps": 5,
    "rlq_id": 1,
}
NAMES = [mechanism.name for mechanism in MECHANISMS]
SPEAKING = {
    (name, kind): made(name)
    for name in NAMES
    for kind in made(name).kinds
    if kind not in (PAUSE_KIND, PFC_KIND)
}


def frame_of(machine: Machine, kind: int) -> bytes:
    (message,) = messages_of([{"kind": kind, "sent": 1, "priority": 3, **VALUES}], machine.payloads)
    return machine.frame(message, SampledFrame(DATA, len(DATA), 16), PLACE)


FRAMES = {of: frame_of(machine, of[1]) for of, machine in SPEAKING.items()}
OCTETS = st.one_of(
    st.binary(max_size=100),
    st.builds(lambda head, tail: head[:24] + tail, st.sampled_from(list(FRAMES.values())), st.binary()),
    st.builds(
        lambda octets, at, flip: octets[:at] + bytes([octets[at] ^ flip]) + octets[at + 1 :],
        st.sampled_from(list(FRAMES.values())), st.integers(0, 59), st.integers(1, 255),
    ),
    st.builds(lambda octets, end: octets[:end], st.sampled_from(list(FRAMES.values())), st.integers(0, 110)),
)  # fmt: skip


@settings(deadline=None)
@given(OCTETS, st.sampled_from([OWN, b""]), st.one_of(st.none(), st.integers(0, 2000)))
def test_any_octets_are_feedback_or_not(octets: bytes, mac: bytes, length: int | None) -> None:
    for name in NAMES:
        machine = made(name)
        parsed, counted = parse_frame(machine, octets, mac, PLACE, length_octets=length)
        assert sum(counted.values()) <= 1 + (parsed is not None)
        if parsed is None:
            continue
        assert octets[:6] == mac == OWN
        (message,) = messages_of([parsed.fields], machine.payloads)
        assert fields_of(message, machine.payloads).items() >= parsed.fields.items()
        assert int(message.kind) in machine.kinds
        assert 0 <= message.priority <= 7


PARSED = [of for of in FRAMES if "FWD" not in SPEAKING[of].kinds[of[1]]]


@pytest.mark.parametrize("of", PARSED, ids=str)
def test_message_is_for_station_that_it_is_to(of: tuple[str, int]) -> None:
    machine, octets = SPEAKING[of], FRAMES[of]
    parsed, _ = parse_frame(machine, octets, OWN, PLACE)
    assert parsed is not None
    assert parsed.about is not None
    assert parsed.about.destination == DST
    assert parsed.about.vlan == 5
    for mac in (DST, b""):
        refused, counted = parse_frame(machine, octets, mac, PLACE)
        assert refused is None
        assert [name.split("_")[0] for name in counted] == ["foreign"]
    for group in (b"\x03", b"\xff"):
        refused, counted = parse_frame(machine, group + octets[1:], b"", PLACE)
        assert refused is None
        assert list(counted.values()) == [1]


@pytest.mark.parametrize("name", ["none", "pause", "pfc"])
def test_mechanisms_without_messages_parse_none(name: str) -> None:
    for octets in FRAMES.values():
        assert parse_frame(made(name), octets, OWN, PLACE) == (None, {})


def test_a_mechanism_over_another_parses_its_own() -> None:
    over = StackedMachine(made("qcn"), made("pfc"))
    for of, octets in FRAMES.items():
        assert parse_frame(over, octets, OWN, PLACE) == parse_frame(made("qcn"), octets, OWN, PLACE)
        assert (parse_frame(over, octets, OWN, PLACE).feedback is not None) == (of[0] == "qcn")
