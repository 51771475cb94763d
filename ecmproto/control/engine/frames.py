"""Frames that the engine sends: messages as octets, and captured frames with their new tags."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import EngineBatch
from ecmproto.control.engine.statistics import kind_name
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import NO_CAUSE, PAUSE_KIND, PFC_KIND, fields_of
from ecmproto.control.mechanisms.pause.messages import flow_control_frame
from ecmproto.frames.batch.tags import spliced_batch, tag_splice, with_tag_values
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.columns.building.frames import pack
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.codec.tags import ECNField, TagFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFrame:
    """A frame made by the replay, to be merged into the output in order of time."""

    octets: bytes
    """The frame without FCS."""
    time_ns: int
    interface: int
    cause: int
    """The 0-based number in the capture of the frame that caused it, NO_CAUSE for none."""
    comment: str


def octets_of(machine: Machine, message: Any, about: SampledFrame, context: PortContext) -> bytes:
    """Return ``message`` (a `protocol.Message`) as a frame, without FCS."""
    if message.kind in (PAUSE_KIND, PFC_KIND):
        return flow_control_frame(message, src=context.cp_mac, ethertypes=context.ethertypes)
    return machine.frame(message, about, context)


def _shown(machine: Machine, message: Any) -> Iterator[tuple[str, int]]:
    """Yield the name and value of each field shown in a message's comment, except the queue's."""
    fields = fields_of(message, machine.payloads)
    yield from ((label, fields.get(name, 0)) for label, name in machine.shown_fields.items())
    yield from (("rate in kb/s", fields["rate_kbps"]), ("quanta", fields.get("quanta", 0)))
    yield "class enable vector", fields.get("enable_vector", 0)


def comment_of(machine: Machine, message: Any, cause: int) -> str:
    """Return a comment on the origin of a message; frames count from 1, as in capture tools."""
    parts = []
    if message.kind not in (PAUSE_KIND, PFC_KIND):
        parts.append(f"priority {message.priority}")
    if message.cause != NO_CAUSE and message.kind not in machine.answers and machine.feedback_label:
        parts += [
            f"Qlen {message.qlen_octets}",
            f"Qoff {message.qoff_octets}",
            f"Qdelta {message.qdelta_octets}",
            f"{machine.feedback_label} {message.fb_octets:.16g}",
        ]
    for label, value in _shown(machine, message):
        if value:
            parts.append(f"{label} {value}")
    about = f" for frame {cause + 1}" if cause != NO_CAUSE else ""
    return f"{kind_name(machine, int(message.kind))}{about}: {', '.join(parts)}"


def tagged_frames(
    engine_batch: EngineBatch,
    position: NDArray[np.int64],
    passages: NDArray[Any],
    machine: Machine,
    ethertypes: EtherTypes,
) -> Batch:
    """Return the frames of ``engine_batch`` at the indices ``position`` with the tags of their ``passages``.

    They keep their captured octets, without FCS, and their numbers; the caller sets the times.
    """
    arrivals = engine_batch.arrivals
    batch = engine_batch.batch.select(position)
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
    if isinstance(machine.tag, ECNField):
        where = np.flatnonzero(changed)
        return with_tag_values(batch, where, passages["tag"][where], machine.tag, ethertypes=ethertypes)
    rows = tag_rows(machine.tag, passages["tag"], passages["mark"])
    return spliced_batch(batch, tag_splice(batch, rows, machine.tag, only=changed, ethertypes=ethertypes))


def tag_rows(
    kind: TagFormat, tag: NDArray[np.int64], mark: NDArray[np.int64], *stack: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return tags of the format ``kind`` with the machines' values, one row of octets each."""
    words = [number.astype(np.int64).view(np.uint64) for number in (tag, mark, *stack)]
    return pack(kind.format, len(tag), **kind.constants, **kind.values(words[0], words[1], words[2:]))
