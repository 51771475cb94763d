"""Every parameter of a mechanism changes the result of a short run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from ecmproto.control.mechanisms.registry import MECHANISMS
from tests.mechanisms.parameter_effects import VALUES, WITH

DECLARED = [
    (mechanism.name, f"{role.value}.{parameter.name}")
    for mechanism in MECHANISMS
    for role, part in mechanism.roles.items()
    for parameter in part.describe()
]


@cache
def effects(name: str) -> dict[str, str | None]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mechanisms.parameter_effects", name],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
        capture_output=True,
    )
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("mechanism", "parameter"), DECLARED)
def test_a_declared_parameter_has_an_effect(mechanism: str, parameter: str) -> None:
    assert effects(mechanism)[parameter] is not None


def test_effect_table_names_only_existing_parameters() -> None:
    names = {parameter.partition(".")[2] for _, parameter in DECLARED}
    told = {key if isinstance(key, str) else key[1] for key in WITH} | set(VALUES)
    assert told <= names
