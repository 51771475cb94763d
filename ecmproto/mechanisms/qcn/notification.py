"""The congestion notification message for a sampled frame (wire-formats 1.2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ecmproto.codec import CNM, VLAN, CNTag, Ethernet, EtherTypes, Frame, STag, decode_lax, encode
from ecmproto.codec.frame import MIN_OCTETS
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import DEFAULT, MAX_LENGTH
from ecmproto.mechanisms.qcn.parameters import CongestionPointParameters
from ecmproto.units import queue_units

_INT16 = (-(2**15), 2**15 - 1)
_TYPE_OCTETS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledFrame:
    """A sampled frame as far as a CNM is concerned.

    ``octets``: what was captured of it from its DA on, its whole Ethernet header at least; ``length_octets``:
    on the wire; both without FCS.  ``msdu_offset``: where its payload EtherType or length stands.
    ``priority``: of its queue.
    """

    octets: bytes
    length_octets: int
    msdu_offset: int
    priority: int


def notification(
    sampled: SampledFrame,
    *,
    qntz_fb: int,
    qoff_octets: int,
    qdelta_octets: int,
    cpid: int,
    cp_mac: bytes,
    parameters: CongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return the octets of the CNM that answers ``sampled``, padded to 60, without FCS.

    ``qoff_octets`` is Qlen − Qeq as the congestion point has it; the message carries its opposite.
    Whether a CNM is to be sent at all is the caller's to know.
    """
    header = sampled.octets[: sampled.msdu_offset + _TYPE_OCTETS].ljust(
        sampled.msdu_offset + _TYPE_OCTETS, b"\0"
    )
    layers = decode_lax(header, original_octets=sampled.length_octets, ethertypes=ethertypes).layers
    msdu = _msdu(sampled, parameters.msdu_limit_octets)
    message = CNM(
        qntz_fb=qntz_fb,
        cpid=cpid,
        q_offset=_field_units(-qoff_octets),
        q_delta=_field_units(qdelta_octets),
        encap_prio=sampled.priority,
        encap_dst=sampled.octets[:6],
        msdu_length=len(msdu),
        msdu=msdu,
    )
    tags = _tags(layers, parameters.cnm_priority, ethertypes)
    # Each header's type announces what follows it.
    types = [*(announced for announced, _ in tags), ethertypes.cnm]
    frame = (
        Ethernet(dst=sampled.octets[6:12], src=cp_mac, type=types[0]),
        *(tag.replace(etype=etype) for (_, tag), etype in zip(tags, types[1:], strict=True)),
        message,
    )
    octets = encode(Frame(layers=frame, ethertypes=ethertypes))
    return octets.ljust(MIN_OCTETS, b"\0")


def _tags(
    layers: tuple[Layer, ...], cnm_priority: int, ethertypes: EtherTypes
) -> list[tuple[int, VLAN | STag | CNTag]]:
    """Return the CNM's tags, each with the EtherType that announces it: the VLAN stack, then the CN-TAG."""
    stack: list[tuple[int, VLAN | STag | CNTag]] = []
    cn_tag = CNTag(flow_id=0)
    found = False
    for before, layer in pairwise(layers):
        if isinstance(layer, VLAN | STag):
            outermost = layer.replace(priority=cnm_priority, dei=0) if not stack else layer
            stack.append((int(getattr(before, before.next_key)), outermost))
        elif isinstance(layer, CNTag) and not found:
            cn_tag, found = layer, True
    return [*stack, (ethertypes.cn_tag, cn_tag)]


def _msdu(sampled: SampledFrame, limit_octets: int) -> bytes:
    start = sampled.msdu_offset
    type_or_length = int.from_bytes(sampled.octets[start : start + _TYPE_OCTETS])
    stop = min(start + limit_octets, sampled.length_octets)
    if type_or_length <= MAX_LENGTH:
        # A length tells padding apart (802.3 3.2.6).
        stop = min(stop, start + _TYPE_OCTETS + type_or_length)
    return sampled.octets[start:stop]


def _field_units(octets: int) -> int:
    least, most = _INT16
    return max(least, min(most, queue_units(octets)))
