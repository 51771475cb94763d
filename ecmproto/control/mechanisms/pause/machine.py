"""The PAUSE and PFC mechanisms."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import (
    PAUSE_KIND,
    PFC_KIND,
    CongestionPoint,
    Message,
)
from ecmproto.control.mechanisms.pause.congestion_point import (
    CLASSES,
    FlowControlPoint,
    FlowControlSettings,
    FlowControlState,
    OccupancyMeter,
    RefreshClock,
    flow_control_settings,
)
from ecmproto.control.mechanisms.pause.messages import flow_control_frame
from ecmproto.control.mechanisms.pause.parameters import GenerationParameters
from ecmproto.kernels.record import new_record, new_records


class FlowControlMachine(Machine):
    """Base class of PAUSE and PFC, which send messages without a reaction point.

    The ``priority`` of a message is the class, or the lowest class if the message refreshes several classes.
    The ``qlen_octets`` of a message are the measured occupancy, either of one station's frames or of all
    frames.
    """

    counted = MappingProxyType({FlowControlPoint: ("links", "xoff_frames", "xon_frames", "refresh_frames")})
    _cp: GenerationParameters
    kind: int
    by_priority: bool

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self.knows_stations: bool = self._cp.pause_on == "input"

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the congestion point of a port without stopped classes."""
        links = context.stations if self.knows_stations else 1
        settings: Any = new_records(FlowControlSettings, links)
        settings[:] = flow_control_settings(self._cp, rate_bps=context.link_rate_bps)
        return FlowControlPoint(
            octets=np.zeros(links * CLASSES, np.int64),
            meters=new_records(OccupancyMeter, links * CLASSES),
            links=new_records(FlowControlState, links),
            clock=new_record(RefreshClock),
            settings=settings,
            kind=self.kind,
            by_priority=self.by_priority,
            by_station=self.knows_stations,
        )

    def frame(self, message: Message, about: SampledFrame, context: PortContext) -> bytes:
        """Return the PAUSE or PFC frame; ``about`` is unused."""
        return flow_control_frame(message, src=context.cp_mac, ethertypes=context.ethertypes)


class PauseMachine(FlowControlMachine):
    """PAUSE with parameters."""

    kind = PAUSE_KIND
    by_priority = False


class PFCMachine(FlowControlMachine):
    """PFC with parameters."""

    kind = PFC_KIND
    by_priority = True
