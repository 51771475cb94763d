"""The payload that a mechanism declares for a new message."""

from __future__ import annotations

import numpy as np
import pytest

from ecmproto.control.mechanisms.api.protocol import (
    PAUSE_KIND,
    Message,
    clear,
    fields_of,
    messages_of,
    payload_columns,
)
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import columns, new_record
from ecmproto.kernels.structs import payload_view

TOY_KIND = 7


class ToyPayload:
    depth: int
    share: float


PAYLOADS = {TOY_KIND: ToyPayload}
toy_payload = payload_view(ToyPayload, "payload")


@compiled
def say(message: Message, depth: int, share: float) -> float:
    fields = toy_payload(message)
    fields.depth = depth
    fields.share = share
    return fields.depth + toy_payload(message).share


def test_a_kernel_and_python_see_the_same_payload() -> None:
    message = new_record(Message)
    assert say(message, -5, 0.25) == -4.75
    assert (toy_payload(message).depth, toy_payload(message).share) == (-5, 0.25)
    toy_payload(message).depth = 2**40
    assert say(message, toy_payload(message).depth, 0.0) == 2**40
    assert (message.kind, message.flow, message.rate_kbps) == (0, 0, 0)
    clear(message)
    assert (toy_payload(message).depth, toy_payload(message).share) == (0, 0.0)


def test_messages_use_names_of_header_and_payload() -> None:
    toy: dict[str, float] = {"kind": TOY_KIND, "flow": 3, "depth": -9, "share": 0.5}
    pause: dict[str, float] = {"kind": PAUSE_KIND, "enable_vector": 0xFF, "quanta": 300}
    messages = messages_of([toy, pause, toy], PAYLOADS)
    for message, said in zip(messages, (toy, pause, toy), strict=True):
        assert fields_of(message, PAYLOADS).items() >= said.items()
    toys = columns(messages)[columns(messages)["kind"] == TOY_KIND]
    assert payload_columns(toys, ToyPayload)["depth"].tolist() == [-9, -9]
    assert np.asarray(payload_columns(toys, ToyPayload)["share"]).tolist() == [0.5, 0.5]


def test_field_that_no_payload_has_is_left_out() -> None:
    (message,) = messages_of([{"kind": TOY_KIND, "quanta": 4}], PAYLOADS)
    assert "quanta" not in fields_of(message, PAYLOADS)
    with pytest.raises(AttributeError, match="has no 'quanta'"):
        _ = message.quanta  # type: ignore[attr-defined]
