"""Messages and octets are converted by field names, without a hand-written mapping."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import pytest

from ecmproto.control.mechanisms.api.frames import MessageFormat, headers, tags
from ecmproto.control.mechanisms.api.machine import (
    AboutFlow,
    Machine,
    MessageDiscards,
    PortContext,
    SampledFrame,
)
from ecmproto.control.mechanisms.api.protocol import SILENT, fields_of, messages_of
from ecmproto.control.mechanisms.bcn.congestion_point import BCNPayload
from ecmproto.control.mechanisms.hpcc.machine import HPCCMachine
from ecmproto.control.mechanisms.qcn.congestion_point import CNMPayload
from ecmproto.errors import ParameterError
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec import BCN, CNM, VLAN, DBPRateReport, Ethernet, ITag, STag, decode, encode
from ecmproto.wire.formats.bcn import NORMAL, STOP

SOURCE, DESTINATION, CP = (bytes.fromhex(f"0200000000{last}") for last in ("01", "02", "c1"))
PLACE = PortContext(rate_bps=10**10, link_rate_bps=10**10, cp_mac=CP, stations=2, flows=2)
DATA = encode(Ethernet(dst=DESTINATION, src=SOURCE), VLAN(id=5, priority=3), fix=True).ljust(100, b"\x55")
ABOUT = SampledFrame(DATA, 100, 16)


class Toy(Machine):
    """Three message formats, which differ in constants and in whether a message is a reply."""

    messages = MappingProxyType(
        {
            1: MessageFormat(
                format=CNM,
                payload=CNMPayload,
                fields={"encap_prio": "priority", "q_offset": "qoff_octets", "q_delta": "qdelta_octets"},
                units={"q_offset": -64, "q_delta": 64},
                destination="encap_dst",
            ),
            2: MessageFormat(format=BCN, payload=BCNPayload, constants={"type": NORMAL}, name="go"),
            3: MessageFormat(format=BCN, payload=BCNPayload, constants={"type": STOP}, name="stop"),
            4: MessageFormat(format=DBPRateReport, fields={"rate": "rate_kbps"}, is_answer=True),
        }
    )


def sent(**fields: Any) -> bytes:
    return sent_about(ABOUT, **fields)


def sent_about(about: SampledFrame, **fields: Any) -> bytes:
    machine = Toy({})
    (message,) = messages_of([fields], machine.payloads)
    return machine.frame(message, about, PLACE)


def parse(octets: bytes, station: bytes = SOURCE) -> tuple[Any, Any]:
    machine = Toy({})
    record: Any = new_record(machine.refusal_record)
    return machine.parse_feedback(octets, station, PLACE, record), record


def test_the_machine_knows_its_kinds_answers_and_payloads() -> None:
    assert Toy.kinds == {1: "CNM", 2: "go", 3: "stop", 4: "DBP rate report"}
    assert Toy.answers == {4}
    assert Toy.payloads == {SILENT: CNMPayload, 1: CNMPayload, 2: BCNPayload, 3: BCNPayload}
    assert Toy.refusal_record is MessageDiscards


def test_units_round_towards_zero_and_values_saturate() -> None:
    cnm = decode(sent(kind=1, priority=3, qntz_fb=99, qoff_octets=130, qdelta_octets=-(10**9)))[CNM]
    assert (cnm.q_offset, cnm.q_delta, cnm.qntz_fb, cnm.encap_prio) == (-2, -(2**15), 63, 3)
    assert cnm.encap_dst == DESTINATION


def test_messages_go_to_source_and_answers_from_destination() -> None:
    frame, answer = decode(sent(kind=1)), decode(sent(kind=4, rate_kbps=77))
    assert (frame[Ethernet].dst, frame[Ethernet].src) == (SOURCE, CP)
    assert (frame[VLAN].id, frame[VLAN].priority) == (5, 6)
    assert (answer[Ethernet].dst, answer[Ethernet].src) == (SOURCE, DESTINATION)
    assert (answer[DBPRateReport].rate, answer[VLAN].priority) == (77, 7)


@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"kind": 1, "priority": 3, "qntz_fb": 20, "qoff_octets": -640, "qdelta_octets": 64, "cpid": -5},
         AboutFlow(DESTINATION, 5, 3)),
        ({"kind": 2, "priority": 3, "cpid": 2**57, "e": -100, "capacity": 10**6},
         AboutFlow(DESTINATION, 5, 3)),
        ({"kind": 3, "priority": 3, "cpid": 2**57, "e": -9, "capacity": 1}, AboutFlow(DESTINATION, 5, 3)),
        ({"kind": 4, "rate_kbps": 2**32 - 1}, AboutFlow(DESTINATION, 5, None)),
    ],
)  # fmt: skip
def test_what_was_sent_is_parsed(fields: dict[str, int], about: AboutFlow) -> None:
    found, _ = parse(sent(**fields))
    assert found.about == about
    (message,) = messages_of([found.fields], Toy.payloads)
    assert fields_of(message, Toy.payloads).items() >= fields.items()


def test_foreign_group_and_truncated_messages_are_counted() -> None:
    octets, tagged = sent(kind=2, cpid=2**57), bytes.fromhex("8100")
    for changed, station, counter in (
        (octets, DESTINATION, "foreign_address"),
        (octets, b"", "foreign_address"),
        (b"\x01" + octets[1:], SOURCE, "group_address"),
        (octets[:25], SOURCE, "malformed"),
        (octets.replace(SOURCE + tagged, CP + tagged), SOURCE, "foreign_address"),
    ):
        found, record = parse(changed, station)
        assert found is None
        assert {name: int(record[name]) for name in record.dtype.names if record[name]} == {counter: 1}
    assert parse(DATA)[0] is None


def test_unanswerable_source_and_unknown_kind_are_errors() -> None:
    (message,) = messages_of([{"kind": 1}], Toy.payloads)
    for source in (CP, b"\x01" + SOURCE[1:]):
        about = SampledFrame(DESTINATION + source + DATA[12:], 100, 16)
        with pytest.raises(ValueError, match="receives no messages"):
            Toy({}).frame(message, about, PLACE)
    with pytest.raises(ParameterError, match="expected a kind of 1, 2, 3, 4, got kind 9"):
        sent(kind=9)


def test_a_mapping_names_fields_that_there_are() -> None:
    for wrong in (
        MessageFormat(format=DBPRateReport, fields={"rate": "speed"}),
        MessageFormat(format=DBPRateReport, fields={"speed": "rate_kbps"}),
    ):
        with pytest.raises(ParameterError, match="dbp: expected fields of the format, and of the message"):
            _ = wrong.mapped_fields


def test_a_stack_has_at_most_eight_records() -> None:
    tag = dataclasses.replace(HPCCMachine.tag, stack=HPCCMachine.tag.stack * 2)
    with pytest.raises(ParameterError, match=r"Deep.tag: expected at most 8 records in a stack, got 10"):
        type("Deep", (Toy,), {"tag": tag})


def test_refusal_record_is_inherited_from_base() -> None:
    class Counting(Machine):
        refusal_record = BCNPayload

    class Derived(Counting):
        messages = Toy.messages

    assert Derived.refusal_record is BCNPayload
    assert Derived.kinds == Toy.kinds


def test_message_copies_only_tags_outside_the_i_tag() -> None:
    """Messages about it copy the backbone's VLAN stack, not the customer's after the I-TAG."""
    customer = DESTINATION + SOURCE + bytes.fromhex("81006064 0800")
    backbone = DESTINATION + SOURCE + bytes.fromhex("88a861f4 88e7 60000042") + customer + bytes(40)
    found = headers(backbone)
    assert ITag in found
    assert [type(tag) for tag in tags(found)] == [STag]
    message = sent_about(SampledFrame(backbone, len(backbone), 16), kind=1)
    assert [type(layer) for layer in decode(message).layers] == [Ethernet, STag, CNM]
