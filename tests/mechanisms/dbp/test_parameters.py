"""DBP's parameters: FECN's at ten times the interval."""

from __future__ import annotations

import pytest

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.dbp.mechanism import DBP
from ecmproto.mechanisms.dbp.parameters import (
    CongestionPointParameters,
    EdgeParameters,
    ReactionPointParameters,
)
from ecmproto.mechanisms.fecn.parameters import CongestionPointParameters as FECNCongestionPointParameters
from ecmproto.mechanisms.mechanism import Role


def test_the_switch_is_fecns_with_t_at_10_ms() -> None:
    ours, fecn = CongestionPointParameters().as_text(), FECNCongestionPointParameters().as_text()
    assert ours.pop("T") == "10 ms"
    del fecn["T"]
    assert ours == fecn


def test_the_other_defaults() -> None:
    assert ReactionPointParameters().as_text() == {
        "N0": "20", "idle": "20 ms", "r_min": "100 kb/s", "queues": "1024",
    }  # fmt: skip
    assert EdgeParameters().as_text() == {
        "report_interval": "10 ms", "active": "20 ms", "sources": "1024", "report_priority": "7",
        "random_phase": "no",
    }  # fmt: skip


def test_cross_checks() -> None:
    with pytest.raises(ParameterError, match="qsc: needed more than qeq"):
        CongestionPointParameters(qeq_octets=120_000)
    with pytest.raises(ParameterError, match="active: needed at least report_interval"):
        EdgeParameters(active_ns=9_999_999)


def test_the_mechanism_names_the_code_of_its_roles() -> None:
    assert hasattr(DBP.role(Role.CONGESTION_POINT).load(), "lowered")
    assert hasattr(DBP.role(Role.REACTION_POINT).load(), "on_report")
    assert hasattr(DBP.role(Role.EDGE).load(), "hear")
    for part in DBP.roles.values():
        for parameter in part.parameters.describe():
            assert parameter.doc
            assert parameter.source
