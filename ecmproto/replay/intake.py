"""Batches of a capture as the loops take them: times from the first arrival, lengths without FCS, classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.classes import FrameClasses
from ecmproto.batch.flows import FlowTable
from ecmproto.batch.headers import fixed, roles_of
from ecmproto.batch.tags import CN, NONE
from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.codec import CMTag, CNTag, EtherTypes, RDTag, RRTTag
from ecmproto.mechanisms.machine import Machine
from ecmproto.record import new_record
from ecmproto.replay.open_port import Arrivals
from ecmproto.replay.reading import Clock, Frames, new_found, read


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

    With ``flows`` stations and flows are numbered, else they are all −1.  ``first_time_ns`` is when the first
    frame with a time came, if that is known already.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        cp_mac: bytes,
        ethertypes: EtherTypes,
        interfaces: Sequence[Interface],
        flows: FlowTable | None,
        first_time_ns: int | None = None,
    ) -> None:
        self.machine = machine
        self.flows = flows
        self._clock = new_record(Clock)
        if first_time_ns is not None:
            self._clock.begun, self._clock.first_ns = 1, first_time_ns
        self._roles = roles_of(ethertypes)
        self._own = int.from_bytes(cp_mac)
        self._tag = tag_kind(machine)
        self._interfaces = interfaces

    @property
    def first_time_ns(self) -> int | None:
        """When the first frame that has a time came, since 1970; None before that."""
        return int(self._clock.first_ns) if self._clock.begun else None

    def take(self, batch: Batch, *, time_ns: NDArray[np.int64] | None = None) -> Taken:
        """Return ``batch`` as the loops take it; its frames came at ``time_ns`` if that is given."""
        found = new_found(len(batch))
        read(
            _frames(batch, time_ns), self._fcs_octets(), self._roles, self._own, self._tag, self._clock, found
        )
        station, flow = self._numbers(batch, found.numbered)
        return Taken(
            batch=batch,
            classes=FrameClasses(
                priority=found.priority,
                occupies=found.occupies,
                sampled=found.sampled,
                answerable=found.answerable,
                msdu_offset=found.msdu_offset,
                cn_tagged=found.cn_tagged,
                flow_id=found.flow_id,
            ),
            arrivals=Arrivals(
                time_ns=found.time_ns,
                octets=found.octets,
                priority=found.priority,
                occupies=found.occupies,
                sampled=found.sampled,
                answerable=found.answerable,
                tagged=found.tagged,
                tag=found.tag,
                mark=found.mark,
                station=station,
                flow=flow,
            ),
            untimed=int(self._clock.untimed),
            backwards=int(self._clock.backwards),
        )

    def _fcs_octets(self) -> NDArray[np.int64]:
        octets = [interface.fcs_octets for interface in self._interfaces]
        return np.array(octets if any(octets) else [], np.int64)

    def _numbers(
        self, batch: Batch, chosen: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        if self.flows is None:
            unknown = np.full(len(batch), -1, np.int32)
            return unknown, unknown
        numbers = self.flows.number(batch.buffer, batch.offset, batch.captured, chosen=chosen)
        return numbers.station, numbers.flow


def tag_kind(machine: Machine) -> int:
    """Return which tag the machines look at: CN, NONE or the Protocol of an experimental one."""
    if machine.tag is None:
        return NONE
    if machine.tag is CNTag:
        return CN
    assert machine.tag in (CMTag, RRTTag, RDTag), f"{machine.name}: no frames carry {machine.tag}"
    return machine.tag_protocol


def _frames(batch: Batch, time_ns: NDArray[np.int64] | None) -> Frames:
    return Frames(
        buffer=fixed(batch.buffer),
        offset=fixed(batch.offset),
        captured=fixed(batch.captured),
        original=fixed(batch.original),
        time_ns=fixed(batch.time_ns if time_ns is None else time_ns),
        timed=fixed(np.zeros(0, np.bool_) if batch.timed is None else batch.timed),
        interface=fixed(batch.interface),
    )
