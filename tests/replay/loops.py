"""Small captures for closed loops, hand-written or random, and the results of the loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.config import LoopConfig, PortConfig, RateChange
from ecmproto.control.mechanisms.api.machine import Machine, machine_of
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.control.replay.closed_loop import ClosedLoopReplay
from ecmproto.control.replay.summary import ReplaySummary, StationsSummary
from ecmproto.frames.capture.batch import Batch

TEN_G = 10**10
START_NS = 1_600_000_000_000_000_000
SHOWN_OCTETS = 64
HOST = bytes.fromhex("0200000000")
GROUP = bytes.fromhex("0300000000")
DESTINATION = 250
CP_MAC = bytes.fromhex("0200000000cc")

BUSY = {
    "none": [],
    "qcn": ["cp.qeq=10kB", "cp.sample_base=10kB"],
    "ecm": ["cp.qeq=10kB", "cp.sf=10kB", "cp.sr=3kB", "cp.qsc=40kB"],
    "bcn": ["cp.qeq=10kB", "cp.sf=10kB", "cp.sr=3kB", "cp.qsc=40kB"],
    "e2cm": ["cp.qeq=10kB", "cp.sf=10kB", "cp.sr=3kB"],
    "fecn": ["cp.T=100us", "rp.tau=100us", "rp.N0=4", "cp.N0=4"],
    "dbp": [],
    "csig": [],
    "hpcc": ["rp.base_rtt=30us"],
    "swift": [],
    "isolation": ["cp.threshold=10kB", "cp.flow_octets=5kB", "cp.interval=20us"],
    "ecn": ["cp.kmin=5kB", "cp.kmax=20kB", "cp.pmax=0.5"],
    "dcqcn": ["cp.kmin=5kB", "cp.kmax=20kB", "cp.pmax=0.5", "rp.ect=yes"],
    "pause": ["cp.pause_on=output", "cp.high=60kB", "cp.low=30kB"],
    "pfc": ["cp.pause_on=input", "cp.high=3kB", "cp.low=1kB"],
}
"""Parameters that let every mechanism have much to do in little time."""


class Sent(NamedTuple):
    """A frame that a station is to send."""

    time_ns: int
    station: int
    octets: int = 1500
    priority: int = 0
    vlan: int = 1
    destination: int = DESTINATION
    to_group: bool = False


class Loop(NamedTuple):
    """All results of a closed loop after the last frame and message have arrived."""

    passages: NDArray[Any]
    messages: NDArray[Any]
    summary: ReplaySummary
    replay: ClosedLoopReplay

    @property
    def stations(self) -> StationsSummary:
        """The summary of stations."""
        assert self.summary.stations is not None
        return self.summary.stations


def octets_of(frame: Sent) -> bytes:
    """Return the captured start of ``frame``."""
    to = (GROUP if frame.to_group else HOST) + bytes([frame.destination])
    tag = (frame.priority << 13 | frame.vlan).to_bytes(2)
    header = to + HOST + bytes([frame.station]) + b"\x81\x00" + tag + b"\x08\x00"
    return header.ljust(SHOWN_OCTETS, bytes([frame.station]))[: frame.octets]


def batches_of(frames: Sequence[Sent], *, sizes: Sequence[int] = ()) -> list[Batch]:
    """Return ``frames``, which are in time order, in batches of ``sizes``.

    The last batch contains the remaining frames.
    """
    ends = [0, *np.minimum(np.cumsum(np.array(sizes, np.int64)), len(frames)).tolist(), len(frames)]
    return [
        Batch.from_frames(
            [octets_of(frame) for frame in frames[start:end]],
            time_ns=[START_NS + frame.time_ns for frame in frames[start:end]],
            original=[frame.octets for frame in frames[start:end]],
            first=start,
        )
        for start, end in pairwise(ends)
    ]


def machine(name: str, *assignments: str) -> Machine:
    """Return a mechanism by its name, with ``assignments`` as on the command line."""
    mechanism = find_mechanism(name)
    return machine_of(mechanism, mechanism.parse(list(assignments)))


def loop_of(
    frames: Sequence[Sent],
    name: str | Machine,
    *assignments: str,
    sizes: Sequence[int] = (),
    rate_bps: int = TEN_G,
    link_rate_bps: int = TEN_G,
    buffer_octets: int = 500_000,
    buffer_frames: int = 0,
    overhead_octets: int = 24,
    rate_changes: tuple[RateChange, ...] = (),
    delay_ns: int = 10_000,
    queue_octets: int = 1_000_000,
    seed: int = 1,
    **facts: Any,
) -> ClosedLoopReplay:
    """Return the closed loop of ``frames`` around a port of 10 Gb/s, not run yet."""
    return ClosedLoopReplay(
        batches_of(frames, sizes=sizes),
        machine=machine(name, *assignments) if isinstance(name, str) else name,
        port=PortConfig(
            rate_bps=rate_bps,
            buffer_octets=buffer_octets,
            buffer_frames=buffer_frames,
            overhead_octets=overhead_octets,
            rate_changes=rate_changes,
            cp_mac=CP_MAC,
        ),
        loop=LoopConfig(
            link_rate_bps=link_rate_bps, feedback_delay_ns=delay_ns, queue_octets=queue_octets, **facts
        ),
        seed=seed,
    )


def ran(replay: ClosedLoopReplay) -> Loop:
    """Return the result of ``replay``, run."""
    pieces = list(replay)
    empty = loop_records(replay)
    return Loop(
        np.concatenate([empty[0], *(piece.passages for piece in pieces)]),
        np.concatenate([empty[1], *(piece.messages for piece in pieces)]),
        replay.summary(drained=True),
        replay,
    )


def loop_records(replay: ClosedLoopReplay) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return no passages and no messages."""
    piece = replay._drained()
    return piece.passages[:0], piece.messages[:0]


def run(frames: Sequence[Sent], name: str | Machine, *assignments: str, **options: Any) -> Loop:
    """Return the result of the closed loop of ``frames``."""
    return ran(loop_of(frames, name, *assignments, **options))


def incast(
    milliseconds: float, *, stations: int = 4, load: float = 1.0, seed: int | None = None, octets: int = 1500
) -> list[Sent]:
    """Return frames that ``stations`` send on links of 10 Gb/s, back to back or each slot by chance."""
    slot_ns = -(-8 * (octets + 24) * 10**9 // TEN_G)
    draws = np.random.default_rng(seed)
    return [
        Sent(slot * slot_ns + (station - 1) * slot_ns // stations, station, octets)
        for slot in range(int(milliseconds * 1e6) // slot_ns)
        for station in range(1, stations + 1)
        if seed is None or draws.random() < load
    ]


def mixed(count: int, *, stations: int = 5, seed: int = 1, gap_ns: int = 400) -> list[Sent]:
    """Return frames of every kind: many lengths, priorities, VLANs and flows, groups and other protocols."""
    draws = np.random.default_rng(seed)
    times = np.cumsum(draws.integers(0, 2 * gap_ns, count)).tolist()
    return [
        Sent(
            time_ns=time_ns,
            station=int(draws.integers(1, stations + 1)),
            octets=int(draws.choice([60, 64, 300, 1500, 1500, 1514])),
            priority=int(draws.choice([0, 3, 3, 6])),
            vlan=int(draws.choice([1, 2])),
            destination=int(draws.choice([DESTINATION, DESTINATION, 251])),
            to_group=bool(draws.random() < 0.03),
        )
        for time_ns in times
    ]


def rows(records: NDArray[Any]) -> list[tuple[Any, ...]]:
    """Return records as tuples of Python numbers."""
    return [tuple(row) for row in records.tolist()]
