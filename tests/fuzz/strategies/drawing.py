"""Reproducible examples from strategies, and the strategies of formats by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.strategies import SearchStrategy

from ecmproto.tools.fuzz.strategies import (
    bcn_messages,
    cm_tags,
    cn_tags,
    cnms,
    dbp_reports,
    e2cm_messages,
    e2cm_probes,
    ecm_frames,
    fecn_returns,
    rd_tags,
    rrt_tags,
)
from ecmproto.wire.codec import (
    BCN,
    CNM,
    E2CM,
    ECM,
    CMTag,
    CNTag,
    DBPRateReport,
    FECNReturn,
    Layer,
    RDTag,
    RRTTag,
)

T = TypeVar("T")
QUICK = settings(max_examples=2000, database=None, derandomize=True, suppress_health_check=list(HealthCheck))

NAMED: tuple[tuple[Callable[..., SearchStrategy[Any]], type[Layer]], ...] = (
    (cn_tags, CNTag), (cnms, CNM), (ecm_frames, ECM), (cm_tags, CMTag), (bcn_messages, BCN),
    (rrt_tags, RRTTag), (e2cm_probes, E2CM), (e2cm_messages, E2CM), (rd_tags, RDTag),
    (fecn_returns, FECNReturn), (dbp_reports, DBPRateReport),
)  # fmt: skip


def collected(strategy: SearchStrategy[Any], count: int = 300) -> list[Any]:
    values: list[Any] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Any) -> None:
        values.append(value)

    collect()
    return values


def smallest(strategy: SearchStrategy[T], holds: Callable[[T], bool]) -> T:
    """Return the example to which an example that fulfils ``holds`` shrinks.

    Each call returns the same example.
    """
    return find(strategy, holds, settings=QUICK, random=random.Random(1))
