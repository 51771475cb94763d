"""Classes of frames. One pass over the headers determines everything that a switch port needs for each frame.

A truncated frame counts as ordinary data. The frame occupies queues and may be sampled. If the first 14
octets are incomplete, no message is sent to the source of the frame.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import ADDRESS_OCTETS, HEADER_OCTETS, address, fixed, is_group
from ecmproto.frames.batch.packets import headers_of
from ecmproto.frames.batch.parse_tables import CNM, MAC_CONTROL, MESSAGE, ParseTables, parse_tables
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_arrays
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

_NO_ADDRESS = -1
_LINK_LOCAL_HIGH = 0x0180C2000000 >> 4


class FrameClasses(NamedTuple):
    """The result of ``classify``, with one entry per frame in each array."""

    priority: NDArray[np.uint8]
    """Priority of the outermost VLAN tag, or 0 without a VLAN tag."""
    occupies: NDArray[np.bool_]
    """Whether the frame occupies queues. MAC Control frames and link-local frames never do."""
    sampled: NDArray[np.bool_]
    """Whether the frame may be sampled; not CNMs, other messages, or frames that occupy no queues."""
    answerable: NDArray[np.bool_]
    """Whether a message may be sent to the source: an individual address, but not the messages' sender."""
    msdu_offset: NDArray[np.int32]
    """Number of captured octets before the MSDU."""
    cn_tagged: NDArray[np.bool_]
    flow_id: NDArray[np.uint16]
    """Flow ID of the outermost CN-TAG, or 0 without a CN-TAG."""


class FrameClass(NamedTuple):
    """The class of one frame, for loops without arrays."""

    priority: int
    occupies: bool
    sampled: bool
    answerable: bool
    msdu_at: int
    """Offset of the MSDU in the buffer."""
    cn_tagged: bool
    flow_id: int


def classify(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    *,
    ethertypes: EtherTypes = DEFAULT,
    own_mac: bytes | None = None,
) -> FrameClasses:
    """Classify the Ethernet frames at ``offset`` in ``buffer`` with ``captured`` octets each.

    ``own_mac`` is the source address of sent messages. Frames with this source are not ``answerable``. The
    arrays have the layout of ``capture.Batch``, and all frames must lie within the buffer.
    """
    classes = new_arrays(FrameClasses, len(offset))
    own = _NO_ADDRESS if own_mac is None else int.from_bytes(own_mac)
    _walk(fixed(buffer), fixed(offset), fixed(captured), parse_tables(ethertypes), own, classes)
    return classes


@compiled
def _walk(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    tables: ParseTables,
    own: int,
    classes: FrameClasses,
) -> None:
    priority, occupies, sampled, answerable, msdu_offset, cn_tagged, flow_id = classes
    for i in range(len(offset)):
        result = class_of(buffer, offset[i], offset[i] + captured[i], tables, own)
        priority[i] = result.priority
        occupies[i] = result.occupies
        sampled[i] = result.sampled
        answerable[i] = result.answerable
        msdu_offset[i] = result.msdu_at - offset[i]
        cn_tagged[i] = result.cn_tagged
        flow_id[i] = result.flow_id


@inlined
def class_of(buffer: NDArray[np.uint8], start: int, end: int, tables: ParseTables, own: int) -> FrameClass:
    """Classify the frame from offset ``start`` up to and excluding ``end``.

    ``own`` is a MAC address as a number, or a negative number for no address.
    """
    headers = headers_of(buffer, start, end, tables)
    occupies = headers.role != MAC_CONTROL and not _is_link_local(buffer, start, end)
    sampled = occupies and headers.role != CNM and headers.role != MESSAGE
    answerable = False
    if end - start >= HEADER_OCTETS:
        source = address(buffer, start + ADDRESS_OCTETS)
        answerable = not is_group(source) and source != own
    return FrameClass(
        headers.priority, occupies, sampled, answerable, headers.msdu_at, headers.cn_tagged, headers.flow_id
    )


@inlined
def _is_link_local(buffer: NDArray[np.uint8], start: int, end: int) -> bool:
    return end - start >= ADDRESS_OCTETS and address(buffer, start) >> 4 == _LINK_LOCAL_HIGH
