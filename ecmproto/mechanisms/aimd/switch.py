"""The congestion points of a port, one for each enabled priority: what mechanisms share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.formats.text import cpid
from ecmproto.kernel import inlined
from ecmproto.mechanisms.aimd.parameters import PRIORITIES
from ecmproto.mechanisms.cpid import signed_cpid
from ecmproto.mechanisms.protocol import Arrival, Message
from ecmproto.record import new_records


class Identified(Protocol):
    """The record of a congestion point."""

    cpid: int
    """As `ecmproto.mechanisms.cpid` has it."""
    unanswerable: int
    """Messages not sent because the sampled frame's source is a group or the congestion point itself."""


_State = TypeVar("_State", bound=Identified)


def new_states(kind: type[_State], cp_mac: bytes) -> Sequence[_State]:
    """Return the records of the priorities' congestion points, local numbers from 1 on, not started."""
    states = new_records(kind, PRIORITIES)
    for priority in range(PRIORITIES):
        states[priority].cpid = signed_cpid(cpid(cp_mac, priority + 1))
    return states


def has_point(enabled: Collection[int]) -> NDArray[np.bool_]:
    """Return for each priority whether it has a congestion point."""
    return np.isin(np.arange(PRIORITIES), list(enabled))


@inlined
def withhold(message: Message, arrival: Arrival, state: Identified) -> None:
    """Do not send ``message``, unless it is silent anyway, if the frame's source may not be answered."""
    if message.sent == 1 and not arrival.answerable:
        message.sent = 0
        state.unanswerable += 1
