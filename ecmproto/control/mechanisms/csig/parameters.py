"""Parameters of CSIG's congestion point; the draft leaves open what values buckets stand for."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import MOST_OCTETS, Parameters, count, duration, octets, rate

_DRAFT = "draft-ravi-ippm-csig"
_CHOICE = "choice (the draft leaves buckets open)"
_MOST_BPS = 4_294_967_295 * 10**6
_MOST_NS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class CSIGParameters(Parameters):
    """The parameters of a port that writes signals; a bucket is a whole number from 0 to 31."""

    interval_ns: int = duration(
        "interval", 100_000, (1_000, _MOST_NS), source=_CHOICE,
        doc="time over which what the port sent is counted, for available bandwidth and its share",
    )  # fmt: skip
    rate_step_bps: int = rate(
        "rate_step", 0, (0, _MOST_BPS), source=_CHOICE,
        doc="available bandwidth of one bucket; 0: a thirty-first of the port's rate",
    )  # fmt: skip
    delay_step_ns: int = duration(
        "delay_step", 1_000, (1, _MOST_NS), source=_CHOICE,
        doc="delay of one bucket: what the port takes for what waits when a frame comes, and for that",
    )  # fmt: skip
    depth_step_octets: int = octets(
        "depth_step", 16_000, (1, MOST_OCTETS), source=_CHOICE,
        doc="octets of one bucket of the queue of the frame's priority, with the frame in it",
    )  # fmt: skip
    locator: int = count(
        "locator", 0, (0, 127), source=f"{_DRAFT} LM",
        doc="what the port writes beside its own values; 0: the last seven bits of its address",
    )  # fmt: skip


CSIG = Mechanism(
    name="csig",
    title="Congestion signals in tags that frames bring (CSIG)",
    source=_DRAFT,
    machine="ecmproto.control.mechanisms.csig.machine:CSIGMachine",
    roles={Role.CONGESTION_POINT: CSIGParameters},
)
