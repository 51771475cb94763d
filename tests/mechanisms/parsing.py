"""Frames parsed for feedback, with the counters of discarded frames."""

from __future__ import annotations

from typing import Any, NamedTuple

from ecmproto.control.mechanisms.api.machine import Machine, ParsedFeedback, PortContext
from ecmproto.kernels.record import new_record


class ParsedFrame(NamedTuple):
    """The feedback in a frame, or None if the frame was discarded, and the nonzero counters."""

    feedback: ParsedFeedback | None
    counted: dict[str, int]


def parse_frame(
    machine: Machine, octets: bytes, mac: bytes, where: PortContext, *, length_octets: int | None = None
) -> ParsedFrame:
    """Parse ``octets`` as they reach the station ``mac``."""
    record: Any = new_record(machine.refusal_record)
    feedback = machine.parse_feedback(octets, mac, where, record, length_octets=length_octets)
    names = record.dtype.names
    return ParsedFrame(feedback, {name: int(record[name]) for name in names if record[name]})
