"""ECM's parameters: defaults, ranges, relations, and that reading them needs no compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.control.mechanisms.e2cm.parameters import E2CMCongestionPointParameters as E2CMParameters
from ecmproto.control.mechanisms.ecm.parameters import (
    ECMCongestionPointParameters,
    ECMReactionPointParameters,
)
from ecmproto.errors import ParameterError


def test_defaults_of_the_congestion_point() -> None:
    assert ECMCongestionPointParameters().as_text() == {
        "sf": "150 kB", "sr": "45 kB", "sscale": "0", "qeq": "24 kB", "qmc": "0 B", "qsc": "120 kB",
        "qscale": "1.0", "payload": "48 B", "message_priority": "7", "keep_priority": "no",
        "enabled": "0,1,2,3,4,5,6,7", "q_bit": "no",
    }  # fmt: skip


def test_defaults_of_the_reaction_point() -> None:
    parameters = ECMReactionPointParameters()
    assert parameters.increase_gain * 1500 / 64 == pytest.approx(4)
    assert parameters.decrease_gain * 1500 / 64 == pytest.approx(0.0124)
    texts = parameters.as_text()
    del texts["gi"], texts["gd"]
    assert texts == {
        "alpha": "1.0", "beta": "1.0", "ri": "0.5", "tmax": "10 µs", "td": "1 ms", "limiters": "64",
        "key_vlan": "yes", "key_dst": "yes", "key_src": "yes", "key_priority": "yes", "hash_bits": "0",
        "enabled": "0,1,2,3,4,5,6,7", "w": "2.0", "ru": "4 Mb/s", "floor": "4 Mb/s",
        "rmin": "100 Mb/s", "rd": "1 Mb/s", "wrtt": "3", "unit": "0",
    }  # fmt: skip


def test_dependent_defaults_follow_unless_set() -> None:
    assert ECMCongestionPointParameters(fixed_octets=30_000).random_octets == 9_000
    assert ECMCongestionPointParameters(fixed_octets=256_000).random_octets == 64_000
    assert ECMCongestionPointParameters(random_octets=0).random_octets == 0
    assert ECMReactionPointParameters(rate_unit_bps=8_000_000).floor_bps == 8_000_000
    assert ECMReactionPointParameters(floor_bps=1_000_000).floor_bps == 1_000_000


def test_random_interval_needs_no_fixed_part() -> None:
    assert ECMCongestionPointParameters.parse(["sf=0", "sr=64kB"]).random_octets == 64_000
    assert E2CMParameters.parse(["tagged_sf=0", "tagged_sr=64kB"]).tagged_random_octets == 64_000


@pytest.mark.parametrize("parameters", [ECMCongestionPointParameters(), ECMReactionPointParameters()])
def test_text_form_reads_back(parameters: Parameters) -> None:
    assert type(parameters).parse(parameters.as_text()) == parameters


@pytest.mark.parametrize(
    ("kind", "assignments", "message"),
    [
        (ECMCongestionPointParameters, ["sf=256001B"], "sf: expected 0 B to 256 kB, got 256001 B"),
        (ECMCongestionPointParameters, ["sr=64001B"], "sr: expected 0 B to 64 kB, got 64001 B"),
        (ECMCongestionPointParameters, ["sf=1kB", "sr=2kB"], "sr: expected at most sf (1 kB), got 2 kB"),
        (ECMCongestionPointParameters, ["qmc=24kB"], "qmc: expected more than qeq (24 kB), or 0, got 24 kB"),
        (ECMCongestionPointParameters, ["qmc=120kB"],
         "qsc: expected more than qmc (120 kB), or 0, got 120 kB"),
        (ECMCongestionPointParameters, ["qsc=24kB"], "qsc: expected more than qeq (24 kB), or 0, got 24 kB"),
        (ECMCongestionPointParameters, ["qeq=63B"],
         "qeq: expected qeq·qscale of 1 to 16383 units of 64, got 63 B"),
        (ECMCongestionPointParameters, ["qeq=1048513B", "qsc=0"],
         "qeq: expected qeq·qscale of 1 to 16383 units of 64, got 1.049 MB"),
        (ECMCongestionPointParameters, ["qscale=0.3"],
         "qscale: expected 0.125 to 1024 in steps of 0.125, got 0.3"),
        (ECMCongestionPointParameters, ["payload=23B"], "payload: expected 24 B to 1.4 kB, got 23 B"),
        (ECMReactionPointParameters, ["w=0.3"], "w: expected 0.125 to 8 in steps of 0.125, got 0.3"),
        (ECMReactionPointParameters, ["w=8.125"], "w: expected 0.125 to 8 in steps of 0.125, got 8.125"),
        (ECMReactionPointParameters, ["tmax=999ns"],
         "tmax: expected 1 µs to 1 s in steps of 1 µs, got 999 ns"),
        (ECMReactionPointParameters, ["alpha=1.1"], "alpha: expected 0 to 1, got 1.1"),
        (ECMReactionPointParameters, ["ru=1500k"],
         "ru: expected 1 Mb/s to 100 Mb/s in steps of 1 Mb/s, got 1.5 Mb/s"),
        (ECMReactionPointParameters, ["rd=0"],
         "rd: expected 1 Mb/s to 100 Mb/s in steps of 1 Mb/s, got 0 b/s"),
        (ECMReactionPointParameters,
         ["td=10001us"], "td: expected 1 µs to 10 ms in steps of 1 µs, got 10001 µs"),
    ],
)  # fmt: skip
def test_bad_values_are_refused_in_one_sentence(
    kind: type[Parameters], assignments: list[str], message: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        kind.parse(assignments)
    assert str(caught.value) == message


def test_wrong_types_are_refused() -> None:
    with pytest.raises(ParameterError):
        ECMCongestionPointParameters(fixed_octets="150000")  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        ECMReactionPointParameters(rate_unit_bps=4e6)  # type: ignore[arg-type]


def test_qeq_reaches_as_far_as_its_field() -> None:
    assert ECMCongestionPointParameters(qeq_octets=16_383 * 64, qsc_octets=0).qeq_octets == 1_048_512


def test_reading_parameters_imports_neither_numba_nor_scapy() -> None:
    script = (
        "import sys, ecmproto.control.mechanisms.ecm.parameters, ecmproto.control.mechanisms.bcn.parameters;"
        "print([name for name in ('numba', 'scapy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
