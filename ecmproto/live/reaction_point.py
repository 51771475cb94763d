"""A reaction point: a bridge of two interfaces in the wire behind a sender, driven by its caller's clock.

It runs the loop of `ecmproto.engine.loop`: the sender's frames are what came to its stations, the
feedback from the network is what they hear, and what leaves the stations leaves by the network.  A station
is a source address behind the host's side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.flows import FlowTable
from ecmproto.batch.headers import TYPE_AT
from ecmproto.capture.batch import Batch
from ecmproto.codec import EtherTypes
from ecmproto.engine.arrivals import Arrivals, Intake, Taken
from ecmproto.engine.config import LoopConfig, PortConfig, check_seed
from ecmproto.engine.event_heap import first_ns
from ecmproto.engine.feedback import (
    CapturedFeedback,
    feedback_counters,
    new_feedback_counters,
    no_feedback,
    read_feedback,
)
from ecmproto.engine.frames import octets_of, tagged_frames
from ecmproto.engine.loop import has_space, run
from ecmproto.engine.network import add_frames, lengthen_tight_ring, new_network, with_obeyed
from ecmproto.engine.port import HELD_OUT, PASSED_BY
from ecmproto.engine.traffic import NoSources, Sources
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.live.device import EXAMPLE_FRAME, Send, Snapshot, discard, exercise
from ecmproto.live.tagging import Tagger, precompile_tagging, with_vlan, without_vlan
from ecmproto.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.mechanisms.api.protocol import (
    PROBE_KIND,
    NullCongestionPoint,
    NullReceivers,
    Receivers,
    Senders,
    probe_payload,
)
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.record import columns
from ecmproto.structs import as_interface

HOST, NET = 0, 1
"""The interfaces: towards the sender, and towards the network."""

LARGEST_STATIONS = 16
LARGEST_FLOWS = 256
"""Stations and flows that are told apart; frames of others go past the limiters and are counted."""

_MOST_FRAMES = 16_384
"""Frames that wait at once, behind whatever limiters."""
_SPARE_FRAMES = 64
_MANY_FRAMES = 64
"""From so many on it takes less time to tag all of a batch at once than one by one."""
_WITH_TAG = ("serial", "probe", "tagged", "tag", "mark")
_LATEST_NS = 10_000_000
"""Delays beyond that are not caught up with: limiters would release everything at once."""
_C_TAG_OCTETS = 4
"""By so much a frame with a C-TAG in front may be longer (packet(7))."""
_FAST_BPS, _LARGE_OCTETS = 10**13, 10**9
"""The port of the loop stands for the wire: nothing waits there."""


class _HeldFrame(NamedTuple):
    """A frame held by a limiter: its octets, and the mechanism's tag it came with."""

    octets: bytes
    tagged: bool
    tag: int
    mark: int


class ReactionPointCounts:
    """Counters of frames besides those of the loop."""

    def __init__(self) -> None:
        self.host_frames = self.net_frames = 0
        self.past_frames = 0
        """From the host, that no limiter may hold: link-local and MAC Control frames."""
        self.left_frames = self.left_octets = 0
        self.probes = 0
        self.held_out_frames = self.held_out_octets = 0
        """They found their limiter's queue full."""
        self.overflow_frames = 0
        """They came when no more frames could wait."""
        self.untagged_frames = 0
        """They left without the tag that would have made them too long."""
        self.consumed_frames = 0
        """Feedback that the host does not get to see."""
        self.missed_ns = 0
        """For how long it was late beyond what is caught up with."""


