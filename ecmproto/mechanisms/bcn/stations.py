"""The BCN reaction points of many stations as they are driven (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from ecmproto.mechanisms.aimd.stations import Stations, limiters_at, send
from ecmproto.mechanisms.bcn.messages import Message as Feedback
from ecmproto.mechanisms.bcn.reaction_point import Settings, receive
from ecmproto.mechanisms.bcn.switch import KIND_OF_TYPE
from ecmproto.mechanisms.protocol import Departure, Message, Outbox, Sent

TAG_OCTETS = 12
"""What an RRT tag adds to a frame."""
_NO_MARK = 0


class BCNStations(Stations[Settings]):
    """The reaction points of stations."""

    settings: Settings

    def sent(self, departure: Departure, outbox: Outbox) -> Sent:
        """Give a frame that a limiter let through its RRT tag."""
        return send(self, departure, TAG_OCTETS, _NO_MARK)

    def heed(self, message: Message, now_ns: int) -> None:
        """React to a BCN message; one without the capacity that Ru is to follow is malformed."""
        if message.station < 0:
            return
        if message.capacity == 0 and self.settings.capacity_scaling == 1:
            self.points[message.station].malformed += 1
            return
        feedback = Feedback(message.kind - KIND_OF_TYPE, message.cpid, message.e, message.capacity)
        limiters = limiters_at(self, message.station)
        receive(limiters, self.settings, self.generator, feedback, message.flow, message.priority, now_ns)
