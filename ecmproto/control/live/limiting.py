"""The compiled loop of a reaction point, which limits, tags and sends frames from the host to the network.

The module uses the loop of `ecmproto.control.engine.loop` between arriving and leaving frames:

1. Frames from the host that bridges do not forward are sent at once. Other frames enter the engine's loop in
   the order of reception, at the device's own time. This time stops while the device is more than 10 ms late;
   otherwise limiters would release all waiting frames at once.
2. Frames that leave the loop at once are sent from the receive buffer; waiting frames are copied. A frame
   receives the tag of its station, unless the tag would make the frame too long for the network.
3. Frames from the network are sent to the host without the device's VLAN tag. The caller examines non-data
   frames first, because the loop processes feedback.
4. The caller sends each probe after the frame that the probe follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import Arrivals
from ecmproto.control.engine.event_heap import first_ns
from ecmproto.control.engine.feedback import CapturedFeedback
from ecmproto.control.engine.loop import run
from ecmproto.control.engine.network import NetworkState, Passage
from ecmproto.control.engine.port import HELD_OUT, PASSED_BY
from ecmproto.control.engine.traffic import Sources
from ecmproto.control.live.tagging import (
    NO_OFFSET,
    VLAN_OCTETS,
    Tagging,
    put_tag_on,
    put_vlan_on,
    take_vlan_off,
)
from ecmproto.control.mechanisms.api.protocol import PROBE_KIND, Message, Receivers, Senders
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.frames.batch.classes import class_of
from ecmproto.frames.batch.flows import FlowTable, FullFlowTable, Numbers, learn_frames, number_frames
from ecmproto.frames.batch.headers import HEADER_OCTETS, TYPE_AT, signed, two_octets
from ecmproto.frames.batch.packets import is_udp_message
from ecmproto.frames.batch.tags import own_tag
from ecmproto.frames.capture.linux.departures import new_counts
from ecmproto.frames.capture.linux.receiver import FRAMES, HEADROOM_OCTETS
from ecmproto.frames.capture.linux.wires import (
    FAILED,
    FRAMES_CAME,
    MESSAGES_POSTED,
    NOT_SENT,
    SENT_AT_ONCE,
    TIME_CAME,
    WOKEN,
    Wires,
    count_late,
    has_frames,
    is_served,
    monotonic_ns,
    receive,
    send,
    sleep,
)
from ecmproto.kernels.kernel import compiled, inlined, released
from ecmproto.kernels.record import columns, new_record, new_records
from ecmproto.kernels.structs import Struct

HOST, NET = 0, 1
"""The interfaces to the sender and to the network."""
SERVE, TAKE, ADVANCE, GO_ON = range(4)
"""Tasks of `step`: serve real interfaces, process the current frames, advance the time, or continue."""
MAX_FRAMES = 16_384
"""The maximum number of waiting frames in all limiters."""
_SPARE_FRAMES = 64
_LATEST_NS = 10_000_000
"""The maximum delay for which the device catches up."""
_NOWHERE = -1
_GROUP_BIT = 1


class ReactionPointCounts:
    """Counters of frames in addition to the counters of the loop, stored in a record (``kernels.record``)."""

    host_frames: int
    net_frames: int
    past_frames: int
    """Frames from the host that no limiter may delay: link-local and MAC Control frames."""
    left_frames: int
    left_octets: int
    probes: int
    held_out_frames: int
    held_out_octets: int
    """Octets of the frames for which the limiter's queue had no space."""
    overflow_frames: int
    """Frames that arrived when the number of waiting frames was at the maximum."""
    untagged_frames: int
    """Frames that were sent without a tag, because the tag would have made these frames too long."""
    consumed_frames: int
    """Feedback frames that are not forwarded to the host."""
    refused_frames: int
    """Frames that are longer than the device accepts."""
    missed_ns: int
    """The part of delays for which the device does not catch up."""


class PointFacts:
    """The constants and the time of a reaction point, stored in a record."""

    own: int
    message_port: int
    message_octet: int
    """The offset of the payload in messages to UDP port ``message_port``, or 0 without such messages."""
    longest_octets: int
    """The maximum frame length of the network without a C-TAG, in octets."""
    largest_octets: int
    """The maximum frame length of the device, in octets."""
    slot_octets: int
    """The capacity for a waiting frame, including the free octets before the frame."""
    store_at: int
    """The memory address of the octets of waiting frames."""
    start_ns: int
    """The start of the device's own time, as a reading of the caller's clock."""
    now_ns: int
    """The device's own time, which does not advance while the device is too late."""


