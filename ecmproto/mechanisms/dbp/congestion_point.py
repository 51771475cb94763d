"""The DBP congestion point: FECN's, on the way back (algorithms §5 item 5).

A rate report gets the lesser of its rate and that of the output queue **of the port on which it arrives**:
the queue that the data of its receiver go through.
"""

from __future__ import annotations

from ecmproto.mechanisms.fecn.congestion_point import (
    Settings,
    State,
    count,
    lowered,
    next_timer_ns,
    on_timer,
    set_capacity,
    settings_record,
    start,
)

__all__ = [
    "Settings", "State", "count", "lowered", "next_timer_ns", "on_timer", "set_capacity", "settings_record",
    "start",
]  # fmt: skip
