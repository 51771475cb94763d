"""E²CM's single frames of congestion points, from feedback and to fields."""

from __future__ import annotations

from collections.abc import Collection

from ecmproto.control.mechanisms.api.machine import MessageDiscards
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.e2cm.congestion_point import BCN_KIND, E2CMPointState
from ecmproto.control.mechanisms.e2cm.machine import E2CMMachine
from ecmproto.control.mechanisms.e2cm.parameters import (
    E2CMCongestionPointParameters,
    E2CMEdgeParameters,
    E2CMReactionPointParameters,
)
from ecmproto.control.mechanisms.ecm.congestion_point import ECMFeedback
from ecmproto.control.mechanisms.ecm.reaction_point import ECMFields
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.formats.e2cm import BCN_TYPES
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.mechanisms.aimd.flow import Flow
from tests.mechanisms.aimd.frames import Frames

FRAMES = Frames(E2CMMachine)
tag_cpid, tagged, untagged = FRAMES.tag_cpid, FRAMES.tagged, FRAMES.untagged


def e2cm_message(
    sampled: bytes,
    feedback: ECMFeedback,
    *,
    meter: E2CMPointState,
    cp_mac: bytes,
    parameters: E2CMCongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """The message that answers a sampled frame; None, counted, if none may be sent."""
    fields = {
        "kind": feedback.kind,
        "cpid": meter.cpid,
        **{name: getattr(feedback, name) for name in ("q_off", "q_delta", "q")},
    }
    roles = {
        Role.CONGESTION_POINT: parameters,
        Role.REACTION_POINT: E2CMReactionPointParameters(),
        Role.EDGE: E2CMEdgeParameters(),
    }
    return FRAMES.answer(
        sampled, fields, counts=meter, cp_mac=cp_mac, parameters=roles, ethertypes=ethertypes
    )


def read(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: MessageDiscards,
    parameters: E2CMReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[ECMFields, Flow] | None:
    """Return the fields of a received message and the flow of the message, or count the message and return
    None.
    """
    roles = {
        Role.CONGESTION_POINT: E2CMCongestionPointParameters(),
        Role.REACTION_POINT: parameters,
        Role.EDGE: E2CMEdgeParameters(),
    }
    found = FRAMES.read(octets, stations=stations, point=point, parameters=roles, ethertypes=ethertypes)
    if found is None:
        return None
    fields, flow = found
    type = BCN_TYPES[fields.pop("kind") - BCN_KIND]
    return ECMFields(type=type, tagged=fields.pop("tagged") == 1, **fields), flow