class PointProgress:
    """The progress through the batch of received frames; a record.

    The first ``position`` of ``rows`` arrivals have entered the loop. The first ``drained`` logged passages
    are processed.
    """

    rows: int
    position: int
    first: int
    """The number of the first arrival."""
    serial: int
    """The serial number of the next frame."""
    are_frames: int
    """1 if arrivals are frames from the host, or 0 for an empty arrival."""
    drained: int
    message: int
    """The end index of the processed messages; the last processed message is a probe."""
    passed: int
    """The end index of the network's frames that go to the host without examination."""
    msdu_at: int
    """The offset of the MSDU in the frame that the caller examines."""
    is_message: int
    """1 if the frame that the caller examines is a message over IP, otherwise 0."""
    leaving: int
    """The number of frames that are sent to the network next."""
    last_at: int
    last_octets: int
    """The length of the last frame that left; ``last_at`` is the address of this frame."""
    unsent: int
    """The end index of the network's frames that are sent to the host next."""
    owes: int
    """1 if due events have not been processed since the last sleep."""
    free: int
    """The first free slot for a waiting frame."""
    occupied: int
    """The number of slots that waiting frames occupy."""


class WaitingFrame:
    """A slot for a waiting frame, stored in a record."""

    serial: int
    following: int
    """The next slot whose serial number has an equal hash, or the next free slot."""
    octets: int
    tagged: int
    tag: int
    mark: int


class LeavingFrame(NamedTuple):
    """A leaving frame: the offset in a buffer, and the mechanism's tag on arrival."""

    start: int
    octets: int
    tagged: bool
    tag: int
    mark: int


class PointState(Struct):
    """The state of a reaction point; `engine.arrivals` describes the columns of arrivals."""

    counts: ReactionPointCounts
    facts: PointFacts
    progress: PointProgress
    network: NetworkState
    flows: FullFlowTable
    tagging: Tagging
    time_ns: NDArray[np.int64]
    octets: NDArray[np.int64]
    priority: NDArray[np.uint8]
    occupies: NDArray[np.bool_]
    sampled: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    tagged: NDArray[np.bool_]
    tag: NDArray[np.int64]
    mark: NDArray[np.int64]
    station: NDArray[np.int32]
    flow: NDArray[np.int32]
    numbered: NDArray[np.bool_]
    """Whether each arrival has a station."""
    left: NDArray[np.bool_]
    """Whether each arrival has left."""
    message: NDArray[np.int32]
    until: NDArray[np.int32]
    messages: Sequence[Message]
    """The messages in feedback, as `engine.feedback.CapturedFeedback` of the first arrival."""
    waiting: Sequence[WaitingFrame]
    firsts: NDArray[np.int64]
    """The first slot of each hash, which is the low bits of a frame's serial number."""
    store: NDArray[np.uint8]
    leaving_at: NDArray[np.int64]
    leaving_octets: NDArray[np.int64]
    """The lengths of the frames that are sent next; ``leaving_at`` has the addresses of these frames."""
    leaving_ns: NDArray[np.int64]
    """The scheduled departure times of frames that waited; frames that did not wait have a negative value."""
    lateness: NDArray[np.int64]
    """The delays of departures, as in `ecmproto.frames.capture.linux.departures.new_counts`."""


