"""A reaction point: an inline bridge of two interfaces after a sender, which uses its caller's clock.

The bridge uses the loop of `ecmproto.control.engine.loop`. The sender's frames arrive at the stations of the
loop, and the feedback from the network reaches these stations. Frames that leave the stations are sent to the
network. A station is a source address on the host's side. All of this is compiled (`live.limiting`). Python
makes probes, reads feedback, and sends the frames that could not be sent at once.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np

from ecmproto.control.engine.arrivals import flow_table
from ecmproto.control.engine.config import LoopConfig, PortConfig, check_seed
from ecmproto.control.engine.event_heap import first_ns
from ecmproto.control.engine.feedback import (
    FeedbackReader,
    feedback_counters,
    is_feedback,
    new_feedback_counters,
)
from ecmproto.control.engine.frames import octets_of
from ecmproto.control.engine.gauge import PRIORITIES
from ecmproto.control.engine.network import NetworkState, add_frames, new_network, with_obeyed
from ecmproto.control.engine.port import lengthen_ring
from ecmproto.control.engine.traffic import NoSources, Sources
from ecmproto.control.live.device import (
    EXAMPLE_FRAME,
    FRAMES_AT_ONCE,
    LARGEST_OCTETS,
    Send,
    Snapshot,
    discard,
    exercise,
    send_frame,
)
from ecmproto.control.live.limiting import (
    ADVANCE,
    GO_ON,
    HOST,
    MAX_FRAMES,
    NET,
    SERVE,
    TAKE,
    new_point_state,
    step,
)
from ecmproto.control.live.tagging import new_tagging
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    NullCongestionPoint,
    NullReceivers,
    Receivers,
    Senders,
    messages_of,
    probe_payload,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.frames.batch.flows import FlowTable
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux.wires import (
    FAILED,
    FRAMES_CAME,
    MESSAGES_POSTED,
    NOT_SENT,
    TIME_CAME,
    WOKEN,
    Sockets,
    Wires,
    lateness_gauges,
)
from ecmproto.kernels.record import columns
from ecmproto.kernels.structs import as_interface
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.formats.ethertypes import DEFAULT

__all__ = ["HOST", "NET", "ReactionPoint", "precompile_reaction_point"]

LARGEST_STATIONS = 16
LARGEST_FLOWS = 256
"""The maximum number of stations, and of flows; further frames bypass the limiters and are counted."""
_FAST_BPS, _LARGE_OCTETS = 10**13, 10**9
"""The rate and buffer of the loop's port, which represents the wire: no frame waits in this port."""


