"""The HPCC mechanism, whose destinations acknowledge each tagged frame with the records of the frame."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.api.frames import MessageFormat
from ecmproto.control.mechanisms.api.machine import Machine, PortContext
from ecmproto.control.mechanisms.api.protocol import (
    CongestionPoint,
    Delivery,
    NullReceivers,
    Outbox,
    Receivers,
    Senders,
    post,
)
from ecmproto.control.mechanisms.hpcc.congestion_point import HPCCPort, new_port, set_capacity
from ecmproto.control.mechanisms.hpcc.reaction_point import (
    AckPayload,
    HPCCStations,
    ack_payload,
    new_stations,
)
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.flow import FlowKey
from ecmproto.wire.formats.hpcc import RECORD_FIELDS, HPCCAck, INTTag

ACK_KIND = 1
_MARK = ("nhop", "path")


class HPCCReceiverCounts:
    """Record of the counters of destinations (``kernels.record``)."""

    acknowledged: int


class HPCCReceivers(NullReceivers):
    """Destinations that acknowledge tagged frames."""

    counts: HPCCReceiverCounts

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Acknowledge a tagged frame."""
        if not delivery.tagged:
            return
        self.counts.acknowledged += 1
        post(outbox, ACK_KIND, delivery.now_ns, delivery.station, delivery.flow, delivery.priority)
        # In plain Python a compiled function returns a copy of a record.
        message = outbox.messages[outbox.posted.count - 1]
        for hop in range(len(delivery.stack)):
            message.payload[hop] = delivery.stack[hop]
        ack_payload(message).mark = delivery.mark
        ack_payload(message).tag = delivery.tag


class HPCCMachine(Machine):
    """HPCC with parameters."""

    flow_key = FlowKey(vlan=True, dst=True, priority=False)
    tag = TagFormat(
        format=INTTag, tag="seq", mark=_MARK, stack=RECORD_FIELDS, constants={"protocol": 5, "type": 0}
    )
    messages = MappingProxyType(
        {
            ACK_KIND: MessageFormat(
                format=HPCCAck,
                payload=AckPayload,
                packed={f"record{hop + 1}": names for hop, names in enumerate(RECORD_FIELDS)}
                | {"mark": _MARK, "tag": ("seq",)},
                is_answer=True,
            )
        }
    )

    counted: Mapping[type[Any], tuple[str, ...]] = MappingProxyType(
        {
            HPCCPort: ("state", "records", "full_stacks"),
            HPCCStations: (
                "points", "acks", "unknown_flow", "stale", "unmeasured", "new_paths", "updates",
                "multiplicative", "timeouts",
            ),
            HPCCReceivers: ("counts", "acknowledged"),
        }
    )  # fmt: skip

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the congestion point of the port."""
        return new_port(context)

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Set the line rate for later records."""
        if isinstance(point, HPCCPort):
            set_capacity(point.state, capacity_bps)

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return reaction points before the first frames."""
        return new_stations(self._rp, context)

    def receivers(self, context: PortContext, generator: np.random.Generator) -> Receivers:
        """Return destinations that acknowledge each tagged frame."""
        return HPCCReceivers(new_record(HPCCReceiverCounts))

    def remarks(self, point: CongestionPoint) -> tuple[str, ...]:
        """Return a remark if no frame has a record."""
        if not isinstance(point, HPCCPort) or point.state.records:
            return ()
        return ("HPCC added no record: only tagged frames of closed loops (--rp hpcc) get them",)