@released
def step(
    point: PointState,
    senders: Senders,
    receivers: Receivers,
    sources: Sources,
    wires: Wires,
    task: int,
    until_ns: int,
    coalesce_ns: int,
) -> int:
    """Do ``task``, or serve until ``until_ns``, and return when the caller must act.

    The result is a reason of `capture.linux.wires`; TIME_CAME means that the task is complete. NOT_SENT means
    that the caller sends the remaining frames. FRAMES_CAME means that the caller reads the network's frame at
    ``wires.state.position``, which may be feedback. If a probe was posted, the caller sends the probe. Then
    the caller calls the function again.
    """
    state, progress = wires.state, point.progress
    if task == ADVANCE:
        _pass_until(point, until_ns)
        _begin_moment(point)
    elif task == TAKE:
        _pass_until(point, until_ns)
        _begin(point, wires)
    while True:
        why = _carry_on(point, senders, receivers, sources, wires)
        if why != TIME_CAME or task != SERVE:
            return why
        now_ns = monotonic_ns(wires)
        if now_ns >= until_ns:
            return TIME_CAME
        if is_served(wires):
            due_ns = _due_ns(point)
            if progress.owes != 0:
                progress.owes = 0
                if due_ns <= now_ns:
                    _pass_until(point, now_ns)
                    _begin_moment(point)
                    continue
            progress.owes = 1
            if sleep(wires, min(due_ns, until_ns) - now_ns, coalesce_ns):
                return WOKEN
            now_ns = monotonic_ns(wires)
        for interface in range(state.interfaces):
            if has_frames(wires, interface):
                if not receive(wires, interface):
                    return FAILED
                if state.frames > 0:
                    _pass_until(point, now_ns)
                    _begin(point, wires)
                break


@inlined
def _due_ns(point: PointState) -> int:
    """Return the time of the next event, or NEVER_NS if no frame waits and no timer runs."""
    due_ns = first_ns(point.network.events)
    return NEVER_NS if due_ns == NEVER_NS else int(point.facts.start_ns + due_ns)


@inlined
def _pass_until(point: PointState, now_ns: int) -> None:
    """Advance the device's own time, which stops while the device is too late."""
    facts = point.facts
    missed_ns = now_ns - _due_ns(point) - _LATEST_NS
    if missed_ns > 0:
        facts.start_ns += missed_ns
        point.counts.missed_ns += missed_ns
    facts.now_ns = max(facts.now_ns, now_ns - facts.start_ns)


@inlined
def _begin_moment(point: PointState) -> None:
    """Start to process an empty arrival, which advances the time."""
    progress = point.progress
    progress.rows, progress.position, progress.are_frames = 1, 0, 0
    progress.first = progress.serial
    progress.serial += 1
    point.time_ns[0], point.octets[0], point.priority[0] = point.facts.now_ns, 0, 0
    point.occupies[0] = point.sampled[0] = point.answerable[0] = point.tagged[0] = False
    point.tag[0] = point.mark[0] = 0
    point.station[0] = point.flow[0] = _NOWHERE
    point.left[0] = False


@compiled
def _begin(point: PointState, wires: Wires) -> None:
    """Start to process the batch of received frames."""
    state, progress = wires.state, point.progress
    if state.interface == NET:
        point.counts.net_frames += state.frames
        progress.passed = state.position = 0
        count = state.frames
        for frame in range(count):
            point.numbered[frame] = False
        learn_frames(
            point.flows, wires.rings[NET].octets, wires.offset[:count], wires.captured[:count],
            wires.original[:count], point.numbered[:count], point.tagging.tables,
        )  # fmt: skip
        return
    point.counts.host_frames += state.frames
    rows = _read(point, wires)
    progress.rows, progress.position, progress.are_frames = rows, 0, 1
    progress.first = progress.serial
    progress.serial += rows
    state.position = state.frames
    numbers = Numbers(point.station[:rows], point.flow[:rows])
    for row in range(rows):
        point.station[row] = point.flow[row] = _NOWHERE
    number_frames(
        point.flows, wires.rings[HOST].octets, wires.offset[:rows], wires.captured[:rows],
        wires.captured[:rows], point.numbered[:rows], point.tagging.tables, numbers,
    )  # fmt: skip
    pool = point.network.pool
    spare = max(0, len(pool.frames) - pool.stock.used - _SPARE_FRAMES)
    if rows > spare:
        # The loop stops at full capacity, because departures must not wait for arrivals.
        _drop_beyond(point, spare)


@inlined
def _drop_beyond(point: PointState, spare: int) -> None:
    """Drop the arrivals that exceed the loop's capacity."""
    point.counts.overflow_frames += point.progress.rows - spare
    point.progress.rows = spare


