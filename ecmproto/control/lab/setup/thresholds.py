"""Thresholds of PAUSE and PFC for switches without configured thresholds, from each input's headroom.

An input's capacity is its share of the storage that loses frames when full. This storage is an output's
buffer, which all other inputs may fill together, the memory that all inputs share, or the input's partition.
With PFC, each priority in use gets an equal part. XOFF is the capacity minus the headroom
(`mechanisms.lossless`), and XON is half of XOFF.

With dynamic thresholds (``pause.alpha``), the inputs share the memory, except for the headroom of all inputs
and lossless priorities. XOFF is α times the free part of the shared memory, and XON is two frames below XOFF.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from ecmproto.control.lab.model import Experiment, Pattern, Switch, Thresholds, directions
from ecmproto.control.mechanisms.api.mechanism import isolation_of
from ecmproto.control.mechanisms.lossless import (
    DEFAULT_LARGEST_OCTETS,
    FIBRE_NS_PER_M,
    PAUSE_OCTETS,
    headroom,
    input_thresholds,
    output_thresholds,
)
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.errors import SpecError
from ecmproto.units import NS_PER_S, QUANTUM_BITS, WIRE_OVERHEAD_OCTETS, exact_octets

_FCS_OCTETS = 4
_TAG_OCTETS = 4
"""Number of octets that a mechanism may add to a frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Input of a switch: capacity, headroom within the capacity, and the resulting thresholds."""

    capacity_octets: int
    headroom_octets: int
    thresholds: Thresholds


def thresholds_of_output(buffer_octets: int) -> Thresholds:
    """Return the thresholds of an output queue with a buffer of ``buffer_octets``."""
    high, low = output_thresholds(buffer_octets)
    return Thresholds(high_octets=high, low_octets=low, on_output=True)


def default_thresholds(experiment: Experiment) -> dict[tuple[str, str], Input]:
    """Return the inputs of all switches, by the names of neighbour and switch."""
    network = experiment.network
    lines = {(line.origin, line.end): line for link in network.links for line in directions(link)}
    switches = {switch.name: switch for switch in network.switches}
    feeds = dict.fromkeys(switches, 0)
    for line in lines.values():
        if line.end in feeds:
            feeds[line.end] += 1
    result = {}
    classes, largest = _classes(experiment), _largest_octets(experiment)
    reserved = dict.fromkeys(switches, 0)
    for ends, line in lines.items():
        if line.end in switches:
            switch = switches[line.end]
            capacity = _capacity_octets(switch, feeds[line.end]) // len(classes)
            back = lines[line.end, line.origin]
            rate_bps = max([line.rate_bps, *(change.rate_bps for change in line.rate_changes)])
            back_bps = min([back.rate_bps, *(change.rate_bps for change in back.rate_changes)])
            round_ns = line.propagation_ns + back.propagation_ns
            needed = _headroom_octets(largest, rate_bps, back_bps, round_ns, switch.delay_ns)
            high, low = input_thresholds(capacity, needed)
            thresholds = Thresholds(high_octets=high, low_octets=low)
            result[ends] = Input(capacity_octets=capacity, headroom_octets=needed, thresholds=thresholds)
            reserved[line.end] += needed * len(_lossless(classes, switch))
    for ends, entry in result.items():
        switch = switches[ends[1]]
        if switch.alpha:
            thresholds = _dynamic(switch, reserved[switch.name], largest)
            result[ends] = replace(entry, capacity_octets=thresholds.shared_octets, thresholds=thresholds)
    return result


def _dynamic(switch: Switch, reserved_octets: int, largest_octets: int) -> Thresholds:
    """Return the thresholds of an empty switch.

    Raises SpecError if the headroom fills the whole memory.
    """
    assert switch.memory is not None
    shared = switch.memory.octets - reserved_octets
    if shared <= 0:
        where, needed = f"switch {switch.name}: memory", exact_octets(reserved_octets)
        raise SpecError(
            where=where, needed=f"more than {needed}, the headroom", got=exact_octets(switch.memory.octets)
        )
    high = int(switch.alpha * shared)
    low = max(0, high - 2 * largest_octets)
    return Thresholds(high_octets=high, low_octets=low, alpha=switch.alpha, shared_octets=shared)


def lossless_of(experiment: Experiment, switch: Switch) -> frozenset[int]:
    """Return the priorities in use for which the switch sends PFC; PAUSE counts as one priority."""
    return _lossless(_classes(experiment), switch)


def _lossless(classes: frozenset[int], switch: Switch) -> frozenset[int]:
    return classes if switch.lossless is None or len(classes) == 1 else classes & switch.lossless


def _capacity_octets(switch: Switch, feeds: int) -> int:
    rooms = [switch.buffer.octets // max(1, feeds - 1)]
    if switch.memory is not None:
        rooms.append(switch.memory.octets // feeds)
    if switch.partition is not None:
        rooms.append(switch.partition.octets)
    return min(rooms)


def _classes(experiment: Experiment) -> frozenset[int]:
    """Return the priorities in use that can be stopped separately; with PAUSE, only priority 0."""
    control = experiment.control
    if "pfc" not in (control.mechanism, control.flow_control):
        return frozenset({0})
    used = frozenset(flow.priority for flow in experiment.flows)
    isolation = isolation_of(find_mechanism(control.mechanism).parse(control.parameters))
    if isolation is not None and isolation[0] in used:
        used |= {isolation[1]}
    return used | {control.message_priority} if control.in_band else used or frozenset({0})


def _largest_octets(experiment: Experiment) -> int:
    """Return the length of the longest frame, with FCS and the mechanism's tag."""
    lengths = [
        DEFAULT_LARGEST_OCTETS if flow.pattern is Pattern.CAPTURE else flow.frame_octets + _FCS_OCTETS
        for flow in experiment.flows
    ]
    return max(lengths, default=DEFAULT_LARGEST_OCTETS) + _TAG_OCTETS


@lru_cache(maxsize=1024)
def _headroom_octets(largest: int, rate_bps: int, back_bps: int, round_ns: int, delay_ns: int) -> int:
    """Return the octets that may arrive at ``rate_bps`` after the decision to send XOFF at ``back_bps``.

    Hosts and ports respond at once. A frame is in the switch for ``delay_ns`` before the frame counts in the
    queue.
    """
    # The frame in transmission delays XOFF for longer if the reverse direction is slower.
    out_bits = 8 * (largest + PAUSE_OCTETS + 2 * WIRE_OVERHEAD_OCTETS)
    slower_ns = max(Fraction(0), out_bits * NS_PER_S * (Fraction(1, back_bps) - Fraction(1, rate_bps)))
    return headroom(
        rate_bps,
        Fraction(round_ns, 2 * FIBRE_NS_PER_M),
        largest_octets=largest,
        response_quanta=Fraction(0),
        interface_quanta=(delay_ns + slower_ns) * rate_bps / (QUANTUM_BITS * NS_PER_S),
    ).octets
