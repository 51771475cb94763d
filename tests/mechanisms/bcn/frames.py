"""BCN's single frames, from feedback and to fields."""

from __future__ import annotations

from collections.abc import Collection

from ecmproto.control.mechanisms.api.machine import MessageDiscards
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.bcn.congestion_point import (
    KIND_OF_TYPE,
    BCNFeedback,
    BCNPointState,
    capacity_kbps,
)
from ecmproto.control.mechanisms.bcn.machine import BCNMachine
from ecmproto.control.mechanisms.bcn.parameters import (
    BCNCongestionPointParameters,
    BCNReactionPointParameters,
)
from ecmproto.control.mechanisms.bcn.reaction_point import BCNFields
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.mechanisms.aimd.flow import Flow
from tests.mechanisms.aimd.frames import Frames

FRAMES = Frames(BCNMachine)
tag_cpid, tagged, untagged = FRAMES.tag_cpid, FRAMES.tagged, FRAMES.untagged


def bcn_message(
    sampled: bytes,
    feedback: BCNFeedback,
    *,
    capacity_bps: int,
    state: BCNPointState,
    cp_mac: bytes,
    parameters: BCNCongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """The BCN message that answers a sampled frame; None, counted, if none may be sent."""
    fields = {
        "kind": feedback.kind + KIND_OF_TYPE,
        "cpid": state.cpid,
        "e": feedback.e,
        "capacity": capacity_kbps(capacity_bps),
    }
    roles = {Role.CONGESTION_POINT: parameters, Role.REACTION_POINT: BCNReactionPointParameters()}
    return FRAMES.answer(
        sampled, fields, counts=state, cp_mac=cp_mac, parameters=roles, ethertypes=ethertypes
    )


def read(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: MessageDiscards,
    parameters: BCNReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[BCNFields, Flow] | None:
    """Return the fields of a received BCN message and the flow of the message, or count the message and
    return None.
    """
    roles = {Role.CONGESTION_POINT: BCNCongestionPointParameters(), Role.REACTION_POINT: parameters}
    found = FRAMES.read(octets, stations=stations, point=point, parameters=roles, ethertypes=ethertypes)
    if found is None:
        return None
    fields, flow = found
    return BCNFields(type=fields.pop("kind") - KIND_OF_TYPE, **fields), flow
