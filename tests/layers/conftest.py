from __future__ import annotations

from collections.abc import Iterator

import pytest

from ecmproto.wire.layers import bound


@pytest.fixture
def bindings() -> Iterator[None]:
    """Bind the layers with the default EtherTypes during the test."""
    with bound():
        yield
