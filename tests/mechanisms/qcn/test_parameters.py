"""QCN's parameters: ranges and texts, which need no compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.control.mechanisms.qcn.parameters import (
    QCN,
    QCNCongestionPointParameters,
    QCNEdgeParameters,
    QCNReactionPointParameters,
)
from ecmproto.errors import ParameterError


def test_defaults_are_those_of_802_1q() -> None:
    assert QCNCongestionPointParameters().as_text() == {
        "qeq": "26 kB", "w": "2.0", "sample_base": "150 kB", "jitter": "0.15", "msdu_limit": "64 B",
        "cnm_priority": "6", "cnm_without_cn_tag": "yes", "cnpv": "0,1,2,3,4,5,6,7",
    }  # fmt: skip


def test_texts_use_short_or_field_names() -> None:
    parameters = QCNCongestionPointParameters.parse(
        ["qeq=33kB", "w=0.125", "sample_base_octets=75kB", "cnm_without_cn_tag=no", "cnpv=3,5-7"]
    )
    assert parameters == QCNCongestionPointParameters(
        qeq_octets=33_000,
        weight=0.125,
        sample_base_octets=75_000,
        cnm_without_cn_tag=False,
        cnpv=frozenset({3, 5, 6, 7}),
    )


def test_text_form_reads_back() -> None:
    parameters = QCNCongestionPointParameters(qeq_octets=33_001, cnpv=frozenset(), weight=1 / 1024)
    assert QCNCongestionPointParameters.parse(parameters.as_text()) == parameters


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("qeq=99B", "qeq: expected 100 B to 4294967295 B, got 99 B"),
        ("qeq=many", "qeq: expected a size such as 33kB (100 B to 4294967295 B), got 'many'"),
        ("w=0.3", "w: expected 0.000976562 to 1024 in steps of 0.000976562, got 0.3"),
        ("w=nan", "w: expected 0.000976562 to 1024 in steps of 0.000976562, got nan"),
        ("jitter=0.6", "jitter: expected 0 to 0.5, got 0.6"),
        ("msdu_limit=65B", "msdu_limit: expected 0 B to 64 B, got 65 B"),
        ("cnm_priority=8", "cnm_priority: expected 0 to 7, got 8"),
        ("cnm_without_cn_tag=maybe", "cnm_without_cn_tag: expected yes or no, got 'maybe'"),
        ("cnpv=3-9", "cnpv: expected priorities 0 to 7 such as 3,5-7, all or none, got 3,4,5,6,7,8,9"),
        ("cnpv=,", "cnpv: expected priorities 0 to 7 such as 3,5-7, all or none, got ','"),
        ("qeqq=1", "parameter: expected one of cnm_priority, cnm_without_cn_tag, cnpv, jitter, msdu_limit, "
                   "qeq, sample_base, w, got 'qeqq' (did you mean 'qeq'?)"),
        ("qeq", "parameter: expected name=value, such as qeq=33kB, got 'qeq'"),
    ],
)  # fmt: skip
def test_bad_texts_are_refused_in_one_sentence(assignment: str, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        QCNCongestionPointParameters.parse([assignment])
    assert str(caught.value) == message


def test_wrong_types_are_refused() -> None:
    for wrong in (26_000.0, True, "26000", None):
        with pytest.raises(ParameterError):
            QCNCongestionPointParameters(qeq_octets=wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        QCNCongestionPointParameters(cnpv=frozenset({8}))


ALL = (QCNCongestionPointParameters, QCNReactionPointParameters, QCNEdgeParameters)


@pytest.mark.parametrize("kind", ALL)
def test_every_parameter_is_documented(kind: type[Parameters]) -> None:
    for parameter in kind.describe():
        assert parameter.doc
        assert parameter.source
        assert parameter.range_text


@pytest.mark.parametrize("kind", ALL)
def test_every_parameters_text_form_reads_back(kind: type[Parameters]) -> None:
    assert kind.parse(kind().as_text()) == kind()


def test_defaults_of_the_reaction_point() -> None:
    assert QCNReactionPointParameters().as_text() == {
        "byte_reset": "150 kB", "time_reset": "15 ms", "threshold": "5", "ai_rate": "5 Mb/s",
        "hai_rate": "50 Mb/s", "gd": "0.0078125", "largest_decrease": "0.5", "min_rate": "10 Mb/s",
        "max_rate": "0 b/s", "max_rps": "100", "jitter": "0.15", "variant": "pseudocode",
    }  # fmt: skip


def test_both_variants_of_the_reaction_point() -> None:
    assert QCNReactionPointParameters().variant == "pseudocode"
    assert QCNReactionPointParameters.parse(["variant=standard"]).variant == "standard"


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["byte_reset=0"], "byte_reset: expected 1 B to 4294967295 B, got 0 B"),
        (["time_reset=999ns"], "time_reset: expected 1 µs to 4294967295 ms, got 999 ns"),
        (["threshold=0"], "threshold: expected 1 to 4294967295, got 0"),
        (["gd=0"], "gd: expected 4.65661e-10 to 1, got 0"),
        (["largest_decrease=1"], "largest_decrease: expected 0 to 0.99, got 1"),
        (["max_rps=101"], "max_rps: expected 1 to 100, got 101"),
        (
            ["min_rate=20M", "max_rate=15M"],
            "min_rate: expected at most the maximum rate, 15 Mb/s, got 20 Mb/s",
        ),
    ],
)
def test_bad_reaction_point_parameters_are_refused(assignments: list[str], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        QCNReactionPointParameters.parse(assignments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("role", "kind"),
    [
        (Role.CONGESTION_POINT, QCNCongestionPointParameters),
        (Role.REACTION_POINT, QCNReactionPointParameters),
        (Role.EDGE, QCNEdgeParameters),
    ],
)
def test_the_roles_of_qcn(role: Role, kind: type[Parameters]) -> None:
    part = QCN.role(role)
    assert part is kind


def test_parameters_import_neither_numba_nor_scapy() -> None:
    script = (
        "import sys, ecmproto.control.mechanisms.registry, ecmproto.control.mechanisms.qcn.parameters;"
        "print([name for name in ('numba', 'scapy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
