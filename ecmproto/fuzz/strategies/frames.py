"""Whole frames, each of which strict decoding reads back as an equal one."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.codec.frame import Frame
from ecmproto.formats import lldp, mac_control
from ecmproto.formats.base import Layer
from ecmproto.formats.bcn import BCN, RRTTag
from ecmproto.formats.cn import CNM, CNTag
from ecmproto.formats.e2cm import E2CM
from ecmproto.formats.ecm import ECM, CMTag
from ecmproto.formats.ethernet import VLAN, Data, Ethernet, ITag, STag
from ecmproto.formats.ethertypes import DEFAULT, MAX_LENGTH
from ecmproto.formats.experimental import MIN_SAMPLED_OCTETS, UnknownTag
from ecmproto.formats.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.formats.lldp import TLV, CongestionNotificationTLV
from ecmproto.formats.mac_control import PFC, MACControl, Pause
from ecmproto.fuzz.strategies.assembly import frame_of
from ecmproto.fuzz.strategies.edges import edges_first
from ecmproto.fuzz.strategies.layers import is_other_tlv, layers_of
from ecmproto.fuzz.strategies.named import cn_tags, messages
from ecmproto.fuzz.strategies.payloads import payload_layers
from ecmproto.fuzz.strategies.surroundings import addresses, tag_stacks, vlan_stacks


def tagged_frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return data frames: any stack of tags around any payload, padded, some with a trailer.

    Each tag's least and greatest values come up early, around a payload of one octet.
    """
    return edges_first(_TAGGED, _tagged_frames(fcs_octets), fcs_octets)


_TAGGED: tuple[tuple[Layer, ...], ...] = tuple(
    (Ethernet(), tag.replace(**{tag.next_key: 0x88F7}), Data(data=bytes(1)))
    for tag in (VLAN(), CNTag(), STag(), ITag(), CMTag(), RRTTag(cpid=1), RDTag())
)


@st.composite
def _tagged_frames(draw: DrawFn, fcs_octets: int) -> Frame:
    tags = draw(tag_stacks())
    ethertype, payload = draw(payload_layers())
    outer: list[Layer] = [Ethernet(dst=draw(addresses()), src=draw(addresses())), *tags]
    outer[-1] = outer[-1].replace(**{outer[-1].next_key: ethertype})
    if not payload and ethertype > MAX_LENGTH:  # its padding could not be told from a payload
        payload = [Data(data=bytes(1))]
    layers = _with_old_s_tag([*outer, *payload]) if draw(st.booleans()) else [*outer, *payload]
    trailer = draw(st.just(b"") | st.binary(max_size=8))
    return frame_of(layers, trailer=trailer, fcs_octets=fcs_octets)


def _with_old_s_tag(layers: list[Layer]) -> list[Layer]:
    """Return the layers with the first C-TAG announced by 0x9100."""
    for index, value in enumerate(layers[:-1]):
        if isinstance(layers[index + 1], VLAN):
            changed = value.replace(**{value.next_key: DEFAULT.old_s_tag})
            return [*layers[:index], changed, *layers[index + 1 :]]
    return layers


def message_frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return frames of every message behind VLAN tags and a CN-TAG, padded.

    Each field's least and greatest values come up early, in messages with tags and without.
    """
    return edges_first(_MESSAGES, _message_frames(fcs_octets), fcs_octets)


_SAMPLED: dict[str, Any] = {"cpid": 1, "payload": bytes(MIN_SAMPLED_OCTETS)}
_MESSAGES: tuple[tuple[Layer, ...], ...] = tuple(
    (Ethernet(), *tags, message)
    for tags in ((), (VLAN(), CNTag()))
    for message in (
        CNM(), ECM(**_SAMPLED), BCN(**_SAMPLED), E2CM(**_SAMPLED), FECNReturn(), DBPRateReport(),
    )
)  # fmt: skip


@st.composite
def _message_frames(draw: DrawFn, fcs_octets: int) -> Frame:
    tags = draw(vlan_stacks(max_size=2)) + ([draw(cn_tags())] if draw(st.booleans()) else [])
    header = Ethernet(dst=draw(addresses()), src=draw(addresses()))
    return frame_of([header, *tags, draw(messages())], fcs_octets=fcs_octets)


def pause_frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return PAUSE frames (wire-formats 8), their least and greatest values early."""
    return _flow_control_frames(Pause, fcs_octets)


def pfc_frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return priority-based flow control frames (wire-formats 8), their least and greatest values early."""
    return _flow_control_frames(PFC, fcs_octets)


def _flow_control_frames(cls: type[Layer], fcs_octets: int) -> SearchStrategy[Frame]:
    header = Ethernet(dst=mac_control.DESTINATION)
    return edges_first([(header, cls())], _any_flow_control(cls, fcs_octets), fcs_octets)


@st.composite
def _any_flow_control(draw: DrawFn, cls: type[Layer], fcs_octets: int) -> Frame:
    header = Ethernet(dst=mac_control.DESTINATION, src=draw(addresses()))
    return frame_of([header, draw(layers_of(cls))], fcs_octets=fcs_octets)


@st.composite
def lldp_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    """Return LLDP frames: any TLVs, Congestion Notification ones among them, and the End TLV."""
    header = Ethernet(dst=lldp.DESTINATION, src=draw(addresses()))
    return frame_of([header, *draw(_tlvs()), TLV()], fcs_octets=fcs_octets)


@functools.cache
def _tlvs() -> SearchStrategy[list[Layer]]:
    other = layers_of(TLV, type=st.integers(1, 127)).filter(is_other_tlv)
    tlv: SearchStrategy[Layer] = layers_of(CongestionNotificationTLV) | other
    return st.lists(tlv, max_size=5)


@st.composite
def _unknown_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    last: SearchStrategy[Layer] = layers_of(MACControl) | layers_of(UnknownTag)
    return frame_of(
        [Ethernet(dst=draw(addresses()), src=draw(addresses())), draw(last)], fcs_octets=fcs_octets
    )


def frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return any whole valid frame, with ``fcs_octets`` of the right frame check sequence behind it."""
    # what has most formats in it comes twice as often
    return st.one_of(
        _tagged_frames(fcs_octets),
        _tagged_frames(fcs_octets),
        _message_frames(fcs_octets),
        _message_frames(fcs_octets),
        _any_flow_control(Pause, fcs_octets),
        _any_flow_control(PFC, fcs_octets),
        lldp_frames(fcs_octets=fcs_octets),
        _unknown_frames(fcs_octets=fcs_octets),
    )
