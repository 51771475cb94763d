"""ECM's frames: the ECM frame and the CM-Tag (S000 3.1; wire-formats 1.2 and 4)."""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """An ECM frame's fields as a reaction point reads them, in the units of the wire."""

    cpid: int
    """As `ecmproto.control.cpid` has it."""
    q_off: int
    q_delta: int
    q: int
    timestamp: int
    unit: int
    tagged: bool
    """Whether its payload shows a CM-Tag, so that ``timestamp`` means something."""
