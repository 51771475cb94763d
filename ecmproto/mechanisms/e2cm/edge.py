"""The edge of an E²CM domain: the destination answers probes and takes CM-Tags off (algorithms §4, 3)."""

from __future__ import annotations

from ecmproto.mechanisms.e2cm.edge_receiver import (
    EdgeCounters,
    Flow,
    ProbeReply,
    on_data,
    on_probe,
    on_unknown_probe,
)
from ecmproto.mechanisms.e2cm.messages import untagged
from ecmproto.mechanisms.e2cm.probes import probe_reply, probed_flow_of, read_probe

__all__ = [
    "EdgeCounters", "Flow", "ProbeReply", "on_data", "on_probe", "on_unknown_probe", "probe_reply",
    "probed_flow_of", "read_probe", "untagged",
]  # fmt: skip
