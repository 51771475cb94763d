"""ECM messages and the ECM mechanism (S000 3.1; wire-formats 1.2 and 4)."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from ecmproto.control.mechanisms.aimd.congestion_point import ECMPayload
from ecmproto.control.mechanisms.aimd.machine import AIMDMachine
from ecmproto.control.mechanisms.aimd.reaction_point import new_stations
from ecmproto.control.mechanisms.api.frames import MessageFormat
from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import CongestionPoint, Senders
from ecmproto.control.mechanisms.ecm.congestion_point import (
    ECM_KIND,
    ECM_MAX_KIND,
    ECM_ZERO_KIND,
    ECMPoints,
    new_points,
)
from ecmproto.control.mechanisms.ecm.reaction_point import ECMStations, settings_record
from ecmproto.wire.codec import ECM, CMTag
from ecmproto.wire.codec.tags import TagFormat

PROTOCOL = 0
"""Protocol number of ECM in the discriminator word."""


class ECMMachine(AIMDMachine):
    """ECM with parameters."""

    tag = TagFormat(format=CMTag, tag="cpid", mark=("unit", "timestamp"), constants={"protocol": PROTOCOL})
    message = ECM
    messages = MappingProxyType(
        {
            ECM_KIND: MessageFormat(format=ECM, payload=ECMPayload),
            # Only field values distinguish ECM-Max, so a received ECM-Max counts as ECM_KIND.
            ECM_MAX_KIND: MessageFormat(format=ECM, payload=ECMPayload, name="ECM-Max"),
            ECM_ZERO_KIND: MessageFormat(
                format=ECM, payload=ECMPayload, name="ECM(0,0)", constants={"q_off": 0, "q_delta": 0}
            ),
        }
    )
    feedback_label = "Fb"
    counted = MappingProxyType(
        {
            **AIMDMachine.counted,
            ECMPoints: (
                "states", "samples", "regular", "saturated", "severe", "balanced", "unassociated",
                "truncated", "unanswerable",
            ),
        }
    )  # fmt: skip

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return a congestion point for each enabled priority."""
        return new_points(self._cp, self._rp.weight, context, generator)

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters.

        Raises ParameterError if the minimum rate is above the initial rate on the link of a station.
        """
        settings = settings_record(self._rp, context.link_rate_bps)
        return new_stations(
            ECMStations, self._rp, settings, context, generator, timestamp_unit=self._rp.timestamp_unit
        )

    def fields_shown(self, tag: CMTag | None) -> dict[str, int]:
        """Return whether the payload contains a CM-Tag, which makes the message's timestamp valid."""
        return {"tagged": int(tag is not None)}
