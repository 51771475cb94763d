"""Output port of a switch: FIFO queues per priority, one finite buffer, strict priority, one line.

The code of the port is compiled when it runs over batches. The rules of the port (algorithms, heading):

1. A frame arrives whole. Drop-tail: the port drops a frame if the octets waiting and in service would exceed
   the buffer. The mechanism's tag does not count, so that tagged and untagged frames fit into the same space.
   A buffer in frames drops a frame if the buffer already has its maximum number of frames. Otherwise, the
   frame joins the queue of its priority. Queues count octets without FCS, with tags. The caller is
   responsible for any other accounting.
2. The line serves the highest waiting priority (7 before 0), frame by frame, without preemption. A frame
   takes the time of its octets plus overhead (FCS, preamble, gap) at the line's rate. No frame of a stopped
   priority starts (`stop`).
3. Departures are exact: in a busy period that starts at s, departure k is at s + ⌈8·10⁹·Σoctets/rate⌉ ns. The
   end of service is stored as whole ns and a fraction, so rounding errors never add up. After a change of
   rate (`set_rate`), the frame on the line departs at the old rate. The count at the new rate starts with
   this departure, in whole ns.
4. Qlen of a priority is its waiting octets plus its frame in service. At equal times, departures precede
   arrivals.
5. Time does not decrease; the caller ensures this rule.
6. A flow control frame (`send_control`) waits only for the frame in service and for earlier flow control
   frames. A flow control frame is in no queue, and a stop does not delay it.

Times are in ns from the first arrival. The result does not depend on the batch boundaries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.config import LARGEST_BUFFER_OCTETS, PortConfig
from ecmproto.control.engine.gauge import PRIORITIES, Gauge, change, new_gauge
from ecmproto.control.mechanisms.api.machine import Machine, StackedMachine, machine_of
from ecmproto.control.mechanisms.lossless import FLOW_CONTROLS, output_thresholds
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.kernels.kernel import inlined
from ecmproto.kernels.record import columns, new_record, new_records, zeros
from ecmproto.kernels.structs import Struct
from ecmproto.units import NS_PER_S

# The disposition of a frame.
PASSED_BY = 0
"""Disposition of a frame that never occupies a queue, or belongs to no port."""
ENQUEUED = 1
DROPPED = 2
"""Disposition of a frame that did not fit into the port's buffer."""
HELD_OUT = 3
"""Disposition of a frame that did not fit into its station's queue and never reached the port."""

NO_LIMIT = 2**62
_LAST_PRIORITY = PRIORITIES - 1
_FIRST_SLOTS = 256
_JUMBO_OCTETS = 9216
_TOKEN_SHIFT = 32
_OCTETS_MASK = (1 << _TOKEN_SHIFT) - 1
_OCTET_TIME_BITS = 33
"""Bit limit that keeps the product with a frame's octets within 63 bits."""


class Line:
    """State of a port, except the waiting frames and the gauge; a record (``kernels.record``)."""

    buffer_octets: int
    buffer_frames: int
    """Buffer capacity in frames of any length; NO_LIMIT if octets are counted."""
    buffered_frames: int
    """Number of frames waiting and in service."""
    tag_octets: int
    """Number of octets that the mechanism's tag adds to a frame."""
    overhead_octets: int
    work_per_octet: int
    """Numerator of an octet's time; the time is work_per_octet / work_per_ns ns, in lowest terms."""
    work_per_ns: int
    octet_time: int
    """Time of an octet in ns / 2^``time_shift``, rounded down.

    A product and a correction take less time than a division.
    """
    time_shift: int
    served_ns: int
    """End of the current service, including the following flow control frames, in whole ns."""
    served_rest: int
    """Fraction of ``served_ns``, in units of work."""
    departure_ns: int
    """Departure time of the frame on the line, rounded up to whole ns."""
    in_service_octets: int
    """Length of the frame on the line in octets; 0 if the line is idle."""
    in_service_priority: int
    in_service_token: int
    control_octets: int
    """Octets of flow control frames, including overhead, after the frame in service or on an idle line.

    ``served_ns`` is the end of the last flow control frame. 0 means that there are no flow control frames.
    """
    waiting_mask: int
    """Bit p: priority p has waiting frames."""
    stopped_mask: int
    """Bit p: priority p must not start a frame."""


class FrameRing:
    """Slots for a priority's waiting frames; a record."""

    first_slot: int
    """Index of the first slot."""
    slot_mask: int
    """Number of slots minus 1; the number of slots is a power of two."""
    dequeued_frames: int
    put_frames: int
    """Number of frames ever put into the ring; ``dequeued_frames`` is the number ever removed."""


class Port(Struct):
    """State of a port: records that the kernels change in place, and the waiting frames.

    The low 32 bits of a slot are a frame's octets. The high bits are the frame's token, a number that the
    caller chooses, from 0 on.
    """

    line: Line
    rings: Sequence[FrameRing]
    gauge: Gauge
    slots: NDArray[np.int64]


