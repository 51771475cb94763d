"""The mechanism's own tags in the frames of a capture, as its machines take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.control.machine import Machine
from ecmproto.table.classify import FrameClasses
from ecmproto.table.tags import FrameTags, tags_of
from ecmproto.wire import CMTag, CNTag, EtherTypes, RDTag, RRTTag

_UNIT_SHIFT = 16


class TagColumns(NamedTuple):
    """Per frame: whether it has such a tag, and its tag and mark (`ecmproto.control.protocol.Arrival`)."""

    tagged: NDArray[np.bool_]
    tag: NDArray[np.int64]
    mark: NDArray[np.int64]


def tag_columns(machine: Machine, batch: Batch, classes: FrameClasses, ethertypes: EtherTypes) -> TagColumns:
    """Return what frames carry of the tag of ``machine``; without one nothing."""
    count = len(batch)
    none = np.zeros(count, np.int64)
    if machine.tag is None:
        return TagColumns(np.zeros(count, np.bool_), none, none)
    if machine.tag is CNTag:
        return TagColumns(classes.cn_tagged, classes.flow_id.astype(np.int64), none)
    found = tags_of(
        batch.buffer, batch.offset, batch.captured, protocol=machine.tag_protocol, ethertypes=ethertypes
    )
    return experimental_columns(machine, found)


def experimental_columns(machine: Machine, found: FrameTags) -> TagColumns:
    """Return the same from what was found of the tags of ``machine``, which are experimental ones."""
    if machine.tag is CMTag:
        mark = (found.cm_unit.astype(np.int64) << _UNIT_SHIFT) | found.cm_timestamp
        return TagColumns(found.cm_protocol == machine.tag_protocol, found.cm_cpid, mark)
    if machine.tag is RRTTag:
        return TagColumns(found.rrt_tagged, found.rrt_cpid, np.zeros_like(found.rrt_cpid))
    assert machine.tag is RDTag, f"{machine.name}: no frames carry {machine.tag}"
    return TagColumns(found.rd_offset >= 0, found.rd_rate, found.rd_rlq_id.astype(np.int64))
