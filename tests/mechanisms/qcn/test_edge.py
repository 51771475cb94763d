"""The QCN edge: CND defence modes (wire-formats 9) and the backbone edge's CNM conversion (3.1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.qcn.edge import (
    DefenceRules,
    QCNEdge,
    advertisement,
    alternate_priority,
    convert,
    defence_modes,
    port_rules,
    receive,
    transmit,
)
from ecmproto.control.mechanisms.qcn.parameters import DefenceMode, QCNEdgeParameters
from ecmproto.errors import ParameterError
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec import CongestionNotificationTLV, decode

MACS = "020000000001 020000000002 "
IP = " 0800 " + "45" * 60


def frame(header: str) -> bytes:
    return bytes.fromhex(MACS + header + IP)


def parameters(*cnpv: int, **options: Any) -> QCNEdgeParameters:
    return QCNEdgeParameters(cnpv=frozenset(cnpv), **options)


def rules_of(mode: DefenceMode, *cnpv: int, **options: Any) -> DefenceRules:
    chosen = parameters(*cnpv, mode=int(mode))
    return port_rules(chosen, defence_modes(chosen, None), **options)


def counted(edge: QCNEdge) -> dict[str, int]:
    names = edge.dtype.names  # type: ignore[attr-defined]
    return {name: int(getattr(edge, name)) for name in names if getattr(edge, name)}


@pytest.mark.parametrize(
    ("mode", "received", "strips"),
    [
        (DefenceMode.DISABLED, 3, False),
        (DefenceMode.INTERIOR, 3, True),
        (DefenceMode.INTERIOR_READY, 3, False),
        (DefenceMode.EDGE, 2, True),
    ],
)
def test_the_table_of_defence_modes(mode: DefenceMode, received: int, strips: bool) -> None:
    rules = rules_of(mode, 3)
    edge = new_record(QCNEdge)
    octets, priority = receive(edge, rules, frame("8100 6123 22e9 0005"))
    assert priority == received
    assert octets == frame(f"8100 {received << 1:x}123 22e9 0005")
    sent = transmit(edge, rules, frame("8100 6123 22e9 0005"), 3)
    assert sent == frame("8100 6123" if strips else "8100 6123 22e9 0005")
    assert counted(edge) == {
        **({"remapped_frames": 1} if received != 3 else {}),
        **({"cn_tags_stripped": 1} if strips else {}),
    }


@pytest.mark.parametrize("mode", DefenceMode)
def test_other_priorities_and_untagged_frames_pass_unchanged(mode: DefenceMode) -> None:
    rules = rules_of(mode, 3)
    edge = new_record(QCNEdge)
    for header, priority in (("8100 a123 22e9 0005", 5), ("", 0)):
        assert receive(edge, rules, frame(header)) == (frame(header), priority)
        assert transmit(edge, rules, frame(header), priority) == frame(header)
    assert transmit(edge, rules, frame("8100 6123"), 3) == frame("8100 6123")
    assert counted(edge) == {}


def test_untagged_frame_avoids_a_cnpv_of_0() -> None:
    edge = new_record(QCNEdge)
    assert receive(edge, rules_of(DefenceMode.EDGE, 0, 1), frame("")) == (frame(""), 2)
    assert counted(edge) == {"remapped_frames": 1}


def tlv(cnpv: int, ready: int) -> CongestionNotificationTLV:
    return CongestionNotificationTLV(cnpv=cnpv, ready=ready)


@pytest.mark.parametrize(
    ("neighbour", "mode"),
    [
        (None, DefenceMode.EDGE),
        (tlv(0, 0), DefenceMode.EDGE),
        (tlv(0, 1 << 3), DefenceMode.EDGE),
        (tlv(1 << 5, 1 << 5), DefenceMode.EDGE),
        (tlv(1 << 3, 0), DefenceMode.INTERIOR),
        (tlv(1 << 3, 0xF7), DefenceMode.INTERIOR),
        (tlv(1 << 3, 1 << 3), DefenceMode.INTERIOR_READY),
        (tlv(0xFF, 0xFF), DefenceMode.INTERIOR_READY),
    ],
)
def test_automatic_mode_follows_the_neighbours_tlv(
    neighbour: CongestionNotificationTLV | None, mode: DefenceMode
) -> None:
    modes = defence_modes(parameters(3), neighbour)
    assert modes == (*[DefenceMode.DISABLED] * 3, mode, *[DefenceMode.DISABLED] * 4)


def test_mode_that_is_set_does_not_ask_neighbour() -> None:
    assert defence_modes(parameters(3, mode=4), tlv(0xFF, 0xFF))[3] is DefenceMode.EDGE


def test_two_ports_that_hear_each_other_become_ready() -> None:
    chosen = parameters(3, 5)
    at_first = defence_modes(chosen, None)
    said = advertisement(chosen, at_first)
    assert (said.cnpv, said.ready) == (0b101000, 0)
    then = defence_modes(chosen, said)
    assert then[3] is then[5] is DefenceMode.INTERIOR
    said = advertisement(chosen, then)
    assert (said.cnpv, said.ready) == (0b101000, 0b101000)
    assert defence_modes(chosen, said)[3] is DefenceMode.INTERIOR_READY
    assert advertisement(parameters(3, mode=1), defence_modes(parameters(3, mode=1), None)).cnpv == 0


@pytest.mark.parametrize(
    ("cnpv", "priority", "alternate"),
    [
        ((3,), 3, 2),
        ((2, 3), 3, 1),
        ((0,), 0, 1),
        ((0, 1, 2), 1, 3),
        ((0, 1, 2, 3, 4, 5, 6), 0, 7),
        ((7,), 7, 6),
    ],
)
def test_alternate_priority_is_next_lower_else_next_higher(
    cnpv: tuple[int, ...], priority: int, alternate: int
) -> None:
    assert alternate_priority(parameters(*cnpv), priority) == alternate


def test_an_alternate_priority_may_be_set() -> None:
    assert alternate_priority(parameters(3, alternate_priority=6), 3) == 6


@pytest.mark.parametrize("mode", [DefenceMode.EDGE, DefenceMode.INTERIOR, DefenceMode.INTERIOR_READY])
def test_no_frame_is_remapped_into_a_cnpv(mode: DefenceMode) -> None:
    rules = rules_of(mode, 3, regeneration=(3, 1, 2, 5, 4, 5, 0, 3))
    assert rules.received == (0, 1, 2, 2 if mode is DefenceMode.EDGE else 3, 4, 5, 0, 7)
    edge = new_record(QCNEdge)
    assert receive(edge, rules, frame("8100 e123")) == (frame("8100 e123"), 7)
    assert counted(edge) == {"kept_out_frames": 1}


def test_disabled_follows_the_normal_table() -> None:
    table = (3, 1, 2, 5, 4, 5, 0, 3)
    assert rules_of(DefenceMode.DISABLED, 3, regeneration=table).received == table


@given(
    cnpv=st.frozensets(st.integers(0, 7), max_size=7),
    mode=st.sampled_from([0, 2, 3, 4]),
    cn=st.integers(0, 255),
    ready=st.integers(0, 255),
    table=st.lists(st.integers(0, 7), min_size=8, max_size=8),
)
def test_cnpv_frames_keep_their_received_priority(
    cnpv: frozenset[int], mode: int, cn: int, ready: int, table: list[int]
) -> None:
    chosen = parameters(*cnpv, mode=mode)
    rules = port_rules(chosen, defence_modes(chosen, tlv(cn, ready)), regeneration=table)
    for priority in range(8):
        if rules.received[priority] in cnpv:
            assert rules.received[priority] == priority
            assert rules.modes[priority] in (DefenceMode.INTERIOR, DefenceMode.INTERIOR_READY)


@pytest.mark.parametrize("table", [(), tuple(range(7)), (0, 1, 2, 3, 4, 5, 6, 8), (-1, 1, 2, 3, 4, 5, 6, 7)])
def test_a_regeneration_table_has_eight_priorities(table: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="regeneration: expected eight priorities 0 to 7"):
        rules_of(DefenceMode.EDGE, 3, regeneration=table)


def test_parameters_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ParameterError, match="cnpv: expected at most seven priorities, got all eight"):
        parameters(*range(8))
    with pytest.raises(
        ParameterError, match="alternate_priority: expected a priority that is no CNPV, got 3"
    ):
        parameters(3, alternate_priority=3)


BACKBONE_EDGE = bytes.fromhex("02bb000000e1")
CP = "02bb000000cc"
C_DA, C_SA = "020000000001", "020000000002"


def backbone_cnm(msdu: str, *, dst: str = BACKBONE_EDGE.hex(), length: int | None = None) -> bytes:
    octets = bytes.fromhex(msdu)
    count = len(octets) if length is None else length
    head = f"{dst} {CP} 88a8 c064 22e9 0000 22e7 002a {CP}0004 ffc2 fe2c e000 02bb000000e2 {count:04x}"
    return (bytes.fromhex(head) + octets).ljust(60, b"\0")


def i_tagged(c_sa: str = C_SA) -> str:
    return f"88e7 60001234 {C_DA} {c_sa} 8100 6123 22e9 beef" + " 0800 45000010" + "11" * 16


def converted(octets: bytes, **options: Any) -> tuple[bytes | None, dict[str, int]]:
    edge = new_record(QCNEdge)
    return convert(edge, QCNEdgeParameters(**options), octets, BACKBONE_EDGE), counted(edge)


def test_backbone_cnm_becomes_customers_octet_by_octet() -> None:
    octets, counters = converted(backbone_cnm(i_tagged()))
    assert octets is not None
    msdu = "0800 45000010" + "11" * 16
    expected = f"{C_SA} {CP} 8100 c123 22e9 beef 22e7 002a {CP}0004 ffc2 fe2c 6000 {C_DA} 0016" + msdu
    assert octets.hex() == bytes.fromhex(expected).ljust(60, b"\0").hex()
    assert counters == {"taken_cnms": 1, "cnms_converted": 1}


def test_customers_cnm_travels_in_priority_that_is_set() -> None:
    octets, _ = converted(backbone_cnm(i_tagged()), cnm_priority=4)
    assert octets is not None
    assert octets[14:16].hex() == "8123"


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (backbone_cnm(i_tagged().split(" beef")[0]), "cnms_inconvertible"),
        (backbone_cnm(IP), "cnms_inconvertible"),
        (backbone_cnm(""), "cnms_inconvertible"),
        (backbone_cnm(i_tagged("030000000002")), "cnms_misdirected"),
        (backbone_cnm(i_tagged(BACKBONE_EDGE.hex())), "cnms_misdirected"),
        (backbone_cnm(i_tagged(), dst="02bb000000e9"), "foreign_cnms"),
        (backbone_cnm(i_tagged(), dst="ffffffffffff"), "group_cnms"),
        (backbone_cnm(i_tagged(), length=65), "long_msdu_cnms"),
        (backbone_cnm(i_tagged(), length=64), "lying_msdu_cnms"),
        (frame("8100 6123"), "not_cnms"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_converted_is_discarded_and_counted(octets: bytes, reason: str) -> None:
    result, counters = converted(octets)
    assert result is None
    assert counters.pop(reason) == 1
    assert counters in ({}, {"taken_cnms": 1})


@given(st.binary(max_size=64))
def test_any_msdu_is_converted_or_counted(msdu: bytes) -> None:
    for octets in (
        backbone_cnm(msdu.hex()),
        backbone_cnm((bytes.fromhex(i_tagged())[:22] + msdu)[:64].hex()),
    ):
        result, counters = converted(octets)
        assert sum(counters.values()) == 2
        assert (result is not None) == ("cnms_converted" in counters)
        if result is not None:
            decode(result)