def new_port(config: PortConfig, *, tag_octets: int = 0, total_only: bool = False) -> Port:
    """Return an idle, empty port at time 0; ``total_only`` applies to the port's gauge.

    The mechanism's tag adds ``tag_octets`` to a frame.
    """
    largest_octets = config.buffer_octets
    if config.buffer_frames:
        largest_octets = min(LARGEST_BUFFER_OCTETS, config.buffer_frames * _JUMBO_OCTETS)
    slots = zeros(PRIORITIES * _FIRST_SLOTS)
    gauge = new_gauge(largest_octets, total_only=total_only)
    line = new_record(Line)
    line.buffer_octets, line.buffer_frames = config.buffer_octets, NO_LIMIT
    if config.buffer_frames:
        line.buffer_octets, line.buffer_frames = LARGEST_BUFFER_OCTETS, config.buffer_frames
    line.tag_octets = tag_octets
    line.overhead_octets = config.overhead_octets
    set_rate(line, config.rate_bps)
    rings = new_records(FrameRing, PRIORITIES)
    of_rings = columns(rings)
    of_rings["first_slot"], of_rings["slot_mask"] = _FIRST_SLOTS * np.arange(PRIORITIES), _FIRST_SLOTS - 1
    return Port(line, rings, gauge, slots)