@inlined
def _read(point: PointState, wires: Wires) -> int:
    """Fill the columns of arrivals with the batch of received frames, and return the number of arrivals.

    These frames become the first frames of ``wires``, with the device's VLAN tag. Frames that no bridge
    forwards are sent at once.
    """
    slots, offset, captured = wires.rings[HOST].octets, wires.offset, wires.captured
    counts = point.counts
    tagging, rows = point.tagging, 0
    for frame in range(wires.state.frames):
        start, octets = offset[frame], captured[frame]
        if wires.original[frame] > octets or octets > point.facts.largest_octets:
            counts.refused_frames += 1
            continue
        longer = put_vlan_on(tagging, slots, start, octets)
        start, octets = start - longer, octets + longer
        frame_class = class_of(slots, start, start + octets, tagging.tables, point.facts.own)
        if not frame_class.occupies or octets == 0:
            counts.past_frames += 1
            _leave(point, wires.state.slots_at + start, octets, _NOWHERE)
            continue
        offset[rows], captured[rows] = start, octets
        tag = own_tag(slots, start, octets, tagging.tables, tagging.layout)
        point.time_ns[rows], point.octets[rows] = point.facts.now_ns, octets
        is_data = frame_class.sampled and not _is_message(point, slots, start, start + octets)
        point.priority[rows], point.sampled[rows] = frame_class.priority, is_data
        point.answerable[rows] = frame_class.answerable
        point.occupies[rows] = True
        point.tagged[rows], point.tag[rows], point.mark[rows] = tag.tagged, tag.tag, tag.mark
        # As in `ecmproto.control.engine.arrivals`, a group has no single destination that could answer.
        point.numbered[rows] = is_data and signed(slots[start]) & _GROUP_BIT == 0
        point.left[rows] = False
        rows += 1
    return rows


@inlined
def _is_message(point: PointState, slots: NDArray[np.uint8], start: int, end: int) -> bool:
    """Return whether a frame is a message that is sent over IP."""
    facts = point.facts
    if facts.message_port == 0:
        return False
    return is_udp_message(
        slots, start, end, end, point.tagging.tables, facts.message_port, facts.message_octet
    )


@compiled
def _carry_on(
    point: PointState, senders: Senders, receivers: Receivers, sources: Sources, wires: Wires
) -> int:
    """Finish the current task; return a reason as `step` does."""
    progress, network = point.progress, point.network
    while True:
        why = _drain(point, wires)
        if why != TIME_CAME:
            return why
        rows = progress.rows
        if progress.position == rows:
            break
        arrivals = Arrivals(
            point.time_ns[:rows], point.octets[:rows], point.priority[:rows], point.occupies[:rows],
            point.sampled[:rows], point.answerable[:rows], point.tagged[:rows], point.tag[:rows],
            point.mark[:rows], point.station[:rows], point.flow[:rows],
        )  # fmt: skip
        feedback = CapturedFeedback(point.message[:rows], point.until[:rows], point.messages)
        position = run(
            network, senders, receivers, sources, arrivals, feedback, progress.position, progress.first, False
        )
        if position == progress.position and network.log.passages == 0:
            _drop_beyond(point, position)
        progress.position = position
    if progress.are_frames != 0:
        _hold(point, wires)
    point.message[0] = point.until[0] = _NOWHERE
    progress.rows = progress.position = progress.are_frames = 0
    return _pass_to_host(point, wires)


@compiled
def _drain(point: PointState, wires: Wires) -> int:
    """Send the frames that left the stations, and drop rejected frames; return a reason as `step` does."""
    progress, network, counts = point.progress, point.network, point.counts
    while progress.drained < network.log.passages:
        passage = network.passages[progress.drained]
        row = passage.serial - progress.first
        is_new = 0 <= row < progress.rows
        if is_new:
            point.left[row] = True
        if passage.disposition == HELD_OUT:
            counts.held_out_frames += 1
            counts.held_out_octets += passage.octets
        elif passage.probe != 0:
            if not _flush(point, wires):
                return NOT_SENT
            while network.outbox.messages[progress.message].kind != PROBE_KIND:
                progress.message += 1
            progress.message += 1
            progress.drained += 1
            counts.probes += 1
            return MESSAGES_POSTED
        elif passage.disposition != PASSED_BY:
            _let_leave(point, wires, passage, row, is_new)
        progress.drained += 1
        if progress.leaving == len(point.leaving_at) and not _flush(point, wires):
            return NOT_SENT
    network.log.passages = network.outbox.posted.count = 0
    progress.drained = progress.message = 0
    return TIME_CAME if _flush(point, wires) else NOT_SENT


