"""No congestion management, as replay, laboratory and live drive it."""

from __future__ import annotations

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.machine import Machine, Place, SampledFrame
from ecmproto.mechanisms.protocol import Message


class IdleMachine(Machine):
    """All roles are idle."""

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Raise ParameterError: there are no messages."""
        raise ParameterError(name="message", needed="none without a mechanism", got=f"kind {message.kind}")
