"""Browsers are closed after the tests that opened them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browse.captures import OPENED


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