def set_rate(line: Line, rate_bps: int) -> None:
    """Serve frames at ``rate_bps``, starting with the next frame (rule 3)."""
    common = math.gcd(8 * NS_PER_S, rate_bps)
    line.work_per_octet = 8 * NS_PER_S // common
    line.work_per_ns = rate_bps // common
    line.time_shift = max(0, _OCTET_TIME_BITS - int(line.work_per_octet // line.work_per_ns).bit_length())
    line.octet_time = (int(line.work_per_octet) << int(line.time_shift)) // int(line.work_per_ns)
    line.served_ns, line.served_rest = _end_ns(line), 0


def lengthen_ring(port: Port, priority: int) -> None:
    """Double the capacity of the ring of ``priority``.

    Rings grow only when full, so a ring never exceeds twice the number of frames that the buffer can hold.
    """
    slots = []
    for p, ring in enumerate(port.rings):
        order = (np.arange(ring.slot_mask + 1) + ring.dequeued_frames) & ring.slot_mask
        own = port.slots[ring.first_slot + order]
        slots.append(np.concatenate([own, np.zeros_like(own)]) if p == priority else own)
        ring.put_frames -= ring.dequeued_frames
        ring.dequeued_frames, ring.slot_mask = 0, len(slots[-1]) - 1
        ring.first_slot = sum(map(len, slots[:-1]))
    port.slots = np.concatenate(slots)


@inlined
def is_full(port: Port, priority: int) -> bool:
    """Return whether the ring of ``priority`` is full; if so, call ``lengthen_ring`` before ``arrive``."""
    ring = port.rings[priority]
    return bool(ring.put_frames - ring.dequeued_frames > ring.slot_mask)


@inlined
def free_slots(port: Port, priority: int) -> int:
    """Return the number of free slots in the ring of ``priority``."""
    ring = port.rings[priority]
    return int(ring.slot_mask + 1 - ring.put_frames + ring.dequeued_frames)


@inlined
def departs(line: Line, now_ns: int) -> bool:
    """Return whether the frame on the line ends at or before ``now_ns``."""
    return bool(line.in_service_octets > 0 and line.departure_ns <= now_ns)


@inlined
def arrive(port: Port, now_ns: int, priority: int, octets: int, token: int, tagged: bool) -> bool:
    """Enqueue a frame of 1 or more ``octets`` at ``now_ns``; return False if the frame is dropped (rule 1).

    ``tagged`` is true if ``octets`` include the mechanism's tag.
    """
    line, gauge = port.line, port.gauge
    counted_octets = octets - line.tag_octets if tagged else octets
    if gauge.total.octets + counted_octets > line.buffer_octets or line.buffered_frames >= line.buffer_frames:
        return False
    line.buffered_frames += 1
    change(gauge, priority, now_ns, octets)
    idle = line.in_service_octets == 0 and line.control_octets == 0
    if idle and not (line.stopped_mask >> priority) & 1:
        line.served_ns = now_ns
        line.served_rest = 0
        _serve(line, priority, octets, token)
    else:
        ring, slots = port.rings[priority], port.slots
        slots[_slot(ring, ring.put_frames)] = (token << _TOKEN_SHIFT) | octets
        ring.put_frames += 1
        line.waiting_mask |= 1 << priority
    return True


@inlined
def _slot(ring: FrameRing, number: int) -> np.uint64:
    """Return the slot of frame ``number`` in a ring; an unsigned slot avoids checks for negative indices."""
    return np.uint64(ring.first_slot + (number & ring.slot_mask))


@inlined
def _serve(line: Line, priority: int, octets: int, token: int) -> None:
    _occupy(line, octets + line.overhead_octets)
    line.departure_ns = _end_ns(line)
    line.in_service_priority = priority
    line.in_service_octets = octets
    line.in_service_token = token


@inlined
def _end_ns(line: Line) -> int:
    return int(line.served_ns + (line.served_rest > 0))


@inlined
def _occupy(line: Line, line_octets: int) -> None:
    """Add the exact time of ``line_octets`` to the end of the current service."""
    # The product is never too large. Unless the line is slow, the product is at most 1 ns too small. The
    # remainder shows the difference.
    whole_ns = (line_octets * line.octet_time) >> line.time_shift
    rest = line_octets * line.work_per_octet - whole_ns * line.work_per_ns + line.served_rest
    more_ns = int(rest >= line.work_per_ns)
    whole_ns += more_ns
    rest -= more_ns * line.work_per_ns
    if rest >= line.work_per_ns:
        whole_ns += rest // line.work_per_ns
        rest %= line.work_per_ns
    line.served_ns += whole_ns
    line.served_rest = rest


@inlined
def send_control(port: Port, now_ns: int, octets: int) -> int:
    """Put a flow control frame on the line (rule 6); return the time of its last bit, rounded up."""
    line = port.line
    if line.in_service_octets == 0 and line.control_octets == 0:
        line.served_ns = now_ns
        line.served_rest = 0
    line.control_octets += octets + line.overhead_octets
    _occupy(line, octets + line.overhead_octets)
    if line.in_service_octets == 0:
        line.departure_ns = _end_ns(line)
    return _end_ns(line)


@inlined
def end_control(port: Port) -> None:
    """End the flow control frames on the line, and start the next frame."""
    port.line.control_octets = 0
    _serve_next(port)


@inlined
def depart(port: Port) -> int:
    """Remove the frame from the line, start the next frame (rule 2), and return the removed frame's token."""
    line, gauge = port.line, port.gauge
    token = line.in_service_token
    # This mask avoids checks for a negative index.
    priority = line.in_service_priority & _LAST_PRIORITY
    change(gauge, priority, line.departure_ns, -line.in_service_octets)
    line.in_service_octets = 0
    line.buffered_frames -= 1
    if line.control_octets > 0:
        line.departure_ns = _end_ns(line)
    else:
        _serve_next(port)
    return token


@inlined
def stop(port: Port, mask: int, now_ns: int) -> None:
    """Stop exactly the priorities in ``mask`` from ``now_ns`` on; all other priorities may resume."""
    line = port.line
    line.stopped_mask = mask
    if line.in_service_octets == 0 and line.control_octets == 0:
        line.served_ns = now_ns
        line.served_rest = 0
        _serve_next(port)


@inlined
def _serve_next(port: Port) -> None:
    """Put the next frame on an idle line, if any frame may start."""
    line, slots = port.line, port.slots
    ready = line.waiting_mask & ~line.stopped_mask
    if ready == 0:
        return
    # The highest waiting priority is usually the priority of the previous frame.
    priority = line.in_service_priority
    if ready >> priority != 1:
        priority = PRIORITIES - 1
        while not (ready >> priority) & 1:
            priority -= 1
    ring = port.rings[priority & _LAST_PRIORITY]
    slot = slots[_slot(ring, ring.dequeued_frames)]
    ring.dequeued_frames += 1
    if ring.dequeued_frames == ring.put_frames:
        line.waiting_mask &= ~(1 << priority)
    _serve(line, priority, slot & _OCTETS_MASK, slot >> _TOKEN_SHIFT)


def fitting_thresholds(buffer_octets: int) -> list[str]:
    """Return the pause thresholds (XOFF, XON) of PAUSE and PFC for ``buffer_octets``, as assignments.

    The thresholds apply to the output queue, by S003's rule of thumb
    (`mechanisms.lossless.output_thresholds`).
    """
    high_octets, low_octets = output_thresholds(buffer_octets)
    return ["cp.pause_on=output", f"cp.high={high_octets}B", f"cp.low={low_octets}B"]


def machine_on_port(
    name: str, assignments: Iterable[str], *, buffer_octets: int, flow_control: str | None = None
) -> Machine:
    """Return the mechanism called ``name`` for a port of ``buffer_octets``, with assigned parameters.

    Thresholds of PAUSE and PFC fit the buffer unless they are assigned. ``flow_control`` is pause or pfc, to
    run in addition to the mechanism. Raises ParameterError for an unknown name or parameter, or a value out
    of range.
    """
    thresholds = fitting_thresholds(buffer_octets)
    mechanism = find_mechanism(name)
    own = [*(thresholds if name in FLOW_CONTROLS else ()), *assignments]
    machine = machine_of(mechanism, mechanism.parse(own))
    if flow_control is None or name in FLOW_CONTROLS:
        return machine
    beneath = find_mechanism(flow_control)
    return StackedMachine(machine, machine_of(beneath, beneath.parse(thresholds)))
