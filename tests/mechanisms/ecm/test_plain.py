"""Compiled and plain, ECM's machines do the same to the last bit."""

from __future__ import annotations

from tests.mechanisms.aimd.other_mode import output_in_other_mode
from tests.mechanisms.ecm import random_run


def test_compiled_and_plain_runs_are_equal() -> None:
    own = random_run.samples(7) + random_run.reactions(7)
    assert len(own) > 100
    assert "\n".join(own) + "\n" == output_in_other_mode(random_run.__name__)
