"""ECM's single frames, from feedback and to fields."""

from __future__ import annotations

from collections.abc import Collection

from ecmproto.control.mechanisms.api.machine import MessageDiscards
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.ecm.congestion_point import ECMFeedback, ECMPointState
from ecmproto.control.mechanisms.ecm.machine import ECMMachine
from ecmproto.control.mechanisms.ecm.parameters import (
    ECMCongestionPointParameters,
    ECMReactionPointParameters,
)
from ecmproto.control.mechanisms.ecm.reaction_point import ECMFields
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.mechanisms.aimd.flow import Flow
from tests.mechanisms.aimd.frames import Frames

FRAMES = Frames(ECMMachine)
tag_cpid, tagged, untagged = FRAMES.tag_cpid, FRAMES.tagged, FRAMES.untagged


def ecm_frame(
    sampled: bytes,
    feedback: ECMFeedback,
    *,
    state: ECMPointState,
    cp_mac: bytes,
    parameters: ECMCongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """The ECM frame that answers a sampled frame, with its CM-Tag's timestamp; None, counted, if none may."""
    tag = FRAMES.tag(sampled, ethertypes)
    fields = {
        "kind": feedback.kind,
        "cpid": state.cpid,
        **{name: getattr(feedback, name) for name in ("q_off", "q_delta", "q")},
        **{name: 0 if tag is None else getattr(tag, name) for name in ("timestamp", "unit")},
    }
    roles = {Role.CONGESTION_POINT: parameters, Role.REACTION_POINT: ECMReactionPointParameters()}
    return FRAMES.answer(
        sampled, fields, counts=state, cp_mac=cp_mac, parameters=roles, ethertypes=ethertypes
    )


def read(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: MessageDiscards,
    parameters: ECMReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[ECMFields, Flow] | None:
    """Return the fields of a received ECM frame and the flow of the frame, or count the frame and return
    None.
    """
    roles = {Role.CONGESTION_POINT: ECMCongestionPointParameters(), Role.REACTION_POINT: parameters}
    found = FRAMES.read(octets, stations=stations, point=point, parameters=roles, ethertypes=ethertypes)
    if found is None:
        return None
    fields, flow = found
    del fields["kind"]
    return ECMFields(tagged=fields.pop("tagged") == 1, **fields), flow