class ReactionPoint:
    """A device with stations at interface HOST and the network at interface NET.

    ``config`` has the sender's link and the capacity of each limiter's queue. ``longest_octets`` is the
    maximum frame length of the network without a VLAN tag. ``vlan`` is the control information of a C-TAG,
    which is added to untagged frames from the host and removed from frames to the host. Frames of more than
    ``largest_octets`` are refused.
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
        largest_octets: int = LARGEST_OCTETS,
    ) -> None:
        check_seed(seed)
        self.machine = machine
        self._send = send
        port = PortConfig(rate_bps=_FAST_BPS, buffer_octets=_LARGE_OCTETS, overhead_octets=0)
        self.context: PortContext = PortContext(
            rate_bps=config.link_rate_bps,
            link_rate_bps=config.link_rate_bps,
            cp_mac=port.cp_mac,
            stations=LARGEST_STATIONS,
            flows=LARGEST_FLOWS,
            hops=config.hops,
            ethertypes=ethertypes,
        )
        self.flows: FlowTable = flow_table(
            machine, stations=LARGEST_STATIONS, flows=LARGEST_FLOWS, ethertypes=ethertypes
        )
        self._feedback_counters = new_feedback_counters(machine)
        self._feedback = FeedbackReader(machine, self.context, self.flows, self._feedback_counters)
        self.senders: Senders = machine.senders(self.context, np.random.default_rng(seed))
        self.network: NetworkState = new_network(
            [port],
            with_obeyed(config, machine),
            points=[NullCongestionPoint()],
            stations=LARGEST_STATIONS,
            limiters=self.senders.limiters(),
        )
        while len(self.network.pool.frames) < MAX_FRAMES:
            add_frames(self.network)
        for priority in range(PRIORITIES):
            # A ring is never full, because the ring has a slot for every possible frame.
            while int(self.network.ports[0].rings[priority].slot_mask) < MAX_FRAMES:
                lengthen_ring(self.network.ports[0], priority)
        self._point = new_point_state(
            self.network, self.flows, new_tagging(machine, vlan, ethertypes), longest_octets, largest_octets
        )
        if machine.udp_messages is not None:
            self._point.facts.message_port, self._point.facts.message_octet = machine.udp_messages
        self._point.facts.own, self._point.facts.start_ns = int.from_bytes(port.cp_mac), start_ns
        self._machines = (
            as_interface(self.senders, Senders),
            as_interface(NullReceivers(), Receivers),
            as_interface(NoSources(), Sources),
        )
        self._sockets = Sockets(2, frame_octets=largest_octets, capacity=FRAMES_AT_ONCE)

    @property
    def counts(self) -> Any:
        """Return the counters of frames, a record of type `ReactionPointCounts`."""
        return self._point.counts

    @property
    def waiting_frames(self) -> int:
        """Return the number of waiting frames."""
        return int(self._point.progress.occupied)

    @property
    def due_ns(self) -> int:
        """Return the time of the next call of `advance`, or NEVER_NS without frames and timers."""
        due_ns = first_ns(self.network.events)
        return NEVER_NS if due_ns == NEVER_NS else int(self._point.facts.start_ns) + due_ns

    def take(self, batch: Batch, interface: int, now_ns: int) -> None:
        """Process the frames received at ``interface`` until ``now_ns``; times never decrease."""
        for first in range(0, len(batch), self._sockets.capacity):
            self._sockets.fill(batch, interface, first)
            self._follow(self._step(self._sockets.wires, TAKE, now_ns), self._sockets, now_ns)

    def advance(self, now_ns: int) -> None:
        """Process all events that are due at ``now_ns``."""
        self._follow(self._step(self._sockets.wires, ADVANCE, now_ns), self._sockets, now_ns)

    def serve(self, sockets: Sockets, until_ns: int, coalesce_ns: int) -> None:
        """Move frames between real interfaces until ``until_ns``, or until another event wakes the loop.

        The function returns earlier if ``sockets.wires.state.error`` reports a receive error.
        """
        sockets.wires.state.error = 0
        while True:
            why = self._step(sockets.wires, SERVE, until_ns, coalesce_ns)
            if why in (TIME_CAME, WOKEN, FAILED):
                return
            self._follow(why, sockets, None)

    def _step(self, wires: Wires, task: int, until_ns: int, coalesce_ns: int = 0) -> int:
        return int(step(self._point, *self._machines, wires, task, until_ns, coalesce_ns))

    def _follow(self, why: int, sockets: Sockets, now_ns: int | None) -> None:
        """Do the tasks that compiled code leaves to Python; ``now_ns`` of ``None`` means the current time."""
        while why != TIME_CAME:
            if why == FRAMES_CAME and self._take_feedback(sockets):
                # Earlier events are processed first.
                time_ns = time.monotonic_ns() if now_ns is None else now_ns
                why = self._step(sockets.wires, ADVANCE, time_ns)
                continue
            if why == NOT_SENT:
                self._send_rest(sockets)
            elif why == MESSAGES_POSTED:
                self._send_probe()
            why = self._step(sockets.wires, GO_ON, 0)

    def _send_rest(self, sockets: Sockets) -> None:
        """Send the frames that compiled code could not send."""
        progress, state = self._point.progress, sockets.wires.state
        count = int(progress.leaving)
        if count:
            at, length = self._point.leaving_at[:count], self._point.leaving_octets[:count].copy()
            octets = [ctypes.string_at(*each) for each in zip(at.tolist(), length.tolist(), strict=True)]
            self._send(NET, np.frombuffer(b"".join(octets), np.uint8), np.cumsum(length) - length, length)
            progress.leaving = 0
            return
        rest = slice(int(state.position), int(progress.unsent))
        batch = sockets.received()
        self._send(HOST, batch.buffer, batch.offset[rest], batch.captured[rest])
        state.position = progress.unsent

    def _send_probe(self) -> None:
        """Send the probe that follows the last sent frame."""
        point = self._point
        message: Any = self.network.outbox.messages[int(point.progress.message) - 1]
        # The probe leaves now, even if it is due later; measurements use a clock that never stops.
        probe_payload(message).mark = point.facts.now_ns + point.counts.missed_ns
        followed = ctypes.string_at(int(point.progress.last_at), int(point.progress.last_octets))
        frame = octets_of(self.machine, message, SampledFrame(followed, len(followed), 0), self.context)
        point.counts.left_frames += 1
        point.counts.left_octets += len(frame)
        send_frame(self._send, NET, frame)

    def _take_feedback(self, sockets: Sockets) -> bool:
        """Return whether the network's next frame is feedback for the loop; other frames are forwarded."""
        state, point = sockets.wires.state, self._point
        position, msdu_at = int(state.position), int(point.progress.msdu_at)
        octets = sockets.received().frame(position)
        messages = []
        if point.progress.is_message or is_feedback(octets, msdu_at, self.context.ethertypes):
            messages = self._feedback.fields(
                octets, length_octets=len(octets), msdu_at=msdu_at, time_ns=int(point.facts.now_ns)
            )
        if not messages:
            point.progress.passed = position + 1
            return False
        point.counts.consumed_frames += 1
        state.position = position + 1
        point.messages = messages_of(messages, self.machine.payloads)
        point.message[0], point.until[0] = 0, len(messages)
        return True

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return the counters and the state at ``now_ns``."""
        queues = columns(self.network.queues)
        counters = {name: int(getattr(self.counts, name)) for name in self.counts.dtype.names}
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
                **lateness_gauges(self._point.lateness),
            },
        )


def precompile_reaction_point(machine: Machine, ethertypes: EtherTypes) -> None:
    """Compile the code that is used by a reaction point with ``machine``."""
    point = ReactionPoint(
        machine, LoopConfig(link_rate_bps=10**8), seed=1, start_ns=0, send=discard,
        longest_octets=2 * len(EXAMPLE_FRAME), ethertypes=ethertypes,
    )  # fmt: skip
    exercise(point)
    point.flows.find(EXAMPLE_FRAME[6:12], destination=EXAMPLE_FRAME[:6], priority=0)  # as messages do
