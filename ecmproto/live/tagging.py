"""Tags put into and taken out of frames on their way through a live device.

A device has a VLAN tag of its own for frames that have none.  A mechanism's tags are put in at the reaction
point and taken out at the edge.  Whole batches are tagged in `ecmproto.engine.frames`, which takes a
millisecond for any number of frames; a reaction point lets a few leave at a time, which `Tagger` is for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch import tags
from ecmproto.batch.headers import HEADER_OCTETS, TYPE_AT
from ecmproto.batch.tags import Splice, spliced_batch
from ecmproto.capture.batch import Batch
from ecmproto.codec import EtherTypes
from ecmproto.codec.tags import tag_ethertypes
from ecmproto.live.device import EXAMPLE_FRAME
from ecmproto.mechanisms.api.machine import Machine

_TAG_OCTETS = 4
_NOWHERE = -1
_EXAMPLE_CONTROL = 5
_IDENTIFIER_BITS = 0xFFF
_OCTET_BITS = 8


def with_vlan(batch: Batch, control: int, ethertypes: EtherTypes) -> Batch:
    """Return ``batch`` with a C-TAG of ``control`` (priority and identifier) in frames without a VLAN tag."""
    types = _two_octets_at(batch, TYPE_AT, HEADER_OCTETS)
    tagged = np.isin(types, (ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag, _NOWHERE))
    tag = ethertypes.c_tag.to_bytes(2) + control.to_bytes(2)
    rows = np.tile(np.frombuffer(tag, np.uint8), (len(batch), 1))
    return spliced_batch(batch, Splice(at=np.where(tagged, _NOWHERE, TYPE_AT), inserted=rows))


def without_vlan(batch: Batch, control: int, ethertypes: EtherTypes) -> Batch:
    """Return ``batch`` without the outermost C-TAG of the same identifier, whatever its priority."""
    types = _two_octets_at(batch, TYPE_AT, HEADER_OCTETS)
    controls = _two_octets_at(batch, HEADER_OCTETS, HEADER_OCTETS + _TAG_OCTETS)
    ours = (types == ethertypes.c_tag) & (controls & _IDENTIFIER_BITS == control & _IDENTIFIER_BITS)
    ours &= controls != _NOWHERE
    return removed(batch, ours, TYPE_AT, _TAG_OCTETS)


def removed(batch: Batch, chosen: NDArray[np.bool_], at: int, octets: int) -> Batch:
    """Return ``batch`` with ``octets`` octets from ``at`` on taken out of the frames that are ``chosen``."""
    if not chosen.any():
        return batch
    return spliced_batch(
        batch,
        Splice(
            at=np.full(len(batch), _NOWHERE),
            inserted=np.zeros((len(batch), 0), np.uint8),
            removed=np.where(chosen, octets, 0),
            removed_at=np.where(chosen, at, _NOWHERE),
        ),
    )


def _two_octets_at(batch: Batch, at: int, whole: int) -> NDArray[np.int64]:
    """Return the number at ``at`` in each frame; −1 in those of fewer than ``whole`` octets."""
    found = np.full(len(batch), _NOWHERE, np.int64)
    long = batch.captured >= whole
    start = batch.offset[long] + at
    found[long] = batch.buffer[start].astype(np.int64) << _OCTET_BITS | batch.buffer[start + 1]
    return found


def without_tags(
    batch: Batch, machine: Machine, ethertypes: EtherTypes, *, chosen: NDArray[np.bool_] | None = None
) -> tuple[Batch, int]:
    """Return ``batch`` without the tags of ``machine``, and in how many frames there were some.

    Without ``chosen`` all frames lose theirs.  What has no tag, or not such a one, stays as it is.
    """
    if machine.tag is None or not len(batch):
        return batch, 0
    return tags.without_tags(batch, machine.tag, only=chosen, ethertypes=ethertypes)


_TYPE_OCTETS = 2
_STACK_TAG_OCTETS = 4
_KEPT = 4096


class Tagger:
    """Puts the tags of ``machine`` into frames."""

    def __init__(self, machine: Machine, ethertypes: EtherTypes) -> None:
        self._machine = machine
        self._ethertypes = ethertypes
        stack = (ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag)
        self._stack = frozenset(number.to_bytes(_TYPE_OCTETS) for number in stack)
        self._tags = frozenset(
            number.to_bytes(_TYPE_OCTETS) for number in tag_ethertypes(ethertypes) - set(stack)
        )
        self._built: dict[tuple[int, int], bytes] = {}

    def tagged(self, octets: bytes, tag: int, mark: int) -> bytes | None:
        """Return a frame with a tag behind its VLAN stack; None if it has other tags there, or no header."""
        at = TYPE_AT
        while (type := octets[at : at + _TYPE_OCTETS]) in self._stack:
            at += _STACK_TAG_OCTETS
        if type in self._tags or at + _TYPE_OCTETS > len(octets) or len(octets) < HEADER_OCTETS:
            return None
        return octets[:at] + self._tag(tag, mark) + octets[at:]

    def _tag(self, tag: int, mark: int) -> bytes:
        """Return a tag with the EtherType that announces it, but not the EtherType after it."""
        found = self._built.get((tag, mark))
        if found is None:
            if len(self._built) >= _KEPT:
                self._built.clear()
            found = self._built[tag, mark] = self._build(tag, mark)
        return found

    def _build(self, tag: int, mark: int) -> bytes:
        kind = self._machine.tag
        assert kind is not None
        announced = kind.announcing(self._ethertypes)
        return announced.to_bytes(_TYPE_OCTETS) + kind.layer(tag, mark).build()[:-_TYPE_OCTETS]


def precompile_tagging(machine: Machine, ethertypes: EtherTypes) -> bytes:
    """Compile the code that edits tags; return an example frame with a tag of ``machine``, if it has such."""
    tagged = Tagger(machine, ethertypes).tagged(EXAMPLE_FRAME, 1, 0) if machine.tag is not None else None
    octets = EXAMPLE_FRAME if tagged is None else tagged
    batch = Batch.from_frames([octets])
    without_tags(batch, machine, ethertypes)
    without_vlan(with_vlan(batch, _EXAMPLE_CONTROL, ethertypes), _EXAMPLE_CONTROL, ethertypes)
    own = int.from_bytes(EXAMPLE_FRAME[HEADER_OCTETS : HEADER_OCTETS + 2])
    without_vlan(batch, own, ethertypes)
    return octets
