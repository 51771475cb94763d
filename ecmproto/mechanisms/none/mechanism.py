"""No congestion management: queues fill and overflow, senders send as they please.

A mechanism like any other, so that every comparison can have its baseline: it has no congestion point, no
reaction point and no edge, hence no parameters, no messages and no tags.
"""

from __future__ import annotations

from ecmproto.mechanisms.mechanism import Mechanism

NONE = Mechanism(
    name="none",
    title="No congestion management (baseline)",
    source="algorithms §6",
    machine="ecmproto.mechanisms.none.machine:IdleMachine",
    roles={},
)
"""No control."""
