"""The marker of tests that send much through loops that compile at first."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: sends a whole capture through loops that compile at first")
