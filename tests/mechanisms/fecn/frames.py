"""Frames of FECN and DBP in a slow receiver: data frames, and the values that a source reads in replies."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame, machine_of
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import messages_of
from ecmproto.control.mechanisms.dbp.parameters import DBP, DBPEdgeParameters
from ecmproto.control.mechanisms.fecn import messages
from ecmproto.control.mechanisms.fecn.machine import RETURN_KIND, FECNEdge
from ecmproto.control.mechanisms.fecn.messages import TAG
from ecmproto.control.mechanisms.fecn.parameters import FECN, FECNEdgeParameters
from ecmproto.control.mechanisms.fecn.reaction_point import FECNDiscards, FECNFields
from ecmproto.units import RATE_INFINITY
from ecmproto.wire.codec import DBPRateReport, Ethernet, EtherTypes, FECNReturn, Frame, Layer, RDTag, decode
from ecmproto.wire.codec.frame import MIN_OCTETS
from ecmproto.wire.codec.tags import TYPE_OCTETS, TagFormat, without_tags
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.tags import find_tag, with_tag

_ADDRESS_OCTETS = 6
_HEADER_OCTETS = 14
_GROUP_BIT = 1


class DBPReport(NamedTuple):
    """A rate report with the address of its destination and a rate in kb/s."""

    destination_mac: bytes
    rate: int


def received(octets: bytes, source: FECNDiscards, **options: Any) -> FECNFields | None:
    """The fields of a returning frame."""
    found = messages.received(octets, FECNReturn, source, **options)
    return None if found is None else FECNFields(found.rlq_id, found.rate)


def received_report(octets: bytes, source: FECNDiscards, **options: Any) -> DBPReport | None:
    """The source and the rate of a rate report."""
    found = messages.received(octets, DBPRateReport, source, **options)
    return None if found is None else DBPReport(decode(octets)[Ethernet].src, found.rate)


@functools.cache
def machine_with(priority: int, is_report: bool) -> Machine:
    """Return the machine whose answers, or rate reports, have ``priority``."""
    if is_report:
        return machine_of(DBP, {Role.EDGE: DBPEdgeParameters(report_priority=priority)})
    return machine_of(FECN, {Role.EDGE: FECNEdgeParameters(return_priority=priority)})


def answer(
    octets: bytes,
    body: FECNReturn | DBPRateReport,
    *,
    port_mac: bytes,
    priority: int,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return the destination's answer to ``octets`` with the fields of ``body``."""
    machine = machine_with(priority, isinstance(body, DBPRateReport))
    fields = {"kind": RETURN_KIND, "rate_kbps": body.rate, "rlq_id": body.rlq_id}
    (message,) = messages_of([fields], machine.payloads)
    context = PortContext(
        rate_bps=10**10, link_rate_bps=10**10, cp_mac=port_mac, stations=1, flows=1, ethertypes=ethertypes
    )
    return machine.frame(message, SampledFrame(octets, len(octets), 0), context)


def tagged(
    octets: bytes, *, rlq_id: int, rate: int = RATE_INFINITY, ethertypes: EtherTypes = DEFAULT
) -> bytes | None:
    """Return the data frame ``octets`` with an RD tag after its VLAN tags and CN-TAG.

    The new tag replaces an old RD tag. If the captured frame ends before this position, None is returned.
    """
    made, _ = with_tag(octets, RDTag(rlq_id=rlq_id, rate=rate), ethertypes)
    return made if find_tag(made, TAG, ethertypes) is not None else None


def untagged(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the data frame ``octets`` without RD tags. The result may be shorter than 60 octets."""
    return without_tags(octets, TAG, ethertypes)[0]


def rd_tag(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> RDTag | None:
    """Return the RD tag of the data frame ``octets``, the outermost of several, None if it has none."""
    found = find_tag(octets, TAG, ethertypes)
    return found.layer if found is not None and isinstance(found.layer, RDTag) else None


def with_fields(octets: bytes, kind: TagFormat, ethertypes: EtherTypes = DEFAULT, **fields: int) -> bytes:
    """Return a frame with changed ``fields`` in its newest tag of ``kind``.

    A frame without such a tag is returned unchanged.
    """
    found = find_tag(octets, kind, ethertypes)
    if found is None:
        return octets
    row = found.layer.replace(**fields).build()[:-TYPE_OCTETS]
    return octets[: found.at + TYPE_OCTETS] + row + octets[found.end :]


def with_rate(octets: bytes, rate: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the data frame ``octets`` with ``rate``, in kb/s, in its (outermost) RD tag."""
    return with_fields(octets, TAG, ethertypes, rate=rate)


def with_layer(octets: bytes, frame: Frame, index: int, layer: Layer) -> bytes:
    """Return ``octets``, which decode to ``frame``, with the layer number ``index`` replaced by ``layer``."""
    start, end = frame.boundaries()[index : index + 2]
    return octets[:start] + layer.build() + octets[end:]


def returning(
    octets: bytes, *, station_mac: bytes, priority: int, ethertypes: EtherTypes = DEFAULT
) -> bytes | None:
    """Return the frame that returns the RD tag of the data frame ``octets`` to its source, padded to 60
    octets.

    If the data frame has no RD tag, None is returned.
    """
    tag = rd_tag(octets, ethertypes=ethertypes)
    if tag is None:
        return None
    body = FECNReturn(rlq_id=tag.rlq_id, rate=tag.rate)
    return answer(octets, body, port_mac=station_mac, priority=priority, ethertypes=ethertypes)


def is_answerable(octets: bytes, *, station_mac: bytes) -> bool:
    """Return whether ``station_mac`` may answer the frame: to no group address, and not to itself."""
    source = octets[_ADDRESS_OCTETS : 2 * _ADDRESS_OCTETS]
    return len(octets) >= _HEADER_OCTETS and not source[0] & _GROUP_BIT and source != station_mac


class Edge(FECNEdge):
    """The counters of a receiver that also meets frames that it does not answer; a record."""

    unanswerable: int
    """Tagged frames stripped without an answer: from a group address or from this station itself."""
    foreign: int
    """Frames for another station, left as they are."""


class FECNDelivered(NamedTuple):
    """A delivered data frame: its octets without the RD tag, and the returning frame, if any."""

    octets: bytes
    returning: bytes | None


def receive(
    edge: Edge,
    octets: bytes,
    *,
    station_mac: bytes,
    parameters: FECNEdgeParameters,
    length_octets: int = 0,
    ethertypes: EtherTypes = DEFAULT,
) -> FECNDelivered:
    """Remove the RD tag from a data frame that reached ``station_mac``, and create the frame that returns the
    tag.

    ``octets`` contains the captured octets of the frame from the DA on, without FCS. ``length_octets`` is the
    length on the wire if the frame is truncated. A complete frame is padded to 60 octets.
    """
    destination = octets[:_ADDRESS_OCTETS]
    bare = untagged(octets, ethertypes=ethertypes)
    if bare == octets:
        return FECNDelivered(octets, None)
    if destination != station_mac and not destination[0] & _GROUP_BIT:
        edge.foreign += 1
        return FECNDelivered(octets, None)
    edge.stripped += 1
    if length_octets <= len(octets):
        bare = bare.ljust(MIN_OCTETS, b"\0")
    if not is_answerable(octets, station_mac=station_mac):
        edge.unanswerable += 1
        return FECNDelivered(bare, None)
    answer = returning(
        octets, station_mac=station_mac, priority=parameters.return_priority, ethertypes=ethertypes
    )
    edge.returns += 1
    return FECNDelivered(bare, answer)
