"""No congestion management, as replay, laboratory and live drive it."""

from __future__ import annotations

from ecmproto.control.machine import Machine, Place, SampledFrame
from ecmproto.control.protocol import Message
from ecmproto.errors import ParameterError


class IdleMachine(Machine):
    """All roles are idle."""

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Raise ParameterError: there are no messages."""
        raise ParameterError(name="message", needed="none without a mechanism", got=f"kind {message.kind}")
