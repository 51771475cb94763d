"""The congestion isolation mechanism, whose ports send messages to the neighbour upstream."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from ecmproto.control.mechanisms.api.frames import MessageFormat
from ecmproto.control.mechanisms.api.machine import Machine, PortContext
from ecmproto.control.mechanisms.api.protocol import CongestionPoint
from ecmproto.control.mechanisms.isolation.congestion_point import (
    CIM_KIND,
    CIMPayload,
    IsolationPoint,
    new_point,
)
from ecmproto.wire.flow import FlowKey
from ecmproto.wire.formats.isolation import CIM


class IsolationMachine(Machine):
    """Congestion isolation with parameters."""

    knows_stations = True
    flow_key = FlowKey(vlan=True, dst=True, priority=True)
    messages = MappingProxyType({CIM_KIND: MessageFormat(format=CIM, payload=CIMPayload)})
    counted = MappingProxyType({IsolationPoint: ("state", "isolated", "requested", "returned", "untracked")})

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the congestion isolation point of the port."""
        return new_point(self._cp, context)
