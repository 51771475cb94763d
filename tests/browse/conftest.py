"""Closes the browsers that the tests of a module opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browse.captures import OPENED


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
