"""Failures shrink to the relevant field, tag or frame, with defaults for all other values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.strategies import SearchStrategy

from ecmproto.tools.fuzz.strategies import (
    cnms,
    ecm_frames,
    frames,
    lldp_frames,
    message_frames,
    pause_frames,
    pfc_frames,
    tagged_frames,
)
from ecmproto.wire.codec import (
    CNM,
    ECM,
    PFC,
    TLV,
    VLAN,
    CongestionNotificationTLV,
    Data,
    Ethernet,
    Frame,
    ITag,
    Layer,
    encode,
)
from tests.fuzz.strategies.drawing import NAMED, smallest


def test_layer_shrinks_to_its_failing_field() -> None:
    assert smallest(cnms(), lambda value: value.qntz_fb >= 10) == CNM(qntz_fb=10)
    assert smallest(ecm_frames(), lambda value: value.q_off < -5) == ECM(q_off=-6, payload=bytes(24))


@pytest.mark.parametrize(("named", "cls"), NAMED, ids=[named.__name__ for named, _ in NAMED])
def test_a_layer_shrinks_to_its_defaults(named: Callable[..., SearchStrategy[Any]], cls: type[Layer]) -> None:
    least, default = smallest(named(), lambda _: True), cls()
    changed = {field.key for field in cls.layout if getattr(least, field.key) != getattr(default, field.key)}
    # The message's type, and the minimum length of a sampled frame.
    assert changed <= {"type", "payload"}
    assert len(least.build()) <= len(default.build()) + 24


@pytest.mark.parametrize(
    "strategy",
    [frames(), tagged_frames(), message_frames(), pause_frames(), pfc_frames(), lldp_frames()],
    ids=["any", "tagged", "message", "pause", "pfc", "lldp"],
)
def test_frame_shrinks_to_60_octets(strategy: SearchStrategy[Frame]) -> None:
    least = smallest(strategy, lambda _: True)
    assert len(least.layers) <= 3
    assert len(encode(least)) == 60


def test_counted_octets_shrink_with_their_length() -> None:
    assert smallest(cnms(), lambda value: len(value.msdu) >= 3) == CNM(msdu_length=3, msdu=bytes(3))


def test_frame_shrinks_to_the_failing_tag() -> None:
    frame = smallest(tagged_frames(), lambda frame: any(tag.id > 99 for tag in frame.all(VLAN)))
    tags = [value for value in frame.layers if not isinstance(value, Ethernet | Data)]
    assert len(tags) <= 2
    assert [tag.replace(etype=0) for tag in frame.all(VLAN)][-1] == VLAN(id=100)


@pytest.mark.parametrize(
    ("strategy", "cls", "key", "least"),
    [
        (message_frames(), CNM, "qntz_fb", 10),
        (message_frames(), ECM, "q_off", 1000),
        (pfc_frames(), PFC, "time7", 65535),
        (tagged_frames(), ITag, "isid", 300),
    ],
    ids=["qntz_fb", "q_off", "time7", "isid"],
)
def test_boundary_frame_shrinks_to_one_field(
    strategy: SearchStrategy[Frame], cls: type[Layer], key: str, least: int
) -> None:
    frame = smallest(strategy, lambda frame: any(getattr(layer, key) >= least for layer in frame.all(cls)))
    (layer,) = frame.all(cls)
    default = cls()
    changed = {field.key for field in cls.layout if getattr(layer, field.key) != getattr(default, field.key)}
    assert getattr(layer, key) == least
    assert changed <= {key, "etype", "cpid", "payload"}
    assert len(frame.layers) <= 3
    assert not any(frame.all(VLAN))


def test_lldp_frame_shrinks_to_the_failing_tlv() -> None:
    frame = smallest(lldp_frames(), lambda frame: CongestionNotificationTLV in frame)
    assert frame.layers[1:] == (CongestionNotificationTLV(), TLV())
