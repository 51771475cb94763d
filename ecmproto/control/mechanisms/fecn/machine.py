"""The FECN mechanism, and a base class for FECN and DBP."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.api.frames import MessageFormat
from ecmproto.control.mechanisms.api.machine import Machine, ParsedFeedback, PortContext
from ecmproto.control.mechanisms.api.protocol import (
    CongestionPoint,
    Delivery,
    NullReceivers,
    Outbox,
    Receivers,
    Senders,
    post,
)
from ecmproto.control.mechanisms.fecn.congestion_point import FECNPort, new_port, set_capacity
from ecmproto.control.mechanisms.fecn.messages import TAG, answering, received
from ecmproto.control.mechanisms.fecn.reaction_point import (
    FECNDiscards,
    FECNPayload,
    FECNStations,
    fecn_payload,
    new_stations,
    queues_each,
    settings_record,
)
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec import FECNReturn
from ecmproto.wire.flow import FlowKey


class FECNEdge:
    """Record of an edge receiver's counters (``kernels.record``)."""

    stripped: int
    """Number of data frames whose RD tag was removed."""
    returns: int
    """Number of sent returning frames."""


RETURN_KIND = 1


class FECNReceivers(NullReceivers):
    """The edge receivers after the port, which remove RD tags and send the tags back."""

    edge: FECNEdge

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Post a returning frame for a tagged frame."""
        if not delivery.tagged:
            return
        self.edge.stripped += 1
        self.edge.returns += 1
        post(outbox, RETURN_KIND, delivery.now_ns, delivery.station, delivery.flow, delivery.priority)
        # In plain Python a compiled function returns a copy of a record.
        message = outbox.messages[outbox.posted.count - 1]
        fecn_payload(message).rlq_id = delivery.mark
        message.rate_kbps = delivery.tag


class AnsweredMachine(Machine):
    """Base class of FECN and DBP: switches rewrite a rate, and answers of destinations return the rate.

    A subclass defines ``messages`` with one message kind.
    """

    refusal_record = FECNDiscards
    counted: Mapping[type[Any], tuple[str, ...]] = MappingProxyType(
        {
            FECNPort: (
                "state", "updates", "idle_ticks", "limited_updates", "bounded_updates", "capacity_losses",
                "tags", "lowered_tags",
            ),
            FECNStations: (
                "sources", "restarts", "shared_arrivals", "tags", "returns", "infinite_returns",
                "capped_returns", "floored_returns", "unknown_returns",
            ),
            FECNReceivers: ("edge", "stripped", "returns"),
        }
    )  # fmt: skip

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the congestion point of the port, which all priorities share."""
        return new_port(self._cp, context, generator)

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Set the line rate, which changes the advertised rate at the next tick (enhancement 4)."""
        if isinstance(point, FECNPort):
            set_capacity(point.state, float(capacity_bps))

    def parse_feedback(
        self,
        octets: bytes,
        station_mac: bytes,
        context: PortContext,
        refusals: FECNDiscards,
        *,
        length_octets: int | None = None,
    ) -> ParsedFeedback | None:
        """Return the feedback in an answer; the headers identify the flow, but not the flow's priority."""
        ((kind, made),) = self.messages.items()
        parsed = received(
            octets, made.format, refusals, station_mac=station_mac, ethertypes=context.ethertypes
        )
        if parsed is None:
            return None
        fields = {"kind": kind, **made.fields_of(parsed)}
        about = answering(octets, context.ethertypes)._replace(among=self.flows_among(fields, context))
        return ParsedFeedback(fields, about)

    def flows_among(self, fields: Mapping[str, int], context: PortContext) -> range | None:
        """Return the numbers of the flows that an answer may be about; ``None`` means all flows."""
        return None


class FECNMachine(AnsweredMachine):
    """FECN with parameters."""

    flow_key: FlowKey = FlowKey(vlan=False, dst=True, priority=True, cn_tag=False)
    tag = TAG
    answer_priority = "return_priority"
    messages = MappingProxyType(
        {
            RETURN_KIND: MessageFormat(
                format=FECNReturn, payload=FECNPayload, fields={"rate": "rate_kbps"}, is_answer=True
            )
        }
    )

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return sources without used queues."""
        return new_stations(self._rp, settings_record(self._rp), context, generator)

    def receivers(self, context: PortContext, generator: np.random.Generator) -> Receivers:
        """Return edge receivers."""
        return FECNReceivers(new_record(FECNEdge))

    def flows_among(self, fields: Mapping[str, int], context: PortContext) -> range:
        """Return the flows of the queue in a returning frame; flows beyond the table share the last queue."""
        queues, index = queues_each(self._rp, context), fields["rlq_id"] - 1
        return range(index, index + 1 if index < queues - 1 else max(queues, context.flows))
