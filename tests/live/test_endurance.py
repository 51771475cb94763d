"""A short endurance run: the counters of each device balance after all disturbances."""

from __future__ import annotations

from bench.endurance import DEVICES, Endurance, balance
from tests.live.wires import requires_namespaces

SECONDS = 6


def test_the_balance_finds_a_missing_frame() -> None:
    link = {"received_frames": 10, "sent_frames": 0, "unsent_frames": 0, "refused_frames": 0}
    links = {
        "a": link, "b": link | {"received_frames": 5}, "c": link | {"sent_frames": 11, "unsent_frames": 1},
    }  # fmt: skip
    counters = {"queued_frames": 13, "departed_frames": 12, "dropped_frames": 1, "link_local_frames": 1}
    document = {"counters": counters, "links": links, "gauges": {"queue_frames": 1}}
    assert balance("cp", document) == {"received": (15, 15), "queued": (13, 13), "departed": (12, 12)}
    links["c"]["sent_frames"] = 10
    assert balance("cp", document)["departed"] == (12, 11)


def test_counters_balance_through_link_and_device_failures() -> None:
    requires_namespaces()
    endurance = Endurance(SECONDS, 3, print)
    endurance.run()
    assert not endurance.found
    assert len(endurance.frames) == len(DEVICES)
    assert min(endurance.frames.values()) > 100
    assert sum(endurance.happened.values()) > 1
