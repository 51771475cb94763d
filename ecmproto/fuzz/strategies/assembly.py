"""Layers put together as a whole frame that decodes to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ecmproto.codec.frame import Frame, encode, fixed, frame_check_sequence
from ecmproto.formats.base import Layer
from ecmproto.formats.ethernet import SNAP, Data
from ecmproto.formats.ethertypes import MAX_LENGTH
from ecmproto.formats.ip import IPv4, IPv6


def frame_of(layers: Sequence[Layer], *, trailer: bytes = b"", fcs_octets: int = 0) -> Frame:
    """Return the whole frame of these layers: types, lengths and checksums computed, padded, with its FCS.

    A last layer that takes all octets left takes the padding too, as a decoder would see it.
    """
    last = layers[-1]
    takes_all = _takes_all(layers)
    frame = fixed(Frame(layers=tuple(layers)))
    if takes_all:
        key = last.layout[-1].key
        grown = last.replace(**{key: getattr(last, key) + frame.padding + trailer})
        frame = fixed(Frame(layers=(*frame.layers[:-1], grown)))
    else:
        frame = dataclasses.replace(frame, trailer=trailer)
    if not fcs_octets:
        return frame
    return dataclasses.replace(frame, fcs=frame_check_sequence(encode(frame))[:fcs_octets])


def _takes_all(layers: Sequence[Layer]) -> bool:
    """Return whether the last layer has no end of its own: no length counts it, outside it or inside."""
    last = layers[-1]
    count = last.layout[-1].count
    if count is None or count.key or (count.when and getattr(last, count.when[0]) not in count.when[1]):
        return False
    bounded = any(isinstance(value, IPv4 | IPv6 | SNAP) for value in layers)
    if not isinstance(last, Data) or bounded:
        return not bounded
    before = layers[-2]
    return bool(getattr(before, before.next_key) > MAX_LENGTH)
