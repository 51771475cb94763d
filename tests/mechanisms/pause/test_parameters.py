"""Parameters of PAUSE and PFC, and how the registry finds them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ecmproto.control.mechanisms.pause.parameters import (
    PAUSE,
    PFC,
    GenerationParameters,
    PauseReactionParameters,
    PFCGenerationParameters,
    PFCReactionParameters,
)
from ecmproto.errors import ParameterError


def test_defaults_are_those_of_s002() -> None:
    assert GenerationParameters().as_text() == {
        "high": "280 kB", "low": "260 kB", "pause_on": "input", "pause_quanta": "65535",
    }  # fmt: skip
    assert PFCGenerationParameters().as_text()["priorities"] == "0,1,2,3,4,5,6,7"
    assert PauseReactionParameters().as_text() == {}
    assert PFCReactionParameters().as_text() == {"priorities": "0,1,2,3,4,5,6,7"}


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["high=0"], "high: expected 1 B to 1 GB, got 0 B"),
        (["high=100kB"], "low: expected at most high (100 kB), got 260 kB"),
        (["high=8B", "low=9B"], "low: expected at most high (8 B), got 9 B"),
        (["pause_quanta=65536"], "pause_quanta: expected 2 to 65535, got 65536"),
        (["pause_on=maybe"], "pause_on: expected one of input, output, got 'maybe'"),
        (["higg=1"], "parameter: expected one of high, low, pause_on, pause_quanta, priorities, "
                     "got 'higg' (did you mean 'high'?)"),
    ],
)  # fmt: skip
def test_bad_texts_are_refused_in_one_sentence(assignments: list[str], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        PFCGenerationParameters.parse(assignments)
    assert str(caught.value) == message


def test_equal_marks_are_allowed() -> None:
    assert GenerationParameters(high_octets=5, low_octets=5).low_octets == 5


def test_every_parameter_is_documented() -> None:
    for mechanism in (PAUSE, PFC):
        for part in mechanism.roles.values():
            for parameter in part.describe():
                assert parameter.doc
                assert parameter.source


def test_describing_them_imports_no_compiler() -> None:
    script = (
        "import sys, ecmproto.control.mechanisms.pause.parameters, ecmproto.control.mechanisms.registry;"
        "print([name for name in ('numba', 'scapy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
