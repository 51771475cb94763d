"""The maximum rate of a machine, from the processor time of a frame at hosts and devices."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.live.testbed.topology import Topology
from ecmproto.errors import ParameterError
from ecmproto.units import NS_PER_S, format_rate, format_time

USABLE = 0.8
"""The usable share of the processors: above it, processes wait for one another long and often."""
FRAME_OCTETS = 1442


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficCost:
    """The processor time of all programs of a testbed while its hosts sent ``frames`` frames.

    They run before ordinary programs, whose time does not count. ``busiest_ns`` is the time of the busiest
    thread, which has one processor at most.
    """

    elapsed_ns: int
    processor_ns: int
    busiest_ns: int
    frames: int


def carried_bps(topology: Topology, cost: TrafficCost, *, processors: int) -> float:
    """Return the maximum rate of the port on ``processors`` processors."""
    share = max(cost.processor_ns / processors, cost.busiest_ns) / cost.elapsed_ns
    offered_frames = _offered_fps(topology) * cost.elapsed_ns / NS_PER_S
    return topology.rate_bps * USABLE / share * cost.frames / offered_frames


def check_rate(topology: Topology, cost: TrafficCost, *, processors: int) -> None:
    """Raise ParameterError with the maximum rate of this machine, if the topology's is above it."""
    if not cost.frames or not cost.processor_ns:
        return
    most_bps = carried_bps(topology, cost, processors=processors)
    if most_bps >= topology.rate_bps:
        return
    each = format_time(round(cost.processor_ns / cost.frames, -2))
    maximum = format_rate(_rounded(int(most_bps)))
    why = f"a frame takes {each} of its {processors} processors"
    needed = f"at most {maximum} on this machine ({why}), or --any-rate"
    raise ParameterError(name="rate", needed=needed, got=format_rate(topology.rate_bps))


def _offered_fps(topology: Topology) -> float:
    """Return the frames per second that all hosts offer; with TCP, at least the port's frame rate."""
    offered_bps = sum(sender.rate_bps for sender in topology.senders if sender.protocol == "udp")
    return (max(offered_bps, topology.rate_bps) + topology.victim_bps) / (8 * FRAME_OCTETS)


def _rounded(rate_bps: int) -> int:
    """Return a rate rounded to two digits."""
    unit = int(10 ** max(0, len(str(rate_bps)) - 2))
    return rate_bps // unit * unit
