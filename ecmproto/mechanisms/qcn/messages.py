"""What a station makes of a CNM that it receives (wire-formats 3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ecmproto.codec import CNM, CNTag, Ethernet, EtherTypes, Frame, ITag, decode_lax
from ecmproto.formats.cn import MAX_MSDU
from ecmproto.formats.ethertypes import DEFAULT

_GROUP_BIT = 0x01


class CNMFeedback(NamedTuple):
    """What the reaction point algorithm takes from a CNM, named as on the wire.

    The key of the limiter is (``encap_prio``, ``flow_id``).  CPID, cnmQOffset and cnmQDelta are not used
    by it (S001).
    """

    flow_id: int
    encap_prio: int
    qntz_fb: int


class Discard(Enum):
    """Why a frame is no CNM to act on; the value is the name of its counter in :class:`CNMReceiver`."""

    NOT_A_CNM = "not_cnms"
    GROUP_ADDRESS = "group_cnms"
    FOREIGN_ADDRESS = "foreign_cnms"
    SHORT_PDU = "short_cnms"
    """Fewer than 24 octets after the EtherType, or fewer captured."""
    MSDU_TOO_LONG = "long_msdu_cnms"
    """Encapsulated MSDU length above 64."""
    MSDU_NOT_PRESENT = "lying_msdu_cnms"
    """Encapsulated MSDU length above the octets that follow it."""


class CNMReceiver:
    """Counters of what was received; a record (``ecmproto.record``)."""

    taken_cnms: int
    not_cnms: int
    group_cnms: int
    foreign_cnms: int
    short_cnms: int
    long_msdu_cnms: int
    lying_msdu_cnms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedCNM:
    """A CNM that a receiver takes: what the algorithm needs of it, and the whole frame."""

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
    """Return the CNM in ``octets`` if the station ``own_mac`` is to act on it, else why not; count either.

    ``octets`` start at the DA and have no FCS; ``length_octets`` is their number on the wire where a snap
    length may have cut them.  Any Version is read as 0, and a frame without CN-TAG is about flow 0.
    Quantized Feedback 0 is taken: it is the reaction point that counts and ignores it.
    """
    frame = decode_lax(octets, original_octets=length_octets, ethertypes=ethertypes)
    cnm = frame.get(CNM)
    reason = _discard(frame, cnm, own_mac)
    if reason is not None or cnm is None:
        reason = reason or Discard.NOT_A_CNM
        _add(receiver, reason.value)
        return reason
    _add(receiver, "taken_cnms")
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
    """Return whether the headers lead to a CNM, even if it is too short to be read.

    One behind an I-TAG is a customer's on its way through a backbone, and not for whom the frame is for.
    """
    announcing = [layer for layer in frame.layers if layer.next_key]
    if not announcing or ITag in frame:
        return False
    return bool(getattr(announcing[-1], announcing[-1].next_key) == frame.ethertypes.cnm)


def _add(receiver: CNMReceiver, counter: str) -> None:
    setattr(receiver, counter, getattr(receiver, counter) + 1)
