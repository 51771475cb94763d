"""Tables and prose fit the requested width."""

import pytest

from ecmproto.tables import columns_of
from ecmproto_cli import terminal

ROWS = [("", ["frames", "rate", "share"]), ("a name", ["1,000", "9.9 Gb/s", "1.0 %"])]


@pytest.mark.parametrize(("width", "lines"), [(None, 2), (80, 2), (33, 2), (30, 2), (28, 4), (24, 6), (1, 6)])
def test_tables_fit_the_width(width: int | None, lines: int) -> None:
    shown = columns_of(ROWS, width=width).splitlines()
    assert len(shown) == lines
    assert width is None or width < 18 or max(map(len, shown)) <= width
    assert all("".join(shown).count(cell) == 1 for _, cells in ROWS for cell in cells)


def test_prose_continues_below_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "terminal_width", lambda: 24)
    assert terminal.wrapped("name  a meaning in several words\nshort") == (
        "name  a meaning in\n      several words\nshort"
    )


def test_prose_without_a_terminal_is_unchanged() -> None:
    assert terminal.wrapped("word " * 60) == "word " * 60
