from __future__ import annotations

from docs.parameter_reference import PATH, text


def test_the_parameter_reference_is_up_to_date() -> None:
    assert PATH.read_text(encoding="utf-8") == text(), "run make docs"
