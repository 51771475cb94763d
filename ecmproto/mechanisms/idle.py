"""The machines of a mechanism that lacks one: ports only forward, senders never wait."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.protocol import (
    NO_AVERAGE,
    NO_LIMITER,
    Arrival,
    Delivery,
    Departure,
    Message,
    Outbox,
    Sent,
)
from ecmproto.structs import Struct


class IdlePoint(Struct):
    """A congestion point that says nothing."""

    def arrived(self, arrival: Arrival, outbox: Outbox) -> None:
        """Do nothing."""

    def forwarded(self, priority: int, tag: int) -> int:
        """Return the tag as it came."""
        return tag

    def left(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Do nothing."""

    def tick_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def tick(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Do nothing."""


class IdleSenders(Struct):
    """Stations without rate limiters."""

    def limiters(self) -> int:
        """Return 0."""
        return 0

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return NO_LIMITER."""
        return NO_LIMITER

    def join(self, station: int, limiter: int) -> None:
        """Do nothing."""

    def leaves_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return now."""
        return now_ns

    def sent(self, departure: Departure, outbox: Outbox) -> Sent:
        """Leave the frame as it is."""
        return Sent(departure.tagged, departure.tag, departure.mark, 0)

    def heed(self, message: Message, now_ns: int) -> None:
        """Do nothing."""

    def timer_ns(self, station: int) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def expire(self, station: int, now_ns: int) -> None:
        """Do nothing."""

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return 0."""
        return 0.0

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return NO_AVERAGE."""
        return NO_AVERAGE


class IdleReceivers(Struct):
    """Destinations that answer nothing."""

    def delivered(self, delivery: Delivery, outbox: Outbox) -> None:
        """Do nothing."""

    def report_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def report(self, now_ns: int, outbox: Outbox) -> None:
        """Do nothing."""
