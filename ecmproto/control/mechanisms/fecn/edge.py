"""FECN's edge: receivers that remove RD tags and send them back."""

from __future__ import annotations

from ecmproto.control.mechanisms.api.protocol import Delivery, Outbox, post
from ecmproto.control.mechanisms.fecn.reaction_point import fecn_payload
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.structs import Struct


class FECNEdge:
    """The counters of an edge receiver; a record (``kernels.record``)."""

    stripped: int
    """Data frames whose RD tag was removed."""
    returns: int
    """Returning frames made."""


RETURN_KIND = 1


class FECNReceivers(Struct):
    """The edge receivers after the port: each removes RD tags and sends them back."""

    edge: FECNEdge

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Post the returning frame of a tagged one."""
        if not delivery.tagged:
            return
        self.edge.stripped += 1
        self.edge.returns += 1
        post(outbox, RETURN_KIND, delivery.now_ns, delivery.station, delivery.flow, delivery.priority)
        # In plain Python a compiled function returns a copy of a record.
        message = outbox.messages[outbox.posted.count - 1]
        fecn_payload(message).rlq_id = delivery.mark
        message.rate_kbps = delivery.tag

    def next_report_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def post_reports(self, now_ns: int, outbox: Outbox) -> None:
        """Do nothing: receivers only react to tags."""
