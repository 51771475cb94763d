"""A namespace for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.namespaces import Network, network


@pytest.fixture
def veth() -> Iterator[Network]:
    """A namespace of the test's own, in which it runs."""
    with network() as made:
        yield made
