"""The registry of mechanisms: entry points, the mechanism ``none``, and modules that may name a mechanism."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

import ecmproto
from ecmproto.control.mechanisms import registry
from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.qcn.parameters import QCN, QCNCongestionPointParameters
from ecmproto.control.mechanisms.registry import (
    ENTRY_POINT_GROUP,
    MECHANISMS,
    NONE,
    find_mechanism,
    mechanism_names,
)
from ecmproto.errors import ParameterError


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = EntryPoints(
        EntryPoint(name=name, value=value, group=ENTRY_POINT_GROUP)
        for name, value in [
            ("theirs", "ecmproto.control.mechanisms.qcn.parameters:QCN"),
            ("qcn", "nowhere:AT_ALL"),
            ("broken", "nowhere:AT_ALL"),
            ("wrong", "ecmproto.errors:ParameterError"),
        ]
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **chosen: points.select(**chosen))
    registry._installed_names.cache_clear()
    yield
    registry._installed_names.cache_clear()


def test_qcn_is_found_with_its_congestion_point() -> None:
    qcn = find_mechanism("qcn")
    assert qcn is QCN
    assert qcn.role(Role.CONGESTION_POINT) is QCNCongestionPointParameters


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_every_mechanism_has_parameters_that_read_back(mechanism: Mechanism) -> None:
    assert find_mechanism(mechanism.name) is mechanism
    for part in mechanism.roles.values():
        defaults = part()
        assert part.parse(defaults.as_text()) == defaults
        assert all(each.doc and each.source for each in part.describe())


def test_a_role_that_a_mechanism_lacks_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"role: expected a role of none \(none\), got edge"):
        NONE.role(Role.EDGE)


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(ParameterError, match=r"got 'qnc' \(did you mean 'qcn'\?\)"):
        find_mechanism("qnc")


@pytest.mark.usefixtures("foreign")
def test_foreign_mechanisms_are_listed_unimported_without_replacing_own() -> None:
    own = [mechanism.name for mechanism in MECHANISMS]
    assert mechanism_names() == [*own, "broken", "theirs", "wrong"]
    assert find_mechanism("theirs") is QCN
    assert find_mechanism("qcn") is QCN


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize(("name", "got"), [("broken", "ModuleNotFoundError"), ("wrong", "got a type")])
def test_unusable_foreign_mechanism_is_named_in_error(name: str, got: str) -> None:
    with pytest.raises(ParameterError, match=got):
        find_mechanism(name)


ROOMS = ("control/engine", "control/replay", "control/live", "tools/report", "control/lab")
FLOW_CONTROL = "stations and ports obey PAUSE and PFC beneath any mechanism"
REASONS = {
    ("control/engine", "pause"): FLOW_CONTROL,
    ("control/replay", "pause"): FLOW_CONTROL,
    ("control/live", "pause"): FLOW_CONTROL,
    ("control/lab", "pause"): FLOW_CONTROL,
}
_IMPORT = re.compile(
    r"^\s*from ecmproto\.control\.mechanisms\.(?!(?:api|registry|limiter|lossless)\b)(\w+)", re.M
)
_TAG = re.compile(r"\b(CNTag|CMTag|RRTTag|RDTag)\b")


def test_mechanism_imports_elsewhere_have_a_recorded_reason() -> None:
    found = set()
    for room in ROOMS:
        for path in Path(ecmproto.__file__).parent.joinpath(room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            found |= {(room, name) for name in (*_IMPORT.findall(text), *_TAG.findall(text))}
    assert found == set(REASONS)


def test_none_is_a_mechanism_without_roles() -> None:
    assert isinstance(NONE, Mechanism)
    assert NONE.name == "none"
    assert dict(NONE.roles) == {}


@pytest.mark.parametrize("role", Role)
def test_none_refuses_every_role(role: Role) -> None:
    with pytest.raises(ParameterError, match=r"role: expected a role of none \(none\), got"):
        NONE.role(role)
