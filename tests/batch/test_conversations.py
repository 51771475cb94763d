"""Conversations of IP packets: exact numbers, queue pairs that acknowledges connect, and the flows of
CNPs.
"""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.frames.batch.flows import NO_NUMBER, FlowTable
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.codec import TCP, UDP, VLAN, Data, Ethernet, Frame, IPv4, IPv6, encode
from ecmproto.wire.flow import Conversation, FlowKey, QueuePair
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.infiniband import AETH, BTH, CNP, ICRC

A, B = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
MAC = {A: bytes.fromhex("02000000000a"), B: bytes.fromhex("02000000000b")}
WRITE, ACKNOWLEDGE = 0x07, 0x11


def packet(source: bytes, destination: bytes, *layers: Layer) -> bytes:
    """Return a frame, which is IPv6 for addresses of 16 octets."""
    ip: Layer = IPv4(src=source, dst=destination)
    if len(source) == 16:
        ip = IPv6(src=source, dst=destination)
    macs = [MAC.get(each, b"\x02" + each[-5:].rjust(5, b"\0")) for each in (destination, source)]
    return encode(Frame(layers=(Ethernet(dst=macs[0], src=macs[1]), VLAN(id=7), ip, *layers)), fix=True)


def data(qp: int, psn: int = 0, *, source: bytes = A, destination: bytes = B, port: int = 50_000) -> bytes:
    layers = UDP(srcport=port), BTH(opcode=WRITE, qp=qp, psn=psn), Data(data=bytes(8)), ICRC()
    return packet(source, destination, *layers)


def acknowledge(qp: int, psn: int) -> bytes:
    """Return an acknowledge that B sends to A."""
    return packet(B, A, UDP(srcport=50_000), BTH(opcode=ACKNOWLEDGE, qp=qp, psn=psn), AETH(), ICRC())


def table(*frames: bytes, learnt: tuple[bytes, ...] = ()) -> FlowTable:
    made = FlowTable(FlowKey(conversation=True))
    if frames:
        made.number_batch(Batch.from_frames(list(frames)))
    if learnt:
        made.number_batch(Batch.from_frames(list(learnt)))
    return made


def found(made: FlowTable, qp: int) -> str | None:
    """Return the flow of A to which a CNP from B with this queue pair refers."""
    station, flow = made.find_queue_pair(MAC[A], QueuePair(A, B, qp))
    return (
        None
        if flow == NO_NUMBER
        else made.flow(int(made.numbers(np.array([station]), np.array([flow]))[0])).label
    )


def test_cnp_names_queue_pair_of_the_sender() -> None:
    made = table(data(0x11, 5), data(0x12, 900), learnt=(acknowledge(0x12, 5), acknowledge(0x11, 900)))
    assert found(made, 0x12) == "10.0.0.1 → 10.0.0.2 QP 0x11"
    assert found(made, 0x11) == "10.0.0.1 → 10.0.0.2 QP 0x12"
    assert [made.queue_pair(0, flow) for flow in (0, 1)] == [0x12, 0x11]


def test_ambiguous_queue_pairs_need_an_acknowledge() -> None:
    made = table(data(0x11, 5), data(0x12, 5))
    assert found(made, 0x11) is found(made, 0x12) is found(made, 0x99) is None
    assert made.queue_pair(0, 0) == 0


def test_only_queue_pair_is_found_by_its_addresses() -> None:
    made = table(data(0x11, 5), data(0x11, 6), data(0x12, 5, source=B, destination=A))
    assert found(made, 0x99) == "10.0.0.1 → 10.0.0.2 QP 0x11"
    station, flow = made.find_queue_pair(MAC[A], QueuePair(B, A, 0x99))
    assert (station, flow) == (0, NO_NUMBER)
    assert made.find_queue_pair(bytes(6), QueuePair(A, B, 0x99)) == (NO_NUMBER, NO_NUMBER)


def test_last_unmatched_queue_pair_is_found_by_elimination() -> None:
    made = table(data(0x11, 5), data(0x12, 900), learnt=(acknowledge(0x77, 5),))
    assert found(made, 0x77) == "10.0.0.1 → 10.0.0.2 QP 0x11"
    assert found(made, 0x78) == "10.0.0.1 → 10.0.0.2 QP 0x12"


@pytest.mark.parametrize(
    ("psn", "is_tied"), [(4, False), (5, True), (7, True), (9, True), (10, False), (2**24 - 1, False)]
)
def test_acknowledge_ties_the_acknowledged_flow(psn: int, is_tied: bool) -> None:
    made = table(data(0x11, 5), data(0x11, 9), data(0x12, 500), learnt=(acknowledge(0x77, psn),))
    assert made.queue_pair(0, 0) == (0x77 if is_tied else 0)


def test_sequence_numbers_wrap_around() -> None:
    made = table(data(0x11, 2**24 - 2), data(0x11, 3), data(0x12, 500), learnt=(acknowledge(0x77, 1),))
    assert made.queue_pair(0, 0) == 0x77


