"""A VLAN tag of a device's own, on frames that have none, and off again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import HEADER_OCTETS, TYPE_AT
from ecmproto.batch.tags import Splice, spliced_batch
from ecmproto.capture.batch import Batch
from ecmproto.codec import EtherTypes

_TAG_OCTETS = 4
_NOWHERE = -1
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
