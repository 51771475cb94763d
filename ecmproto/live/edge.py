"""The edge of a domain beside a receiver, a bump in its wire, in whatever time its caller has.

What comes from the network goes to the host without the mechanism's tags, probes and tags are answered, and
what a QCN domain asks of its edge is done: CND defence modes, LLDP, a backbone's CNMs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.classes import FrameClasses, classify
from ecmproto.batch.flows import FlowTable
from ecmproto.batch.headers import TYPE_AT
from ecmproto.capture.batch import Batch
from ecmproto.codec import CNTag, EtherTypes
from ecmproto.engine.arrivals import Intake, Taken
from ecmproto.engine.config import check_seed
from ecmproto.engine.frames import octets_of
from ecmproto.engine.statistics import kind_name
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.live.defence import Defence
from ecmproto.live.delivering import deliver, report
from ecmproto.live.device import Send, Snapshot
from ecmproto.live.probed import Probes
from ecmproto.live.stripping import stripped
from ecmproto.live.vlan import with_vlan, without_vlan
from ecmproto.mechanisms.aimd.parameters import EdgeParameters as StrippingParameters
from ecmproto.mechanisms.idle import IdleReceivers
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.machine import Machine, Place, SampledFrame
from ecmproto.mechanisms.mechanism import Role
from ecmproto.mechanisms.protocol import Receivers, new_outbox
from ecmproto.mechanisms.qcn.edge import Edge as EdgeRecord
from ecmproto.mechanisms.qcn.edge import convert, receive
from ecmproto.mechanisms.qcn.edge_parameters import EdgeParameters
from ecmproto.record import new_record
from ecmproto.structs import as_interface

NET, HOST = 0, 1
"""The places: where the network is, and where the receiver is."""

LARGEST_STATIONS = 256
LARGEST_FLOWS = 16
"""Senders, and flows of each, that are told apart and answered."""

_MESSAGES_AT_ONCE = 4096
_SHOWN_OCTETS = 256


class Counts:
    """What became of frames."""

    def __init__(self) -> None:
        self.net_frames = self.host_frames = 0
        self.stripped_frames = 0
        self.probes = 0
        """Answered, not handed on."""
        self.consumed_frames = 0
        """LLDP frames, and CNMs for the backbone's edge."""
        self.unanswered = 0
        """Answers to flows of which no frame was kept."""


