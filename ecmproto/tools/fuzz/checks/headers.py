"""Check that kernels, columns and flow tables find the same headers in a frame as the codec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ecmproto.frames.batch.flows import NO_NUMBER, Flow, FlowTable
from ecmproto.frames.batch.packets import NOWHERE, Int64, Octets, Packet, find_udp_messages, packet_at
from ecmproto.frames.batch.parse_tables import GLOBAL, IP4, IP6, NO_NETWORK, ParseTables, parse_tables
from ecmproto.frames.batch.tags import TagLayout, own_tag, tag_layout
from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.kernels.kernel import over_batches
from ecmproto.tools.fuzz.checks.base import Difference
from ecmproto.wire.codec import TCP, UDP, Frame, IPv4, IPv6, decode_lax
from ecmproto.wire.codec.frame import assembled
from ecmproto.wire.codec.tags import ECNField
from ecmproto.wire.flow import FlowKey
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.infiniband import BTH, CNP, CNP_OPCODE, GRH, NETWORKS, ROCE_PORT
from ecmproto.wire.formats.ip import CE, Extension

_VERSIONS: dict[type[Layer], int] = {IPv4: IP4, IPv6: IP6, GRH: GLOBAL}
_PORTS_OCTETS, _TCP_OCTETS = 4, TCP.fixed_octets
_CUT_OCTETS = (0, 0, 1, 40)
"""Number of octets missing from a captured frame, by the last captured octet modulo 4."""
_QUEUE_PAIR = "infiniband.bth.destqp"


class HeaderCheck:
    """Check of packets, ECN fields, CNPs, conversations and queue pairs in batches against the codec.

    Some frames of a batch are truncated.
    """

    name = "headers"
    every = 1

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield each difference between the codec and a kernel, column or flow table."""
        yield from self.of_captured(
            items, [len(each) + _CUT_OCTETS[each[-1] & 3 if each else 0] for each in items]
        )

    def of_captured(self, items: Sequence[bytes], original: Sequence[int]) -> Iterator[Difference]:
        """Yield the differences of captured frames whose lengths on the wire are ``original``."""
        batch = Batch.from_frames(items, original=np.array(original))
        packets = np.empty((len(batch), len(Packet._fields) + 2), np.int64)
        tables, ecn = parse_tables(DEFAULT), tag_layout(ECNField())
        _find_packets(batch.buffer, batch.offset, batch.captured, batch.original, tables, ecn, packets)
        is_cnp = np.zeros(len(batch), bool)
        find_udp_messages(
            batch.buffer, batch.offset, batch.captured, batch.original, tables, ROCE_PORT, CNP_OPCODE, is_cnp
        )
        table = FlowTable(FlowKey(conversation=True), max_flows=1 << 16)
        numbers = table.number_batch(batch)
        flows = table.numbers(numbers.station, numbers.flow).tolist()
        column = extract(batch, [_QUEUE_PAIR])[_QUEUE_PAIR]
        queue_pairs = dict(zip(column.rows.tolist(), column, strict=True))
        for row, (octets, wire) in enumerate(zip(items, original, strict=True)):
            whole = decode_lax(octets, original_octets=wire)
            frame = _outermost(whole)
            if CNP in frame and GRH not in frame and _is_comparable(frame) and not is_cnp[row]:
                yield Difference(what="CNP", detail=f"not found in {octets.hex()} of {wire} octets", row=row)
            flow = None if flows[row] == NO_NUMBER else table.flow(flows[row])
            bth, got_qp = whole.get(BTH), queue_pairs.get(row)
            if got_qp != (None if bth is None else bth.qp):
                yield Difference(what="queue pair in columns", detail=f"{got_qp}, in {octets.hex()}", row=row)
            for what, got, right in _compared(frame, packets[row].tolist(), flow):
                if got != right:
                    yield Difference(
                        what=what, detail=f"{got}, not {right}, in {octets.hex()} of {wire} octets", row=row
                    )


