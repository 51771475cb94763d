"""Check that feedback from any octets raises no error and keeps rates within limits.

Each frame is given to the reaction points of every mechanism three times: with the address of the station,
with the address of another station, and truncated by a snap length. Parsed feedback must fit into a message.
After a message is applied, the rate of every limiter must be between 0 and the link rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ecmproto.control.mechanisms.api.machine import Machine, PortContext, machine_of
from ecmproto.control.mechanisms.api.protocol import (
    PAUSE_KIND,
    PFC_KIND,
    fields_of,
    messages_of,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.messages import PauseDiscards, parse_flow_control
from ecmproto.control.mechanisms.registry import MECHANISMS
from ecmproto.kernels.record import new_record
from ecmproto.tools.fuzz.checks.base import Difference

_LINK_BPS = 10**10
_CONTEXT = PortContext(
    rate_bps=_LINK_BPS, link_rate_bps=_LINK_BPS, cp_mac=bytes.fromhex("0200000000c1"), stations=1, flows=4
)
_CUT_OCTETS = 100
"""Number of missing octets in a truncated frame."""
_MAX_PRIORITY = 7
_TIMES = 8
"""Number of times that a message is applied; timers of the reaction point expire in between."""
_START_NS = 1_000

Fields = Mapping[str, int]


class MessageCheck:
    """Check of the reaction points of all mechanisms, which apply the feedback in each item."""

    name = "messages"
    every = 1

    def __init__(self) -> None:
        machines = [machine_of(mechanism, {}) for mechanism in MECHANISMS]
        self._machines = [(machine, new_record(machine.refusal_record)) for machine in machines]

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield parsed feedback that does not fit into a message, and rates outside the limits."""
        for row, octets in enumerate(items):
            for machine, discards in self._machines:
                for what, detail in _wrong(machine, octets, discards):
                    yield Difference(what=f"{machine.name}: {what}", detail=detail, row=row)


def _wrong(machine: Machine, octets: bytes, discards: Any) -> Iterator[tuple[str, str]]:
    for mac, length in ((b"", None), (octets[:6], len(octets) + _CUT_OCTETS), (octets[:6], None)):
        before = _count(discards)
        parsed = machine.parse_feedback(octets, mac, _CONTEXT, discards, length_octets=length)
        discarded = _count(discards) - before
        if discarded > 1 + (parsed is not None):
            yield "a frame discarded twice", f"{discarded} times"
        if parsed is not None:
            yield from _misfits(machine, parsed.fields)
            yield from _rates_out_of_bounds(machine, parsed.fields)
        if parsed is not None and not mac:
            yield "a station accepts feedback for another one", str(parsed)
    if {PAUSE_KIND, PFC_KIND} & set(machine.kinds):
        for fields in parse_flow_control(octets, new_record(PauseDiscards)):
            yield from _rates_out_of_bounds(machine, fields)


def _count(discards: Any) -> int:
    return sum(int(discards[name]) for name in discards.dtype.names or ())


def _misfits(machine: Machine, fields: Fields) -> Iterator[tuple[str, str]]:
    """Yield the fields that do not fit into a message of the mechanism."""
    if fields.get("kind") not in machine.kinds:
        yield "an unknown message type", str(fields.get("kind"))
        return
    (message,) = messages_of([fields], machine.payloads)
    remaining = fields_of(message, machine.payloads)
    for name, value in fields.items():
        if remaining.get(name) != value:
            yield f"{name} does not fit", f"{value} became {remaining.get(name)}"
    if not 0 <= message.priority <= _MAX_PRIORITY:
        yield "a priority above 7", str(message.priority)


def _rates_out_of_bounds(machine: Machine, fields: Fields) -> Iterator[tuple[str, str]]:
    """Apply a message repeatedly to a reaction point, and yield rates outside the limits."""
    senders = machine.senders(_CONTEXT, np.random.default_rng(0))
    (message,) = messages_of([fields], machine.payloads)
    message.sent = 1
    now_ns = _START_NS
    for _ in range(_TIMES):
        cast(Any, senders).on_message(message, now_ns)
        for limiter in range(senders.limiters()):
            rate_bps = senders.limit_bps(0, limiter)
            if not 0 <= rate_bps <= _LINK_BPS:
                yield "a rate out of bounds", f"{rate_bps} bit/s after {dict(fields)}"
                return
        due_ns = int(senders.next_station_timer_ns(0))
        if due_ns >= NEVER_NS:
            now_ns += _START_NS
            continue
        if due_ns < now_ns:
            yield "a timer in the past", f"{due_ns} ns at {now_ns} ns after {dict(fields)}"
            return
        now_ns = due_ns
        senders.on_station_timer(0, now_ns)
