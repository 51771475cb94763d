"""What a mechanism hears in a frame, and what it counts meanwhile."""

from __future__ import annotations

from typing import Any, NamedTuple

from ecmproto.mechanisms.api.machine import Machine, ParsedFeedback, PortContext
from ecmproto.record import new_record


class Hearing(NamedTuple):
    """What was heard, and the counters that are not 0."""

    heard: ParsedFeedback | None
    counted: dict[str, int]


def hear_frame(
    machine: Machine, octets: bytes, mac: bytes, where: PortContext, *, length_octets: int | None = None
) -> Hearing:
    """Return what ``octets`` say to the station ``mac``."""
    record: Any = new_record(machine.refusal_record)
    heard = machine.parse_feedback(octets, mac, where, record, length_octets=length_octets)
    names = record.dtype.names
    return Hearing(heard, {name: int(record[name]) for name in names if record[name]})
