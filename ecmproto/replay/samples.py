"""The samples and messages of a replay as they went by, thinned out so that they stay few."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.mechanisms.protocol import PAUSE_KIND

LARGEST_ROWS = 20_000

SAMPLE = np.dtype(
    [
        ("time_ns", np.int64),
        ("port", np.int64),
        ("flow", np.int64),
        ("priority", np.int64),
        ("kind", np.int64),
        ("sent", np.int64),
        ("qlen_octets", np.int64),
        ("fb_octets", np.float64),
        ("rate_kbps", np.int64),
        ("quanta", np.int64),
        ("enable_vector", np.int64),
    ]
)
"""``flow`` is the flow's own number, −1 for none; ``rate_kbps`` what a rate discovery switch advertises."""

SAME_NAMES = (
    "time_ns", "priority", "kind", "sent", "qlen_octets", "fb_octets", "quanta", "enable_vector",
)  # fmt: skip
"""Columns that are called the same in a message."""


def sample_rows(messages: NDArray[Any], port: NDArray[Any] | int, flow: NDArray[np.int64]) -> NDArray[Any]:
    """Return messages (`protocol.Message`) as rows of SAMPLE."""
    rows = np.zeros(len(messages), SAMPLE)
    for name in SAME_NAMES:
        rows[name] = messages[name]
    rows["rate_kbps"] = messages["rate"]
    rows["port"], rows["flow"] = port, flow
    return rows


def to_flows(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows of SAMPLE are messages of the mechanism, not of flow control, that went to a flow."""
    messages: NDArray[np.bool_] = (rows["sent"] == 1) & (rows["flow"] >= 0) & (rows["kind"] < PAUSE_KIND)
    return messages


class Samples:
    """Rows of SAMPLE, the first, and every n-th after it: n doubles when there are LARGEST_ROWS.

    ``sent`` counts all messages of the mechanism that went to a flow, by its number.
    """

    def __init__(self) -> None:
        self.sent: Counter[int] = Counter()
        self._kept = np.zeros(0, SAMPLE)
        self._stride = 1
        self._seen = 0

    def add(self, rows: NDArray[Any]) -> None:
        """Take the next rows."""
        flow = rows["flow"][to_flows(rows)]
        for number, count in zip(*np.unique(flow, return_counts=True), strict=True):
            self.sent[int(number)] += int(count)
        start = -self._seen % self._stride
        self._seen += len(rows)
        self._kept = np.append(self._kept, rows[start :: self._stride])
        while len(self._kept) > LARGEST_ROWS:
            self._kept = self._kept[::2]
            self._stride *= 2

    @property
    def rows(self) -> NDArray[Any]:
        """The rows that were kept, in their order."""
        return self._kept

    @property
    def stride(self) -> int:
        """Of how many rows each one was kept."""
        return self._stride
