"""A switch's output port: FIFO queues per priority, one finite buffer, strict priority, one line.

The text of the port, compiled when it runs over batches. Its rules (algorithms, heading):

1. A frame arrives whole. Drop-tail: it is dropped if it would bring the octets waiting and in service above
   the buffer, without the mechanism's own tag, so that tagged and untagged frames fit into the same space. A
   buffer in frames drops it if it has its number of frames. Otherwise the frame joins its priority's queue.
   Queues count octets without FCS, with tags; any other accounting is up to the caller.
2. The line serves the highest waiting priority (7 before 0), frame by frame, without preemption. A frame
   takes its octets plus the overhead (FCS, preamble, gap) at the line's rate. No frame of a stopped priority
   starts (`stop`).
3. Departures are exact: in a busy period that starts at s, departure k is at s + ⌈8·10⁹·Σoctets/rate⌉ ns. The
   end of service is carried as whole ns and a fraction, so rounding errors never add up. After a change of
   rate (`set_rate`), the frame on the line departs at the old rate; the count at the new rate starts with
   that departure, in whole ns.
4. Qlen of a priority is its waiting octets plus its frame in service. At equal times, departures come first.
5. Time does not decrease; the caller ensures that.
6. A frame of flow control (`send_control`) waits for the frame in service and for earlier frames of flow
   control, and for nothing else: it is in no queue, and a stop does not hold it.

Times are ns from the first arrival. The result does not depend on the batch boundaries.
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
"""A frame that never occupies a queue, or belongs to no port."""
ENQUEUED = 1
DROPPED = 2
"""A frame for which the port's buffer had no space."""
HELD_OUT = 3
"""A frame for which its station's queue had no space; it never reached the port."""

NO_LIMIT = 2**62
_LAST_PRIORITY = PRIORITIES - 1
_FIRST_SLOTS = 256
_JUMBO_OCTETS = 9216
_TOKEN_SHIFT = 32
_OCTETS_MASK = (1 << _TOKEN_SHIFT) - 1
_OCTET_TIME_BITS = 33
"""A bound that keeps the product with a frame's octets, at most the largest buffer, within 63 bits."""


class Line:
    """The state of a port except its waiting frames and its gauge; a record (``kernels.record``)."""

    buffer_octets: int
    buffer_frames: int
    """The capacity of the buffer in frames of any length; NO_LIMIT if octets count."""
    held_frames: int
    """The number of frames waiting and in service."""
    tag_octets: int
    """The length that the mechanism's own tag adds to a frame."""
    overhead_octets: int
    work_per_octet: int
    """The numerator of an octet's time, work_per_octet / work_per_ns ns, in lowest terms."""
    work_per_ns: int
    octet_time: int
    """The time of an octet in ns / 2^``time_shift``, rounded down.

    A product and a correction delay a frame's departure less than a division.
    """
    time_shift: int
    served_ns: int
    """The end of the current service, with the following frames of flow control, in whole ns."""
    served_rest: int
    """The fraction of ``served_ns``, in work."""
    departure_ns: int
    """The departure time of the frame on the line, rounded up to whole ns."""
    in_service_octets: int
    """The length of the frame on the line; 0 if idle."""
    in_service_priority: int
    in_service_token: int
    control_octets: int
    """Octets of frames of flow control after the frame in service, or on an idle line, with overhead.

    ``served_ns`` is the end of the last of them; 0 for none.
    """
    waiting_mask: int
    """Bit p: priority p has waiting frames."""
    stopped_mask: int
    """Bit p: priority p starts no frame."""


class FrameRing:
    """The slots of a priority's waiting frames; a record."""

    first_slot: int
    """The index of the first slot."""
    slot_mask: int
    """The number of slots, a power of two, minus 1."""
    dequeued_frames: int
    put_frames: int
    """The number of frames ever put; ``dequeued_frames`` is the number ever removed."""


class Port(Struct):
    """A port's state: records that the kernels change in place, and its waiting frames.

    A slot holds a frame's octets, and above 32 bits its token: a number of the caller's, from 0 on.
    """

    line: Line
    rings: Sequence[FrameRing]
    gauge: Gauge
    slots: NDArray[np.int64]


