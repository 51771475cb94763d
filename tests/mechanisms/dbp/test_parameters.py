"""DBP's parameters: FECN's at ten times the interval."""

from __future__ import annotations

import pytest

from ecmproto.control.mechanisms.dbp.parameters import (
    DBP,
    DBPCongestionPointParameters,
    DBPEdgeParameters,
    DBPReactionPointParameters,
)
from ecmproto.control.mechanisms.fecn.parameters import FECNCongestionPointParameters
from ecmproto.errors import ParameterError


def test_switch_is_fecns_with_t_at_10_ms() -> None:
    ours, fecn = DBPCongestionPointParameters().as_text(), FECNCongestionPointParameters().as_text()
    assert ours.pop("T") == "10 ms"
    del fecn["T"]
    assert ours == fecn


def test_the_other_defaults() -> None:
    assert DBPReactionPointParameters().as_text() == {
        "N0": "20", "idle": "20 ms", "r_min": "100 kb/s", "queues": "1024",
    }  # fmt: skip
    assert DBPEdgeParameters().as_text() == {
        "report_interval": "10 ms", "active": "20 ms", "sources": "1024", "report_priority": "7",
        "random_phase": "no",
    }  # fmt: skip


def test_cross_checks() -> None:
    with pytest.raises(ParameterError, match="qsc: expected more than qeq"):
        DBPCongestionPointParameters(qeq_octets=120_000)
    with pytest.raises(ParameterError, match="active: expected at least report_interval"):
        DBPEdgeParameters(active_ns=9_999_999)


def test_every_parameter_is_described() -> None:
    for part in DBP.roles.values():
        for parameter in part.describe():
            assert parameter.doc
            assert parameter.source
