"""Marks of PAUSE and PFC that fit a port's buffer."""

from __future__ import annotations

from collections.abc import Iterable

from ecmproto.mechanisms.layered import Layered
from ecmproto.mechanisms.machine import Machine, machine_of
from ecmproto.mechanisms.registry import find_mechanism

FLOW_CONTROLS = ("pause", "pfc")
"""The mechanisms that have such marks."""


def fitting_marks(buffer_octets: int) -> list[str]:
    """Return assignments of marks for a port of ``buffer_octets``: on its output queue, S003's rule of thumb.

    The rule: XOFF at 2 RTT, XON at 1 RTT, a buffer of 3 RTT.  Here the buffer is given, so that it makes the
    RTT: the longest that loses nothing.
    """
    high_octets, low_octets = max(1, 2 * buffer_octets // 3), buffer_octets // 3
    return ["cp.pause_on=output", f"cp.high={high_octets}B", f"cp.low={low_octets}B"]


def machine_on_port(
    name: str, assignments: Iterable[str], *, buffer_octets: int, flow_control: str | None = None
) -> Machine:
    """Return the mechanism called ``name`` for a port of ``buffer_octets``, its parameters as assigned.

    Marks of PAUSE and PFC fit the buffer unless they are assigned.  With ``flow_control``, one of these two,
    the port sends that as well.  ParameterError for an unknown name or parameter, or a value out of range.
    """
    marks = fitting_marks(buffer_octets)
    mechanism = find_mechanism(name)
    own = [*(marks if name in FLOW_CONTROLS else ()), *assignments]
    machine = machine_of(mechanism, mechanism.parse(own))
    if flow_control is None or name in FLOW_CONTROLS:
        return machine
    beneath = find_mechanism(flow_control)
    return Layered(machine, machine_of(beneath, beneath.parse(marks)))
