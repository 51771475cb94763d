"""BCN messages and the BCN mechanism (S004 Figs 2 and 3; wire-formats 5)."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from ecmproto.control.mechanisms.aimd.machine import AIMDMachine
from ecmproto.control.mechanisms.aimd.reaction_point import new_stations
from ecmproto.control.mechanisms.api.frames import MessageFormat
from ecmproto.control.mechanisms.api.machine import PortContext, SampledFrame, total
from ecmproto.control.mechanisms.api.protocol import PAUSE_KIND, CongestionPoint, Message, Receivers, Senders
from ecmproto.control.mechanisms.bcn.congestion_point import (
    BCN_KIND,
    BCN_STOP_KIND,
    BCNPayload,
    BCNPoints,
    new_points,
)
from ecmproto.control.mechanisms.bcn.reaction_point import BCNStations, settings_record
from ecmproto.control.mechanisms.pause.messages import flow_control_frame
from ecmproto.wire.codec import BCN, RRTTag
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.formats.bcn import NORMAL, STOP

PROTOCOL = 1
"""Protocol number of BCN in the discriminator word."""


class BCNMachine(AIMDMachine):
    """Enhanced BCN with parameters."""

    tag = TagFormat(format=RRTTag, tag="cpid", constants={"protocol": PROTOCOL})
    message = BCN
    messages = MappingProxyType(
        {
            BCN_KIND: MessageFormat(format=BCN, payload=BCNPayload, constants={"type": NORMAL}),
            BCN_STOP_KIND: MessageFormat(
                format=BCN, payload=BCNPayload, name="BCN STOP", constants={"type": STOP}
            ),
        }
    )
    feedback_label = "e"
    counted = MappingProxyType(
        {
            **AIMDMachine.counted,
            BCNPoints: (
                "states", "samples", "normal", "stops", "balanced", "unassociated", "truncated",
                "unanswerable",
            ),
        }
    )  # fmt: skip

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return a congestion point for each enabled priority; a queue above Qst pauses all stations."""
        return new_points(self._cp, context, generator)

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters.

        Raises ParameterError if the minimum rate is above the initial rate on the link of a station.
        """
        settings = settings_record(self._rp, context.link_rate_bps)
        return new_stations(BCNStations, self._rp, settings, context, generator)

    def frame(self, message: Message, about: SampledFrame, context: PortContext) -> bytes:
        """Return the BCN message or the PAUSE as a frame; raises the errors of `AIMDMachine.frame`."""
        if message.kind == PAUSE_KIND:
            return flow_control_frame(message, src=context.cp_mac, ethertypes=context.ethertypes)
        return super().frame(message, about, context)

    def admits(self, layer: BCN) -> bool:
        """Return whether the message contains a capacity, which is required if Ru depends on the capacity."""
        return layer.capacity > 0 or not self._rp.capacity_scaling

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of ``machine``; a congestion point also counts PAUSE frames."""
        counters = super().counters(machine)
        if isinstance(machine, BCNPoints):
            counters |= total(machine.threshold.pause_state, "xoff_frames", "xon_frames", "refresh_frames")
        return counters
