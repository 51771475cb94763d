"""Parameters of the CSIG congestion point. The draft does not define bucket sizes."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import MAX_OCTETS, Parameters, count, duration, octets, rate

_DRAFT = "draft-ravi-ippm-csig"
_CHOICE = "choice (the draft leaves buckets open)"
_MAX_BPS = 4_294_967_295 * 10**6
_MAX_NS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class CSIGParameters(Parameters):
    """Parameters of a port that writes signals; a bucket is an integer from 0 to 31."""

    interval_ns: int = duration(
        "interval", 100_000, (1_000, _MAX_NS), source=_CHOICE,
        doc="interval in which sent octets are counted to compute the available bandwidth",
    )  # fmt: skip
    rate_step_bps: int = rate(
        "rate_step", 0, (0, _MAX_BPS), source=_CHOICE,
        doc="step between two values of the available bandwidth. If the step is 0, 1/31 of the port's rate "
        "is used",
    )  # fmt: skip
    delay_step_ns: int = duration(
        "delay_step", 1_000, (1, _MAX_NS), source=_CHOICE,
        doc="step between two values of the delay, which is the time to send all waiting frames and the "
        "arriving frame",
    )  # fmt: skip
    depth_step_octets: int = octets(
        "depth_step", 16_000, (1, MAX_OCTETS), source=_CHOICE,
        doc="step between two values of the queue length, which is the queue of the frame's priority "
        "including the frame",
    )  # fmt: skip
    locator: int = count(
        "locator", 0, (0, 127), source=f"{_DRAFT} LM",
        doc="locator that the port writes together with its values. If the locator is 0, the port writes the "
        "last seven bits of its address",
    )  # fmt: skip


CSIG = Mechanism(
    name="csig",
    title="Congestion signals in tags of passing frames (CSIG)",
    source=_DRAFT,
    machine="ecmproto.control.mechanisms.csig.machine:CSIGMachine",
    roles={Role.CONGESTION_POINT: CSIGParameters},
)
