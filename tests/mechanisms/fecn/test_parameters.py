"""FECN's parameters: defaults of S003, ranges, and that Qeq is below Qsc."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ecmproto.control.mechanisms.fecn.parameters import (
    FECN,
    FECNCongestionPointParameters,
    FECNEdgeParameters,
    FECNReactionPointParameters,
)
from ecmproto.errors import ParameterError


def test_defaults_are_those_of_s003() -> None:
    assert FECNCongestionPointParameters().as_text() == {
        "T": "1 ms", "N0": "20", "alpha": "0.5", "linear": "no", "a": "1.1", "b": "1.002", "c": "0.1",
        "k": "0.1", "qeq": "24 kB", "qsc": "120 kB", "rho_min": "0.001", "r_min": "100 kb/s",
        "dr_min": "1 Mb/s", "dr_up": "1.414", "dr_down": "0.707", "random_phase": "no",
    }  # fmt: skip
    assert FECNReactionPointParameters().as_text() == {
        "N0": "20", "idle": "2 ms", "r_min": "100 kb/s", "queues": "1024", "tau": "1 ms",
        "tag_frames": "0", "random_phase": "no",
    }  # fmt: skip
    assert FECNEdgeParameters().as_text() == {"return_priority": "7"}


def test_texts_set_parameters() -> None:
    parameters = FECNCongestionPointParameters.parse(
        ["T=500us", "N0=200", "linear=yes", "qeq=30kB", "qsc=90kB"]
    )
    assert parameters == FECNCongestionPointParameters(
        interval_ns=500_000, initial_sources=200, linear=True, qeq_octets=30_000, qsc_octets=90_000
    )
    assert FECNCongestionPointParameters.parse(parameters.as_text()) == parameters


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["qeq=120kB"], "qsc: expected more than qeq (120 kB), got 120 kB"),
        (["qsc=1kB"], "qsc: expected more than qeq (24 kB), got 1 kB"),
        (["N0=0"], "N0: expected 1 to 1000000, got 0"),
        (["alpha=1.5"], "alpha: expected 0.01 to 1, got 1.5"),
        (["b=0.9"], "b: expected 1 to 100, got 0.9"),
        (["c=0"], "c: expected 0.001 to 1, got 0"),
        (["rho_min=0"], "rho_min: expected 1e-09 to 1, got 0"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(assignments: list[str], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        FECNCongestionPointParameters.parse(assignments)
    assert str(caught.value) == message


@pytest.mark.parametrize("assignment", ["queues=65536", "queues=0", "tau=1ns", "idle=0", "r_min=1"])
def test_a_source_refuses_what_is_out_of_range(assignment: str) -> None:
    with pytest.raises(ParameterError):
        FECNReactionPointParameters.parse([assignment])


def test_every_parameter_is_documented() -> None:
    for part in FECN.roles.values():
        for parameter in part.describe():
            assert parameter.doc
            assert parameter.source
            assert parameter.range_text


def test_knowing_the_mechanism_needs_no_compiler() -> None:
    script = (
        "import sys, ecmproto.control.mechanisms.fecn.parameters, ecmproto.control.mechanisms.dbp.parameters;"
        "print([name for name in ('numba', 'scapy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
