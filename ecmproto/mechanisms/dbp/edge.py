"""The DBP destination: it reports to each active source, every 10 ms (algorithms §5 item 5; S002).

The caller numbers the sources that data come from and keeps a header of each; :func:`hear` notes a data
frame, :func:`on_timer` says to whom a report is due, ``messages.report`` makes it.  A timer that is due
runs before later frames are noted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.dbp.parameters import EdgeParameters
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.record import new_record, new_records
from ecmproto.structs import Random


class Destination:
    """What a destination remembers; a record (``ecmproto.record``)."""

    timer_ns: int
    """When the next reports are due; NEVER_NS while no source is active."""
    phase_ns: int
    """When reports are due: at multiples of their interval plus this."""
    last_source: int
    """The largest number of a source heard, −1 before the first."""
    reports: int
    """Reports that became due."""
    unheard_frames: int
    """Data frames from sources beyond the table, who get no reports."""
    unanswerable: int
    """Reports not made, since the source is a group address or this station itself."""


class Heard:
    """When data last came from one source; a record."""

    heard_ns: int


class Settings:
    """The parameters as the kernels read them; a record."""

    report_interval_ns: int
    active_ns: int
    random_phase: int


def settings_record(parameters: EdgeParameters) -> Settings:
    """Return the record of settings for ``parameters``."""
    record = new_record(Settings)
    record.report_interval_ns = parameters.report_interval_ns
    record.active_ns = parameters.active_ns
    record.random_phase = parameters.random_phase
    return record


def heard_records(parameters: EdgeParameters) -> Sequence[Heard]:
    """Return the table of sources, none of them heard yet."""
    return new_records(Heard, parameters.sources)


@compiled
def start(destination: Destination, heard: Sequence[Heard], settings: Settings, generator: Random) -> None:
    """Bring ``destination`` to its start; draws once from ``generator`` if the phase is random."""
    destination.timer_ns = NEVER_NS
    destination.last_source = -1
    destination.phase_ns = 0
    if settings.random_phase:
        destination.phase_ns = math.floor(generator.random() * settings.report_interval_ns)
    for index in range(len(heard)):
        heard[index].heard_ns = -NEVER_NS


@inlined
def next_timer_ns(destination: Destination) -> int:
    """Return when the next reports are due; NEVER_NS while no source is active."""
    return destination.timer_ns


@compiled
def hear(
    destination: Destination, heard: Sequence[Heard], settings: Settings, source: int, now_ns: int
) -> None:
    """Note a data frame of the source numbered ``source`` (−1: more than can be numbered) at ``now_ns``."""
    if source < 0 or source >= len(heard):
        destination.unheard_frames += 1
        return
    heard[source].heard_ns = now_ns
    destination.last_source = max(destination.last_source, source)
    if destination.timer_ns == NEVER_NS:
        intervals = (now_ns - destination.phase_ns) // settings.report_interval_ns + 1
        destination.timer_ns = destination.phase_ns + intervals * settings.report_interval_ns


@compiled
def on_timer(
    destination: Destination,
    heard: Sequence[Heard],
    settings: Settings,
    now_ns: int,
    due: NDArray[np.int64],
) -> int:
    """Put the numbers of the sources that get a report into ``due``, one entry a source; return how many.

    Handles one due time a call: when late, the caller calls again while :func:`next_timer_ns` has passed.
    """
    if now_ns < destination.timer_ns:
        return 0
    earliest_ns = destination.timer_ns - settings.active_ns
    count = 0
    for index in range(destination.last_source + 1):
        if heard[index].heard_ns >= earliest_ns:
            due[count] = index
            count += 1
    destination.reports += count
    destination.timer_ns = NEVER_NS if count == 0 else destination.timer_ns + settings.report_interval_ns
    return count
