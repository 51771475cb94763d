"""Table cells show values in the unit of their name's suffix."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ecmproto.frames.stats.cells import cells
from ecmproto.frames.stats.statistics import Distribution

TIMES = Distribution(count=2000, minimum=1, mean=1.5, maximum=2, p50=1500, p90=2, p99=2)


@dataclass
class Flow:
    """A row of a table."""

    frames: int = 1234
    octets: int = 5000
    ce_share: float = 0.5
    delay_ns: Distribution | None = None


class Whole:
    """The row's parent."""

    def bits_per_s(self, flow: Flow) -> float:
        return 8.0 * flow.octets


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("frames", "1,234"), ("octets", "5 kB"), ("ce_share", "50.0 %"), ("bits_per_s", "40 kb/s"),
        ("delay_ns.p50", "1.5 µs"), ("delay_ns.count", "2,000"),
    ],
)  # fmt: skip
def test_the_end_of_a_name_is_the_unit(name: str, text: str) -> None:
    assert cells(Flow(delay_ns=TIMES), {"": name}, Whole()) == [text]


def test_missing_value_is_a_dash() -> None:
    assert cells(Flow(), {"": "delay_ns.p50"}, Whole()) == ["–"]
