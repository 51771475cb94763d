"""Marks of PAUSE and PFC that fit a port's buffer."""

from __future__ import annotations

FLOW_CONTROLS = ("pause", "pfc")
"""The mechanisms that have such marks."""


def fitting_marks(buffer_octets: int) -> list[str]:
    """Return assignments of marks for a port of ``buffer_octets``: on its output queue, S003's rule of thumb.

    The rule: XOFF at 2 RTT, XON at 1 RTT, a buffer of 3 RTT.  Here the buffer is given, so that it makes the
    RTT: the longest that loses nothing.
    """
    high_octets, low_octets = max(1, 2 * buffer_octets // 3), buffer_octets // 3
    return ["cp.pause_on=output", f"cp.high={high_octets}B", f"cp.low={low_octets}B"]
