"""Batches of a capture as the loops take them: times from the first arrival, lengths without FCS, classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.control.machine import Machine
from ecmproto.replay.open_port import Arrivals
from ecmproto.replay.tag_columns import tag_columns
from ecmproto.table.classify import FrameClasses, classify
from ecmproto.table.flows import FlowTable
from ecmproto.wire import EtherTypes

_TIME_LIMIT_NS = 2**62 - 1
_GROUP_BIT = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Taken:
    """A batch, and what a loop needs to know of its frames."""

    batch: Batch
    classes: FrameClasses
    arrivals: Arrivals
    untimed: int
    """Frames that have no time."""
    backwards: int
    """Frames stamped before an earlier one."""


class Intake:
    """Takes the batches of a capture, in order.

    With ``flows`` stations and flows are numbered, else they are all −1.
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
        self.first_time_ns: int | None = None
        self._cp_mac = cp_mac
        self._ethertypes = ethertypes
        self._interfaces = interfaces
        self._now_ns = 0

    def take(self, batch: Batch) -> Taken:
        """Return ``batch`` as the loops take it."""
        classes = classify(
            batch.buffer, batch.offset, batch.captured, ethertypes=self._ethertypes, own_mac=self._cp_mac
        )
        tagged, tag, mark = tag_columns(self.machine, batch, classes, self._ethertypes)
        station, flow = self._numbers(batch, classes)
        timed = np.ones(len(batch), np.bool_) if batch.timed is None else batch.timed
        stamped_ns = self._times(batch, timed)
        time_ns = self._in_order(stamped_ns)
        return Taken(
            batch=batch,
            classes=classes,
            arrivals=Arrivals(
                time_ns=time_ns,
                octets=self._octets(batch),
                priority=classes.priority,
                occupies=classes.occupies,
                sampled=classes.sampled,
                answerable=classes.answerable,
                tagged=tagged,
                tag=tag,
                mark=mark,
                station=station,
                flow=flow,
            ),
            untimed=int((~timed).sum()),
            backwards=int((timed & (stamped_ns < time_ns)).sum()),
        )

    def _octets(self, batch: Batch) -> NDArray[np.int64]:
        """Return the frames' lengths without FCS.  No record claims less than it holds."""
        octets = np.maximum(batch.original, batch.captured)
        fcs_octets = np.array([interface.fcs_octets for interface in self._interfaces], np.int64)
        if fcs_octets.any():
            octets -= fcs_octets[batch.interface]
        return np.maximum(octets, 0)

    def _times(self, batch: Batch, timed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return stamped times in ns from the first frame that has one, kept within ±146 years of it."""
        times_ns = np.clip(batch.time_ns, -_TIME_LIMIT_NS, _TIME_LIMIT_NS)
        if self.first_time_ns is None and timed.any():
            self.first_time_ns = int(times_ns[timed][0])
        relative_ns = np.minimum(times_ns - (self.first_time_ns or 0), _TIME_LIMIT_NS)
        # A frame without a time is one stamped before everything: it arrives at the latest time seen.
        return np.where(timed, relative_ns, np.int64(-_TIME_LIMIT_NS))

    def _in_order(self, stamped_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return arrival times: a frame stamped before an earlier one arrives at that one's time."""
        latest_ns = np.maximum.accumulate(np.append(self._now_ns, stamped_ns))
        self._now_ns = int(latest_ns[-1])
        in_order: NDArray[np.int64] = latest_ns[1:]
        return in_order

    def _numbers(self, batch: Batch, classes: FrameClasses) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        if self.flows is None:
            unknown = np.full(len(batch), -1, np.int32)
            return unknown, unknown
        # A frame to a group has no one destination that could answer for it: it goes past reaction points.
        # Messages do too: forged ones must not use up the numbers of stations.
        started = batch.captured > 0
        first = np.zeros(len(batch), np.uint8)
        first[started] = batch.buffer[batch.offset[started]]
        chosen = classes.sampled & started & (first & _GROUP_BIT == 0)
        numbers = self.flows.number(batch.buffer, batch.offset, batch.captured, chosen=chosen)
        return numbers.station, numbers.flow
