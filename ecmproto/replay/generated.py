"""The frames that a replay makes, from the messages of its machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecmproto.mechanisms.machine import Machine, Place, SampledFrame
from ecmproto.mechanisms.pause.messages import flow_control_frame
from ecmproto.mechanisms.protocol import NO_CAUSE, PAUSE_KIND, PFC_KIND
from ecmproto.replay.counts import kind_name


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFrame:
    """A frame that the replay made, to stand in the output where its time is."""

    octets: bytes
    """Without FCS."""
    time_ns: int
    interface: int
    cause: int
    """The 0-based number in the capture of the frame that caused it, NO_CAUSE if none did."""
    comment: str


def octets_of(machine: Machine, message: Any, about: SampledFrame, place: Place) -> bytes:
    """Return the frame that ``message`` (a `protocol.Message`) is, without FCS."""
    if message.kind in (PAUSE_KIND, PFC_KIND):
        return flow_control_frame(message, src=place.cp_mac, ethertypes=place.ethertypes)
    return machine.frame(message, about, place)


def comment_of(machine: Machine, message: Any, cause: int) -> str:
    """Return what a message came from; frames are numbered from 1, as capture tools show them."""
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
    for label, value in (
        ("QntzFb", message.qntz_fb),
        ("rate in kb/s", message.rate),
        ("quanta", message.quanta),
        ("class enable vector", message.enable_vector),
    ):
        if value:
            parts.append(f"{label} {value}")
    about = f" for frame {cause + 1}" if cause != NO_CAUSE else ""
    return f"{kind_name(machine, int(message.kind))}{about}: {', '.join(parts)}"
