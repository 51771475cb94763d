"""A mechanism over PAUSE or PFC: one port sends its messages and, when it fills, stops its stations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.mechanisms.both import Both
from ecmproto.mechanisms.machine import Heard, Machine, Place, SampledFrame
from ecmproto.mechanisms.protocol import CongestionPoint, Message, Receivers, Senders


class Layered(Machine):
    """``upper`` on a port that ``lower`` watches too; all else is ``upper``'s."""

    def __init__(self, upper: Machine, lower: Machine) -> None:
        super().__init__(upper.parameters)
        self.name = f"{upper.name} over {lower.name}"
        self.knows_stations = upper.knows_stations or lower.knows_stations
        for name in (
            "flow_key", "flow_hash", "tag", "tag_protocol", "tag_octets", "kinds", "answers",
            "feedback_label", "set_point_octets", "refusal_record",
        ):  # fmt: skip
            setattr(self, name, getattr(upper, name))
        self._upper, self._lower = upper, lower

    def congestion_point(self, place: Place, generator: np.random.Generator) -> CongestionPoint:
        """Return both congestion points as one."""
        return Both(
            self._upper.congestion_point(place, generator), self._lower.congestion_point(place, generator)
        )

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Tell both."""
        if isinstance(point, Both):
            self._upper.set_capacity(point.first, capacity_bps)
            self._lower.set_capacity(point.second, capacity_bps)

    def senders(self, place: Place, generator: np.random.Generator) -> Senders:
        """Return the upper one's."""
        return self._upper.senders(place, generator)

    def receivers(self, place: Place, generator: np.random.Generator) -> Receivers:
        """Return the upper one's."""
        return self._upper.receivers(place, generator)

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Return the upper one's frame."""
        return self._upper.frame(message, about, place)

    def heard(
        self,
        octets: bytes,
        station_mac: bytes,
        place: Place,
        refusals: Any,
        *,
        length_octets: int | None = None,
    ) -> Heard | None:
        """Return what the upper one hears."""
        return self._upper.heard(octets, station_mac, place, refusals, length_octets=length_octets)

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> Mapping[str, Any]:
        """Return the upper one's tags."""
        return self._upper.tags(tag, mark)

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the upper one's counters."""
        return self._upper.counters(machine)

    def gauges(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, float]:
        """Return the upper one's gauges."""
        return self._upper.gauges(machine)
