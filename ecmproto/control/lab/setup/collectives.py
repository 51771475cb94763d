"""Collectives of hosts as schedules that wait for one another: all-reduce over a ring or over a tree.

- ring: each of N hosts sends parts of 1/N of the data to the next host in 2(N − 1) steps. Each step starts
  as soon as the part of the previous step has arrived. N − 1 steps reduce, and N − 1 steps distribute
- tree: the data go up a binary tree of the hosts and down again. Hosts fill the tree in table order. A host
  forwards a part as soon as this part has arrived from both children, or from the parent
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ecmproto.errors import SpecError

_MAX_BURSTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Flow between two hosts of a collective, in bursts."""

    pair: tuple[str, str]
    bursts: tuple[tuple[int, int], ...]
    after: tuple[int, ...]
    """Indices of the steps whose bursts this step waits for."""
    lead: int = 0
    """Number of bursts at the start that do not wait for other steps."""


def collective(pairs: Sequence[tuple[str, str]], values: Mapping[str, Any], where: str) -> list[Step]:
    """Return the steps of an all-reduce among the sources in ``pairs``, with the values of a flow's table."""
    hosts = list(dict.fromkeys(source for source, _ in pairs))
    if len(hosts) < 2 or len(pairs) != len(hosts) * (len(hosts) - 1):
        needed = "all others, with two hosts or more in from"
        raise SpecError(where=f"{where}.to", needed=needed, got=f"{len(pairs)} pairs of hosts")
    count = 2 * (len(hosts) - 1) if values["algorithm"] == "ring" else values["chunks"]
    if count * len(hosts) > _MAX_BURSTS:
        raise SpecError(where=where, needed=f"at most {_MAX_BURSTS:,} bursts", got=f"{count * len(hosts):,}")
    parts = len(hosts) if values["algorithm"] == "ring" else count
    bursts = ((values["start"], -(-values["octets"] // parts)),) * count
    return _ring(hosts, bursts) if values["algorithm"] == "ring" else _tree(hosts, bursts)


def _ring(hosts: Sequence[str], bursts: tuple[tuple[int, int], ...]) -> list[Step]:
    count = len(hosts)
    return [
        Step(pair=(host, hosts[(at + 1) % count]), bursts=bursts, after=((at - 1) % count,), lead=1)
        for at, host in enumerate(hosts)
    ]


def _tree(hosts: Sequence[str], bursts: tuple[tuple[int, int], ...]) -> list[Step]:
    """Return the steps up, one for each host except the first, followed by the corresponding steps down."""
    count, steps = len(hosts), []
    for at in range(1, count):
        children = (2 * at + 1, 2 * at + 2)
        after = tuple(child - 1 for child in children if child < count)
        steps.append(Step(pair=(hosts[at], hosts[(at - 1) // 2]), bursts=bursts, after=after))
    for at in range(1, count):
        parent = (at - 1) // 2
        root = tuple(child - 1 for child in (1, 2) if child < count)
        after = root if parent == 0 else (count - 1 + parent - 1,)
        steps.append(Step(pair=(hosts[parent], hosts[at]), bursts=bursts, after=after))
    return steps