@inlined
def _let_leave(point: PointState, wires: Wires, passage: Passage, row: int, is_new: bool) -> None:
    """Queue a leaving frame for sending, with the tag of the frame's station."""
    if is_new:
        frame = LeavingFrame(
            wires.offset[row], wires.captured[row], point.tagged[row], point.tag[row], point.mark[row]
        )
        start, octets = _tagged(point, wires.rings[HOST].octets, passage, frame)
        at = wires.state.slots_at + start
    else:
        slot = _take_out(point, passage.serial)
        waiting_frame = point.waiting[slot]
        frame = LeavingFrame(
            slot * point.facts.slot_octets + HEADROOM_OCTETS,
            waiting_frame.octets,
            waiting_frame.tagged != 0,
            waiting_frame.tag,
            waiting_frame.mark,
        )
        start, octets = _tagged(point, point.store, passage, frame)
        at = point.facts.store_at + start
    point.counts.left_frames += 1
    point.counts.left_octets += octets
    _leave(point, at, octets, _NOWHERE if is_new else passage.time_ns)


@inlined
def _leave(point: PointState, at: int, octets: int, when_ns: int) -> None:
    """Queue the frame at address ``at`` for sending.

    ``when_ns`` is the scheduled departure time, or a negative number if there is none.
    """
    progress = point.progress
    point.leaving_at[progress.leaving], point.leaving_octets[progress.leaving] = at, octets
    point.leaving_ns[progress.leaving] = when_ns
    progress.leaving += 1
    progress.last_at, progress.last_octets = at, octets


@compiled
def _tagged(
    point: PointState, buffer: NDArray[np.uint8], passage: Passage, frame: LeavingFrame
) -> tuple[int, int]:
    """Add the tag of ``passage`` to a frame if the length allows, and return the frame's start and length."""
    start, octets, facts = frame.start, frame.octets, point.facts
    if passage.tagged == 0 or (frame.tagged and frame.tag == passage.tag and frame.mark == passage.mark):
        return start, octets
    if not frame.tagged:
        longer = point.tagging.layout.octets
        first_tag = two_octets(buffer, start + TYPE_AT) if octets >= HEADER_OCTETS else 0
        in_front = VLAN_OCTETS if first_tag == point.tagging.facts.c_tag else 0
        if octets + longer > facts.longest_octets + in_front:
            point.counts.untagged_frames += 1
            return start, octets
    longer = put_tag_on(point.tagging, buffer, start, octets, passage.tag, passage.mark)
    if longer == NO_OFFSET:
        return start, octets
    return start - longer, octets + longer


@inlined
def _flush(point: PointState, wires: Wires) -> bool:
    """Send the leaving frames; return whether all frames were sent. Unsent frames remain in the queue."""
    progress, at, octets = point.progress, point.leaving_at, point.leaving_octets
    count = progress.leaving
    if count == 0:
        return True
    sent = send(wires, NET, 0, at, octets, count)
    left_ns = monotonic_ns(wires) - point.facts.start_ns
    for frame in range(sent):
        if point.leaving_ns[frame] >= 0:
            count_late(point.lateness, left_ns - point.leaving_ns[frame])
    for frame in range(count - sent):
        at[frame], octets[frame] = at[frame + sent], octets[frame + sent]
    progress.leaving = count - sent
    return sent == count


@compiled
def _hold(point: PointState, wires: Wires) -> None:
    """Store the frames that arrived and have to wait."""
    progress, facts, waiting = point.progress, point.facts, point.waiting
    slots = wires.rings[HOST].octets
    for row in range(progress.rows):
        if point.left[row]:
            continue
        slot, serial = progress.free, progress.first + row
        frame = waiting[slot]
        progress.free = frame.following
        progress.occupied += 1
        end = serial & (len(point.firsts) - 1)
        frame.serial, frame.following = serial, point.firsts[end]
        point.firsts[end] = slot
        frame.octets, frame.tagged = wires.captured[row], int(point.tagged[row])
        frame.tag, frame.mark = point.tag[row], point.mark[row]
        start, at = wires.offset[row], slot * facts.slot_octets + HEADROOM_OCTETS
        for octet in range(frame.octets):
            point.store[at + octet] = slots[start + octet]


