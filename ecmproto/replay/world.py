"""Making the stores of a closed loop, and larger ones when something has no more room."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, TypeVar

import numpy as np

from ecmproto.control.limiter import NEVER_NS
from ecmproto.control.pause.gate import new_gates
from ecmproto.control.protocol import Message, new_outbox
from ecmproto.record import columns, new_record, new_records
from ecmproto.replay.agenda import Agenda, new_agenda
from ecmproto.replay.closed_port import ENTRIES, Link, Log, Loop, Passage, World
from ecmproto.replay.facts import LoopFacts, PortFacts
from ecmproto.replay.gauge import PRIORITIES
from ecmproto.replay.port import Port, new_port, with_room
from ecmproto.replay.waiting import larger_pool, new_pool, new_queues

_FIRST_FRAMES = 4096
_MESSAGES = 4096
_PASSAGES = 32_768

_Machines = TypeVar("_Machines")


def new_world(port: PortFacts, facts: LoopFacts, *, stations: int, limiters: int) -> World:
    """Return the stores for ``stations`` stations of ``limiters`` limiters each, everything empty."""
    loop = new_record(Loop)
    loop.feedback_delay_ns = facts.feedback_delay_ns
    loop.queue_octets = facts.queue_octets
    loop.link_rate_bps = facts.link_rate_bps
    loop.overhead_octets = port.overhead_octets
    entries = stations * (ENTRIES + limiters)
    pool = new_pool(_FIRST_FRAMES)
    return World(
        loop=loop,
        log=new_record(Log),
        port=_with_slots(new_port(port), len(pool.frames)),
        pool=pool,
        queues=new_queues(entries),
        agenda=new_agenda(entries),
        links=new_records(Link, stations),
        gates=new_gates(
            stations,
            rate_bps=facts.link_rate_bps,
            pause=facts.pause,
            pfc_priorities=facts.pfc_priorities,
        ),
        flight=_ring(2 * _MESSAGES),
        outbox=new_outbox(_MESSAGES),
        passages=new_records(Passage, _PASSAGES),
    )


def with_more_frames(world: World) -> World:
    """Return ``world`` with room for twice as many frames; the old value is not to be used again."""
    pool = larger_pool(world.pool)
    # No ring is ever full: it has a slot for every frame that there can be.
    return world._replace(pool=pool, port=_with_slots(world.port, len(pool.frames)))


def with_longer_flight(world: World) -> World:
    """Return ``world`` with room for twice as many messages under way."""
    size = len(world.flight)
    flight = _ring(2 * size)
    under_way = np.arange(world.loop.received, world.loop.sent)
    columns(flight)[under_way & (2 * size - 1)] = columns(world.flight)[under_way & (size - 1)]
    return world._replace(flight=flight)


def with_stations(world: World, port: PortFacts, facts: LoopFacts, stations: int, limiters: int) -> World:
    """Return ``world`` for more stations, all that there were as they are.

    The last of these has sent nothing yet: it was stopped by what stops all stations, as are the fresh ones.
    """
    fresh = new_world(port, facts, stations=stations, limiters=limiters)
    for records in ("stopped", "pause_states", "pfc_states"):
        columns(getattr(fresh.gates, records))[:] = columns(getattr(world.gates, records))[-1]
    return world._replace(
        queues=carried(world.queues, fresh.queues),
        links=carried(world.links, fresh.links),
        gates=carried(world.gates, fresh.gates),
        agenda=_grown(world.agenda, len(fresh.queues)),
    )


def carried(old: _Machines, fresh: _Machines) -> _Machines:
    """Return ``old`` with the length of ``fresh``: what there was, then what is new.

    Both are arrays, or NamedTuples of arrays and others, whose first parts are the same stations.
    """
    if isinstance(old, tuple) and isinstance(fresh, tuple):
        parts = [carried(one, other) for one, other in zip(old, fresh, strict=True)]
        made: Any = type(old)(*parts)
        return made  # type: ignore[no-any-return]
    if isinstance(old, np.ndarray) and isinstance(fresh, np.ndarray) and old.ndim and len(fresh) > len(old):
        fresh[: len(old)] = old
        return fresh
    # Plain numbers say how things are laid out now; records and generators are what they have become.
    return fresh if isinstance(old, bool | int | float) else old


def _grown(agenda: Agenda, entries: int) -> Agenda:
    more = np.arange(len(agenda.due_ns), entries)
    return Agenda(
        np.append(agenda.due_ns, np.full(len(more), NEVER_NS)),
        np.append(agenda.heap, more),
        np.append(agenda.place, more),
    )


def _with_slots(port: Port, frames: int) -> Port:
    for priority in range(PRIORITIES):
        while int(port.line.slot_mask[priority]) + 1 < frames:
            port = with_room(port, priority)
    return port


def _ring(size: int) -> MutableSequence[Message]:
    ring: Any = new_records(Message, size)
    typed: MutableSequence[Message] = ring
    return typed
