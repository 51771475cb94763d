"""A software switch port with a congestion point, in whatever time its caller has: no sockets, no clock.

>>> port = SwitchPort(machine, facts, inputs=2, frames=1000, seed=1, start_ns=now_ns, send=send)
>>> port.take(batch, 0, now_ns)          # frames that came in at input 0
>>> port.advance(port.due_ns)            # what leaves by then is handed to ``send``

Frames leave when the port's line is through with them, which is when `advance` or `take` is called at or
after that time.  Memory is fixed when the port is made: what finds no room is dropped and counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ecmproto.batch.classes import classify
from ecmproto.batch.headers import roles_of
from ecmproto.capture.batch import Batch
from ecmproto.codec import EtherTypes
from ecmproto.engine.arrivals import tag_kind
from ecmproto.engine.config import PortConfig, check_seed
from ecmproto.engine.frames import octets_of
from ecmproto.engine.gauge import PRIORITIES, TOTAL, queue_statistics, settled, utilisation
from ecmproto.engine.network import new_pool
from ecmproto.engine.port import lengthen_ring, new_port
from ecmproto.engine.statistics import kind_name
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.live.addresses import new_addresses
from ecmproto.live.device import Send, Snapshot
from ecmproto.live.downstream import Downstream
from ecmproto.live.frames import Incoming, empty, new_leaving, new_store
from ecmproto.live.rate_reports import with_lower_rates
from ecmproto.live.switching import Counts, Facts, Switch, forward, release
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.machine import Machine, Place, SampledFrame
from ecmproto.mechanisms.pause.reaction import State
from ecmproto.mechanisms.protocol import (
    EVERY_STATION,
    NO_CAUSE,
    NO_STATION,
    PAUSE_KIND,
    PFC_KIND,
    CongestionPoint,
    new_outbox,
)
from ecmproto.record import new_record
from ecmproto.structs import as_interface
from ecmproto.units import NS_PER_S

LARGEST_OCTETS = 2048
"""Of a frame, unless the maker of a port says otherwise."""

_ADDRESSES = 4096
_REMEMBERED_NS = 300 * NS_PER_S
"""802.1Q 8.8.3: the recommended ageing time."""
_MESSAGES_AT_ONCE = 1024
_LEAVING_AT_ONCE = 512


class SwitchPort:
    """Inputs 0 to n − 1, and the output, place n, with queues and a congestion point before it.

    ``frames`` is how many frames the queues hold at most, besides the octets that ``facts`` say.
    Frames are handed over up to ``lead_ns`` before they leave, for whoever needs that time to send them.
    With ``obeys``, one of `downstream.KINDS`, PAUSE or PFC from the output's far end stop its priorities,
    for no longer than ``watchdog_ns`` without a break if that is given.
    ``counts`` are a record of `switching.Counts`, ``messages`` what was sent by kind.
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
        self.machine = machine
        self.facts = facts
        self.inputs = inputs
        self.messages: Counter[str] = Counter()
        self.place = Place(
            rate_bps=facts.rate_bps,
            link_rate_bps=facts.rate_bps if link_rate_bps is None else link_rate_bps,
            cp_mac=facts.cp_mac,
            stations=inputs,
            flows=1,
            ethertypes=ethertypes,
        )
        self._start_ns = start_ns
        self._send = send
        self._lead_ns = lead_ns
        self._until_ns = 0
        self.point = machine.congestion_point(self.place, np.random.default_rng(seed))
        self._interface = as_interface(self.point, CongestionPoint)
        self.switch = _new_switch(
            machine,
            facts,
            inputs=inputs,
            frames=frames,
            largest_octets=largest_octets,
            ethertypes=ethertypes,
        )
        self._downstream: Downstream | None = None
        if obeys is not None:
            self._downstream = Downstream(
                obeys,
                self.switch,
                rate_bps=facts.rate_bps,
                ethertypes=ethertypes,
                watchdog_ns=watchdog_ns,
            )

    @property
    def counts(self) -> Any:
        """What became of frames."""
        return self.switch.counts

    @property
    def due_ns(self) -> int:
        """When `advance` is next needed; NEVER_NS while nothing waits."""
        line = self.switch.port.line
        if line.in_service_octets != 0:
            return self._start_ns + min(int(line.departure_ns), self.point.tick_ns())
        if self._downstream is not None and line.waiting_mask:
            return self._start_ns + min(self._downstream.resumes_ns, self.point.tick_ns())
        # What ticks at an empty port come to can wait until something arrives.
        return NEVER_NS

    def take(self, batch: Batch, place: int, now_ns: int) -> None:
        """Take the frames that came in at ``place`` by ``now_ns``, which is not before any earlier time."""
        time_ns = self._time(now_ns)
        if place == self.inputs:
            if self.machine.answers:
                batch = with_lower_rates(batch, self._interface, self.place.ethertypes)
            self._obey(batch, time_ns)
        frames = Incoming(batch.buffer, batch.offset, batch.captured, batch.original)
        position, last = 0, False
        while not last:
            position = forward(
                self.switch, self._interface, frames, place, time_ns, time_ns + self._lead_ns, position
            )
            last = position == len(batch)
            self._drain(batch)

    def advance(self, now_ns: int) -> None:
        """Let everything happen that is due by ``now_ns``."""
        self._release(self._time(now_ns) + self._lead_ns)

    def _release(self, until_ns: int) -> None:
        done = False
        while not done:
            done = release(self.switch, self._interface, until_ns)
            self._drain(None)

    def _obey(self, batch: Batch, time_ns: int) -> None:
        """Do what PAUSE and PFC frames say of those that came to the output."""
        if self._downstream is None:
            return
        for frame in self._downstream.heard(batch):
            self._release(time_ns)
            self._downstream.obey(frame, time_ns)

    def _time(self, now_ns: int) -> int:
        """Return the port's own time: what has left early is not to be overtaken."""
        time_ns = max(now_ns - self._start_ns, self._until_ns)
        self._until_ns = time_ns + self._lead_ns
        return time_ns

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return what the port has come to; its queues at this moment and over all the time."""
        gauge = self.switch.port.gauge
        settled(gauge, now_ns - self._start_ns)
        queue = queue_statistics(gauge, TOTAL)
        counters = {name: int(getattr(self.counts, name)) for name in self.counts.dtype.names}
        if self._downstream is not None:
            counters |= self._downstream.counters(now_ns - self._start_ns)
        return Snapshot(
            counters=counters,
            messages=dict(self.messages),
            mechanism=self.machine.counters(self.point),
            warnings=self._downstream.warnings() if self._downstream is not None else (),
            gauges={
                "queue_frames": int(self.switch.pool.stock.used),
                "queue_octets": int(gauge.level_octets[TOTAL]),
                "queue_octet_seconds": float(gauge.octet_ns[TOTAL]) / NS_PER_S,
                "queue_mean_octets": queue.mean_octets,
                "queue_p99_octets": queue.p99_octets,
                "queue_peak_octets": queue.peak_octets,
                "utilisation": utilisation(gauge),
            },
        )

    def _drain(self, batch: Batch | None) -> None:
        """Hand over what leaves, and send what was said."""
        leaving, outbox = self.switch.leaving, self.switch.outbox
        if leaving.used[0]:
            for place, frames in enumerate(leaving.frames.tolist()):
                if frames:
                    offset, length = leaving.offset[place, :frames], leaving.length[place, :frames]
                    self._send(place, leaving.octets, offset, length)
            empty(leaving)
        if outbox.posted.count:
            for message in outbox.messages[: outbox.posted.count]:
                if message.sent:
                    self._say(message, batch)
            outbox.posted.count = 0

    def _say(self, message: Any, batch: Batch | None) -> None:
        cause, station = int(message.cause), int(message.station)
        about = SampledFrame(b"", 0, 0)
        if cause != NO_CAUSE and batch is not None:
            about = self._sampled(batch.select([cause]))
        elif message.kind not in (PAUSE_KIND, PFC_KIND):
            return
        if station == NO_STATION:
            return
        frame = np.frombuffer(octets_of(self.machine, message, about, self.place), np.uint8)
        places = range(self.inputs) if station == EVERY_STATION else (station,)
        for place in places:
            self._send(place, frame, np.zeros(1, np.int64), np.array([len(frame)], np.int64))
        self.messages[kind_name(self.machine, int(message.kind))] += 1

    def _sampled(self, one: Batch) -> SampledFrame:
        classes = classify(one.buffer, one.offset, one.captured, ethertypes=self.place.ethertypes)
        octets = one.frame(0)
        return SampledFrame(octets, len(octets), int(classes.msdu_offset[0]))


def _new_switch(
    machine: Machine,
    facts: PortConfig,
    *,
    inputs: int,
    frames: int,
    largest_octets: int,
    ethertypes: EtherTypes,
) -> Switch:
    fixed = new_record(Facts)
    fixed.own, fixed.tag = int.from_bytes(facts.cp_mac), tag_kind(machine)
    fixed.inputs, fixed.largest_octets, fixed.remembered_ns = inputs, largest_octets, _REMEMBERED_NS
    port = new_port(facts, tag_octets=machine.tag_octets)
    for priority in range(PRIORITIES):
        # No ring is ever full: it has a slot for every frame that there can be.
        while int(port.line.slot_mask[priority]) + 1 < frames:
            lengthen_ring(port, priority)
    return Switch(
        facts=fixed,
        counts=new_record(Counts),
        port=port,
        pauses=new_record(State),
        pool=new_pool(frames),
        store=new_store(frames, largest_octets),
        addresses=new_addresses(_ADDRESSES),
        leaving=new_leaving(inputs + 1, frames=_LEAVING_AT_ONCE, largest_octets=largest_octets),
        outbox=new_outbox(_MESSAGES_AT_ONCE),
        roles=roles_of(ethertypes),
    )