def new_port(config: PortConfig, *, tag_octets: int = 0, total_only: bool = False) -> Port:
    """Return an idle, empty port at time 0, whose gauge may be of the ``total_only``.

    The mechanism's own tag adds ``tag_octets`` to a frame.
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
    """Serve frames at ``rate_bps`` from the next one on (rule 3)."""
    common = math.gcd(8 * NS_PER_S, rate_bps)
    line.work_per_octet = 8 * NS_PER_S // common
    line.work_per_ns = rate_bps // common
    line.time_shift = max(0, _OCTET_TIME_BITS - int(line.work_per_octet // line.work_per_ns).bit_length())
    line.octet_time = (int(line.work_per_octet) << int(line.time_shift)) // int(line.work_per_ns)
    line.served_ns, line.served_rest = _end_ns(line), 0


def lengthen_ring(port: Port, priority: int) -> None:
    """Double the ring of ``priority``.

    Rings grow only when they are full, so they never exceed twice the frames that the buffer can hold.
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
    """Return whether the ring of ``priority`` is full; call before ``arrive``, and use ``lengthen_ring``."""
    ring = port.rings[priority]
    return bool(ring.put_frames - ring.dequeued_frames > ring.slot_mask)


@inlined
def free_slots(port: Port, priority: int) -> int:
    """Return the number of free slots in the ring of ``priority``."""
    ring = port.rings[priority]
    return int(ring.slot_mask + 1 - ring.put_frames + ring.dequeued_frames)


@inlined
def departs(line: Line, now_ns: int) -> bool:
    """Return whether the frame on the line ends by ``now_ns``."""
    return bool(line.in_service_octets > 0 and line.departure_ns <= now_ns)


@inlined
def arrive(port: Port, now_ns: int, priority: int, octets: int, token: int, tagged: bool) -> bool:
    """Enqueue a frame of 1 or more ``octets`` at ``now_ns``; return False if it is dropped (rule 1).

    ``tagged`` is whether the mechanism's own tag is a part of it.
    """
    line, gauge = port.line, port.gauge
    counted_octets = octets - line.tag_octets if tagged else octets
    if gauge.total.octets + counted_octets > line.buffer_octets or line.held_frames >= line.buffer_frames:
        return False
    line.held_frames += 1
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
    """Return the slot of a ring's frame ``number``; unsigned, which spares the check for a negative index."""
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
    # Never too much, and too little by 1 ns at most unless the line is slow, which the remainder shows.
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
    """Put a frame of flow control on the line (rule 6); return the time of its last bit, rounded up."""
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
    """End the frames of flow control on the line, and put the next frame on it."""
    port.line.control_octets = 0
    _serve_next(port)


@inlined
def depart(port: Port) -> int:
    """Take the frame off the line, put the next one on it (rule 2); return the token of the first."""
    line, gauge = port.line, port.gauge
    token = line.in_service_token
    # Not negative: this line spares its uses the check.
    priority = line.in_service_priority & _LAST_PRIORITY
    change(gauge, priority, line.departure_ns, -line.in_service_octets)
    line.in_service_octets = 0
    line.held_frames -= 1
    if line.control_octets > 0:
        line.departure_ns = _end_ns(line)
    else:
        _serve_next(port)
    return token


@inlined
def stop(port: Port, mask: int, now_ns: int) -> None:
    """Stop exactly the priorities in ``mask`` from ``now_ns`` on; others may resume."""
    line = port.line
    line.stopped_mask = mask
    if line.in_service_octets == 0 and line.control_octets == 0:
        line.served_ns = now_ns
        line.served_rest = 0
        _serve_next(port)


@inlined
def _serve_next(port: Port) -> None:
    """Put the next frame on an idle line, if one may start."""
    line, slots = port.line, port.slots
    ready = line.waiting_mask & ~line.stopped_mask
    if ready == 0:
        return
    # the highest waiting priority is usually the previous one
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

    They apply to the output queue, by S003's rule of thumb (`mechanisms.lossless.output_thresholds`).
    """
    high_octets, low_octets = output_thresholds(buffer_octets)
    return ["cp.pause_on=output", f"cp.high={high_octets}B", f"cp.low={low_octets}B"]


def machine_on_port(
    name: str, assignments: Iterable[str], *, buffer_octets: int, flow_control: str | None = None
) -> Machine:
    """Return the mechanism called ``name`` for a port of ``buffer_octets``, with parameters assigned.

    Thresholds of PAUSE and PFC fit the buffer unless they are assigned. ``flow_control`` names one of them to
    run besides the mechanism. ParameterError for an unknown name or parameter, or a value out of range.
    """
    thresholds = fitting_thresholds(buffer_octets)
    mechanism = find_mechanism(name)
    own = [*(thresholds if name in FLOW_CONTROLS else ()), *assignments]
    machine = machine_of(mechanism, mechanism.parse(own))
    if flow_control is None or name in FLOW_CONTROLS:
        return machine
    beneath = find_mechanism(flow_control)
    return StackedMachine(machine, machine_of(beneath, beneath.parse(thresholds)))
