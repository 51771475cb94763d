"""Reduced samples of a replay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.protocol import Message, flow_control_payload, post
from ecmproto.control.mechanisms.api.protocol import new_outbox as outbox_of
from ecmproto.control.replay import series
from ecmproto.control.replay.series import SAMPLE, Samples, sample_rows
from ecmproto.kernels.record import columns

ROOM = 10


@given(st.lists(st.integers(0, 25), max_size=30))
@settings(max_examples=100)
def test_first_and_every_nth_sample_are_kept(sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(series, "LARGEST_ROWS", ROOM)
        kept, seen = Samples(), 0
        for size in sizes:
            rows = np.zeros(size, SAMPLE)
            rows["time_ns"] = np.arange(seen, seen + size)
            seen += size
            kept.add(rows)
            assert kept.rows["time_ns"].tolist() == list(range(0, seen, kept.stride))
            assert len(kept.rows) <= ROOM
    # No thinner than it must be: twice as many rows would not have found room.
    assert kept.stride == 1 or -(-seen // (kept.stride // 2)) > ROOM


def test_rows_contain_the_messages_fields() -> None:
    outbox = outbox_of(2)
    for kind in (1, 100):
        post(outbox, kind, 7 * kind, 2, 3, 5)
        # Plain Python gets a copy of a record that a compiled function returns.
        message = outbox.messages[outbox.posted.count - 1]
        message.qlen_octets, message.fb_octets, message.rate_kbps = 1_000 + kind, -2.5, 4_000
        fields = flow_control_payload(message)
        fields.quanta, fields.enable_vector = 9, 0x28
    rows = sample_rows(columns(outbox.messages), np.array([0, 4]), np.array([11, -1]))
    assert rows.dtype == SAMPLE
    assert [tuple(row.tolist()) for row in rows] == [
        (7, 0, 11, 5, 1, 1, 1_001, -2.5, 4_000, 0, 0),
        (700, 4, -1, 5, 100, 1, 1_100, -2.5, 4_000, 9, 0x28),
    ]
    assert set(SAMPLE.names or ()) - set(Message.__annotations__) == {"port", "quanta", "enable_vector"}
