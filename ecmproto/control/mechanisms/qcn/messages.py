"""Functions that create and parse CNMs of QCN (wire-formats 1.2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ecmproto.control.mechanisms.api.frames import framed, headers
from ecmproto.control.mechanisms.api.machine import SampledFrame
from ecmproto.control.mechanisms.qcn.parameters import QCNCongestionPointParameters
from ecmproto.control.mechanisms.qcn.reaction_point import CNMFeedback
from ecmproto.units import queue_units
from ecmproto.wire.codec import CNM, CNTag, Ethernet, EtherTypes, Frame, ITag, decode_lax
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.formats.cn import MAX_MSDU
from ecmproto.wire.formats.ethertypes import DEFAULT, MAX_LENGTH

_GROUP_BIT = 0x01
TAG = TagFormat(format=CNTag, tag="flow_id")


class Discard(Enum):
    """Reason to discard a frame; each value is the name of a counter in :class:`CNMReceiver`."""

    NOT_A_CNM = "not_cnms"
    GROUP_ADDRESS = "group_cnms"
    FOREIGN_ADDRESS = "foreign_cnms"
    SHORT_PDU = "short_cnms"
    """Fewer than 24 octets after the EtherType, or fewer than 24 captured octets."""
    MSDU_TOO_LONG = "long_msdu_cnms"
    """Encapsulated MSDU length above 64."""
    MSDU_NOT_PRESENT = "lying_msdu_cnms"
    """Encapsulated MSDU length above the number of remaining octets."""


class CNMReceiver:
    """Record of the counters of received frames (``kernels.record``)."""

    taken_cnms: int
    not_cnms: int
    group_cnms: int
    foreign_cnms: int
    short_cnms: int
    long_msdu_cnms: int
    lying_msdu_cnms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedCNM:
    """A CNM accepted by a receiver, with the fields for the reaction point and the complete frame."""

    feedback: CNMFeedback
    frame: Frame


def read_cnm(
    receiver: CNMReceiver,
    octets: bytes,
    own_mac: bytes,
    *,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> ReceivedCNM | Discard:
    """Return the CNM in ``octets`` for the station ``own_mac``, or the reason to discard the frame.

    The function counts the frame in both cases. ``octets`` start at the DA and have no FCS. ``length_octets``
    is the frame length on the wire, for a frame that a snap length may have truncated. The Version field is
    ignored, and a frame without CN-TAG is about flow 0. A Quantized Feedback of 0 is accepted here, and
    ignored and counted by the reaction point.
    """
    frame = decode_lax(octets, original_octets=length_octets, ethertypes=ethertypes)
    cnm = frame.get(CNM)
    reason = _discard(frame, cnm, own_mac)
    if reason is not None or cnm is None:
        reason = reason or Discard.NOT_A_CNM
        setattr(receiver, reason.value, getattr(receiver, reason.value) + 1)
        return reason
    receiver.taken_cnms += 1
    tag = frame.get(CNTag)
    flow_id = 0 if tag is None else tag.flow_id
    return ReceivedCNM(feedback=CNMFeedback(flow_id, cnm.encap_prio, cnm.qntz_fb), frame=frame)


def _discard(frame: Frame, cnm: CNM | None, own_mac: bytes) -> Discard | None:
    if not _announces_cnm(frame):
        return Discard.NOT_A_CNM
    destination = frame[Ethernet].dst
    if destination[0] & _GROUP_BIT:
        return Discard.GROUP_ADDRESS
    if destination != own_mac:
        return Discard.FOREIGN_ADDRESS
    if cnm is None:
        return Discard.SHORT_PDU
    if cnm.msdu_length > MAX_MSDU:
        return Discard.MSDU_TOO_LONG
    return Discard.MSDU_NOT_PRESENT if frame.error is not None else None


def _announces_cnm(frame: Frame) -> bool:
    """Return whether the headers announce a CNM, even if the CNM is truncated.

    A CNM after an I-TAG is for a customer of the backbone, and not for the receiver of the frame.
    """
    announcing = [layer for layer in frame.layers if layer.next_key]
    if not announcing or ITag in frame:
        return False
    return bool(getattr(announcing[-1], announcing[-1].next_key) == frame.ethertypes.cnm)


_INT16 = (-(2**15), 2**15 - 1)
_TYPE_OCTETS = 2


def notification(
    sampled: SampledFrame,
    *,
    priority: int,
    qntz_fb: int,
    qoff_octets: int,
    qdelta_octets: int,
    cpid: int,
    cp_mac: bytes,
    parameters: QCNCongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return the CNM that answers ``sampled`` as a frame, padded to 60 octets, without FCS.

    ``sampled`` has at least a complete Ethernet header, and ``priority`` is the priority of its queue.
    ``qoff_octets`` is Qlen − Qeq at the congestion point, and the CNM contains the value with the opposite
    sign. The caller decides whether to send a CNM.
    """
    like = headers(sampled.octets[: sampled.msdu_offset], ethertypes)
    msdu = _msdu(sampled, parameters.msdu_limit_octets)
    message = CNM(
        qntz_fb=qntz_fb,
        cpid=cpid,
        q_offset=_field_units(-qoff_octets),
        q_delta=_field_units(qdelta_octets),
        encap_prio=priority,
        encap_dst=sampled.octets[:6],
        msdu_length=len(msdu),
        msdu=msdu,
    )
    return framed(
        (like.get(CNTag) or CNTag(flow_id=0)).replace(etype=ethertypes.cnm),
        like,
        dst=sampled.octets[6:12],
        src=cp_mac,
        priority=parameters.cnm_priority,
        following=(message,),
        ethertypes=ethertypes,
    )


def _msdu(sampled: SampledFrame, limit_octets: int) -> bytes:
    start = sampled.msdu_offset
    type_or_length = int.from_bytes(sampled.octets[start : start + _TYPE_OCTETS])
    stop = min(start + limit_octets, sampled.length_octets)
    if type_or_length <= MAX_LENGTH:
        # Octets after the length are padding (802.3 3.2.6).
        stop = min(stop, start + _TYPE_OCTETS + type_or_length)
    return sampled.octets[start:stop]


def _field_units(octets: int) -> int:
    minimum, maximum = _INT16
    return max(minimum, min(maximum, queue_units(octets)))
