"""Functions that create and parse the probes and replies of E²CM (S002; wire-formats 1.2 and 6)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ecmproto.control.mechanisms.aimd.messages import addressed
from ecmproto.control.mechanisms.aimd.parameters import PRIORITIES
from ecmproto.control.mechanisms.api.frames import framed, headers, is_group, outer_vlan, priority_of
from ecmproto.control.mechanisms.api.machine import MessageDiscards
from ecmproto.control.mechanisms.e2cm.edge import E2CMEdgeCounters, ProbeReply
from ecmproto.control.mechanisms.e2cm.parameters import (
    OWN_PRIORITY,
    E2CMEdgeParameters,
    E2CMReactionPointParameters,
)
from ecmproto.wire.codec import E2CM, Ethernet, EtherTypes, Frame, decode_lax
from ecmproto.wire.formats.e2cm import PROBE_FWD, PROBE_REV, flow_id
from ecmproto.wire.formats.ethertypes import DEFAULT

NO_TYPE = -1


def type_of(octets: bytes, ethertypes: EtherTypes = DEFAULT, *, length_octets: int | None = None) -> int:
    """Return the type of an E²CM frame, or NO_TYPE; see `addressed` for ``length_octets``."""
    message = decode_lax(octets, original_octets=length_octets, ethertypes=ethertypes).get(E2CM)
    return NO_TYPE if message is None else message.type


_TIMESTAMPS = 2**32
_LOCAL_IDENTIFIER_BITS = 16


class ProbedFlow(NamedTuple):
    """Identity of a flow in probes, which is equal at the source and at the destination."""

    dst: bytes
    src: bytes
    flow_id: int


class Probe(NamedTuple):
    """A forward probe for a destination."""

    flow: ProbedFlow
    timestamp_ns: int
    """Time of the source's clock in ns, modulo 2^32."""
    frame: Frame


class Reply(NamedTuple):
    """A reply for a source, in the units of the wire format."""

    flow: ProbedFlow
    latency_ns: int
    throughput_kbps: int


def probed_flow_of(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> ProbedFlow:
    """Return the identity of a data frame's flow in probes; ``octets`` start at the DA."""
    return _probed_flow(headers(octets, ethertypes))


def _probed_flow(frame: Frame) -> ProbedFlow:
    dst, src = frame[Ethernet].dst, frame[Ethernet].src
    return ProbedFlow(dst, src, flow_id(dst, src, priority_of(frame)))


def probe_frame(
    data: bytes,
    *,
    timestamp_ns: int,
    parameters: E2CMReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return a probe of the flow of the data frame ``data``, without FCS.

    ``timestamp_ns`` is the time of the source's clock at the departure of the probe.
    """
    frame = headers(data, ethertypes)
    flow = _probed_flow(frame)
    message = E2CM(
        type=PROBE_FWD,
        cpid=_destination_cpid(flow.dst),
        latency=timestamp_ns % _TIMESTAMPS,
        flow_id=flow.flow_id,
    )
    priority = priority_of(frame) if parameters.probe_priority == OWN_PRIORITY else parameters.probe_priority
    return framed(message, frame, dst=flow.dst, src=flow.src, priority=priority, ethertypes=ethertypes)


def read_probe(
    octets: bytes,
    *,
    stations: Collection[bytes],
    counters: E2CMEdgeCounters,
    ethertypes: EtherTypes = DEFAULT,
) -> Probe | None:
    """Return a forward probe to one of ``stations``. Count a refused probe and return ``None``."""
    frame = addressed(
        octets, lambda probe: probe.type == PROBE_FWD, E2CM, stations=stations, refusals=counters,
        ethertypes=ethertypes,
    )  # fmt: skip
    if frame is None:
        return None
    dst, src = frame[Ethernet].dst, frame[Ethernet].src
    if is_group(src) or src == dst:
        counters.unanswerable += 1
        return None
    message = frame[E2CM]
    return Probe(ProbedFlow(dst, src, message.flow_id), message.latency, frame)


def probe_reply(
    probe: Probe, reply: ProbeReply, *, parameters: E2CMEdgeParameters, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return the answer to ``probe``, without FCS."""
    message = E2CM(
        type=PROBE_REV,
        cpid=_destination_cpid(probe.flow.dst),
        latency=reply.latency_ns,
        flow_id=probe.flow.flow_id,
        throughput=reply.throughput_kbps,
    )
    return framed(
        message,
        probe.frame,
        dst=probe.flow.src,
        src=probe.flow.dst,
        priority=parameters.reply_priority,
        ethertypes=ethertypes,
    )


def read_reply(
    octets: bytes,
    *,
    stations: Collection[bytes],
    counters: MessageDiscards,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Reply | None:
    """Return a reply to one of ``stations``. Count a refused reply and return ``None``.

    ``length_octets`` is the frame length on the wire, for a frame that a snap length may have truncated.

    The MAC address in the CPID and the flow id identify the flow (wire-formats 6). The caller checks whether
    the station has sent probes of this flow.
    """
    frame = addressed(
        octets, lambda reply: reply.type == PROBE_REV, E2CM, stations=stations, refusals=counters,
        length_octets=length_octets, ethertypes=ethertypes,
    )  # fmt: skip
    if frame is None:
        return None
    message = frame[E2CM]
    dst = (message.cpid >> _LOCAL_IDENTIFIER_BITS).to_bytes(6)
    flow = ProbedFlow(dst, frame[Ethernet].dst, message.flow_id)
    return Reply(flow, message.latency, message.throughput)


def replied_priority(octets: bytes, flow: ProbedFlow, ethertypes: EtherTypes = DEFAULT) -> int | None:
    """Return the priority of the data that a reply about ``flow`` describes.

    The result is ``None`` for an impossible flow id. The VLAN tag of a reply contains the priority of the
    reply. The flow id depends on the priority of the data.
    """
    candidates = range(1) if outer_vlan(headers(octets, ethertypes)) is None else range(PRIORITIES)
    return next((p for p in candidates if flow_id(flow.dst, flow.src, p) == flow.flow_id), None)


def _destination_cpid(dst: bytes) -> int:
    return int.from_bytes(dst) << _LOCAL_IDENTIFIER_BITS
