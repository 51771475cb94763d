"""Frames taken as a document has them: the octets their layers say, nothing computed or added."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ecmproto.codec.document import frame_keys, from_document, nearest
from ecmproto.codec.frame import encode
from ecmproto.craft.builders import put_right
from ecmproto.craft.capture_info import MAX_INTERFACES, CaptureInfo
from ecmproto.craft.quantities import integer, is_text, placed
from ecmproto.craft.recipe import MAX_TIME_NS, Chunk
from ecmproto.dissect.json import RECORD_KEYS
from ecmproto.errors import SpecError
from ecmproto.formats.ethertypes import EtherTypes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A frame's octets and what its record said of it; as in `Chunk`."""

    octets: bytes
    time_ns: int
    original: int
    interface: int
    linktype: int
    comments: tuple[str, ...]

    def goes_with(self, other: Exact) -> bool:
        """Return whether both fit into one chunk, this one first."""
        same = (self.interface, self.linktype) == (other.interface, other.linktype)
        return same and not self.comments


def chunk_of(frames: list[Exact]) -> Chunk:
    """Return frames that go together as one chunk."""
    return Chunk(
        frames=[frame.octets for frame in frames],
        time_ns=np.array([frame.time_ns for frame in frames], dtype=np.int64),
        original=np.array([frame.original for frame in frames], dtype=np.int64),
        interface=frames[0].interface,
        linktype=frames[0].linktype,
        comments=frames[0].comments,
    )


def exact(
    item: Mapping[str, Any], where: str, capture: CaptureInfo, ethertypes: EtherTypes, fix: bool
) -> Exact:
    """Return a frame as its document has it, put right only when asked to ``fix`` it.

    Its interface is described in ``capture``.  SpecError with ``where`` for what no frame can be.
    """
    for key in item:
        if key not in RECORD_KEYS and key not in frame_keys():
            hint = nearest(str(key), RECORD_KEYS | frame_keys())
            raise SpecError(where=where, needed="a key of a frame", got=repr(key), hint=hint)
    with placed(where):
        frame, _ = from_document(item, where="frame", ethertypes=ethertypes)
        if fix and not item.get("cut"):
            frame = put_right(frame, [()] * len(frame.layers))
        octets = encode(frame)
    interface = integer(item, "interface", 0, MAX_INTERFACES - 1, where)
    known = capture.interfaces
    linktype = integer(
        item, "linktype", known[interface].linktype if interface < len(known) else 1, 0xFFFF, where
    )
    capture.describe(interface, linktype)
    captured = integer(item, "captured_octets", len(octets), 0xFFFFFFFF, where)
    original = integer(item, "original_octets", captured, 0xFFFFFFFF, where)
    if captured != len(octets):  # a value was changed by hand: what was cut off stays cut off
        original = len(octets) + max(0, original - captured)
    comments = item.get("comments", [])
    if not isinstance(comments, list) or not all(map(is_text, comments)):
        raise SpecError(where=f"{where}.comments", needed="a list of texts", got=ascii(comments)[:60])
    return Exact(
        octets=octets,
        time_ns=0 if item.get("time_ns") is None else integer(item, "time_ns", 0, MAX_TIME_NS, where),
        original=original,
        interface=interface,
        linktype=linktype,
        comments=tuple(comments),
    )