class Edge:
    """The network at place NET, the receiver behind place HOST.

    ``mac`` is the edge's own address: LLDP says it, and CNMs to it are converted (a backbone's edge).
    ``vlan`` is the control information of a C-TAG for frames from the host that have none, taken off frames
    to it.  With QCN and ``edge.cnpv`` set, defence modes decide about tags and priorities; else all tags end
    here.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        link_rate_bps: int,
        mac: bytes,
        seed: int,
        start_ns: int,
        send: Send,
        port: str = "host",
        vlan: int | None = None,
        ethertypes: EtherTypes = DEFAULT,
    ) -> None:
        check_seed(seed)
        self.machine = machine
        self.counts = Counts()
        self.messages: dict[str, int] = {}
        self.record = new_record(EdgeRecord)
        self.place = Place(
            rate_bps=link_rate_bps,
            link_rate_bps=link_rate_bps,
            cp_mac=mac,
            stations=LARGEST_STATIONS,
            flows=LARGEST_FLOWS,
            ethertypes=ethertypes,
        )
        self.flows = FlowTable(
            machine.flow_key,
            hashed=machine.flow_hash,
            max_stations=LARGEST_STATIONS,
            max_flows=LARGEST_FLOWS,
            ethertypes=ethertypes,
        )
        self._intake = Intake(
            machine, cp_mac=mac, ethertypes=ethertypes, interfaces=(), flows=self.flows, first_time_ns=0
        )
        self._probes = Probes(machine, ethertypes)
        self._start_ns = start_ns
        self._send = send
        self._vlan = vlan
        self.receivers = machine.receivers(self.place, np.random.default_rng(seed))
        self._interface = as_interface(self.receivers, Receivers)
        self._outbox = new_outbox(_MESSAGES_AT_ONCE)
        self._examples: dict[int, bytes] = {}
        own = machine.parameters.get(Role.EDGE)
        self._strips = not isinstance(own, StrippingParameters) or own.strip
        self._parameters = own if isinstance(own, EdgeParameters) else EdgeParameters()
        self.defence: Defence | None = None
        if self._parameters.cnpv:
            self.defence = Defence(self._parameters, mac=mac, port=port, ethertypes=ethertypes)

    @property
    def due_ns(self) -> int:
        """When `advance` is next needed."""
        due_ns = self.receivers.report_ns()
        if self.defence is not None:
            due_ns = min(due_ns, self.defence.due_ns)
        return NEVER_NS if due_ns >= NEVER_NS else self._start_ns + due_ns

    def take(self, batch: Batch, place: int, now_ns: int) -> None:
        """Take the frames that came in at ``place`` by ``now_ns``, which is not before any earlier time."""
        time_ns = now_ns - self._start_ns
        if place == NET:
            self._from_net(batch, time_ns)
        else:
            self._from_host(batch, time_ns)

    def advance(self, now_ns: int) -> None:
        """Let everything happen that is due by ``now_ns``."""
        time_ns = now_ns - self._start_ns
        while self.receivers.report_ns() <= time_ns:
            report(self._interface, time_ns, self._outbox)
            self._answer()
        if self.defence is not None and self.defence.due_ns <= time_ns:
            said = self.defence.due(time_ns)
            if said is not None:
                self._send_one(HOST, said)
                self._send_one(NET, said)

    def _from_net(self, batch: Batch, time_ns: int) -> None:
        self.counts.net_frames += len(batch)
        kept = np.ones(len(batch), np.bool_)
        if not isinstance(self.receivers, IdleReceivers):
            kept = ~self._delivered(batch, time_ns)
        chosen = None
        if self.machine.tag is CNTag:
            where = batch.buffer, batch.offset, batch.captured
            classes = classify(*where, ethertypes=self.place.ethertypes)
            if not classes.sampled.all():
                kept &= ~self._own(batch, classes)
            if self.defence is not None:
                chosen = np.array(self.defence.rules.strips)[classes.priority][kept]
        rest = batch if kept.all() else batch.select(kept)
        if self._strips:
            rest, count = stripped(rest, self.machine, self.place.ethertypes, chosen=chosen)
            self.counts.stripped_frames += count
        if self._vlan is not None:
            rest = without_vlan(rest, self._vlan, self.place.ethertypes)
        self._send_all(HOST, rest)

    def _delivered(self, batch: Batch, time_ns: int) -> NDArray[np.bool_]:
        """Let destinations take and answer what comes to them; return which frames are probes."""
        taken = self._intake.take(batch, time_ns=np.full(len(batch), time_ns))
        self._remember(taken)
        arrivals, probe = self._probes.found(taken, self.flows)
        position = 0
        while position < len(batch):
            position = deliver(self._interface, arrivals, probe, self._outbox, position)
            self._answer()
        self.counts.probes += int(probe.sum())
        return probe

    def _from_host(self, batch: Batch, time_ns: int) -> None:
        self.counts.host_frames += len(batch)
        if self._vlan is not None:
            batch = with_vlan(batch, self._vlan, self.place.ethertypes)
        if self.defence is not None:
            batch = self._defended(batch, self.defence, time_ns)
        self._send_all(NET, batch)

    def _defended(self, batch: Batch, defence: Defence, time_ns: int) -> Batch:
        """Return what the host sent as its port's defence mode has it; LLDP is for the port itself."""
        ethertypes = self.place.ethertypes
        classes = classify(batch.buffer, batch.offset, batch.captured, ethertypes=ethertypes)
        kept = np.ones(len(batch), np.bool_)
        for position in np.flatnonzero(~classes.occupies).tolist():
            octets = batch.frame(position)
            if _is_lldp(octets, ethertypes):
                defence.hear(octets, time_ns)
                kept[position] = False
        self.counts.consumed_frames += int((~kept).sum())
        ruled = np.array(defence.rules.received)[classes.priority] != classes.priority
        if not (ruled & kept).any():
            return batch.select(kept) if not kept.all() else batch
        frames = [
            receive(self.record, defence.rules, batch.frame(i), ethertypes=ethertypes)[0]
            for i in np.flatnonzero(kept).tolist()
        ]
        return Batch.from_frames(frames)

    def _own(self, batch: Batch, classes: FrameClasses) -> NDArray[np.bool_]:
        """Return which frames from the network are for the edge itself: LLDP, and a backbone's CNMs."""
        own = np.zeros(len(batch), np.bool_)
        ethertypes = self.place.ethertypes
        for position in np.flatnonzero(~classes.sampled).tolist():
            octets = batch.frame(position)
            if octets[:6] == self.place.cp_mac:
                own[position] = True
                converted = convert(
                    self.record, self._parameters, octets, self.place.cp_mac, ethertypes=ethertypes
                )
                if converted is not None:
                    self._send_one(HOST, converted)
            elif self.defence is not None and _is_lldp(octets, ethertypes):
                own[position] = True
        self.counts.consumed_frames += int(own.sum())
        return own

    def _remember(self, taken: Taken) -> None:
        """Keep the head of the first frame of each flow: answers are made like it."""
        number = self.flows.numbers(taken.arrivals.station, taken.arrivals.flow)
        for position, flow in enumerate(number.tolist()):
            if flow >= 0 and flow not in self._examples:
                self._examples[flow] = taken.batch.frame(position)[:_SHOWN_OCTETS]

    def _answer(self) -> None:
        """Send what destinations have posted."""
        outbox = self._outbox
        if not outbox.posted.count:
            return
        for message in outbox.messages[: outbox.posted.count]:
            if not message.sent:
                continue
            number = self.flows.numbers(np.array([message.station]), np.array([message.flow]))
            octets = self._examples.get(int(number[0]))
            if octets is None:
                self.counts.unanswered += 1
                continue
            about = SampledFrame(octets, len(octets), 0)
            self._send_one(NET, octets_of(self.machine, message, about, self.place))
            kind = kind_name(self.machine, int(message.kind))
            self.messages[kind] = self.messages.get(kind, 0) + 1
        outbox.posted.count = 0

    def _send_one(self, place: int, octets: bytes) -> None:
        frame = np.frombuffer(octets, np.uint8)
        self._send(place, frame, np.zeros(1, np.int64), np.array([len(frame)]))

    def _send_all(self, place: int, batch: Batch) -> None:
        if len(batch):
            self._send(place, batch.buffer, batch.offset, batch.captured)

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return what the edge has come to."""
        counters = {name: int(value) for name, value in vars(self.counts).items()}
        warnings = self.defence.warnings if self.defence is not None else ()
        mechanism = self.machine.counters(self.receivers)
        if self.machine.tag is CNTag:
            record: Any = self.record
            mechanism |= {name: int(record[name]) for name in record.dtype.names}
        if self.defence is not None:
            counters |= {
                "lldp_frames": self.defence.heard,
                "lldp_malformed": self.defence.malformed,
                "lldp_speaker_changes": self.defence.speaker_changes,
                "mode_changes": self.defence.changes,
            }
        return Snapshot(
            counters=counters, messages=dict(self.messages), mechanism=mechanism, warnings=warnings
        )


def _is_lldp(octets: bytes, ethertypes: EtherTypes) -> bool:
    return octets[TYPE_AT : TYPE_AT + 2] == ethertypes.lldp.to_bytes(2)