def test_ambiguous_acknowledge_ties_no_queue_pair() -> None:
    made = table(data(0x11, 1), data(0x11, 9), data(0x12, 4), data(0x12, 6), learnt=(acknowledge(0x77, 5),))
    assert [made.queue_pair(0, flow) for flow in (0, 1)] == [0, 0]
    made.number_batch(Batch.from_frames([acknowledge(0x77, 8)]))
    assert [made.queue_pair(0, flow) for flow in (0, 1)] == [0x77, 0]
    # The other number is the remaining one.
    made.number_batch(Batch.from_frames([acknowledge(0x78, 5)]))
    assert [made.queue_pair(0, flow) for flow in (0, 1)] == [0x77, 0x78]


def test_tcp_flows_are_found_by_substitute_numbers() -> None:
    tcp = [packet(A, B, TCP(srcport=port, dstport=5201), Data(data=bytes(8))) for port in (40_000, 40_001)]
    made = table(*tcp)
    conversations = [Conversation(A, B, 6, port, 5201, None) for port in (40_000, 40_001)]
    for one in conversations:
        assert found(made, one.stand_in) == f"10.0.0.1:{one.source_port} → 10.0.0.2:5201 TCP"
    assert conversations[0].stand_in != conversations[1].stand_in
    assert found(made, 0x99) is None
    assert found(table(tcp[0]), 0x99) is not None


def test_cnps_form_no_conversation_or_flow() -> None:
    cnp = packet(A, B, UDP(srcport=50_000), CNP(qp=0x11), ICRC())
    assert found(table(cnp, data(0x12)), 5) == "10.0.0.1 → 10.0.0.2 QP 0x12"


def test_non_ip_frames_are_distinguished_by_mac_addresses() -> None:
    other = bytes(MAC[B] + MAC[A]) + b"\x99\x99" + bytes(50)
    made = table(other, data(0x11))
    assert [flow.conversation is None for flow in made.flows()] == [True, False]
    assert made.flows()[0].label.startswith("02:00:00:00:00:0a → 02:00:00:00:00:0b")


_ADDRESSES = st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16))


@given(
    st.lists(
        st.tuples(
            _ADDRESSES, _ADDRESSES, st.sampled_from([6, 17, 1, 132]), st.integers(0, 3), st.integers(0, 3)
        ),
        max_size=40,
    )
)
@settings(max_examples=50, deadline=None)
def test_numbers_are_exact(wanted: list[tuple[bytes, bytes, int, int, int]]) -> None:
    frames, keys = [], []
    for source, destination, protocol, near, far in wanted:
        destination = destination[: len(source)].ljust(len(source), b"\x01")
        source = bytes([source[0] & 0x7F]) + source[1:]
        ports = near.to_bytes(2) + far.to_bytes(2)
        header = bytes.fromhex("45000040000000004000") + b"\0\0" + source + destination
        header = header[:9] + bytes([protocol]) + header[10:]
        if len(source) == 16:
            header = bytes.fromhex("60000000 0010") + bytes([protocol, 64]) + source + destination
        announced = b"\x86\xdd" if len(source) == 16 else b"\x08\x00"
        frames.append(MAC[B] + MAC[A] + announced + header + ports + bytes(8))
        shown = (near, far) if protocol in (6, 17) else (0, 0)
        keys.append((_plain(source), _plain(destination), protocol, *shown))
    made = FlowTable(FlowKey(conversation=True))
    if not frames:
        return
    numbers = made.number_batch(Batch.from_frames(frames)).flow.tolist()
    order = list(dict.fromkeys(keys))
    assert numbers == [order.index(key) for key in keys]
    for flow, key in zip(made.flows(), order, strict=True):
        assert flow.conversation is not None
        assert (_plain(flow.conversation.source), _plain(flow.conversation.destination)) == key[:2]
        assert flow.conversation[2:5] == key[2:]


def _plain(address: bytes) -> str:
    """Return an address as text; an IPv4 address is returned as an IPv4-mapped IPv6 address."""
    if len(address) == 4:
        address = bytes(10) + b"\xff\xff" + address
    return ipaddress.ip_address(address).compressed


def test_conversation_numbers_do_not_depend_on_batches() -> None:
    frames = [data(qp, source=bytes([10, 1, qp >> 8, qp & 0xFF]), port=1000 + qp % 7) for qp in range(1, 700)]
    whole, parts = FlowTable(FlowKey(conversation=True)), FlowTable(FlowKey(conversation=True))
    at_once = whole.number_batch(Batch.from_frames(frames))
    for start in range(0, len(frames), 50):
        numbers = parts.number_batch(Batch.from_frames(frames[start : start + 50]))
        assert numbers.station.tolist() == at_once.station[start : start + 50].tolist()
        assert numbers.flow.tolist() == at_once.flow[start : start + 50].tolist()
    assert [flow.label for flow in whole.flows()] == [flow.label for flow in parts.flows()]
    assert whole.flows()[500].conversation == Conversation(
        bytes([10, 1, 1, 245]), B, 17, 1000 + 501 % 7, 4791, 501
    )
