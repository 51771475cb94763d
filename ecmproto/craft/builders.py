"""Whole frames from what was said about them: default layers and values, then everything computed.

>>> build("cnm", qntz_fb=40, flow_id=7, vlan=5, prio=3)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from ecmproto.codec.frame import Frame, encode, fixed
from ecmproto.craft.defaults import complete
from ecmproto.craft.stack import Part, Stack, give_fields, stack_from_line
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.ip import TCP, UDP, IPv4, IPv6


def build(kind: str, /, *, ethertypes: EtherTypes = DEFAULT, raw: bool = False, **fields: object) -> Frame:
    """Return a frame of ``kind``: the name of a format, or a line such as ``"vlan id=5 cntag flow_id=7"``.

    ``fields`` belong to the last layer named or to a layer it implies (``flow_id`` of a CNM: a CN-TAG;
    ``dst``, ``src``, ``vlan``, ``prio``).  What is left out gets the kind's default or is computed; what
    is given is kept, also where it is wrong.  ``raw`` adds, computes and pads nothing.  SpecError for
    an unknown name, EncodeError for a value out of range.
    """
    stack = stack_from_line(kind)
    give_fields(stack, fields)
    stack.settle()
    return finish(stack, ethertypes=ethertypes, raw=raw).frame


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A frame with the keys that were given for each of its layers, and the parts they came from."""

    frame: Frame
    given: tuple[frozenset[str], ...]
    parts: tuple[Part, ...]


def finish(
    stack: Stack,
    *,
    ethertypes: EtherTypes = DEFAULT,
    raw: bool = False,
    padding: bytes = b"",
    trailer: bytes = b"",
    fcs: bytes = b"",
) -> Finished:
    """Return the frame that a settled ``stack`` stands for; EncodeError when a value does not fit."""
    # completing adds parts, and a stack may be finished many times
    whole = Stack()
    whole.parts = list(stack.parts)
    defaults = [{} for _ in whole.parts] if raw else complete(whole)
    layers = [part.cls(**filled | part.values) for part, filled in zip(whole.parts, defaults, strict=True)]
    given = tuple(frozenset(part.values) for part in whole.parts)
    frame = Frame(layers=tuple(layers), padding=padding, trailer=trailer, fcs=fcs, ethertypes=ethertypes)
    if raw:
        encode(frame)
    else:
        frame = put_right(frame, given)
    return Finished(frame=frame, given=given, parts=tuple(whole.parts))


def put_right(frame: Frame, given: Sequence[Collection[str]]) -> Frame:
    """Return the frame with its types, lengths, checksums and padding computed, except fields given."""
    frame = fixed(frame, given)
    if not any(_needs_sum(value, keys) for value, keys in zip(frame.layers, given, strict=True)):
        return frame

    from ecmproto.columns.building.template import summed

    return summed(frame, given, transport=True)


def _needs_sum(value: Layer, given: Collection[str]) -> bool:
    """Return whether a checksum is left: one with a pseudo header, or one over fields that were given."""
    if isinstance(value, IPv4):
        return not {"ihl", "len", "proto"}.isdisjoint(given)
    if isinstance(value, UDP):
        return value.checksum != 0
    return isinstance(value, IPv6 | TCP)
