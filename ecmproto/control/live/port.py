"""A software switch port with a congestion point, without sockets, which uses its caller's clock.

>>> port = SwitchPort(machine, facts, inputs=2, frames=1000, seed=1, start_ns=now_ns, send=send)
>>> port.take(batch, 0, now_ns)          # frames received at input 0
>>> port.advance(port.due_ns)            # frames that leave until this time are passed to ``send``

A frame leaves at the first call of `advance` or `take` at or after the end of its transmission. The memory is
fixed at creation; frames beyond the capacity are dropped and counted.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.config import PortConfig, check_seed, parse_buffer
from ecmproto.control.engine.frame_pool import new_pool
from ecmproto.control.engine.frames import octets_of
from ecmproto.control.engine.gauge import PRIORITIES, TOTAL, queue_statistics, settled, utilisation
from ecmproto.control.engine.port import lengthen_ring, new_port
from ecmproto.control.engine.statistics import kind_name
from ecmproto.control.live.device import (
    EXAMPLE_FRAME,
    EXAMPLE_FRAMES,
    EXERCISED_NS,
    LARGEST_OCTETS,
    Send,
    Snapshot,
    discard,
    exercise,
    send_frame,
)
from ecmproto.control.live.switching import (
    Incoming,
    Switch,
    SwitchClock,
    SwitchCounts,
    SwitchFacts,
    clear,
    drive,
    due_ns,
    forward,
    forwarded,
    new_addresses,
    new_frame_store,
    new_outgoing,
    obey,
    own_time,
    release,
)
from ecmproto.control.live.tagging import check_stack
from ecmproto.control.mechanisms.api.frames import announced_by
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    NO_CAUSE,
    NO_STATION,
    PAUSE_KIND,
    PFC_KIND,
    CongestionPoint,
    new_outbox,
)
from ecmproto.control.mechanisms.pause.messages import read_flow_control
from ecmproto.control.mechanisms.pause.parameters import PauseReactionParameters, PFCReactionParameters
from ecmproto.control.mechanisms.pause.reaction_point import (
    PauseFrame,
    PauseTimers,
    pause_reaction_settings,
    paused_ns,
)
from ecmproto.errors import ParameterError
from ecmproto.frames.batch.classes import FrameClasses, classify
from ecmproto.frames.batch.headers import HEADER_OCTETS, TYPE_AT
from ecmproto.frames.batch.parse_tables import parse_tables
from ecmproto.frames.batch.tags import tag_layout
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux.wires import (
    FAILED,
    FRAMES_CAME,
    TIME_CAME,
    WOKEN,
    Sockets,
    lateness_gauges,
)
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import as_interface
from ecmproto.units import NS_PER_S, format_time
from ecmproto.wire.codec import EtherTypes, Layer, decode_lax
from ecmproto.wire.codec.tags import SELECTOR_MASK
from ecmproto.wire.formats.ethertypes import DEFAULT

_EXAMPLE_PAUSE = bytes.fromhex("0180c20000010200000000fa880800010001").ljust(60, b"\0")
_WORD_OCTETS = 4
"""The length of the EtherType and the discriminator word (wire-formats 1.1)."""
_COUNTED = ("pause_frames", "pfc_frames", "ignored_frames", "refused_frames")
_PARAMETERS: dict[str, PauseReactionParameters | PFCReactionParameters] = {
    "pause": PauseReactionParameters(),
    "pfc": PFCReactionParameters(priorities=frozenset(range(PRIORITIES))),
}
_ADDRESSES = 4096
_REMEMBERED_NS = 300 * NS_PER_S
"""The recommended ageing time of 802.1Q 8.8.3."""
_MESSAGES_AT_ONCE = 1024
_OUTGOING_AT_ONCE = 512
_SLOT_OCTETS = 64
_MIN_FRAME_OCTETS = 60
MAX_FRAMES = 1 << 18
"""The maximum number of frames in a buffer whose size is in octets."""
LEAD_NS = 20_000
"""The time by which a port sends a frame early, which is about the time that the kernel needs for a frame."""


class SwitchPort:
    """A switch port: inputs 0 to n − 1, and interface n as output with queues and a congestion point.

    ``frames`` is the maximum number of queued frames; ``facts`` limits the octets. Frames are sent up to
    ``lead_ns`` early, for senders that need this time. ``obeys`` is pause or pfc: PAUSE or PFC
    from the other end of the output's link stop the port's priorities. ``watchdog_ns``, if given, is the
    maximum time of a stop without a break. ``counts`` is a record of type `switching.SwitchCounts`.
    ``messages`` are the numbers of sent messages by type.
    """

    def __init__(
        self,
        machine: Machine,
        facts: PortConfig,
        *,
        inputs: int,
        frames: int,
        seed: int,
        start_ns: int,
        send: Send,
        link_rate_bps: int | None = None,
        largest_octets: int = LARGEST_OCTETS,
        lead_ns: int = 0,
        obeys: str | None = None,
        watchdog_ns: int | None = None,
        ethertypes: EtherTypes = DEFAULT,
    ) -> None:
        check_seed(seed)
        check_stack(machine)
        self.machine = machine
        self.facts = facts
        self.inputs = inputs
        self.messages: Counter[str] = Counter()
        self.context: PortContext = PortContext(
            rate_bps=facts.rate_bps,
            link_rate_bps=facts.rate_bps if link_rate_bps is None else link_rate_bps,
            cp_mac=facts.cp_mac,
            stations=inputs,
            flows=1,
            ethertypes=ethertypes,
        )
        self._send = send
        self._lead_ns = lead_ns
        self.point: CongestionPoint = machine.congestion_point(self.context, np.random.default_rng(seed))
        self._interface = as_interface(self.point, CongestionPoint)
        self.switch: Switch = self._new_switch(frames, largest_octets)
        self.switch.clock.start_ns, self.switch.clock.lead_ns = start_ns, lead_ns
        self._looks_at_output = obeys is not None or any(each.lowered for each in machine.messages.values())
        self._downstream: Downstream | None = None
        if obeys is not None:
            self._downstream = Downstream(
                obeys,
                self.switch,
                rate_bps=facts.rate_bps,
                ethertypes=ethertypes,
                watchdog_ns=watchdog_ns,
            )

    def _new_switch(self, frames: int, largest_octets: int) -> Switch:
        fixed = new_record(SwitchFacts)
        fixed.own = int.from_bytes(self.facts.cp_mac)
        fixed.inputs, fixed.largest_octets, fixed.remembered_ns = self.inputs, largest_octets, _REMEMBERED_NS
        port = new_port(self.facts, tag_octets=self.machine.tag_octets)
        for priority in range(PRIORITIES):
            # A ring is never full, because the ring has a slot for every possible frame.
            while int(port.rings[priority].slot_mask) + 1 < frames:
                lengthen_ring(port, priority)
        return Switch(
            facts=fixed,
            counts=new_record(SwitchCounts),
            clock=new_record(SwitchClock),
            port=port,
            pauses=new_record(PauseTimers),
            pool=new_pool(frames),
            store=new_frame_store(frames, largest_octets),
            addresses=new_addresses(_ADDRESSES),
            outgoing=new_outgoing(self.inputs + 1, frames=_OUTGOING_AT_ONCE, largest_octets=largest_octets),
            outbox=new_outbox(_MESSAGES_AT_ONCE),
            tables=parse_tables(self.context.ethertypes),
            layout=tag_layout(self.machine.tag, self.context.ethertypes),
        )

    @property
    def counts(self) -> Any:
        """Return the counters of frames, a record of type `SwitchCounts`."""
        return self.switch.counts

    @property
    def due_ns(self) -> int:
        """Return the time of the next call of `advance`, or NEVER_NS while no frame waits."""
        return due_ns(self.switch, self._interface)

    def take(self, batch: Batch, interface: int, now_ns: int) -> None:
        """Process the frames received at ``interface`` until ``now_ns``; times never decrease."""
        time_ns = self._time(now_ns)
        if interface == self.inputs:
            batch = with_lower_rates(batch, self._interface, self.machine, self.context.ethertypes)
            self._obey(batch, time_ns)
        self._forward(batch, interface, time_ns, 0)

    def _forward(self, batch: Batch, interface: int, time_ns: int, position: int) -> None:
        """Forward the frames of ``batch``, starting at index ``position``."""
        frames = Incoming(batch.buffer, batch.offset, batch.captured, batch.original)
        count, last = len(batch), False
        while not last:
            position = forward(
                self.switch, self._interface, frames, interface, time_ns, time_ns + self._lead_ns, position,
                count,
            )  # fmt: skip
            last = position == count
            self._drain(batch)

    def advance(self, now_ns: int) -> None:
        """Process all events that are due at ``now_ns``."""
        self._release(self._time(now_ns) + self._lead_ns)

    def serve(self, sockets: Sockets, until_ns: int, coalesce_ns: int) -> None:
        """Forward frames between real interfaces until ``until_ns``, or until another event wakes the loop.

        The function returns earlier if ``sockets.wires.state.error`` reports a receive error.
        """
        wires, state = sockets.wires, sockets.wires.state
        while True:
            state.error = 0
            why = drive(self.switch, self._interface, wires, until_ns, coalesce_ns, self._looks_at_output)
            if why in (TIME_CAME, WOKEN, FAILED):
                return
            now_ns, batch = time.monotonic_ns(), sockets.received()
            if why == FRAMES_CAME:
                self.take(batch, int(state.interface), now_ns)
                continue
            self._drain(batch if len(batch) else None)
            if state.position < state.frames:
                self._forward(batch, int(state.interface), self._time(now_ns), int(state.position))

    def _release(self, until_ns: int) -> None:
        done = False
        while not done:
            done = release(self.switch, self._interface, until_ns)
            self._drain(None)

    def _obey(self, batch: Batch, time_ns: int) -> None:
        """Obey the PAUSE and PFC frames that were received at the output."""
        if self._downstream is None:
            return
        for frame in self._downstream.pause_frames(batch):
            self._release(time_ns)
            self._downstream.obey(frame, time_ns)

    def _time(self, now_ns: int) -> int:
        """Return the port's own time, which is never before the time of a frame already sent."""
        return own_time(self.switch.clock, now_ns)

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return the counters, the queues at ``now_ns``, and the queue statistics over all the time."""
        gauge = self.switch.port.gauge
        settled(gauge, now_ns - int(self.switch.clock.start_ns))
        queue = queue_statistics(gauge, TOTAL)
        counters = {name: int(getattr(self.counts, name)) for name in self.counts.dtype.names}
        if self._downstream is not None:
            counters |= self._downstream.counters(now_ns - int(self.switch.clock.start_ns))
        return Snapshot(
            counters=counters,
            messages=dict(self.messages),
            mechanism=self.machine.counters(self.point),
            warnings=(
                *(self._downstream.warnings() if self._downstream is not None else ()),
                *self.machine.remarks(self.point),
            ),
            gauges={
                "queue_frames": int(self.switch.pool.stock.used),
                "queue_octets": int(gauge.total.octets),
                "queue_octet_seconds": float(gauge.total.octet_ns) / NS_PER_S,
                "queue_mean_octets": queue.mean_octets,
                "queue_p99_octets": queue.p99_octets,
                "queue_peak_octets": queue.peak_octets,
                "utilisation": utilisation(gauge),
                **lateness_gauges(self.switch.outgoing.lateness),
            },
        )

    def _drain(self, batch: Batch | None) -> None:
        """Send the leaving frames and the posted messages."""
        outgoing, outbox = self.switch.outgoing, self.switch.outbox
        if outgoing.used[0]:
            for interface, frames in enumerate(outgoing.frames.tolist()):
                if frames:
                    offset, length = outgoing.offset[interface, :frames], outgoing.length[interface, :frames]
                    self._send(interface, outgoing.octets, offset, length)
            clear(outgoing)
        if outbox.posted.count:
            for message in outbox.messages[: outbox.posted.count]:
                if message.sent:
                    self._send_message(message, batch)
            outbox.posted.count = 0

    def _send_message(self, message: Any, batch: Batch | None) -> None:
        cause, station = int(message.cause), int(message.station)
        about = SampledFrame(b"", 0, 0)
        if cause != NO_CAUSE and batch is not None:
            about = self._sampled(batch.select([cause]))
        elif message.kind not in (PAUSE_KIND, PFC_KIND):
            return
        if station == NO_STATION:
            return
        frame = octets_of(self.machine, message, about, self.context)
        for interface in range(self.inputs) if station == EVERY_STATION else (station,):
            send_frame(self._send, interface, frame)
        self.messages[kind_name(self.machine, int(message.kind))] += 1

    def _sampled(self, one: Batch) -> SampledFrame:
        classes = classify(one.buffer, one.offset, one.captured, ethertypes=self.context.ethertypes)
        octets = one.frame(0)
        return SampledFrame(octets, len(octets), int(classes.msdu_offset[0]))


def slot_octets(mtus_octets: int) -> int:
    """Return the maximum frame length, with headers and some tags, of interfaces with ``mtus_octets``."""
    return -(-(mtus_octets + _SLOT_OCTETS) // _SLOT_OCTETS) * _SLOT_OCTETS


def buffer_of(text: str) -> tuple[int, int]:
    """Return the capacity in frames and in octets of a buffer such as ``1000frames`` or ``500kB``.

    In a buffer given in frames, a frame counts as 1518 octets. In a buffer given in octets, a frame counts as
    at least 60 octets. Raises ParameterError for other text, and for more frames than a switch has memory
    for.
    """
    buffer = parse_buffer(text)
    if not buffer.frames:
        return min(MAX_FRAMES, max(1, buffer.octets // _MIN_FRAME_OCTETS)), buffer.octets
    if buffer.frames > MAX_FRAMES:
        raise ParameterError(name="buffer", needed=f"1 to {MAX_FRAMES} frames", got=text)
    return buffer.frames, buffer.octets


class Downstream:
    """Processor of PAUSE and PFC frames from the other end of a switch's output; ``kind`` is pause or pfc.

    A priority is stopped for at most ``watchdog_ns`` without a break; ``None`` means that there is no limit.
    """

    def __init__(
        self,
        kind: str,
        switch: Switch,
        *,
        rate_bps: int,
        ethertypes: EtherTypes,
        watchdog_ns: int | None = None,
    ) -> None:
        self._switch = switch
        self._watchdog = _Watchdog(watchdog_ns, switch.pauses) if watchdog_ns is not None else None
        self._settings = pause_reaction_settings(_PARAMETERS[kind], rate_bps=rate_bps)
        self._ethertypes = ethertypes

    @property
    def _state(self) -> PauseTimers:
        return self._switch.pauses

    def pause_frames(self, batch: Batch) -> Iterator[PauseFrame]:
        """Yield the content of the MAC Control frames of a batch."""
        long = np.flatnonzero(batch.captured >= HEADER_OCTETS)
        at = batch.offset[long] + TYPE_AT
        high, low = self._ethertypes.mac_control.to_bytes(2)
        for position in long[(batch.buffer[at] == high) & (batch.buffer[at + 1] == low)].tolist():
            yield read_flow_control(batch.frame(position), ethertypes=self._ethertypes)

    def obey(self, frame: PauseFrame, now_ns: int) -> None:
        """Obey a frame, after processing all events that are due at ``now_ns``."""
        dog, refused = self._watchdog, frame.kind != self._settings.kind or not frame.enable_vector
        if dog is None or refused:
            obey(self._switch, self._settings, frame, now_ns)
            return
        mask = dog.admitted(frame, now_ns)
        if mask:
            obey(self._switch, self._settings, frame._replace(enable_vector=mask), now_ns)
            dog.bound(mask, now_ns)

    def warnings(self) -> tuple[str, ...]:
        """Return a warning for the user if the watchdog has triggered."""
        dog = self._watchdog
        if dog is None or not dog.trips:
            return ()
        limit = format_time(dog.limit_ns)
        return (f"the watchdog resumed a priority that the output's far end had paused for {limit}",)

    def counters(self, now_ns: int) -> dict[str, int]:
        """Return the counters of frames, and the time for which each priority was stopped."""
        counted = {f"downstream_{name}": int(getattr(self._state, name)) for name in _COUNTED}
        if self._watchdog is not None:
            self._watchdog.expire(now_ns)
            counted["watchdog_trips"] = self._watchdog.trips
            counted["watchdog_ignored_times"] = self._watchdog.ignored
        return counted | {
            f"stopped_ns_priority_{p}": int(paused_ns(self._state, p, now_ns)) for p in range(PRIORITIES)
        }


class _Watchdog:
    """A PFC watchdog that limits the time for which pauses stop a priority to ``limit_ns``.

    A priority that was stopped for ``limit_ns`` without a break resumes. The port then ignores pauses of this
    priority until no pause was received for ``limit_ns``.
    """

    def __init__(self, limit_ns: int, state: PauseTimers) -> None:
        self.limit_ns = limit_ns
        self.trips = 0
        self.ignored = 0
        self._state = state
        self._stopped_ns = [0] * PRIORITIES
        """The start of the stop of each stopped priority."""
        self._bounded = self._tripped = 0
        """Masks of the priorities with a limited stop, and of the priorities that the watchdog released."""
        self._refused_ns = [0] * PRIORITIES

    def expire(self, now_ns: int) -> None:
        """Release the priorities that were stopped for the maximum time."""
        for priority in range(PRIORITIES):
            bit = 1 << priority
            if self._bounded & ~self._tripped & bit and self._state.until_ns[priority] <= now_ns:
                self._tripped |= bit
                self.trips += 1

    def admitted(self, frame: PauseFrame, now_ns: int) -> int:
        """Return the mask of the pause times in ``frame`` that the port obeys."""
        self.expire(now_ns)
        mask = frame.enable_vector
        for priority, quanta in enumerate(frame.times_quanta):
            bit = 1 << priority
            if not mask & bit:
                continue
            over = quanta == 0 or now_ns - self._refused_ns[priority] >= self.limit_ns
            if self._tripped & bit and not over:
                self.ignored += 1
                self._refused_ns[priority] = now_ns
                mask &= ~bit
                continue
            if self._state.until_ns[priority] <= now_ns:
                self._stopped_ns[priority] = now_ns
            self._bounded &= ~bit
            self._tripped &= ~bit
        return mask

    def bound(self, mask: int, now_ns: int) -> None:
        """Limit the stop time of the priorities in ``mask``, which a frame has just started or extended."""
        until_ns = self._state.until_ns
        for priority in range(PRIORITIES):
            limit_ns = self._stopped_ns[priority] + self.limit_ns
            if mask >> priority & 1 and until_ns[priority] > now_ns:
                self._refused_ns[priority] = now_ns
                if until_ns[priority] >= limit_ns:
                    until_ns[priority] = limit_ns
                    self._bounded |= 1 << priority


def with_lower_rates(batch: Batch, point: CongestionPoint, machine: Machine, ethertypes: EtherTypes) -> Batch:
    """Return ``batch`` with the rates in forwarded messages lowered to the rate that ``point`` advertises."""
    lowered = {each.format: each.lowered for each in machine.messages.values() if each.lowered}
    if not lowered:
        return batch
    classes = classify(batch.buffer, batch.offset, batch.captured, ethertypes=ethertypes)
    changed: dict[int, bytes] = {}
    for position in _messages(batch, classes, list(lowered), ethertypes).tolist():
        octets = batch.frame(position)
        frame = decode_lax(octets, ethertypes=ethertypes)
        for layer, start in zip(frame.layers, frame.boundaries(), strict=False):
            name = lowered.get(type(layer))
            if name is None:
                continue
            rate = int(getattr(layer, name))
            new_rate = int(forwarded(point, int(classes.priority[position]), rate))
            if new_rate != rate:
                row = layer.replace(**{name: new_rate}).build()
                changed[position] = octets[:start] + row + octets[start + len(row) :]
    if not changed:
        return batch
    # The buffer may be a whole receive ring, and copying it for each message would take a millisecond.
    first, end = int(batch.offset.min()), int((batch.offset + batch.captured).max())
    buffer, offset = batch.buffer[first:end].copy(), batch.offset - first
    for position, octets in changed.items():
        start = int(offset[position])
        buffer[start : start + len(octets)] = np.frombuffer(octets, np.uint8)
    buffer.flags.writeable = False
    return dataclasses.replace(batch, buffer=buffer, offset=offset)


def _messages(
    batch: Batch, classes: FrameClasses, formats: list[type[Layer]], ethertypes: EtherTypes
) -> NDArray[np.int64]:
    """Return the indices of frames that may be messages of ``formats``.

    A frame that is not a message costs only the time of this check.
    """
    suspects = np.flatnonzero(classes.occupies & ~classes.sampled)
    at = classes.msdu_offset[suspects]
    suspects = suspects[at + _WORD_OCTETS <= batch.captured[suspects]]
    at = batch.offset[suspects] + classes.msdu_offset[suspects]
    high, low = (
        batch.buffer[at + octet].astype(np.int64) << 8 | batch.buffer[at + octet + 1] for octet in (0, 2)
    )
    chosen = np.zeros(len(suspects), np.bool_)
    for kind in formats:
        mask = SELECTOR_MASK if kind.announced_by == "message" else 0
        selected = int.from_bytes(kind().build()[:2]) & mask
        chosen |= (high == announced_by(kind, ethertypes)) & (low & mask == selected)
    positions: NDArray[np.int64] = suspects[chosen]
    return positions


def precompile_port(machine: Machine, ethertypes: EtherTypes, *, obeys: str | None = None) -> None:
    """Compile the code for a switch port with ``machine``, including messages."""
    # The port is slow enough to send messages.
    config = PortConfig(rate_bps=1_000_000, buffer_octets=EXAMPLE_FRAMES * len(EXAMPLE_FRAME))
    port = SwitchPort(
        machine, config, inputs=1, frames=EXAMPLE_FRAMES, seed=1, start_ns=0, send=discard, obeys=obeys,
        ethertypes=ethertypes,
    )  # fmt: skip
    exercise(port)
    port.serve(Sockets(2, frame_octets=LARGEST_OCTETS), 0, 0)
    port.take(Batch.from_frames([_EXAMPLE_PAUSE]), 1, EXERCISED_NS)
    if any(each.lowered for each in machine.messages.values()):
        forwarded(as_interface(port.point, CongestionPoint), 0, 0)
