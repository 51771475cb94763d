"""QCN's parameters: ranges, texts, and that reading them needs no compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ecmproto.control.qcn.parameters import CongestionPointParameters
from ecmproto.errors import ParameterError


def test_defaults_are_those_of_802_1q() -> None:
    assert CongestionPointParameters().as_text() == {
        "qeq": "26000", "w": "2.0", "sample_base": "150000", "jitter": "0.15", "msdu_limit": "64",
        "cnm_priority": "6", "cnm_without_cn_tag": "yes", "cnpv": "0,1,2,3,4,5,6,7",
    }  # fmt: skip


def test_texts_set_parameters_by_short_and_by_field_name() -> None:
    parameters = CongestionPointParameters.parse(
        ["qeq=33kB", "w=0.125", "sample_base_octets=75kB", "cnm_without_cn_tag=no", "cnpv=3,5-7"]
    )
    assert parameters == CongestionPointParameters(
        qeq_octets=33_000,
        weight=0.125,
        sample_base_octets=75_000,
        cnm_without_cn_tag=False,
        cnpv=frozenset({3, 5, 6, 7}),
    )


def test_text_form_reads_back() -> None:
    parameters = CongestionPointParameters(qeq_octets=33_001, cnpv=frozenset(), weight=1 / 1024)
    assert CongestionPointParameters.parse(parameters.as_text()) == parameters


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("qeq=99", "qeq: needed 100 B to 4294967295, got 99 B"),
        ("qeq=many", "qeq: needed a size such as 33kB (100 B to 4294967295), got 'many'"),
        ("w=0.3", "w: needed 0.000976562 to 1024 in steps of 0.000976562, got 0.3"),
        ("w=nan", "w: needed 0.000976562 to 1024 in steps of 0.000976562, got nan"),
        ("jitter=0.6", "jitter: needed 0 to 0.5, got 0.6"),
        ("msdu_limit=65", "msdu_limit: needed 0 B to 64 B, got 65 B"),
        ("cnm_priority=8", "cnm_priority: needed 0 to 7, got 8"),
        ("cnm_without_cn_tag=maybe", "cnm_without_cn_tag: needed yes or no, got 'maybe'"),
        ("cnpv=3-9", "cnpv: needed priorities 0 to 7 such as 3,5-7, all or none, got 3,4,5,6,7,8,9"),
        ("cnpv=,", "cnpv: needed priorities 0 to 7 such as 3,5-7, all or none, got ','"),
        ("qeqq=1", "parameter: needed one of cnm_priority, cnm_without_cn_tag, cnpv, jitter, msdu_limit, "
                   "qeq, sample_base, w, got 'qeqq' (did you mean 'qeq'?)"),
        ("qeq", "parameter: needed name=value, such as qeq=33kB, got 'qeq'"),
    ],
)  # fmt: skip
def test_bad_texts_are_refused_in_one_sentence(assignment: str, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        CongestionPointParameters.parse([assignment])
    assert str(caught.value) == message


def test_wrong_types_are_refused() -> None:
    for wrong in (26_000.0, True, "26000", None):
        with pytest.raises(ParameterError):
            CongestionPointParameters(qeq_octets=wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        CongestionPointParameters(cnpv=frozenset({8}))


def test_every_parameter_is_documented() -> None:
    for parameter in CongestionPointParameters.describe():
        assert parameter.doc
        assert parameter.source
        assert parameter.range_text


def test_listing_mechanisms_and_reading_parameters_imports_neither_numba_nor_scapy() -> None:
    script = (
        "import sys, ecmproto, ecmproto.control.registry, ecmproto.control.qcn.parameters;"
        "print([name for name in ('numba', 'scapy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
