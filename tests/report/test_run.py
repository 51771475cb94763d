"""Values that do not fit together are refused where they are made."""

from __future__ import annotations

import pytest

from ecmproto.report.run import Drops, Feedback, FlowCurves, Messages, QueueCurve
from tests.report.sample import floats, integers


def test_curves_have_one_value_per_slot() -> None:
    QueueCurve(edges_ns=integers(0, 1, 2), mean_octets=floats(1, 2), peak_octets=floats(1, 2))
    with pytest.raises(ValueError, match="needed one value per slot, 2"):
        QueueCurve(edges_ns=integers(0, 1, 2), mean_octets=floats(1, 2), peak_octets=floats(1))
    with pytest.raises(ValueError, match="one value per slot, 1"):
        FlowCurves(
            label="a",
            edges_ns=integers(0, 1),
            sent_bps=floats(1),
            delivered_bps=floats(1),
            limit_bps=floats(),
        )


def test_columns_have_one_length() -> None:
    with pytest.raises(ValueError, match="needed one length"):
        Feedback(time_ns=integers(1), value=floats(), priority=integers(1))
    with pytest.raises(ValueError, match="needed one length"):
        Drops(time_ns=integers(1), count=integers())


def test_messages_go_to_rows_that_have_a_label() -> None:
    with pytest.raises(ValueError, match="needed 0 to 0"):
        Messages(labels=("a",), time_ns=integers(1), row=integers(1))
    with pytest.raises(ValueError, match="needed 0 to 0"):
        Messages(labels=("a",), time_ns=integers(1), row=integers(-1))
