"""Randomly damaged frames cause no exception in any rule, for all link types, times and truncations."""

from __future__ import annotations

import dataclasses
import tracemalloc
from random import Random

import numpy as np

from ecmproto.frames.capture import Batch, Interface, open_capture
from ecmproto.tools.check import Checker
from pcaps.manifest import FOLDER
from tests.plain import sent

_CAPTURES = (
    "mixed.pcap", "malformed.pcapng", "pfc.pcap", "e2cm_edge.pcap", "e2cm_source.pcap", "fecn_source.pcap",
    "fecn_edge.pcap", "dbp_edge.pcap", "bcn_cp.pcap", "ecm_cp.pcap", "ecm_rp.pcap",
    "lldp_cn.pcap", "dcbx.pcap", "qcn_pbb.pcap",
)  # fmt: skip


def spoilt(drawn: Random, count: int) -> tuple[Batch, tuple[Interface, ...]]:
    frames = []
    for name in _CAPTURES:
        with open_capture(FOLDER / name) as reader:
            frames += [frame for batch in reader for frame in batch.frames()]
    made = []
    for _ in range(count):
        octets = bytearray(drawn.choice(frames))
        for _ in range(drawn.choice((0, 0, 1, 8)) if octets else 0):
            octets[drawn.randrange(len(octets))] = drawn.choice((0, 255, drawn.randrange(256)))
        made.append(
            bytes(octets[: drawn.choice((len(octets), len(octets), drawn.randrange(1 + len(octets))))])
        )
    odd = (-(1 << 62), 0, (1 << 63) - 1)
    times = [drawn.choice(odd) if not drawn.randrange(20) else at * 1000 for at in range(count)]
    batch = Batch.from_frames(
        made,
        time_ns=np.array(times, np.int64),
        original=[len(each) + drawn.choice((0, 0, 100)) for each in made],
        interface=[drawn.randrange(3) for _ in made],
    )
    timed = np.array([drawn.random() < 0.9 for _ in made])
    kinds = ((1, 0), (1, 4), (113, 0))
    return dataclasses.replace(batch, timed=timed), tuple(
        Interface(index=index, linktype=linktype, fcs_octets=fcs)
        for index, (linktype, fcs) in enumerate(kinds)
    )


def test_random_damage_is_judged_and_parts_merge() -> None:
    drawn = Random(1)
    here, there = Checker(), Checker()
    for checker in (here, there):
        batch, interfaces = spoilt(drawn, 1500)
        checker.add(batch, interfaces=interfaces)
        assert checker.result().wrong > 0
    wrong = here.result().wrong
    copy = Checker()
    copy.restore(sent(there.state()))
    here.merge(copy, other_interfaces=True)
    result = here.result()
    assert (result.frames, len(result.interfaces)) == (3000, 6)
    assert result.wrong > wrong
    assert all(case.wrong <= case.judged for each in result.results for case in each.cases)


def test_memory_does_not_grow_with_the_capture() -> None:
    drawn = Random(2)
    checker = Checker()
    batch, interfaces = spoilt(drawn, 1000)

    def grown(times: int) -> int:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(times):
            checker.add(batch, interfaces=interfaces)
        return tracemalloc.get_traced_memory()[0] - before

    for _ in range(3):
        checker.add(batch, interfaces=interfaces)
    tracemalloc.start()
    try:
        assert grown(5) < 3_000_000
    finally:
        tracemalloc.stop()
