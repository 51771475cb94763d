"""Trace of a simulated network as a capture, with an interface per link direction and all octets as sent.

A frame has the time of its last bit, on its link's interface. Data frames are UDP, or TCP if the source is a
TCP source. Host addresses consist of 02:00 and the host's number; IP addresses start at 10.0.0.1. A frame
with a priority other than 0 has a VLAN tag. A frame tagged by its sender has the mechanism's tag. UDP data
begins with the frame's 64-bit number, which is the same on all links. For TCP, the IP identification contains
the low bits of this number.

The mechanism generates a message from the sampled frame, as received by the congestion point. The engine
counts the message's length for a frame of full length. Messages that are not frames of the network are on a
separate interface, at their sending time. PAUSE and PFC frames have the time of their last bit too.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.frame_pool import NOWHERE
from ecmproto.control.engine.frames import octets_of, tag_rows
from ecmproto.control.engine.network import (
    DATA_FRAME,
    FLOW_CONTROL_FRAME,
    MESSAGE_FRAME,
    NetworkState,
    TracedFrame,
)
from ecmproto.control.lab.model import Flow, Pattern
from ecmproto.control.lab.simulation.wiring import HostLine, WiredPort, Wiring, host_mac
from ecmproto.control.lab.traffic.source import ACK, DATA, REQUEST, SYN, SYN_ACK, split_numbers
from ecmproto.control.lab.traffic.sources import Endpoints
from ecmproto.control.lab.traffic.tcp import connection_count
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import PROBE_KIND, Message, probe_payload
from ecmproto.frames.batch.classes import classify
from ecmproto.frames.batch.tags import spliced_batch, tag_splice, with_tag_values
from ecmproto.frames.capture import Batch, Interface, PcapngWriter
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.columns.building.frames import pack
from ecmproto.frames.columns.building.template import Checksum
from ecmproto.kernels.record import columns, new_records, record_dtype
from ecmproto.wire.codec.tags import ECNField
from ecmproto.wire.formats.ip import PROTO_TCP, PROTO_UDP, TCP, UDP, IPv4

OUT_OF_BAND = "messages, out of band"
"""Interface for messages that are not frames of the network."""
FIRST_PORT = 49_152
"""UDP or TCP port of source 0, at the host that sends the data."""
FAR_PORT = 65_000
"""UDP or TCP port of all sources at the receiving end."""

_TYPE_AT = 12
_VLAN_OCTETS = 4
_HEADERS_OCTETS = 14 + 20
_TCP_OCTETS = 20
_WINDOW = 0xFFFF
_BATCH_OCTETS = 8 << 20
_RECENT = 65_536
"""Number of recent frames stored for messages; for an older frame, only the flow is known."""
_CACHED = 8192

_FLAGS = {DATA: 0x10, ACK: 0x10, SYN: 0x02, SYN_ACK: 0x12, REQUEST: 0x18}
_ADDRESSES_AT, _PAYLOAD_AT = 12, 20
_IP_SUM = Checksum(layer=0, at=10, ranges=((0, _PAYLOAD_AT),))
# Both checksums cover the IP addresses, the protocol and the datagram's length. The UDP header contains this
# length. For TCP, this length is the IP length minus the IP header of 20 octets.
_UDP_SUM = Checksum(
    layer=0, at=26, ranges=((_ADDRESSES_AT, 36), (24, 26)), constant=PROTO_UDP, never_zero=True
)
_TCP_SUM = Checksum(layer=0, at=36, ranges=((_ADDRESSES_AT, 40), (2, 4)), constant=PROTO_TCP + 0xFFFF - 20)


class _Conversations:
    """Columns of an experiment's sources, by source number; the last entry is for frames without a source."""

    def __init__(self, flows: Sequence[Flow], endpoints: Sequence[Endpoints]) -> None:
        vlan = np.array([_VLAN_OCTETS * (flow.priority > 0) for flow in flows] + [0], np.int64)
        headers = vlan + _HEADERS_OCTETS + _TCP_OCTETS
        self.station = np.array([each.station for each in endpoints] + [NOWHERE], np.int64)
        self.is_tcp = np.array([connection_count(flow) > 0 for flow in flows] + [False])
        self.segment_octets = np.array([flow.frame_octets for flow in flows] + [0], np.int64) - headers
        transfers = [flow if flow.pattern is Pattern.TRANSACTIONS else None for flow in flows] + [None]
        # For transfers of different lengths, the last segment of each transfer counts as a full segment.
        self.segments = np.array([_segments(flow) for flow in transfers], np.int64)
        last = np.array([_last_octets(flow) for flow in transfers], np.int64) - headers
        self.transfer_octets = (self.segments - 1) * self.segment_octets + last
        self.request_octets = np.array(
            [max(60, flow.request_octets) - octets if flow and flow.request_octets else 0
             for flow, octets in zip(transfers, headers.tolist(), strict=True)], np.int64
        )  # fmt: skip
        self.of_flow = {
            (station, number): index
            for index, each in reversed(list(enumerate(endpoints)))
            for station, number in ((each.station, each.flow), (each.destination, each.reverse_flow))
        }
        self.endpoints = endpoints
        self.priority = [flow.priority for flow in flows]

    def position(self, source: NDArray[np.int64], segment: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of octets that precede a segment in a connection."""
        each = np.maximum(1, self.segments[source])
        octets = self.segment_octets[source]
        of_transfers = self.transfer_octets[source] * (segment // each) + octets * (segment % each)
        return np.where(self.segments[source] > 0, of_transfers, octets * segment)


def _segments(flow: Flow | None) -> int:
    return 0 if flow is None else -(-flow.response_octets // flow.frame_octets)


def _last_octets(flow: Flow | None) -> int:
    if flow is None:
        return 0
    return max(60, flow.response_octets - (_segments(flow) - 1) * flow.frame_octets)


class Trace:
    """Capture of a run's frames; ``drain`` reads frames from the network, and ``finish`` ends the capture."""

    def __init__(
        self,
        writer: PcapngWriter,
        *,
        wiring: Wiring,
        machine: Machine,
        contexts: Sequence[PortContext],
        general: PortContext,
        flows: Sequence[Flow],
        endpoints: Sequence[Endpoints],
    ) -> None:
        self._writer, self._machine = writer, machine
        self._contexts, self._general = contexts, general
        self._conversations = _Conversations(flows, endpoints)
        self._interfaces: dict[str, int] = {}
        lines: list[WiredPort | HostLine] = [*wiring.ports, *wiring.host_lines]
        for line in lines:
            if not isinstance(line, WiredPort) or not line.is_adapter:
                self._interfaces[line.name] = self._add(line.name, line.rate_bps)
        self._out_of_band = self._add(OUT_OF_BAND, 0)
        self._of_sender = np.array([self._interfaces.get(line.name, NOWHERE) for line in lines], np.int64)
        back = _lines_back(wiring)
        self._of_feed = np.array([self._interfaces[name] for name in back], np.int64)
        self._maker_of_feed = [switch.ports[0] for switch in wiring.switches for _ in switch.feeds]
        self._rows = np.zeros(0, record_dtype(TracedFrame))
        self._messages: NDArray[Any] = columns(new_records(Message, 0))
        self._recent: deque[NDArray[Any]] = deque()
        self._stored = 0
        self._made: dict[tuple[int, ...], bytes] = {}

    def _add(self, name: str, rate_bps: int) -> int:
        index = len(self._writer.interfaces)
        return self._writer.add_interface(
            Interface(index=index, linktype=ETHERNET, name=name, speed_bps=rate_bps)
        )

    def drain(self, network: NetworkState) -> None:
        """Move the traced frames out of ``network``, and write all frames that no later frame can precede."""
        count = int(network.log.traced)
        rows, messages = columns(network.traced)[:count], columns(network.traced_messages)[:count]
        network.log.traced = 0
        self._rows = np.concatenate([self._rows, rows])
        self._messages = np.concatenate([self._messages, messages])
        self._recent.append(rows[_is_data(rows)])
        self._stored += len(self._recent[-1])
        while self._stored - len(self._recent[0]) >= _RECENT:
            self._stored -= len(self._recent.popleft())
        self._write(int(network.loop.now_ns))

    def finish(self) -> None:
        """Write the remaining frames, whose last bits may follow the end of the run."""
        self._write(None)

    def _write(self, before_ns: int | None) -> None:
        """Write the rows before a time in time order; rows of equal time are sorted by interface."""
        rows = self._rows
        ready = np.ones(len(rows), np.bool_) if before_ns is None else rows["time_ns"] < before_ns
        chosen, messages = rows[ready], self._messages[ready]
        self._rows, self._messages = rows[~ready], self._messages[~ready]
        interface = self._interface_of(chosen)
        order = np.lexsort((interface, chosen["time_ns"]))
        ends = np.cumsum(chosen["octets"][order])
        by_serial = self._by_serial() if not _is_data(chosen).all() else self._rows[:0]
        first = 0
        while first < len(order):
            written = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, written + _BATCH_OCTETS)))
            part = order[first:last]
            batch = self._batch(chosen[part], messages[part], by_serial)
            self._writer.write_batch(dataclasses.replace(batch, interface=interface[part]))
            first = last

    def _by_serial(self) -> NDArray[Any]:
        """Return the stored data frames, sorted by frame number and then by time."""
        recent = np.concatenate(self._recent)
        return recent[np.lexsort((recent["time_ns"], recent["serial"]))]

    def _interface_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        interface = np.full(len(rows), self._out_of_band)
        stops = rows["what"] == FLOW_CONTROL_FRAME
        interface[stops] = self._of_feed[rows["sender"][stops]]
        sent = (rows["what"] == DATA_FRAME) | (rows["what"] == MESSAGE_FRAME)
        interface[sent] = self._of_sender[rows["sender"][sent]]
        return interface

    def _batch(self, rows: NDArray[Any], messages: NDArray[Any], by_serial: NDArray[Any]) -> Batch:
        """Return the frames of ``rows``; the caller sets the interfaces."""
        is_data = _is_data(rows)
        data = self._data(rows[is_data], messages["payload"][is_data])
        others = Batch.from_frames(self._made_frames(rows[~is_data], messages[~is_data], by_serial))
        position = np.empty(len(rows), np.int64)
        position[is_data] = np.arange(len(data))
        position[~is_data] = len(data) + np.arange(len(others))
        offset = np.concatenate([data.offset, others.offset + len(data.buffer)])[position]
        captured = np.concatenate([data.captured, others.captured])[position]
        return Batch(
            buffer=np.concatenate([data.buffer, others.buffer]),
            offset=offset,
            captured=captured,
            original=captured,
            time_ns=rows["time_ns"].copy(),
            interface=np.zeros(len(rows), np.int64),
            record_offset=offset,
            record_length=captured,
        )

    # Data ---------------------------------------------------------------------------------------------------

    def _data(self, rows: NDArray[Any], stacks: NDArray[np.int64]) -> Batch:
        """Return data frames with their tags, including the tag records in ``stacks``."""
        kind = self._machine.tag
        tagged = (rows["tagged"] == 1) & (kind is not None)
        octets = rows["octets"] - np.where(tagged, self._machine.tag_octets, 0)
        offset = np.cumsum(octets) - octets
        buffer = np.zeros(int(octets.sum()), np.uint8)
        _put(buffer, offset, np.concatenate([_macs(rows["destination"]), _macs(rows["station"])], axis=1))
        in_vlan = rows["priority"] > 0
        vlan = np.zeros((int(in_vlan.sum()), _VLAN_OCTETS), np.uint8)
        vlan[:, 0], vlan[:, 2] = 0x81, rows["priority"][in_vlan] << 5
        _put(buffer, offset[in_vlan] + _TYPE_AT, vlan)
        at = offset + _TYPE_AT + _VLAN_OCTETS * in_vlan
        buffer[at] = 0x08
        is_tcp = self._conversations.is_tcp[rows["source"]]
        for chosen, build in ((~is_tcp, self._udp), (is_tcp, self._tcp)):
            if chosen.any():
                left = octets[chosen] - (at[chosen] - offset[chosen]) - 2
                _put(buffer, at[chosen] + 2, build(rows[chosen], left))
        batch = Batch(
            buffer=buffer,
            offset=offset,
            captured=octets,
            original=octets,
            time_ns=rows["time_ns"],
            interface=np.zeros(len(rows), np.int64),
            record_offset=offset,
            record_length=octets,
        )
        if kind is None or not tagged.any():
            return batch
        if isinstance(kind, ECNField):
            where = np.flatnonzero(tagged)
            return with_tag_values(batch, where, rows["tag"][where], kind)
        tags = tag_rows(kind, rows["tag"], rows["mark"], *stacks.T)
        return spliced_batch(batch, tag_splice(batch, tags, kind, only=tagged))

    def _ip(self, rows: NDArray[Any], octets: NDArray[np.int64], protocol: int) -> NDArray[np.uint8]:
        header = pack(
            IPv4,
            len(rows),
            len=octets,
            id=rows["serial"] & 0xFFFF,
            proto=protocol,
            src=_addresses(rows["station"]),
            dst=_addresses(rows["destination"]),
        ).copy()
        _IP_SUM.write(header)
        return header

    def _ports(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the source and destination ports."""
        near = FIRST_PORT + rows["source"] % (FAR_PORT - FIRST_PORT)
        forth = self._is_forth(rows)
        return np.where(forth, near, FAR_PORT), np.where(forth, FAR_PORT, near)

    def _is_forth(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each frame travels in the direction of the source's data."""
        forth: NDArray[np.bool_] = rows["station"] == self._conversations.station[rows["source"]]
        return forth

    def _udp(self, rows: NDArray[Any], octets: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return headers and the start of UDP data; each IP packet has ``octets`` octets."""
        near, far = self._ports(rows)
        length = octets - _PAYLOAD_AT
        header = pack(UDP, len(rows), srcport=near, dstport=far, length=length)
        serial = rows["serial"].astype(">u8").view(np.uint8).reshape(len(rows), 8)
        headers = np.concatenate([self._ip(rows, octets, PROTO_UDP), header, serial], axis=1)
        _UDP_SUM.write(headers)
        return headers

    def _tcp(self, rows: NDArray[Any], octets: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the headers of TCP segments, without the frames' padding."""
        known, source, number = self._conversations, rows["source"], rows["number"]
        kind, value = split_numbers(number)
        each, request_octets = np.maximum(1, known.segments[source]), known.request_octets[source]
        ends = known.segments[source] > 0
        near, far = self._ports(rows)
        has_data = (kind == DATA) | (kind == REQUEST)
        # Number of transfers begun up to the frame's segment
        transfers = np.select([kind == DATA, kind == ACK], [value // each + 1, -(-value // each)], value)
        transfers = np.where(ends, transfers, 1)
        # Data sent before the frame
        segment = np.where((kind == DATA) | (kind == ACK), value, np.where(ends, (transfers - 1) * each, 0))
        data, requests = known.position(source, segment), request_octets * transfers
        opening = (kind == SYN) | (kind == SYN_ACK) | (kind == REQUEST)
        requests = np.where(opening, requests - request_octets, requests)
        forth = self._is_forth(rows)
        own, other = np.where(forth, data, requests), np.where(forth, requests, data)
        syn = (kind == SYN) | (kind == SYN_ACK)
        payload = np.where(has_data, octets - _PAYLOAD_AT - _TCP_OCTETS, 0)
        header = pack(
            TCP,
            len(rows),
            srcport=near,
            dstport=far,
            seq_raw=(own + ~syn) & 0xFFFFFFFF,
            ack_raw=np.where(kind == SYN, 0, other + 1) & 0xFFFFFFFF,
            flags=np.select([kind == each for each in _FLAGS], list(_FLAGS.values())),
            window_size_value=_WINDOW,
        )
        length = _PAYLOAD_AT + _TCP_OCTETS + payload
        headers = np.concatenate([self._ip(rows, length, PROTO_TCP), header], axis=1)
        _TCP_SUM.write(headers)
        return headers

    # Messages -----------------------------------------------------------------------------------------------

    def _made_frames(
        self, rows: NDArray[Any], messages: NDArray[Any], by_serial: NDArray[Any]
    ) -> list[bytes]:
        """Return the frames of messages and probes."""
        if not len(rows):
            return []
        records: Any = messages.copy().view(np.recarray)
        for index in np.flatnonzero(rows["what"] == DATA_FRAME).tolist():
            _set_probe(records[index], rows[index])
        about = self._about(records, by_serial)
        frames = self._data(about, np.zeros((len(about), 0), np.int64))
        msdu = classify(frames.buffer, frames.offset, frames.captured).msdu_offset.tolist()
        return [
            self._made_frame(row, message, SampledFrame(frames.frame(index), int(octets), msdu[index]))
            for index, (row, message, octets) in enumerate(zip(rows, records, frames.original, strict=True))
        ]

    def _made_frame(self, row: Any, message: Any, about: SampledFrame) -> bytes:
        """Return the frame of a message; the frame is the same on all links of its path."""
        key = (*message.item()[:7], int(row["number"]), int(row["probe"]))
        octets = self._made.get(key) if row["what"] in (DATA_FRAME, MESSAGE_FRAME) else None
        if octets is None:
            octets = octets_of(self._machine, message, about, self._context_of(row))
            self._made[key] = octets
            if len(self._made) > _CACHED:
                del self._made[next(iter(self._made))]
        return octets

    def _context_of(self, row: Any) -> PortContext:
        """Return the context of the port that generated a message; all hosts share one context."""
        maker = int(row["number"] if row["what"] == MESSAGE_FRAME else row["sender"])
        if row["what"] == FLOW_CONTROL_FRAME:
            maker = self._maker_of_feed[maker]
        is_port = row["what"] != DATA_FRAME and maker < len(self._contexts)
        return self._contexts[maker] if is_port else self._general

    def _about(self, messages: Any, by_serial: NDArray[Any]) -> NDArray[Any]:
        """Return, for each message, the sampled frame as sent on the link before the congestion point."""
        serial, time_ns = by_serial["serial"], by_serial["time_ns"]
        firsts = np.searchsorted(serial, messages["cause"], side="left").tolist()
        ends = np.searchsorted(serial, messages["cause"], side="right").tolist()
        about = np.zeros(len(messages), by_serial.dtype)
        for index, (first, end) in enumerate(zip(firsts, ends, strict=True)):
            message = messages[index]
            before = int(np.searchsorted(time_ns[first:end], message.time_ns, side="right"))
            about[index] = by_serial[first + before - 1] if before else self._of_flow(message)
        return about

    def _of_flow(self, message: Any) -> Any:
        """Return a substitute frame of a message's flow, for a sampled frame that is no longer stored."""
        row = np.zeros(1, record_dtype(TracedFrame))[0]
        station, flow = int(message.station), int(message.flow)
        source = self._conversations.of_flow.get((station, flow), NOWHERE)
        row["station"], row["priority"], row["octets"] = max(0, station), message.priority, 60
        row["source"], row["destination"] = source, 0
        if source != NOWHERE:
            end = self._conversations.endpoints[source]
            row["destination"] = end.destination if end.station == station else end.station
            row["priority"] = self._conversations.priority[source]
        return row


def _is_data(rows: NDArray[Any]) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = (rows["what"] == DATA_FRAME) & (rows["probe"] == 0)
    return result


def _set_probe(message: Any, row: Any) -> None:
    """Set the fields of ``message`` for the probe in ``row``."""
    message.kind, message.time_ns, message.cause = PROBE_KIND, row["time_ns"], row["serial"]
    message.station, message.flow, message.priority = row["station"], row["flow"], row["priority"]
    probe_payload(message).mark = row["mark"]


def _lines_back(wiring: Wiring) -> list[str]:
    """Return the names of the lines on which PAUSE is sent to each feed of each switch."""
    names = []
    for switch in wiring.switches:
        for feed in switch.feeds:
            line = wiring.ports[feed.port] if feed.port != NOWHERE else wiring.host_lines[feed.station]
            end = switch.name.removesuffix(">adapter") if switch.is_adapter else switch.name
            names.append(f"{end}>{line.name.removesuffix(f'>{end}')}")
    return names


def _put(buffer: NDArray[np.uint8], at: NDArray[np.int64], rows: NDArray[np.uint8]) -> None:
    """Write each row of ``rows`` at its offset."""
    buffer[at[:, None] + np.arange(rows.shape[1])] = rows


def _macs(station: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the Ethernet addresses of hosts."""
    macs = np.empty((len(station), 6), np.uint8)
    macs[:, :2] = list(host_mac(0)[:2])
    macs[:, 2:] = station.astype(">u4").view(np.uint8).reshape(len(station), 4)
    return macs


def _addresses(station: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the IP addresses of hosts."""
    return (0x0A000001 + station).astype(">u4").view(np.uint8).reshape(len(station), 4)