@over_batches
def _find_packets(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    original: Int64,
    tables: ParseTables,
    ecn: TagLayout,
    packets: Int64,
) -> None:
    """Write the `Packet` and the ECN field of each frame to a row of ``packets``.

    Offsets are relative to the start of the frame.
    """
    for i in range(len(offset)):
        start = offset[i]
        packet = packet_at(buffer, start, start + captured[i], start + max(original[i], captured[i]), tables)
        tag = own_tag(buffer, start, captured[i], tables, ecn)
        row = packets[i]
        row[0], row[2] = packet.kind, packet.protocol
        row[1] = packet.network if packet.network == NOWHERE else packet.network - start
        row[3] = packet.payload if packet.payload == NOWHERE else packet.payload - start
        row[4] = packet.transport if packet.transport == NOWHERE else packet.transport - start
        row[5] = packet.bth if packet.bth == NOWHERE else packet.bth - start
        row[6] = packet.stop - start
        row[7], row[8] = tag.tagged, tag.tag


def _compared(frame: Frame, values: list[int], flow: Flow | None) -> Iterator[tuple[str, object, object]]:
    """Yield each compared value as its name, the value from the batch, and the value from the codec."""
    bth = frame.get(BTH)
    if not _is_comparable(frame):
        return
    packet, right = Packet(*values[: len(Packet._fields)]), codec_packet(frame)
    if right.transport == NOWHERE and packet.stop - packet.transport < _TCP_OCTETS:
        # the ports of a truncated header, which the codec does not decode
        packet = packet._replace(transport=NOWHERE)
    if right.payload == NOWHERE:
        packet = packet._replace(payload=NOWHERE)
    elif packet.payload == NOWHERE:
        right = right._replace(payload=NOWHERE)
    yield "packet", packet._replace(stop=0), right
    network = frame.layers[frame.starts.index(right.network)] if right.network != NOWHERE else None
    ecn = 0
    if isinstance(network, IPv4):
        ecn = network.dsfield & CE
    elif isinstance(network, IPv6):
        ecn = network.tclass & CE
    yield "ECN field", tuple(values[-2:]), (isinstance(network, IPv4 | IPv6), ecn)
    if flow is None:
        return
    conversation = flow.conversation
    if not isinstance(network, IPv4 | IPv6) or isinstance(bth, CNP):
        yield "conversation", conversation, None
    elif conversation is None:
        yield "conversation", None, network
    else:
        # a conversation of IPv4-mapped IPv6 addresses is an IPv4 conversation
        source = network.src if len(conversation.source) == len(network.src) else conversation.source
        got = (conversation.source, conversation.protocol, conversation.queue_pair)
        yield "conversation", got, (source, right.protocol, None if bth is None else bth.qp)


def _outermost(frame: Frame) -> Frame:
    """Return a frame without the layers of inner frames in wrappers."""
    inner = frame.inner_frames()
    if not inner:
        return frame
    return assembled(
        frame.layers[: inner[0]], b"", b"", b"", frame.starts[: inner[0] + 1], 0, None, frame.ethertypes
    )


def codec_packet(frame: Frame) -> Packet:
    """Return the packet of a decoded frame. The ``stop`` attribute is 0."""
    index = next((i for i in reversed(range(len(frame.layers))) if type(frame.layers[i]) in NETWORKS), None)
    if index is None:
        return Packet(NO_NETWORK, NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE, 0)
    network = frame.layers[index]
    protocol = next(getattr(network, key) for key in ("proto", "nxt", "nxthdr") if hasattr(network, key))
    payload = transport = bth = NOWHERE
    for layer, start in zip(frame.layers[index + 1 :], frame.starts[index + 1 :], strict=False):
        if isinstance(layer, Extension):
            protocol = layer.nxt
            continue
        if payload == NOWHERE:
            payload = start
        if isinstance(layer, UDP | TCP):
            transport = start
        elif isinstance(layer, BTH):
            bth = start
    return Packet(_VERSIONS[type(network)], frame.starts[index], protocol, payload, transport, bth, 0)


def _is_comparable(frame: Frame) -> bool:
    """Return whether all headers up to the transport header are complete and well-formed."""
    headers = [layer for layer in frame.layers if isinstance(layer, (*NETWORKS, Extension))]
    if frame.cut and headers and headers[-1] is frame.layers[-1]:
        return False
    broken = {"ip", "ipv6", "grh", "ah", "llc", "eth", "vlan"} | {layer.prefix for layer in headers}
    return frame.error is None or frame.error.layer not in broken
