"""The QCN mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.api.frames import outer_vlan
from ecmproto.control.mechanisms.api.machine import (
    AboutFlow,
    DomainEdge,
    Machine,
    ParsedFeedback,
    PortContext,
    SampledFrame,
)
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import (
    SILENT,
    CongestionPoint,
    Message,
    Senders,
    signed_cpid,
)
from ecmproto.control.mechanisms.qcn import congestion_point as cp
from ecmproto.control.mechanisms.qcn import reaction_point as rp
from ecmproto.control.mechanisms.qcn.congestion_point import (
    CNM_KIND,
    PRIORITIES,
    CNMPayload,
    QCNPoints,
    cnm_payload,
    start,
)
from ecmproto.control.mechanisms.qcn.edge import QCNDomainEdge
from ecmproto.control.mechanisms.qcn.messages import (
    TAG,
    CNMReceiver,
    Discard,
    notification,
    read_cnm,
)
from ecmproto.control.mechanisms.qcn.parameters import (
    QCNCongestionPointParameters,
    QCNEdgeParameters,
    QCNReactionPointParameters,
)
from ecmproto.control.mechanisms.qcn.reaction_point import (
    LAST_FLOW_ID,
    QCNFlow,
    QCNLimiter,
    QCNStation,
    QCNStations,
)
from ecmproto.kernels.record import columns, new_records
from ecmproto.kernels.structs import Draws
from ecmproto.units import QUEUE_UNIT_OCTETS
from ecmproto.wire.codec import CNM
from ecmproto.wire.flow import FlowKey
from ecmproto.wire.formats.text import cpid


class QCNMachine(Machine):
    """QCN with parameters."""

    flow_key: FlowKey = FlowKey(vlan=True, dst=True, priority=True, cn_tag=True)
    tag = TAG
    kinds = MappingProxyType({CNM_KIND: "CNM"})
    payloads = MappingProxyType({SILENT: CNMPayload, CNM_KIND: CNMPayload})
    shown_fields = MappingProxyType({"QntzFb": "qntz_fb"})
    histogram_field = "qntz_fb"
    feedback_label = "Fb"
    refusal_record = CNMReceiver
    counted = MappingProxyType(
        {
            QCNStations: (
                "points", "messages", "decreased", "without_feedback", "unknown_flow", "created", "released",
                "sharing", "byte_expiries", "time_expiries",
            )
        }
    )  # fmt: skip

    _cp: QCNCongestionPointParameters
    _rp: QCNReactionPointParameters

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._has_point = np.isin(np.arange(PRIORITIES), list(self._cp.cnpv))

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return a congestion point for each CN priority."""
        states = new_records(cp.QCNPointState, PRIORITIES)
        settings, draws = cp.settings_record(self._cp), Draws(generator)
        for priority in sorted(self._cp.cnpv):
            start(states[priority], settings, draws)
        return QCNPoints(states, self._has_point, self._cp.cnm_without_cn_tag, settings, draws)

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters."""
        settings = rp.settings_record(self._rp, link_rate_bps=context.link_rate_bps)
        one = rp.new_reaction_point(self._rp, flows=context.flows)
        slots = new_records(QCNLimiter, context.stations * len(one.slots))
        columns(slots)[:] = np.tile(columns(one.slots), context.stations)
        points = new_records(QCNStation, context.stations)
        columns(points)[:] = np.asarray(one.point)
        flows = new_records(QCNFlow, context.stations * context.flows)
        return QCNStations(
            slots, len(one.slots), points, flows, context.flows, self._has_point, settings, Draws(generator)
        )

    def frame(self, message: Message, about: SampledFrame, context: PortContext) -> bytes:
        """Return the CNM as a frame."""
        return notification(
            about,
            priority=message.priority,
            qntz_fb=int(cnm_payload(message).qntz_fb),
            qoff_octets=message.qoff_octets,
            qdelta_octets=message.qdelta_octets,
            cpid=cpid(context.cp_mac, int(message.priority) + 1),
            cp_mac=context.cp_mac,
            parameters=self._cp,
            ethertypes=context.ethertypes,
        )

    def parse_feedback(
        self,
        octets: bytes,
        station_mac: bytes,
        context: PortContext,
        refusals: CNMReceiver,
        *,
        length_octets: int | None = None,
    ) -> ParsedFeedback | None:
        """Return the feedback in a CNM, with queue lengths in octets as exact as the fields."""
        received = read_cnm(
            refusals, octets, station_mac, length_octets=length_octets, ethertypes=context.ethertypes
        )
        if isinstance(received, Discard):
            return None
        feedback, cnm, vlan = received.feedback, received.frame[CNM], outer_vlan(received.frame)
        about = AboutFlow(
            destination=cnm.encap_dst,
            vlan=None if vlan is None else vlan.id,
            priority=feedback.encap_prio,
            cn_flow=feedback.flow_id,
            # A frame without CN-TAG also has Flow ID 0.
            given=LAST_FLOW_ID - feedback.flow_id if feedback.flow_id else None,
        )
        fields = {
            "kind": CNM_KIND,
            "priority": feedback.encap_prio,
            "cpid": signed_cpid(cnm.cpid),
            "qntz_fb": feedback.qntz_fb,
            "qoff_octets": -QUEUE_UNIT_OCTETS * cnm.q_offset,
            "qdelta_octets": QUEUE_UNIT_OCTETS * cnm.q_delta,
        }
        return ParsedFeedback(fields, about)

    def domain_edge(self, context: PortContext, port: str) -> DomainEdge | None:
        """Return the edge of a CN domain, with the defence modes of the port and the conversion of CNMs."""
        parameters = self._edge or QCNEdgeParameters()
        return QCNDomainEdge(parameters, mac=context.cp_mac, port=port, ethertypes=context.ethertypes)
