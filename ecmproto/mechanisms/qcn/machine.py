"""QCN as replay, laboratory and live drive it (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec import CNM, CNTag
from ecmproto.formats.text import cpid
from ecmproto.kernel import expanded
from ecmproto.mechanisms.aimd.tags import outer_vlan
from ecmproto.mechanisms.cpid import signed_cpid
from ecmproto.mechanisms.limiter import NEVER_NS, leaves_ns
from ecmproto.mechanisms.machine import AboutFlow, FlowKey, Heard, Machine, Place, SampledFrame, total
from ecmproto.mechanisms.mechanism import Role
from ecmproto.mechanisms.protocol import (
    NO_AVERAGE,
    NO_LIMITER,
    SILENT,
    Arrival,
    CongestionPoint,
    Departure,
    Message,
    Outbox,
    Receivers,
    Senders,
    Sent,
    post,
)
from ecmproto.mechanisms.qcn import congestion_point as cp
from ecmproto.mechanisms.qcn import reaction_point as rp
from ecmproto.mechanisms.qcn.congestion_point import count, sample, start
from ecmproto.mechanisms.qcn.messages import CNMFeedback, CNMReceiver, Discard, read_cnm
from ecmproto.mechanisms.qcn.notification import SampledFrame as NotifiedFrame
from ecmproto.mechanisms.qcn.notification import notification
from ecmproto.mechanisms.qcn.parameters import WEIGHT_DENOMINATOR, CongestionPointParameters
from ecmproto.mechanisms.qcn.reaction_parameters import ReactionPointParameters
from ecmproto.mechanisms.qcn.reaction_point import (
    Flow,
    Limiter,
    Limiters,
    Point,
    depart,
    join,
    next_timer_ns,
    on_timer,
    receive,
    route,
)
from ecmproto.record import columns, new_records
from ecmproto.structs import Draws, Struct
from ecmproto.units import QUEUE_UNIT_OCTETS

CNM_KIND = 1
PRIORITIES = 8
TAG_OCTETS = 4
"""What a CN-TAG adds to a frame."""
LAST_FLOW_ID = 0xFFFF
"""Flow ids that a station gives count down from here: those that frames bring along usually count up."""


class Points(Struct):
    """The congestion points of a port, one a CN priority."""

    states: Sequence[cp.State]
    has_point: NDArray[np.bool_]
    without_cn_tag: bool
    """Whether a frame without CN-TAG is answered."""
    settings: cp.Settings
    generator: Draws

    def arrived(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count an enqueued frame; post a CNM, or a silent sample, if it was sampled."""
        priority = arrival.priority
        if not (arrival.enqueued and arrival.sampled and self.has_point[priority]):
            return
        if not count(self.states[priority], arrival.octets):
            return
        found = sample(self.states[priority], self.settings, self.generator, arrival.qlen_octets)
        kind = CNM_KIND if found.qntz_fb > 0 else SILENT
        message = post(outbox, kind, arrival.now_ns, arrival.station, arrival.flow, priority)
        message.qlen_octets = arrival.qlen_octets
        message.qoff_octets = found.qoff_octets
        message.qdelta_octets = found.qdelta_octets
        message.fb_octets = found.fb_1024 / WEIGHT_DENOMINATOR
        message.qntz_fb = found.qntz_fb
        if not (arrival.answerable and (arrival.tagged or self.without_cn_tag)):
            message.sent = 0

    def forwarded(self, priority: int, tag: int) -> int:
        """Return the CN-TAG as it came."""
        return tag

    def left(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Do nothing: departures are none of its business."""

    def tick_ns(self) -> int:
        """Return NEVER_NS: it has no timers."""
        return NEVER_NS

    def tick(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Do nothing."""


class Stations(Struct):
    """The reaction points of stations, their records one station after the other."""

    points: Sequence[Point]
    slots: Sequence[Limiter]
    flows: Sequence[Flow]
    slots_each: int
    flows_each: int
    has_point: NDArray[np.bool_]
    """By priority: whether frames get a CN-TAG."""
    settings: rp.Settings
    generator: Draws

    def limiters(self) -> int:
        """Return how many limiters a station has, the shared one included."""
        return self.slots_each

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the limiter of ``flow``."""
        return route(_limiters(self, station), flow)

    def join(self, station: int, limiter: int) -> None:
        """Take note that a frame queues behind ``limiter``."""
        join(_limiters(self, station), limiter)

    def leaves_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return when the head of the queue may leave."""
        return leaves_ns(self.slots[station * self.slots_each + limiter], now_ns)

    def sent(self, departure: Departure, outbox: Outbox) -> Sent:
        """Give a frame of a CN priority its CN-TAG, and let the limiter count it with that."""
        added, tagged, tag = 0, departure.tagged, departure.tag
        if not tagged and self.has_point[departure.priority]:
            added, tagged, tag = TAG_OCTETS, True, LAST_FLOW_ID - departure.flow
        if departure.limiter != NO_LIMITER:
            octets = departure.octets + added
            limiters = _limiters(self, departure.station)
            depart(limiters, self.settings, self.generator, departure.limiter, departure.now_ns, octets)
        return Sent(tagged, tag, 0, added)

    def heed(self, message: Message, now_ns: int) -> None:
        """React to a CNM."""
        feedback = CNMFeedback(0, message.priority, message.qntz_fb)
        limiters = _limiters(self, message.station)
        receive(limiters, self.settings, self.generator, feedback, message.flow, now_ns)

    def timer_ns(self, station: int) -> int:
        """Return when the first timer of the station's limiters is due."""
        return next_timer_ns(_limiters(self, station))

    def expire(self, station: int, now_ns: int) -> None:
        """Let the timers that are due expire."""
        on_timer(_limiters(self, station), self.settings, self.generator, now_ns)

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the limiter's current rate."""
        return self.slots[station * self.slots_each + limiter].rate_bps

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return NO_AVERAGE: QCN measures no round-trip time."""
        return NO_AVERAGE


@expanded
def _limiters(stations: Stations, station: int) -> Limiters:
    slot, flow = station * stations.slots_each, station * stations.flows_each
    return Limiters(
        stations.points[station],
        stations.slots[slot : slot + stations.slots_each],
        stations.flows[flow : flow + stations.flows_each],
    )


class QCNMachine(Machine):
    """QCN with its parameters set."""

    flow_key = FlowKey(vlan=True, dst=True, priority=True, cn_tag=True)
    tag = CNTag
    tag_octets = TAG_OCTETS
    kinds = MappingProxyType({CNM_KIND: "CNM"})
    feedback_label = "Fb"
    refusal_record = CNMReceiver

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._cp: CongestionPointParameters = parameters[Role.CONGESTION_POINT]
        self._rp: ReactionPointParameters = parameters[Role.REACTION_POINT]
        self.set_point_octets = self._cp.qeq_octets
        self._has_point = np.isin(np.arange(PRIORITIES), list(self._cp.cnpv))

    def congestion_point(self, place: Place, generator: np.random.Generator) -> CongestionPoint:
        """Return one congestion point for each CN priority."""
        states = new_records(cp.State, PRIORITIES)
        settings, draws = cp.settings_record(self._cp), Draws(generator)
        for priority in sorted(self._cp.cnpv):
            start(states[priority], settings, draws)
        return Points(states, self._has_point, self._cp.cnm_without_cn_tag, settings, draws)

    def senders(self, place: Place, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters."""
        settings = rp.settings_record(self._rp, link_rate_bps=place.link_rate_bps)
        one = rp.new_reaction_point(self._rp, flows=place.flows)
        slots = new_records(Limiter, place.stations * len(one.slots))
        columns(slots)[:] = np.tile(columns(one.slots), place.stations)
        points = new_records(Point, place.stations)
        columns(points)[:] = np.asarray(one.point)
        flows = new_records(Flow, place.stations * place.flows)
        return Stations(
            points, slots, flows, len(one.slots), place.flows, self._has_point, settings, Draws(generator)
        )

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Return the CNM."""
        return notification(
            NotifiedFrame(
                octets=about.octets,
                length_octets=about.length_octets,
                msdu_offset=about.msdu_offset,
                priority=message.priority,
            ),
            qntz_fb=message.qntz_fb,
            qoff_octets=message.qoff_octets,
            qdelta_octets=message.qdelta_octets,
            cpid=cpid(place.cp_mac, int(message.priority) + 1),
            cp_mac=place.cp_mac,
            parameters=self._cp,
            ethertypes=place.ethertypes,
        )

    def heard(
        self,
        octets: bytes,
        station_mac: bytes,
        place: Place,
        refusals: CNMReceiver,
        *,
        length_octets: int | None = None,
    ) -> Heard | None:
        """Return what a CNM says; its queue lengths in octets, as exactly as it tells them."""
        found = read_cnm(
            refusals, octets, station_mac, length_octets=length_octets, ethertypes=place.ethertypes
        )
        if isinstance(found, Discard):
            return None
        feedback, cnm, vlan = found.feedback, found.frame[CNM], outer_vlan(found.frame)
        about = AboutFlow(
            destination=cnm.encap_dst,
            vlan=None if vlan is None else vlan.id,
            priority=feedback.encap_prio,
            cn_flow=feedback.flow_id,
            # Flow ID 0 also stands for frames without CN-TAG.
            given=LAST_FLOW_ID - feedback.flow_id if feedback.flow_id else None,
        )
        fields = {
            "kind": CNM_KIND,
            "priority": feedback.encap_prio,
            "cpid": signed_cpid(cnm.cpid),
            "qntz_fb": feedback.qntz_fb,
            "qoff_octets": -QUEUE_UNIT_OCTETS * cnm.q_offset,
            "qdelta_octets": QUEUE_UNIT_OCTETS * cnm.q_delta,
        }
        return Heard(fields, about)

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> dict[str, Any]:
        """Return the CN-TAGs' Flow IDs."""
        return {"flow_id": tag}

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return what the reaction points have counted."""
        if not isinstance(machine, Stations):
            return {}
        return total(
            machine.points, "messages", "decreased", "without_feedback", "unknown_flow", "created",
            "released", "sharing", "byte_expiries", "time_expiries",
        )  # fmt: skip
