"""Frames with the tags that stations gave them, and with rates that ports rewrote."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import FECN
from ecmproto.batch.tags import RATE_AT, Splice, older_cn_tags, older_tags, spliced_batch, tags_of
from ecmproto.capture.batch import Batch
from ecmproto.codec import CNTag, EtherTypes, Layer
from ecmproto.columns.building.pack import pack
from ecmproto.mechanisms.machine import Machine
from ecmproto.replay.intake import Taken

_TYPE_OCTETS = 2
_CN_TAG_OCTETS = 4
_RATE_OCTETS = 4
_NOWHERE = -1


def tagged_frames(
    taken: Taken,
    position: NDArray[np.int64],
    passages: NDArray[Any],
    machine: Machine,
    ethertypes: EtherTypes,
) -> Batch:
    """Return the frames of ``taken`` at ``position`` as their ``passages`` (one a frame) say they passed.

    They keep their captured octets, without FCS, and their numbers; times are not theirs yet.
    """
    arrivals = taken.arrivals
    batch = taken.batch.select(position)
    octets = arrivals.octets[position]
    batch = dataclasses.replace(batch, captured=np.minimum(batch.captured, octets), original=octets)
    if machine.tag is None:
        return batch
    same = (
        arrivals.tagged[position]
        & (arrivals.tag[position] == passages["tag"])
        & (arrivals.mark[position] == passages["mark"])
    )
    changed = (passages["tagged"] == 1) & ~same
    if not changed.any():
        return batch
    return spliced_batch(batch, _splice(batch, changed, passages, machine, machine.tag, ethertypes))


def _splice(
    batch: Batch,
    changed: NDArray[np.bool_],
    passages: NDArray[Any],
    machine: Machine,
    kind: type[Layer],
    ethertypes: EtherTypes,
) -> Splice:
    """Return what puts the tags of ``passages`` into the frames that are ``changed``."""
    where = (batch.buffer, batch.offset, batch.captured)
    protocol = {} if kind is CNTag else {"protocol": machine.tag_protocol}
    packed = pack(kind, len(batch), **protocol, **machine.tags(passages["tag"], passages["mark"]))
    if kind is CNTag:
        tags = tags_of(*where, ethertypes=ethertypes)
        at, old_at, announced = tags.cn_at, tags.old_cn_at, ethertypes.cn_tag
        old_octets = np.full(len(batch), _CN_TAG_OCTETS)
        more = older_cn_tags(*where, tags, ethertypes=ethertypes)
    else:
        tags = tags_of(*where, protocol=machine.tag_protocol, ethertypes=ethertypes)
        at, old_at, announced = tags.tag_at, tags.old_at, ethertypes.tag
        old_octets = tags.old_octets
        more = older_tags(*where, tags, protocol=machine.tag_protocol, ethertypes=ethertypes)
    changed = changed & (at != _NOWHERE)
    kept = changed[more.frame]
    return Splice(
        at=np.where(changed, at, _NOWHERE),
        inserted=_announced(packed, announced),
        removed=np.where(changed & (old_at != _NOWHERE), old_octets, 0),
        removed_at=np.where(changed, old_at, _NOWHERE),
        more=type(more)(*(column[kept] for column in more)),
    )


def _announced(packed: NDArray[np.uint8], ethertype: int) -> NDArray[np.uint8]:
    """Return each tag behind the EtherType that announces it, without the one behind it.

    Put in front of an EtherType, that one stands behind it.
    """
    types = np.full(len(packed), ethertype, ">u2").view(np.uint8).reshape(-1, _TYPE_OCTETS)
    return np.concatenate([types, packed[:, :-_TYPE_OCTETS]], axis=1)


def with_rates(
    batch: Batch, position: NDArray[np.int64], rate: NDArray[np.int64], ethertypes: EtherTypes
) -> Batch:
    """Return ``batch`` with ``rate``, in kb/s, in the RD tags of the frames at ``position``."""
    where = (batch.buffer, batch.offset[position], batch.captured[position])
    tags = tags_of(*where, protocol=FECN, ethertypes=ethertypes)
    # Only the batch's own records are copied: its buffer may be the whole file.
    low = int(batch.record_offset.min())
    buffer = batch.buffer[low : int((batch.record_offset + batch.record_length).max())].copy()
    starts = batch.offset[position] - low + tags.old_at + RATE_AT
    octets = rate.astype(">u4").view(np.uint8).reshape(-1, _RATE_OCTETS)
    buffer[starts[:, np.newaxis] + np.arange(_RATE_OCTETS)] = octets
    buffer.flags.writeable = False
    return dataclasses.replace(
        batch, buffer=buffer, offset=batch.offset - low, record_offset=batch.record_offset - low
    )
