from __future__ import annotations

from collections.abc import Iterator

import pytest

from ecmproto.wire.layers import bound


@pytest.fixture
def bindings() -> Iterator[None]:
    """The layers are bound under the default EtherType map."""
    with bound():
        yield
