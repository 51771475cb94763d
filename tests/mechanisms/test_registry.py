"""The registry of mechanisms and its entry-point group."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.mechanisms.qcn.parameters import QCN, QCNCongestionPointParameters
from ecmproto.mechanisms.registry import ENTRY_POINT_GROUP, MECHANISMS, NONE, find_mechanism, mechanism_names


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        EntryPoint(name=name, value=value, group=ENTRY_POINT_GROUP)
        for name, value in [
            ("theirs", "ecmproto.mechanisms.qcn.parameters:QCN"),
            ("qcn", "nowhere:AT_ALL"),
            ("broken", "nowhere:AT_ALL"),
            ("wrong", "ecmproto.errors:ParameterError"),
        ]
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **chosen: points.select(**chosen))


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
    with pytest.raises(ParameterError, match=r"role: needed one that none has \(none\), got edge"):
        NONE.role(Role.EDGE)


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(ParameterError, match=r"got 'qnc' \(did you mean 'qcn'\?\)"):
        find_mechanism("qnc")


@pytest.mark.usefixtures("foreign")
def test_foreign_mechanisms_are_listed_unimported_and_cannot_take_over_a_name() -> None:
    own = ["qcn", "ecm", "bcn", "e2cm", "fecn", "dbp", "pause", "pfc", "none"]
    assert mechanism_names() == [*own, "broken", "theirs", "wrong"]
    assert find_mechanism("theirs") is QCN
    assert find_mechanism("qcn") is QCN


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize(("name", "got"), [("broken", "ModuleNotFoundError"), ("wrong", "got a type")])
def test_a_foreign_mechanism_that_cannot_be_used_is_named(name: str, got: str) -> None:
    with pytest.raises(ParameterError, match=got):
        find_mechanism(name)
