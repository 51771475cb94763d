"""E²CM's probes as frames: BCN_PROBE_FWD out, BCN_PROBE_REV back (S002; wire-formats 1.2 and 6)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ecmproto.codec import E2CM, Ethernet, EtherTypes, Frame, decode
from ecmproto.errors import DecodeError
from ecmproto.formats.e2cm import PROBE_FWD, PROBE_REV, flow_id
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.envelope import Refusals, framed, is_group
from ecmproto.mechanisms.aimd.parameters import PRIORITIES
from ecmproto.mechanisms.aimd.tags import headers, outer_vlan, priority_of
from ecmproto.mechanisms.e2cm.parameters import EdgeParameters
from ecmproto.mechanisms.e2cm.reaction_parameters import OWN_PRIORITY, ReactionPointParameters

if TYPE_CHECKING:
    from ecmproto.mechanisms.e2cm.edge_receiver import EdgeCounters, ProbeReply
    from ecmproto.mechanisms.e2cm.probing import ProbeCounters

_TIMESTAMPS = 2**32
_LOCAL_IDENTIFIER_BITS = 16


class ProbedFlow(NamedTuple):
    """What probes call a flow, at the source and at the destination alike."""

    dst: bytes
    src: bytes
    flow_id: int


class Probe(NamedTuple):
    """A forward probe that a destination is to answer."""

    flow: ProbedFlow
    timestamp_ns: int
    """The source's clock, modulo 2^32."""
    frame: Frame


class Reply(NamedTuple):
    """A reply that is for a source, fields as on the wire."""

    flow: ProbedFlow
    latency_ns: int
    throughput_kbps: int


def probed_flow_of(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> ProbedFlow:
    """Return what probes call the flow of a data frame; ``octets`` are its first ones, from its DA on."""
    return _probed_flow(headers(octets, ethertypes))


def _probed_flow(frame: Frame) -> ProbedFlow:
    dst, src = frame[Ethernet].dst, frame[Ethernet].src
    return ProbedFlow(dst, src, flow_id(dst, src, priority_of(frame)))


def forward_probe(
    data: bytes,
    *,
    now_ns: int,
    counters: ProbeCounters,
    parameters: ReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the probe that follows the data frame ``data``, as `probe_frame`.

    None, counted, if the flow's destination is a group, which has no one latency.
    """
    if is_group(headers(data, ethertypes)[Ethernet].dst):
        counters.unprobeable += 1
        return None
    return probe_frame(data, timestamp_ns=now_ns, parameters=parameters, ethertypes=ethertypes)


def probe_frame(
    data: bytes,
    *,
    timestamp_ns: int,
    parameters: ReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return a probe of the flow of the data frame ``data``, without FCS.

    ``timestamp_ns`` is the source's clock as the probe leaves.
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
    counters: EdgeCounters,
    ethertypes: EtherTypes = DEFAULT,
) -> Probe | None:
    """Return a forward probe that one of ``stations`` received; None, counted, if it is refused."""
    frame = _received(octets, PROBE_FWD, stations, counters, ethertypes)
    if frame is None:
        return None
    dst, src = frame[Ethernet].dst, frame[Ethernet].src
    if is_group(src) or src == dst:
        counters.unanswerable += 1
        return None
    message = frame[E2CM]
    return Probe(ProbedFlow(dst, src, message.flow_id), message.latency, frame)


def probe_reply(
    probe: Probe, reply: ProbeReply, *, parameters: EdgeParameters, ethertypes: EtherTypes = DEFAULT
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
    counters: Refusals,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Reply | None:
    """Return a probe's reply that one of ``stations`` received; None, counted, if it is refused.

    ``length_octets`` is the frame's length on the wire where a snap length may have cut it.

    Its flow is told by the CPID's MAC and the flow id (wire-formats 6): whether the station has sent
    probes of it is the caller's to know.
    """
    frame = _received(octets, PROBE_REV, stations, counters, ethertypes, length_octets)
    if frame is None:
        return None
    message = frame[E2CM]
    dst = (message.cpid >> _LOCAL_IDENTIFIER_BITS).to_bytes(6)
    flow = ProbedFlow(dst, frame[Ethernet].dst, message.flow_id)
    return Reply(flow, message.latency, message.throughput)


def replied_priority(octets: bytes, flow: ProbedFlow, ethertypes: EtherTypes = DEFAULT) -> int | None:
    """Return the priority of the data that a reply about ``flow`` speaks of; None if its flow id lies.

    A reply has a priority of its own in the VLAN tag that the data have too: the flow id tells theirs.
    """
    candidates = range(1) if outer_vlan(headers(octets, ethertypes)) is None else range(PRIORITIES)
    return next((p for p in candidates if flow_id(flow.dst, flow.src, p) == flow.flow_id), None)


def _received(
    octets: bytes,
    type: int,
    stations: Collection[bytes],
    counters: Refusals,
    ethertypes: EtherTypes,
    length_octets: int | None = None,
) -> Frame | None:
    try:
        frame = decode(octets, original_octets=length_octets, ethertypes=ethertypes)
    except DecodeError:
        frame = None
    message = None if frame is None else frame.get(E2CM)
    if frame is None or message is None or message.type != type:
        counters.malformed += 1
        return None
    station = frame[Ethernet].dst
    if is_group(station):
        counters.group_address += 1
        return None
    if station not in stations:
        counters.foreign_address += 1
        return None
    return frame


def _destination_cpid(dst: bytes) -> int:
    return int.from_bytes(dst) << _LOCAL_IDENTIFIER_BITS
