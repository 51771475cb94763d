"""Captures with planted faults, and the findings in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ecmproto.frames.capture import Batch, Interface
from ecmproto.tools.check import FAMILIES, Checked, Checker, Family, chosen
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from tests.plain import sent

START_NS = 1_700_000_000_000_000_000
US, MS = 10**3, 10**6
LINKS = (Interface(index=0, linktype=1, name="east"), Interface(index=1, linktype=1, name="west"))

Event = tuple[int, bytes] | tuple[int, bytes, int]
"""A time after `START_NS`, a frame, and optionally its interface (default 0)."""


def frame(line: str, /, **fields: Any) -> bytes:
    """Return the octets of a frame, as in ``frame("vlan id=5 priority=6 cnm", qntz_fb=40)``."""
    return encode(build(line, **fields))


def batch_of(events: Sequence[Event], first: int = 0) -> Batch:
    """Return events as a batch of frames."""
    return Batch.from_frames(
        [event[1] for event in events],
        time_ns=[START_NS + event[0] for event in events],
        interface=[event[2] if len(event) > 2 else 0 for event in events],
        first=first,
    )


def checker_of(
    events: Sequence[Event],
    select: Iterable[str] = (),
    parameters: Mapping[str, str] | None = None,
    *,
    families: Sequence[Family] = FAMILIES,
    at_once: int = 1000,
) -> Checker:
    """Return a checker that has processed events in batches of ``at_once`` frames."""
    checker = Checker(chosen(select, (), families), parameters, families=families)
    for first in range(0, len(events), at_once):
        checker.add(batch_of(events[first : first + at_once], first), interfaces=LINKS)
    return checker


def checked(
    events: Sequence[Event],
    select: Iterable[str] = (),
    parameters: Mapping[str, str] | None = None,
    *,
    families: Sequence[Family] = FAMILIES,
    parts: bool = True,
) -> Checked:
    """Return the findings, and assert that the findings do not depend on batches or, with ``parts``, on
    parts.
    """
    select = tuple(select)
    whole = checker_of(events, select, parameters, families=families).result()
    one_by_one = checker_of(events, select, parameters, families=families, at_once=1).result()
    assert one_by_one == whole
    for cut in sorted({1, len(events) // 3, len(events) // 2, len(events) - 1}):
        if parts and 0 < cut < len(events):
            apart = [
                checker_of(part, select, parameters, families=families)
                for part in (events[:cut], events[cut:])
            ]
            here, there = (checker_of((), select, parameters, families=families) for _ in apart)
            for one, other in zip((here, there), apart, strict=True):
                one.restore(sent(other.state()))
            here.merge(there)
            assert here.result() == whole, f"cut at {cut}"
            assert here.result() == whole
    return whole


def faults(result: Checked) -> list[tuple[str, int | None]]:
    """Return the rule and frame of each finding."""
    return [(finding.rule, finding.frame) for finding in result.findings]
