"""No control is a mechanism like the others (algorithms §6)."""

from __future__ import annotations

import pytest

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.mechanisms.registry import NONE


def test_none_is_a_mechanism_with_a_name_and_no_roles() -> None:
    assert isinstance(NONE, Mechanism)
    assert NONE.name == "none"
    assert dict(NONE.roles) == {}


@pytest.mark.parametrize("role", Role)
def test_asking_it_for_a_role_says_that_it_has_none(role: Role) -> None:
    with pytest.raises(ParameterError, match=r"role: needed one that none has \(none\), got"):
        NONE.role(role)
