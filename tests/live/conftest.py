"""Common fixtures for tests of real interfaces."""

from __future__ import annotations

import pytest

from tests.live.testbeds import Laboratory, requires_testbeds


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    """Return the testbed runs that several tests share, because each run takes half a minute."""
    requires_testbeds()
    return Laboratory(tmp_path_factory.mktemp("laboratory"))
