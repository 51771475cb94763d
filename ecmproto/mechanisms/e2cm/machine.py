"""E²CM as replay, laboratory and live drive it (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec import CMTag
from ecmproto.formats.e2cm import BCN_TYPES, PROBE_FWD, PROBE_REV
from ecmproto.mechanisms.aimd.envelope import Refusals
from ecmproto.mechanisms.aimd.stations import about_flow, flow_hash_of, flow_key_of, rtt_gauges
from ecmproto.mechanisms.aimd.tags import headers, outer_vlan
from ecmproto.mechanisms.e2cm.congestion_point import Feedback
from ecmproto.mechanisms.e2cm.edge_receiver import ProbeReply
from ecmproto.mechanisms.e2cm.messages import PROTOCOL, e2cm_frame, open_message, type_of
from ecmproto.mechanisms.e2cm.parameters import CongestionPointParameters, EdgeParameters
from ecmproto.mechanisms.e2cm.probes import (
    Probe,
    probe_frame,
    probe_reply,
    probed_flow_of,
    read_reply,
    replied_priority,
)
from ecmproto.mechanisms.e2cm.reaction_parameters import ReactionPointParameters
from ecmproto.mechanisms.e2cm.receivers import REPLY_KIND, Destinations, new_destinations
from ecmproto.mechanisms.e2cm.stations import TAG_OCTETS, UNIT_SHIFT, Stations, new_stations, set_flight
from ecmproto.mechanisms.e2cm.switch import BCN_KIND, BCN_MAX_KIND, BCN_ZERO_KIND, Points, new_points
from ecmproto.mechanisms.machine import (
    UNKNOWN_NS,
    AboutFlow,
    Heard,
    Machine,
    Place,
    SampledFrame,
    total,
)
from ecmproto.mechanisms.mechanism import Role
from ecmproto.mechanisms.protocol import PROBE_KIND, CongestionPoint, Message, Receivers, Senders


class HeardCounters(Refusals):
    """What became of messages that came as frames; a record."""

    forward_probes: int
    """For a destination, not a reaction point."""
    lying_replies: int
    """With a flow id that the station has no flow for, whatever it sends."""


class E2CMMachine(Machine):
    """E²CM with its parameters set."""

    tag = CMTag
    tag_octets = TAG_OCTETS
    tag_protocol = PROTOCOL
    kinds = MappingProxyType(
        {
            BCN_KIND: "BCN",
            BCN_MAX_KIND: "BCN_MAX",
            BCN_ZERO_KIND: "BCN_ZERO",
            REPLY_KIND: "BCN_PROBE_REV",
            PROBE_KIND: "BCN_PROBE_FWD",
        }
    )
    answers = frozenset({REPLY_KIND})
    feedback_label = "Fb"
    refusal_record = HeardCounters

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._cp: CongestionPointParameters = parameters[Role.CONGESTION_POINT]
        self._rp: ReactionPointParameters = parameters[Role.REACTION_POINT]
        self._edge: EdgeParameters = parameters[Role.EDGE]
        self.set_point_octets = self._cp.qeq_octets
        self.flow_key = flow_key_of(self._rp)
        self.flow_hash = flow_hash_of(self._rp)

    def congestion_point(self, place: Place, generator: np.random.Generator) -> CongestionPoint:
        """Return one congestion point for each enabled priority."""
        return new_points(self._cp, place, generator)

    def senders(self, place: Place, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters."""
        stations = new_stations(self._rp, place, generator)
        if place.flight_ns != UNKNOWN_NS:
            set_flight(stations, place.flight_ns)
        return stations

    def receivers(self, place: Place, generator: np.random.Generator) -> Receivers:
        """Return edge receivers that no probe has come to."""
        return new_destinations(self._edge, place)

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Return the message of a congestion point, the probe or its reply.

        Raises ValueError for another kind, and for a message that ``about``'s source may not get.
        """
        if message.kind == PROBE_KIND:
            return probe_frame(
                about.octets,
                timestamp_ns=int(message.latency),
                parameters=self._rp,
                ethertypes=place.ethertypes,
            )
        if message.kind == REPLY_KIND:
            return self._reply(message, about, place)
        if BCN_KIND <= message.kind <= BCN_ZERO_KIND:
            return self._feedback(message, about, place)
        raise ValueError(f"E²CM sends no message of kind {message.kind}")

    def _feedback(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        feedback = Feedback(
            kind=int(message.kind),
            qoff_octets=int(message.qoff_octets),
            qdelta_octets=int(message.qdelta_octets),
            q_off=int(message.q_off),
            q_delta=int(message.q_delta),
            q=int(message.q),
        )
        octets = e2cm_frame(
            about.octets,
            feedback,
            cpid=int(message.cpid),
            cp_mac=place.cp_mac,
            parameters=self._cp,
            ethertypes=place.ethertypes,
        )
        if octets is None:
            raise ValueError("the source of the sampled frame takes no messages")
        return octets

    def _reply(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        flow, ethertypes = probed_flow_of(about.octets, place.ethertypes), place.ethertypes
        # What a reply takes from its probe, the probe took from the data frame.
        probe = Probe(flow, 0, headers(about.octets, ethertypes))
        measured = ProbeReply(int(message.latency), int(message.throughput))
        return probe_reply(probe, measured, parameters=self._edge, ethertypes=ethertypes)

    def heard(
        self,
        octets: bytes,
        station_mac: bytes,
        place: Place,
        refusals: HeardCounters,
        *,
        length_octets: int | None = None,
    ) -> Heard | None:
        """Return what a congestion point's message says, or a probe's reply."""
        type = type_of(octets, place.ethertypes, length_octets=length_octets)
        if type == PROBE_FWD:
            refusals.forward_probes += 1
            return None
        if type == PROBE_REV:
            return self._heard_reply(octets, station_mac, place, refusals, length_octets)
        found = open_message(
            octets,
            stations=(station_mac,),
            point=refusals,
            parameters=self._rp,
            length_octets=length_octets,
            ethertypes=place.ethertypes,
        )
        if found is None:
            return None
        fields = found.fields._asdict()
        fields["kind"] = BCN_KIND + BCN_TYPES.index(fields.pop("type"))
        fields["priority"] = found.flow.priority
        fields["tagged"] = int(found.fields.tagged)
        return Heard(fields, about_flow(found.sampled))

    def _heard_reply(
        self,
        octets: bytes,
        station_mac: bytes,
        place: Place,
        refusals: HeardCounters,
        length_octets: int | None,
    ) -> Heard | None:
        reply = read_reply(
            octets,
            stations=(station_mac,),
            counters=refusals,
            length_octets=length_octets,
            ethertypes=place.ethertypes,
        )
        if reply is None:
            return None
        about, priority = None, replied_priority(octets, reply.flow, place.ethertypes)
        if priority is None:
            refusals.lying_replies += 1
        else:
            vlan = outer_vlan(headers(octets, place.ethertypes))
            about = AboutFlow(reply.flow.dst, None if vlan is None else vlan.id, priority)
        fields = {
            "kind": REPLY_KIND,
            "priority": priority or 0,
            "latency": reply.latency_ns,
            "throughput": reply.throughput_kbps,
        }
        return Heard(fields, about)

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> dict[str, Any]:
        """Return the CM-Tags' CPIDs, timestamps and units."""
        return {
            "cpid": tag.astype(np.int64).view(np.uint64),
            "timestamp": mark & 0xFFFF,
            "unit": mark >> UNIT_SHIFT,
        }

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return what one of the machines has counted; replies' own limiters as ``allocated_by_replies``."""
        if isinstance(machine, Points):
            return total(
                machine.meters, "samples", "regular", "saturated", "severe", "balanced", "unassociated",
                "truncated", "withheld", "unanswerable",
            )  # fmt: skip
        if isinstance(machine, Stations):
            return _stations_counters(machine)
        if isinstance(machine, Destinations):
            return total(machine.edge, "probes", "unmeasured_probes") | {"flows": int(machine.edge.taken)}
        return {}

    def gauges(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, float]:
        """Return the reaction points' average round-trip time."""
        return rtt_gauges(machine.slots) if isinstance(machine, Stations) else {}


def _stations_counters(stations: Stations) -> dict[str, int]:
    heeded = total(
        stations.points, "messages", "allocated", "decreased", "increased", "stopped", "neutral",
        "in_time_out", "unassociated", "unlimited", "unknown_flow", "disabled", "time_outs", "restarts",
        "coarse_allocated", "released", "floored", "capped", "saturated", "replaced_tags",
    )  # fmt: skip
    probed = total(
        stations.counters, "probes", "reactions", "unknown_replies", "idle_replies", "first_replies",
        "unmeasured_replies", "held_replies",
    )  # fmt: skip
    return heeded | probed | {"allocated_by_replies": total(stations.counters, "allocated")["allocated"]}
