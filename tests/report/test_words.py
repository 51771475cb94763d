"""The standing texts of reports are there for all that reports may show."""

from __future__ import annotations

from ecmproto.mechanisms import registry
from ecmproto.report.html import MECHANISMS


def test_every_mechanism_has_its_sentence() -> None:
    assert set(MECHANISMS) == {mechanism.name for mechanism in registry.MECHANISMS}
