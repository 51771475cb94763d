"""The feedback check reports no difference for correct reaction points, and a difference for each broken
rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ecmproto.control.mechanisms.api.machine import ParsedFeedback
from ecmproto.control.mechanisms.ecm.machine import ECMMachine
from ecmproto.control.mechanisms.qcn.machine import QCNMachine
from ecmproto.control.mechanisms.qcn.reaction_point import QCNStations
from ecmproto.tools.fuzz.checks.messages import MessageCheck
from ecmproto.tools.fuzz.subjects import template_frames
from ecmproto.wire.codec import CNM, decode_lax

CNM_FRAME = next(octets for octets in template_frames() if CNM in decode_lax(octets))
HEARD = ParsedFeedback({"kind": 1, "priority": 0, "qntz_fb": 9}, None)


def told(octets: bytes = CNM_FRAME) -> set[str]:
    return {wrong.what for wrong in MessageCheck().differences([octets])}


def test_messages_of_every_type_are_parsed() -> None:
    assert list(MessageCheck().differences([*template_frames(), b"", bytes(5), bytes(60)])) == []


@pytest.mark.parametrize(
    ("parsed", "what"),
    [
        (HEARD._replace(fields={**HEARD.fields, "priority": 8}), "qcn: a priority above 7"),
        (HEARD._replace(fields={**HEARD.fields, "kind": 77}), "qcn: an unknown message type"),
        (HEARD._replace(fields={**HEARD.fields, "q": cast(int, 1.5)}), "qcn: q does not fit"),
    ],
)
def test_invalid_parsed_values_are_reported(
    parsed: ParsedFeedback, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QCNStations, "on_message", lambda *given: None)

    def planted(self: QCNMachine, octets: bytes, mac: bytes, *rest: object, **more: object) -> object:
        return parsed if mac else None

    monkeypatch.setattr(QCNMachine, "parse_feedback", planted)
    assert told() == {what}


def test_accepting_foreign_feedback_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QCNMachine, "parse_feedback", lambda *given, **more: HEARD)
    assert told() == {"qcn: a station accepts feedback for another one"}


def test_a_frame_discarded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(self: object, octets: bytes, mac: bytes, place: object, discards: Any, **more: object) -> None:
        for name in discards.dtype.names[:2]:
            discards[name] += 1

    monkeypatch.setattr(ECMMachine, "parse_feedback", twice)
    assert told() == {"ecm: a frame discarded twice"}


@pytest.mark.parametrize(
    ("name", "planted", "what"),
    [
        ("limit_bps", lambda *given: -1.0, "qcn: a rate out of bounds"),
        ("limit_bps", lambda *given: float("nan"), "qcn: a rate out of bounds"),
        ("next_station_timer_ns", lambda *given: 0, "qcn: a timer in the past"),
    ],
)
def test_rates_and_timers(
    name: str, planted: Callable[..., float], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QCNStations, name, planted)
    assert told() == {what}


def test_exceptions_of_on_message_propagate(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(*given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(QCNStations, "on_message", planted)
    with pytest.raises(ZeroDivisionError):
        told()
