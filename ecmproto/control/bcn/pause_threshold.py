"""When a BCN switch sends PAUSE to its upstream ports (S004 IV.A and B; algorithms §2 and §6).

This decides on and off by the output queue's length; timers, refreshing and frames are the PAUSE
mechanism's.
"""

from __future__ import annotations

from ecmproto.control.aimd.sampling import OFF_OCTETS
from ecmproto.control.bcn.parameters import CongestionPointParameters
from ecmproto.kernel import inlined
from ecmproto.record import new_record

NO_SIGNAL, PAUSE, RESUME = range(3)


class Gate:
    """Whether the upstream ports are paused; a record (``ecmproto.record``)."""

    paused: int
    pauses: int
    resumes: int


class GateSettings:
    """A record."""

    high_octets: int
    """Qst, or OFF_OCTETS."""
    low_octets: int


def gate_settings(parameters: CongestionPointParameters) -> GateSettings:
    """Return the record of settings for ``parameters``."""
    record = new_record(GateSettings)
    record.high_octets = parameters.qst_octets or OFF_OCTETS
    record.low_octets = parameters.qst_low_octets
    return record


@inlined
def signal(gate: Gate, settings: GateSettings, qlen_octets: int) -> int:
    """Return what to send the upstream ports after a change of the queue: NO_SIGNAL, PAUSE or RESUME."""
    if gate.paused == 0 and qlen_octets > settings.high_octets:
        gate.paused = 1
        gate.pauses += 1
        return PAUSE
    if gate.paused == 1 and qlen_octets <= settings.low_octets:
        gate.paused = 0
        gate.resumes += 1
        return RESUME
    return NO_SIGNAL
