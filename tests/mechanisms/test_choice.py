"""A parameter that is one of a few words."""

from __future__ import annotations

import pytest

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.qcn.parameters import QCNReactionPointParameters


def test_a_choice_is_read_checked_and_written_back() -> None:
    chosen = QCNReactionPointParameters.parse(["variant= Standard "])
    assert chosen.variant == "standard"
    assert QCNReactionPointParameters.parse(chosen.as_text()) == chosen


@pytest.mark.parametrize("value", ["", "slide", 1, None, True])
def test_what_is_none_of_the_choices_is_refused_with_all_of_them(value: object) -> None:
    with pytest.raises(ParameterError, match=r"variant: needed one of pseudocode, standard, got "):
        QCNReactionPointParameters(variant=value)  # type: ignore[arg-type]