@inlined
def _take_out(point: PointState, serial: int) -> int:
    """Return the slot of a frame that waited, and mark the slot as free.

    The slot keeps the frame's octets until the slot is reused.
    """
    waiting, progress, before = point.waiting, point.progress, _NOWHERE
    end = serial & (len(point.firsts) - 1)
    slot = point.firsts[end]
    while waiting[slot].serial != serial:
        before, slot = slot, waiting[slot].following
    if before == _NOWHERE:
        point.firsts[end] = waiting[slot].following
    else:
        waiting[before].following = waiting[slot].following
    waiting[slot].following = progress.free
    progress.free = slot
    progress.occupied -= 1
    return int(slot)


@compiled
def _pass_to_host(point: PointState, wires: Wires) -> int:
    """Send the network's frames up to a non-data frame to the host; return a reason as `step` does."""
    state, progress, slots = wires.state, point.progress, wires.rings[NET].octets
    if state.interface != NET:
        return TIME_CAME
    offset, captured, tagging = wires.offset, wires.captured, point.tagging
    while state.position < state.frames:
        first = frame = state.position
        while frame < state.frames:
            start, octets = offset[frame], captured[frame]
            if wires.original[frame] > octets:
                break
            if frame >= progress.passed:
                frame_class = class_of(slots, start, start + octets, tagging.tables, point.facts.own)
                is_message = _is_message(point, slots, start, start + octets)
                if not frame_class.sampled or is_message:
                    progress.msdu_at, progress.is_message = frame_class.msdu_at - start, int(is_message)
                    break
            shorter = take_vlan_off(tagging, slots, start, octets)
            offset[frame], captured[frame] = start + shorter, octets - shorter
            frame += 1
        if frame > first:
            sent = send(wires, HOST, state.slots_at, offset[first:], captured[first:], frame - first)
            state.position = first + sent
            if state.position < frame:
                progress.unsent = frame
                return NOT_SENT
        if frame < state.frames:
            if wires.original[frame] <= captured[frame]:
                return FRAMES_CAME
            point.counts.refused_frames += 1
            state.position += 1
    return TIME_CAME


def new_point_state(
    network: NetworkState, flows: FlowTable, tagging: Tagging, longest_octets: int, largest_octets: int
) -> PointState:
    """Return the initial state of a reaction point; ``flows`` must not have numbered any flow yet."""
    facts, progress, waiting = (
        new_record(PointFacts),
        new_record(PointProgress),
        new_records(WaitingFrame, MAX_FRAMES),
    )
    facts.longest_octets, facts.largest_octets = longest_octets, largest_octets
    facts.slot_octets = HEADROOM_OCTETS + largest_octets + VLAN_OCTETS
    store = np.zeros(MAX_FRAMES * facts.slot_octets, np.uint8)
    facts.store_at = store.ctypes.data
    columns(waiting)["following"] = np.append(np.arange(1, MAX_FRAMES), _NOWHERE)
    rows = FRAMES

    def column(kind: Any) -> NDArray[Any]:
        return np.zeros(rows, kind)

    return PointState(
        counts=new_record(ReactionPointCounts), facts=facts, progress=progress, network=network,
        flows=flows.preallocated(), tagging=tagging,
        time_ns=column(np.int64), octets=column(np.int64), priority=column(np.uint8),
        occupies=column(np.bool_), sampled=column(np.bool_), answerable=column(np.bool_),
        tagged=column(np.bool_), tag=column(np.int64), mark=column(np.int64),
        station=column(np.int32), flow=column(np.int32), numbered=column(np.bool_), left=column(np.bool_),
        message=np.full(rows, _NOWHERE, np.int32), until=np.full(rows, _NOWHERE, np.int32),
        messages=new_records(Message, 1), waiting=waiting, firsts=np.full(MAX_FRAMES, _NOWHERE, np.int64),
        store=store, leaving_at=np.zeros(SENT_AT_ONCE, np.int64),
        leaving_octets=np.zeros(SENT_AT_ONCE, np.int64), leaving_ns=np.zeros(SENT_AT_ONCE, np.int64),
        lateness=new_counts(),
    )  # fmt: skip