class ReactionPoint:
    """A device with stations behind interface HOST and the network at interface NET.

    ``config`` are the sender's link and what each limiter's queue holds; ``longest_octets`` is the longest
    frame that the network takes, without a VLAN tag; ``vlan`` the control information of a C-TAG for frames
    that have none, taken off frames to the host.
    """

    def __init__(
        self,
        machine: Machine,
        config: LoopConfig,
        *,
        seed: int,
        start_ns: int,
        send: Send,
        longest_octets: int,
        vlan: int | None = None,
        ethertypes: EtherTypes = DEFAULT,
    ) -> None:
        check_seed(seed)
        self.machine = machine
        self.counts = ReactionPointCounts()
        self._start_ns = start_ns
        self._send = send
        self._longest_octets = longest_octets
        self._vlan = vlan
        self._ethertypes = ethertypes
        self._c_tag = ethertypes.c_tag.to_bytes(2)
        self._tagger = Tagger(machine, ethertypes)
        port = PortConfig(rate_bps=_FAST_BPS, buffer_octets=_LARGE_OCTETS, overhead_octets=0)
        self.context = PortContext(
            rate_bps=config.link_rate_bps,
            link_rate_bps=config.link_rate_bps,
            cp_mac=port.cp_mac,
            stations=LARGEST_STATIONS,
            flows=LARGEST_FLOWS,
            hops=config.hops,
            ethertypes=ethertypes,
        )
        self.flows = FlowTable(
            machine.flow_key,
            hashed=machine.flow_hash,
            max_stations=LARGEST_STATIONS,
            max_flows=LARGEST_FLOWS,
            ethertypes=ethertypes,
        )
        self._intakes = tuple(
            Intake(
                machine,
                cp_mac=port.cp_mac,
                ethertypes=ethertypes,
                interfaces=(),
                flows=flows,
                first_time_ns=0,
            )
            for flows in (self.flows, None)
        )
        self._nothing = self._intakes[NET].take(Batch.from_frames([]))
        self._feedback_counters = new_feedback_counters(machine)
        self.senders = machine.senders(self.context, np.random.default_rng(seed))
        self._sources = as_interface(NoSources(), Sources)
        self._receivers = as_interface(NullReceivers(), Receivers)
        self.network = new_network(
            [port],
            with_obeyed(config, machine),
            points=[NullCongestionPoint()],
            stations=LARGEST_STATIONS,
            limiters=self.senders.limiters(),
        )
        while len(self.network.pool.frames) < _MOST_FRAMES:
            add_frames(self.network)
        self._passages = columns(self.network.passages)
        self._serial = 0
        self._now_ns = 0
        self._held: dict[int, _HeldFrame] = {}

    @property
    def due_ns(self) -> int:
        """Return when `advance` is next needed; NEVER_NS while nothing waits and no timer runs."""
        due_ns = first_ns(self.network.events)
        return NEVER_NS if due_ns == NEVER_NS else self._start_ns + due_ns

    def take(self, batch: Batch, interface: int, now_ns: int) -> None:
        """Take the frames that have come in at ``interface`` by ``now_ns``; times never decrease."""
        self._pass_until(now_ns)
        if interface == HOST:
            self._from_host(batch)
        else:
            self._from_net(batch)

    def advance(self, now_ns: int) -> None:
        """Do everything that is due by ``now_ns``."""
        self._pass_until(now_ns)
        self._run(_moment(self._now_ns), no_feedback(1), None)

    def _pass_until(self, now_ns: int) -> None:
        """Advance the device's own time, which stands still while the device is too late."""
        missed_ns = now_ns - self.due_ns - _LATEST_NS
        if missed_ns > 0:
            self._start_ns += missed_ns
            self.counts.missed_ns += missed_ns
        self._now_ns = max(self._now_ns, now_ns - self._start_ns)

    def _from_host(self, batch: Batch) -> None:
        self.counts.host_frames += len(batch)
        if self._vlan is not None:
            batch = with_vlan(batch, self._vlan, self.context.ethertypes)
        taken = self._intakes[HOST].take(batch, time_ns=np.full(len(batch), self._now_ns))
        occupies = taken.arrivals.occupies & (taken.arrivals.octets > 0)
        if not occupies.all():
            past = batch.select(~occupies)
            self.counts.past_frames += len(past)
            self._send(NET, past.buffer, past.offset, past.captured)
            taken = _selected(taken, occupies)
        room = len(self.network.pool.frames) - int(self.network.pool.stock.used) - _SPARE_FRAMES
        if len(taken.batch) > room:
            # The loop stands still without room: what leaves must not wait for what comes.
            self.counts.overflow_frames += len(taken.batch) - max(0, room)
            taken = _selected(taken, np.arange(len(taken.batch)) < room)
        if len(taken.batch):
            self._run(taken.arrivals, no_feedback(len(taken.batch)), taken)

    def _from_net(self, batch: Batch) -> None:
        self.counts.net_frames += len(batch)
        taken = self._intakes[NET].take(batch, time_ns=np.full(len(batch), self._now_ns))
        consumed = np.zeros(len(batch), np.bool_)
        if not taken.classes.sampled.all():
            # No station is fresh: what was numbered last came before this.
            self.flows.number(batch.buffer, batch.offset[:0], batch.captured[:0])
            feedback = read_feedback(taken, self.machine, self.context, self.flows, self._feedback_counters)
            consumed = feedback.message >= 0
            if consumed.any():
                chosen = np.flatnonzero(consumed)
                self.counts.consumed_frames += len(chosen)
                said = CapturedFeedback(feedback.message[chosen], feedback.until[chosen], feedback.messages)
                self._run(Arrivals._make(column[chosen] for column in taken.arrivals), said, None)
        rest = batch.select(~consumed) if consumed.any() else batch
        if self._vlan is not None:
            rest = without_vlan(rest, self._vlan, self.context.ethertypes)
        if len(rest):
            self._send(HOST, rest.buffer, rest.offset, rest.captured)

    def _run(self, arrivals: Arrivals, feedback: CapturedFeedback, taken: Taken | None) -> None:
        """Run the loop until ``arrivals`` have come; they are the frames of ``taken``, if that is given."""
        count, first = len(arrivals.time_ns), self._serial
        self._serial += count
        left = np.zeros(count, np.bool_)
        position = 0
        while True:
            position = run(
                self.network,
                as_interface(self.senders, Senders),
                self._receivers,
                self._sources,
                arrivals,
                feedback,
                position,
                first,
                False,
            )
            self._drain(taken, first, left)
            if position == count:
                break
            lengthen_tight_ring(self.network)
            if not has_space(self.network):
                self.counts.overflow_frames += count - position
                left[position:] = True
                break
        if taken is not None:
            for index in np.flatnonzero(~left).tolist():
                self._held[first + index] = _held(taken, index)

    def _drain(self, taken: Taken | None, first: int, left: NDArray[np.bool_]) -> None:
        """Send the frames that have left the stations, and drop those that never will."""
        count = int(self.network.log.passages)
        if not count:
            return
        passages = self._passages[:count]
        serial, disposition = passages["serial"], passages["disposition"]
        left[serial[serial >= first] - first] = True
        lost = disposition == HELD_OUT
        leaves = disposition != PASSED_BY
        if lost.any():
            self.counts.held_out_frames += int(lost.sum())
            self.counts.held_out_octets += int(passages["octets"][lost].sum())
            leaves &= ~lost
        if leaves.any():
            self._let_leave(passages if leaves.all() else passages[leaves], taken, first)
        self.network.log.passages = self.network.outbox.posted.count = 0

    def _let_leave(self, leaving: NDArray[Any], taken: Taken | None, first: int) -> None:
        """Send the frames of ``leaving``, a passage each."""
        batch = None
        if taken is not None and not leaving["probe"].any() and leaving["serial"].min() >= first:
            batch = self._together(leaving, taken, leaving["serial"] - first)
        if batch is not None:
            self._leave(batch.buffer, batch.offset, batch.captured)
            return
        frames = list(self._frames(leaving, taken, first))
        length = np.array([len(octets) for octets in frames], np.int64)
        self._leave(np.frombuffer(b"".join(frames), np.uint8), np.cumsum(length) - length, length)

    def _together(self, leaving: NDArray[Any], taken: Taken, position: NDArray[np.int64]) -> Batch | None:
        """Return frames that have just come as they leave; None where they are to be looked at one by one."""
        if not leaving["tagged"].any():
            same = len(position) == len(taken.batch) and bool((position[1:] > position[:-1]).all())
            return taken.batch if same else taken.batch.select(position)
        if len(leaving) < _MANY_FRAMES:
            return None
        batch = tagged_frames(taken, position, leaving, self.machine, self._ethertypes)
        return batch if bool((batch.captured <= self._longest_octets).all()) else None

    def _frames(self, leaving: NDArray[Any], taken: Taken | None, first: int) -> Iterator[bytes]:
        """Yield the frames of ``leaving`` as they leave; probes after the frames they follow."""
        outbox = self.network.outbox
        posted = (outbox.messages[index] for index in range(outbox.posted.count))
        probes = (message for message in posted if message.kind == PROBE_KIND)
        octets = b""
        for serial, probe, *tag in leaving[list(_WITH_TAG)].tolist():
            if probe:
                self.counts.probes += 1
                message = next(probes)
                # It leaves now, whenever it was to leave; what is measured by is a clock that never stops.
                probe_payload(message).mark = self._now_ns + self.counts.missed_ns
                about = SampledFrame(octets, len(octets), 0)
                yield octets_of(self.machine, message, about, self.context)
                continue
            if taken is not None and serial >= first:
                frame = _held(taken, serial - first)
            else:
                frame = self._held.pop(serial)
            octets = self._tagged(frame, *tag)
            yield octets

    def _tagged(self, frame: _HeldFrame, tagged: int, tag: int, mark: int) -> bytes:
        """Return a frame with the tag that its station gave it, if it may be so long."""
        if not tagged or (frame.tagged and (frame.tag, frame.mark) == (tag, mark)):
            return frame.octets
        octets = None if frame.tagged else self._tagger.tagged(frame.octets, tag, mark)
        if octets is None:
            octets = self._retagged(frame, tag, mark)
        is_tagged = octets[TYPE_AT : TYPE_AT + 2] == self._c_tag
        longest_octets = self._longest_octets + is_tagged * _C_TAG_OCTETS
        if len(octets) > max(longest_octets, len(frame.octets)):
            self.counts.untagged_frames += 1
            return frame.octets
        return octets

    def precompile_retagging(self, octets: bytes) -> None:
        """Compile the rare case of a tag for a frame, ``octets``, that has one already."""
        if self.machine.tag is not None:
            self._retagged(_HeldFrame(octets, True, 0, 0), 1, 0)

    def _retagged(self, frame: _HeldFrame, tag: int, mark: int) -> bytes:
        """Return a leaving frame with other tags, rewritten by the mechanism."""
        batch = Batch.from_frames([frame.octets])
        no, number = np.zeros(1, np.bool_), np.zeros(1, np.int32)
        arrivals = Arrivals(
            batch.time_ns, batch.captured, no.astype(np.uint8), no, no, no, np.array([frame.tagged]),
            np.array([frame.tag]), np.array([frame.mark]), number, number,
        )  # fmt: skip
        taken = dataclasses.replace(self._nothing, batch=batch, arrivals=arrivals)
        passages = np.zeros(1, self._passages.dtype)
        passages[["tagged", "tag", "mark"]] = (1, tag, mark)
        return tagged_frames(taken, np.zeros(1, np.int64), passages, self.machine, self._ethertypes).frame(0)

    def _leave(self, octets: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        self.counts.left_frames += len(length)
        self.counts.left_octets += int(length.sum())
        self._send(NET, octets, offset, length)

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return counters and state at ``now_ns``."""
        queues = columns(self.network.queues)
        counters = {name: int(value) for name, value in vars(self.counts).items()}
        counters["limited_frames"] = int(self.network.log.limited_frames)
        numbered = ("stations", "flows", "beyond_stations", "beyond_flows")
        counters |= {name: int(getattr(self.flows.counts, name)) for name in numbered}
        return Snapshot(
            counters=counters,
            mechanism=self.machine.counters(self.senders) | feedback_counters(self._feedback_counters),
            gauges={
                "waiting_frames": int(queues["length"].sum()),
                "waiting_octets": int(queues["octets"].sum()),
                "longest_wait_octets": int(self.network.log.longest_wait_octets),
                **self.machine.gauges(self.senders),
            },
        )


def _held(taken: Taken, position: int) -> _HeldFrame:
    arrivals = taken.arrivals
    return _HeldFrame(
        taken.batch.frame(position),
        arrivals.tagged.item(position),
        arrivals.tag.item(position),
        arrivals.mark.item(position),
    )


def _selected(taken: Taken, chosen: NDArray[np.bool_]) -> Taken:
    """Return the frames of ``taken`` that are ``chosen``; their classes are not asked for any more."""
    return dataclasses.replace(
        taken,
        batch=taken.batch.select(chosen),
        arrivals=Arrivals._make(column[chosen] for column in taken.arrivals),
    )


def _moment(now_ns: int) -> Arrivals:
    """Return an arrival of nothing: it lets time pass."""
    no, none, unknown = np.zeros(1, np.bool_), np.zeros(1, np.int64), np.full(1, -1, np.int32)
    return Arrivals(
        np.full(1, now_ns), none, np.zeros(1, np.uint8), no, no, no, no, none, none, unknown, unknown
    )


def precompile_reaction_point(machine: Machine, ethertypes: EtherTypes) -> None:
    """Compile the code that a reaction point with ``machine`` runs."""
    point = ReactionPoint(
        machine, LoopConfig(link_rate_bps=10**8), seed=1, start_ns=0, send=discard,
        longest_octets=2 * len(EXAMPLE_FRAME), ethertypes=ethertypes,
    )  # fmt: skip
    exercise(point)
    point.flows.find(EXAMPLE_FRAME[6:12], destination=EXAMPLE_FRAME[:6], priority=0)  # as messages do
    point.precompile_retagging(precompile_tagging(machine, ethertypes))
