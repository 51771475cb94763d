"""Values behave like frozen dataclasses in every respect."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from ecmproto import values


def _made(decorate: Any, name: str) -> Any:
    """Return a class that uses all field options, and a subclass."""

    class Value:
        """A value class."""

        first: int
        second: str = "two"
        shown_alone: int = dataclasses.field(default=3, compare=False)
        compared_alone: tuple[int, ...] = dataclasses.field(default=(), repr=False)
        listed: list[int] = dataclasses.field(default_factory=list, hash=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "second", self.second.upper())

    Value.__qualname__ = Value.__name__ = name
    base = decorate(frozen=True, slots=True)(Value)

    class More(base):  # type: ignore[misc, valid-type]
        """A subclass with an additional keyword-only field."""

        fourth: float = dataclasses.field(default=0.5, kw_only=True)

        def __repr__(self) -> str:
            return "its own"

    More.__qualname__ = More.__name__ = f"{name}More"
    return base, decorate(frozen=True)(More)


OURS, OUR_MORE = _made(values.dataclass, "OURS")
THEIRS, THEIR_MORE = _made(dataclasses.dataclass, "THEIRS")
PAIRS = pytest.mark.parametrize(("ours", "theirs"), [(OURS, THEIRS), (OUR_MORE, THEIR_MORE)])
GIVEN = [
    ((1,), {}), ((1, "b"), {"shown_alone": 4}), ((1, "B", 9), {}), ((1,), {"compared_alone": (2,)}),
    ((2,), {"listed": [1]}), ((), {}), ((1,), {"other": 1}), ((1, 2, 3, 4, 5, 6), {}),
]  # fmt: skip


def _told(value: Any) -> Any:
    """Return the repr of a value, with ``OURS`` replaced by ``THEIRS``."""
    return repr(value).replace("OURS", "THEIRS")


def _attempt(cls: Any, arguments: Any) -> Any:
    try:
        return cls(*arguments[0], **arguments[1])
    except TypeError as error:
        return str(error).replace("OURS", "THEIRS").replace("_made.<locals>.", "")


@PAIRS
def test_values_behave_as_frozen_dataclasses(ours: Any, theirs: Any) -> None:
    own, others = ([_attempt(cls, each) for each in GIVEN] for cls in (ours, theirs))
    for mine, other in zip(own, others, strict=True):
        assert _told(mine) == _told(other)
        if isinstance(other, str):
            continue
        assert dataclasses.astuple(mine) == dataclasses.astuple(other)
        assert [mine == each for each in own] == [other == each for each in others]
        assert {hash(mine) == hash(each) for each in own if mine == each} == {True}
        assert mine != other
    changed = dataclasses.replace(own[0], first=7)
    assert (changed.first, changed.second) == (7, own[0].second)
    assert own[0].listed is not own[1].listed
    assert ours.__match_args__ == theirs.__match_args__
    ours_taken, theirs_taken = inspect.signature(ours), inspect.signature(theirs)
    assert str(ours_taken) == str(theirs_taken)


@PAIRS
def test_values_are_immutable_and_copyable(ours: Any, theirs: Any) -> None:
    value = ours(1, listed=[1])
    for name in ("first", "unheard_of"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(value, name)
    same = copy.deepcopy(value)
    assert (same, same.listed, same.listed is value.listed) == (value, [1], False)
    assert values.is_frozen(ours)
    assert values.is_frozen(theirs)


def test_values_of_a_module_are_pickled() -> None:
    from ecmproto.frames.filter import compile_filter

    test = compile_filter("vlan.id in {1, 3..4} and not cnm").test
    assert pickle.loads(pickle.dumps(test)) == test


def test_mutable_dataclass_is_not_frozen() -> None:
    assert not values.is_frozen(dataclasses.make_dataclass("Mutable", ["a"]))
    assert not values.is_frozen(int)
