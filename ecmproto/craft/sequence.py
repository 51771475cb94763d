"""Sequences: frames that belong together, by name, with parameters: ``cnm-flood flows=0..99 fb=1..63``.

A sequence is told as items of a specification (`ecmproto.craft.spec`), so that it can be written down as one
and changed.  Some also say what a switch under test has to do with each frame.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Words
from typing import Any

from ecmproto.codec.document import nearest
from ecmproto.errors import ParameterError, SpecError, shown
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.units import NO_UNIT, NS_PER_S

SCHEMA = "ecmproto/expectation/1"
MAX_RATE = 10**9
"""More frames a second have no times of their own."""

Values = Mapping[str, str]
"""What was given for each parameter, or its default."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """What a parameter of a sequence is without being given, and what it says."""

    default: str
    doc: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An item of a specification, and what is expected of its frame, as plain data; None of nothing."""

    item: Mapping[str, Any]
    expected: Mapping[str, Any] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """Frames for a purpose; ``make`` gives their steps.  ``expects`` says that these have expectations."""

    name: str
    doc: str
    parameters: Mapping[str, Parameter]
    make: Callable[[Values, EtherTypes], Iterable[Step]]
    expects: bool = False

    def steps(self, given: Mapping[str, str], *, ethertypes: EtherTypes = DEFAULT) -> list[Step]:
        """Return the steps with some parameters given; SpecError or ParameterError for what cannot be."""
        for name in given:
            if name not in self.parameters:
                raise SpecError(
                    where=self.name, needed="a parameter of it", got=repr(name),
                    hint=nearest(name, self.parameters),
                )  # fmt: skip
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        return list(self.make(values | dict(given), ethertypes))


def given_by(words: Words[str], name: str) -> dict[str, str]:
    """Return the parameters that words such as ``["flows=0..99"]`` give; SpecError where they give none."""
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key in given:
            got = f"{key!r} twice" if equals else repr(word)
            raise SpecError(where=name, needed="PARAMETER=VALUE, each parameter once", got=got)
        given[key] = value
    return given


def number_of(text: str, name: str, highest: int, *, lowest: int = 0) -> int:
    """Return a parameter's number; ParameterError when it is none in ``lowest``..``highest``."""
    if text.isascii() and text.isdigit() and len(text) < 20 and lowest <= int(text) <= highest:
        return int(text)
    raise ParameterError(name=name, needed=f"an integer in {lowest}..{highest}", got=shown(text))


def frames_per_s_of(rate: str) -> int:
    """Return the frames a second of a rate such as ``100pps``; ParameterError otherwise."""
    number = rate.removesuffix("pps").strip()
    if number == rate.strip() and number.isdecimal() and number.strip("0"):
        raise ParameterError(name="rate", needed=f"{NO_UNIT}: {shown(number)[1:-1]}pps?", got=shown(rate))
    return number_of(number, "rate", MAX_RATE, lowest=1)


def interval_ns_of(rate: str) -> int:
    """Return the ns between frames at a rate such as ``100pps``, rounded down; ParameterError otherwise."""
    return NS_PER_S // frames_per_s_of(rate)


def only_given(values: Values, *names: str) -> dict[str, str]:
    """Return the parameters of these names that have a value, as keys of an item."""
    return {name: values[name] for name in names if values[name]}
