"""The DBP reaction point: FECN's source, told its rates by reports (algorithms §5 item 5).

It tags nothing.  A report names no queue (its RLQ-ID is 0): it is for all that this
source sends to the station it comes from, so a source has one rate-limited queue per destination, whatever
the priority.
"""

from __future__ import annotations

from collections.abc import Sequence

from ecmproto.kernel import compiled
from ecmproto.mechanisms.dbp.parameters import ReactionPointParameters
from ecmproto.mechanisms.fecn.reaction_point import (
    Queue,
    Return,
    Settings,
    Source,
    join,
    leave,
    next_timer_ns,
    on_return,
    queue_index,
    queue_records,
    route,
    source_settings_record,
    start,
)

__all__ = [
    "Queue", "Settings", "Source", "join", "leave", "next_timer_ns", "on_report", "queue_records", "route",
    "settings_record", "start",
]  # fmt: skip


def settings_record(parameters: ReactionPointParameters) -> Settings:
    """Return the record of settings for ``parameters``."""
    return source_settings_record(parameters)


@compiled
def on_report(
    source: Source, queues: Sequence[Queue], settings: Settings, flow: int, rate: int, now_ns: int
) -> None:
    """Set the queue of the destination numbered ``flow`` (−1: unknown) to ``rate``, kb/s as on the wire."""
    rlq_id = queue_index(queues, flow) + 1 if flow >= 0 else 0
    on_return(source, queues, settings, Return(rlq_id, rate), now_ns)
