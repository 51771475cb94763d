"""Labels of flows contain only the parts that distinguish the flows."""

from __future__ import annotations

import numpy as np

from ecmproto.control.replay.summary import flow_labels
from ecmproto.frames.batch.flows import FlowTable
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.flow import FlowKey


def frame(source: int, *, destination: int = 9, vlan: int | None = None, priority: int = 0) -> bytes:
    tag = b"" if vlan is None else b"\x81\x00" + (priority << 13 | vlan).to_bytes(2)
    addresses = b"".join(b"\x02\0\0\0\0" + bytes([end]) for end in (destination, source))
    return (addresses + tag + b"\x08\x00").ljust(60, b"\0")


def test_labels_are_shortest_that_distinguish_flows() -> None:
    table = FlowTable(FlowKey(vlan=True, dst=True, priority=True, cn_tag=True))
    frames = [frame(1), frame(2, vlan=7, priority=3), frame(2, vlan=7, priority=4), frame(3, vlan=1)]
    batch = Batch.from_frames(frames)
    numbers = table.number(batch.buffer, batch.offset, batch.captured)
    labels = flow_labels(table)
    assert [labels[int(n)] for n in table.numbers(*numbers)] == [
        "02:00:00:00:00:01",
        "02:00:00:00:00:02 → 02:00:00:00:00:09, VLAN 7, priority 3",
        "02:00:00:00:00:02 → 02:00:00:00:00:09, VLAN 7, priority 4",
        "02:00:00:00:00:03",
    ]


def test_labels_of_no_flows_are_empty() -> None:
    table = FlowTable(FlowKey(vlan=True, dst=True, priority=True, cn_tag=False))
    batch = Batch.from_frames([])
    table.number(batch.buffer, batch.offset, batch.captured)
    assert flow_labels(table) == {}
    assert table.numbers(np.array([-1], np.int32), np.array([0], np.int32)).tolist() == [-1]
