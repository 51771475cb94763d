"""The ECM reaction points of many stations as they are driven (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from ecmproto.mechanisms.aimd.stations import Stations, limiters_at, send
from ecmproto.mechanisms.ecm.messages import Message as Feedback
from ecmproto.mechanisms.ecm.reaction_point import Settings, receive, ticks
from ecmproto.mechanisms.protocol import Departure, Message, Outbox, Sent

TAG_OCTETS = 16
"""What a CM-Tag adds to a frame."""
TIMESTAMP_BITS = 16
"""A frame's mark is the tag's unit above the timestamp."""
TIMESTAMP_MASK = 0xFFFF


class ECMStations(Stations[Settings]):
    """The reaction points of stations."""

    settings: Settings

    def sent(self, departure: Departure, outbox: Outbox) -> Sent:
        """Give a frame that a limiter let through its CM-Tag."""
        unit = self.timestamp_unit
        return send(self, departure, TAG_OCTETS, unit << TIMESTAMP_BITS | ticks(departure.now_ns, unit))

    def heed(self, message: Message, now_ns: int) -> None:
        """React to an ECM frame."""
        if message.station < 0:
            return
        feedback = Feedback(
            message.cpid,
            message.q_off,
            message.q_delta,
            message.q,
            message.timestamp,
            message.unit,
            message.tagged == 1,
        )
        limiters = limiters_at(self, message.station)
        receive(limiters, self.settings, self.generator, feedback, message.flow, message.priority, now_ns)
