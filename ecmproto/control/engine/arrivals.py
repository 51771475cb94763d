"""Arrival columns of a batch: times since the first arrival, lengths, classes and tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import Machine
from ecmproto.errors import CaptureError
from ecmproto.frames.batch.classes import FrameClasses, class_of
from ecmproto.frames.batch.flows import FlowTable
from ecmproto.frames.batch.headers import fixed, signed
from ecmproto.frames.batch.packets import find_udp_messages
from ecmproto.frames.batch.parse_tables import ParseTables, parse_tables
from ecmproto.frames.batch.tags import TagLayout, own_tag, tag_layout
from ecmproto.frames.capture.batch import ETHERNET, Batch, Interface
from ecmproto.frames.capture.reader import CaptureReader
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_arrays, new_record
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.formats.ethertypes import DEFAULT


class Arrivals(NamedTuple):
    """Arrivals of a batch at the port, as columns: times, lengths and classes.

    Times are in ns since the capture's first arrival, and lengths in octets without FCS. Times never
    decrease, within a batch or between batches. ``tag`` and ``mark`` have the same meaning as in
    `ecmproto.control.mechanisms.api.protocol.Arrival`.
    """

    time_ns: NDArray[np.int64]
    octets: NDArray[np.int64]
    priority: NDArray[np.uint8]
    occupies: NDArray[np.bool_]
    sampled: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    tagged: NDArray[np.bool_]
    tag: NDArray[np.int64]
    mark: NDArray[np.int64]
    station: NDArray[np.int32]
    flow: NDArray[np.int32]


def flow_table(machine: Machine, *, stations: int, flows: int, ethertypes: EtherTypes = DEFAULT) -> FlowTable:
    """Return an empty table of the flows that ``machine`` distinguishes."""
    return FlowTable(
        machine.flow_key, hashed=machine.flow_hash, max_stations=stations, max_flows=flows,
        ethertypes=ethertypes,
    )  # fmt: skip


TIME_LIMIT_NS = 2**62 - 1
_LATEST_NS = 2**61
"""Latest time since the first frame; events after such an arrival are still due before NEVER_NS, 2^62."""
_GROUP_BIT = 1


class Clock:
    """Clock of a capture; a record (``kernels.record``)."""

    first_ns: int
    """Time of the first frame with a timestamp, in ns since 1970."""
    begun: int
    """1 if ``first_ns`` is set."""
    now_ns: int
    """Latest time so far, in ns since ``first_ns``."""
    untimed: int
    """Number of frames in the batch without a timestamp."""
    backwards: int
    """Number of frames in the batch whose timestamp is before the timestamp of an earlier frame."""


class Frames(NamedTuple):
    """Columns of a batch; ``timed`` is empty if all frames have a time."""

    buffer: NDArray[np.uint8]
    offset: NDArray[np.int64]
    captured: NDArray[np.int64]
    original: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    timed: NDArray[np.bool_]
    interface: NDArray[np.int64]


class ArrivalColumns(NamedTuple):
    """Columns of `batch.classes.FrameClasses`, and further columns of `Arrivals`."""

    priority: NDArray[np.uint8]
    occupies: NDArray[np.bool_]
    sampled: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    msdu_offset: NDArray[np.int32]
    cn_tagged: NDArray[np.bool_]
    flow_id: NDArray[np.uint16]
    time_ns: NDArray[np.int64]
    octets: NDArray[np.int64]
    tagged: NDArray[np.bool_]
    tag: NDArray[np.int64]
    mark: NDArray[np.int64]
    numbered: NDArray[np.bool_]
    """Whether the frame has a station and a flow."""


@compiled
def read(
    frames: Frames,
    fcs_octets: NDArray[np.int64],
    tables: ParseTables,
    own: int,
    layout: TagLayout,
    clock: Clock,
    result: ArrivalColumns,
) -> None:
    """Fill in ``result`` for ``frames``, and advance ``clock``.

    ``fcs_octets`` is the FCS length by interface, and is empty if no interface has an FCS. ``own`` is the
    generator's address as a number; a negative number means no address. ``layout`` describes the mechanism's
    tag. A frame with a timestamp before an earlier frame arrives at the earlier frame's time. A frame without
    a timestamp arrives at the latest time so far.
    """
    # Each array has a local name, because a lookup in the tuple costs as much as the walk.
    buffer, offset, captured, original, stamped_ns, timed, interface = frames
    priority, occupies, sampled, answerable, msdu_offset, cn_tagged, flow_id = result[:7]
    time_ns, octets, tagged, tag, mark, numbered = result[7:]
    all_timed, no_fcs = len(timed) == 0, len(fcs_octets) == 0
    is_cn, has_tag = layout.is_cn != 0, layout.octets != 0 or layout.is_ecn != 0
    clock.untimed = clock.backwards = 0
    for i in range(len(offset)):
        start, count = offset[i], captured[i]
        one = class_of(buffer, start, start + count, tables, own)
        priority[i] = one.priority
        occupies[i] = one.occupies
        sampled[i] = one.sampled
        answerable[i] = one.answerable
        msdu_offset[i] = one.msdu_at - start
        cn_tagged[i] = one.cn_tagged
        flow_id[i] = one.flow_id
        tagged[i], tag[i], mark[i] = False, 0, 0
        if is_cn:
            # The walk has already computed the tag.
            tagged[i], tag[i] = one.cn_tagged, one.flow_id
        elif has_tag:
            tagged[i], tag[i], mark[i], _ = own_tag(buffer, start, count, tables, layout)
        # A frame to a group has no single destination that can answer, so the frame bypasses reaction points.
        # Messages bypass them too, because forged messages must not use up the station numbers.
        numbered[i] = one.sampled and count > 0 and signed(buffer[start]) & _GROUP_BIT == 0
        # The record's original length is at least its captured length.
        length = max(original[i], count) - (0 if no_fcs else fcs_octets[interface[i]])
        octets[i] = max(length, 0)
        if all_timed or timed[i]:
            _pass(clock, max(min(stamped_ns[i], TIME_LIMIT_NS), -TIME_LIMIT_NS))
        else:
            clock.untimed += 1
        time_ns[i] = clock.now_ns


@inlined
def _pass(clock: Clock, stamped_ns: int) -> None:
    """Advance the clock to the timestamp of a frame."""
    if clock.begun == 0:
        clock.begun, clock.first_ns = 1, stamped_ns
    # No time is more than 73 years after the first.
    relative_ns = min(stamped_ns - clock.first_ns, _LATEST_NS)
    clock.backwards += int(relative_ns < clock.now_ns)
    clock.now_ns = max(clock.now_ns, relative_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EngineBatch:
    """Batch of frames, with the columns that the loop reads."""

    batch: Batch
    classes: FrameClasses
    arrivals: Arrivals
    messages: NDArray[np.bool_] | None = None
    """Mask of the messages over IP (`Machine.udp_messages`); ``None`` if there are no such messages."""
    untimed: int
    """Number of frames without a time."""
    backwards: int
    """Number of frames with a timestamp before an earlier frame."""


class Intake:
    """Reader that converts a capture's batches in order.

    With ``flows``, stations and flows are numbered; otherwise all numbers are −1.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        cp_mac: bytes,
        ethertypes: EtherTypes,
        interfaces: Sequence[Interface],
        flows: FlowTable | None,
    ) -> None:
        self.machine = machine
        self.flows = flows
        self._clock = new_record(Clock)
        self._tables = parse_tables(ethertypes)
        self._own = int.from_bytes(cp_mac)
        self._layout = tag_layout(machine.tag, ethertypes)
        self._interfaces = interfaces

    @property
    def first_time_ns(self) -> int | None:
        """Return the time of the first frame with a timestamp, in ns since 1970, or ``None``."""
        return int(self._clock.first_ns) if self._clock.begun else None

    def take(self, batch: Batch) -> EngineBatch:
        """Return ``batch`` with its columns."""
        result = new_arrays(ArrivalColumns, len(batch))
        frames = Frames(
            buffer=fixed(batch.buffer),
            offset=fixed(batch.offset),
            captured=fixed(batch.captured),
            original=fixed(batch.original),
            time_ns=fixed(batch.time_ns),
            timed=fixed(np.zeros(0, np.bool_) if batch.timed is None else batch.timed),
            interface=fixed(batch.interface),
        )
        read(frames, self._fcs_octets(), self._tables, self._own, self._layout, self._clock, result)
        messages = self._messages(batch)
        if messages is not None:
            result.sampled[messages] = result.numbered[messages] = False
        station, flow = self._numbers(batch, result.numbered)
        columns: dict[str, Any] = {**result._asdict(), "station": station, "flow": flow}
        return EngineBatch(
            batch=batch,
            classes=FrameClasses(**{name: columns[name] for name in FrameClasses._fields}),
            arrivals=Arrivals(**{name: columns[name] for name in Arrivals._fields}),
            messages=messages,
            untimed=int(self._clock.untimed),
            backwards=int(self._clock.backwards),
        )

    def _messages(self, batch: Batch) -> NDArray[np.bool_] | None:
        """Return the mask of the messages over IP; ``None`` if the mechanism has no such messages."""
        if self.machine.udp_messages is None:
            return None
        mask = np.zeros(len(batch), np.bool_)
        find_udp_messages(
            fixed(batch.buffer), fixed(batch.offset), fixed(batch.captured), fixed(batch.original),
            self._tables, *self.machine.udp_messages, mask,
        )  # fmt: skip
        return mask

    def _fcs_octets(self) -> NDArray[np.int64]:
        octets = [interface.fcs_octets for interface in self._interfaces]
        return np.array(octets if any(octets) else [], np.int64)

    def _numbers(
        self, batch: Batch, chosen: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        if self.flows is None:
            unknown = np.full(len(batch), -1, np.int32)
            return unknown, unknown
        numbers = self.flows.number(
            batch.buffer, batch.offset, batch.captured, original=batch.original, chosen=chosen
        )
        return numbers.station, numbers.flow


def check_ethernet(batch: Batch, reader: CaptureReader) -> None:
    """Raise CaptureError if ``batch`` contains frames of a link type other than Ethernet."""
    for interface in np.unique(batch.interface).tolist():
        described = reader.interfaces[interface]
        if described.linktype != ETHERNET:
            raise CaptureError(
                path=reader.path,
                offset=int(batch.record_offset[0]),
                frame=batch.first,
                needed="Ethernet frames for a replay",
                got=f"link type {described.linktype_name} on interface {interface}",
            )
