"""The mechanism's own tags in the frames of a capture, as its machines take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.control.machine import Machine
from ecmproto.table.classify import FrameClasses
from ecmproto.table.own_tags import own_tags
from ecmproto.wire import CMTag, CNTag, EtherTypes, RDTag, RRTTag


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
    assert machine.tag in (CMTag, RRTTag, RDTag), f"{machine.name}: no frames carry {machine.tag}"
    found = own_tags(
        batch.buffer, batch.offset, batch.captured, protocol=machine.tag_protocol, ethertypes=ethertypes
    )
    return TagColumns(*found)
