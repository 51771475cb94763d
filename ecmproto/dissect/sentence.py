"""What is said of all frames with the same layers: the summaries of their formats, joined and bound to them.

A sentence is made once for each sequence of layers, of the summaries alone.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from string import Formatter
from typing import TypeAlias

from ecmproto.codec.frame import Frame, encapsulated
from ecmproto.dissect.elements import (
    Choice,
    Element,
    Elements,
    Layers,
    Odd,
    Reference,
    Text,
    Value,
    sayer,
)
from ecmproto.dissect.summary_templates import CLAUSES
from ecmproto.formats.base import Layer
from ecmproto.formats.summary import Case, Clause, First

Formats: TypeAlias = "tuple[type[Layer], ...]"
"""The layers of a frame from the outside in."""


class Sentence:
    """What is said of frames with certain layers, that show frames with certain layers, and so on."""

    def __init__(self, chain: tuple[Formats, ...]) -> None:
        frames: list[_Speech] = []
        first = 0
        for formats in chain:
            frames.append(_Speech(formats, first, frames[-1] if frames else None))
            first += len(formats)
        self.name: Elements = frames[0].name
        """What the frame is, in a word."""
        shown: Elements = ()
        for outer, inner in zip(frames[-2::-1], frames[:0:-1], strict=True):
            shown = _sample(outer, inner, _told(inner, shown, ", "))
        self.told: Elements = _told(frames[0], shown, " | ")
        """What matters of it."""
        self.addresses: Elements = frames[0].bound("{:addresses}", 0)
        """Whose it is, where it has no Ethernet header; nothing where it does not say."""
        self._name, self._told, self._addresses = map(sayer, (self.name, self.told, self.addresses))

    def say(self, layers: Layers) -> tuple[str, str]:
        """Return what a frame is and what matters of it."""
        return self._name(layers), self._told(layers)

    def say_addresses(self, layers: Layers) -> str:
        """Return whose a frame without an Ethernet header is."""
        return self._addresses(layers)


_MOST_FRAMES = 8
"""How deep messages that show messages are told of; nobody but who forges them sends any."""


@functools.lru_cache(maxsize=1024)
def sentence(chain: tuple[Formats, ...]) -> Sentence:
    """Return the sentence of frames by their layers, those of the frames that they show, and so on."""
    return Sentence(chain)


def sentence_of(frame: Frame) -> tuple[Sentence, Layers]:
    """Return a frame's sentence, and the layers that it is about."""
    layers = frame.layers
    chain = [tuple(map(type, layers))]
    inner = encapsulated(frame)
    while inner is not None and len(chain) < _MOST_FRAMES:
        layers += inner.layers
        chain.append(tuple(map(type, inner.layers)))
        inner = encapsulated(inner)
    return sentence(tuple(chain)), layers


def _told(frame: _Speech, shown: Elements, separator: str) -> Elements:
    """Return what matters of a frame that shows what ``shown`` says."""
    detail, tags = frame.parts(separator)
    parts = [detail, *tags, shown] if frame.message else [*tags, detail]
    return _joined(parts, separator)


def _sample(outer: _Speech, frame: _Speech, told: Elements) -> Elements:
    """Return what a message says of the frame that it shows."""
    to = frame.addresses.get("receiver") or outer.addresses.get("shown_to")
    destination: Elements = () if to is None else (Text((Value(((1, to),)),), "mac"),)
    source = frame.bound("of {:source}→ ", 0)
    return (*source, *destination, " ", *frame.name, *((" ", *told) if told else ()))


def _joined(parts: Sequence[Elements], separator: str) -> Elements:
    said = [part for part in parts if part]
    return tuple(each for part in said for each in (separator, *part))[1:]


class _Speech:
    """What the layers of one frame say; the first of them is layer ``first`` among all."""

    def __init__(self, formats: Formats, first: int, outer: _Speech | None) -> None:
        self._formats, self._first, self._outer = formats, first, outer
        self._told_of: set[str] = set()
        heard = [(first + index, cls.summary) for index, cls in enumerate(formats)]
        self.addresses = {
            role: self._field(getattr(summary, role), index)
            for role in _ROLES
            for index, summary in heard
            if getattr(summary, role)
        }
        """Where the frame's addresses stand, as far as it has them."""
        self.message = any(summary.detail_first for _, summary in heard)
        self._heard = heard
        loud = [each for each in heard if each[1].detail or each[1].told_by]
        ranked = [*reversed([each for each in loud if not each[1].gives_way]), *loud]
        self._speaker = ranked[0] if ranked else None

    @functools.cached_property
    def name(self) -> Elements:
        """What the frame is."""
        if self._speaker is not None and self._speaker[1].label:
            return (self._speaker[1].label,)
        for index, summary in reversed(self._heard):
            key = self._formats[index - self._first].next_key
            if summary.name or key:
                return self.bound(summary.name or f"{{{key}:ethertype}}", index)
        return ("data",)

    def parts(self, separator: str) -> tuple[Elements, list[Elements]]:
        """Return what matters of it, and its tags."""
        detail: Elements = ()
        if self._speaker is not None:
            index, summary = self._speaker
            told_by = summary.told_by
            detail = self.bound(summary.detail, index) if told_by is None else self._odd(told_by, separator)
        tags = [
            self.bound(summary.tag, index)
            for index, summary in self._heard
            if summary.tag and self._formats[index - self._first].prefix not in self._told_of
        ]
        return detail, tags

    def _odd(self, function: Callable[[Layers], list[str]], separator: str) -> Elements:
        return (Odd(function, self._first, self._first + len(self._formats), separator),)

    def bound(self, clause: Clause, index: int, argument: str = "") -> Elements:
        """Return a clause of layer ``index`` with the values that it names; LookupError for one not there."""
        if isinstance(clause, First):
            return self._first_of(clause, index, argument)
        if isinstance(clause, Case):
            return self._choice(clause, index, argument)
        bound: list[Element] = []
        for literal, names, style, _ in _formatter.parse(clause.replace("@", argument)):
            if literal:
                bound.append(literal)
            named = None if not style else self._clauses(index).get(style, CLAUSES.get(style))
            if named is not None:
                bound += self.bound(named, index, names or "")
            elif names:
                values = tuple(self._value(name, index) for name in names.split(","))
                bound.append(Text(values, style or values[0].style))
        return tuple(bound)

    def _clauses(self, index: int) -> Mapping[str, Clause]:
        at = index - self._first
        # what is said of a frame as such is no layer's
        return self._formats[at].summary.clauses if 0 <= at < len(self._formats) else {}

    def _first_of(self, clause: First, index: int, argument: str) -> Elements:
        for template in clause.templates:
            with suppress(LookupError):
                return self.bound(template, index, argument)
        raise LookupError(clause)

    def _choice(self, case: Case, index: int, argument: str) -> Elements:
        try:
            value = self._value(case.value.replace("@", argument), index)
        except LookupError:
            return self.bound(case.otherwise, index, argument)
        then, otherwise = (self.bound(each, index, argument) for each in (case.then, case.otherwise))
        return (Choice(value, case.low, case.high, then, otherwise),)

    def _value(self, text: str, index: int) -> Value:
        terms, more = [], 0
        for sign, times, name, first, last, number in _TERM.findall(text):
            factor = -1 if sign else 1
            if number:
                more += factor * int(number)
            else:
                bits = (int(first), int(last)) if last else None
                terms.append((factor * int(times or 1), self._reference(name, index, bits)))
        return Value(tuple(terms), more)

    def _reference(self, name: str, index: int, bits: tuple[int, int] | None) -> Reference:
        role = name.removeprefix("outer.")
        if role in _ROLES:
            speech = self if role == name else self._outer
            if speech is None:
                raise LookupError(name)
            return speech.addresses[role]
        prefix, _, key = name.rpartition(".")
        if prefix:
            prefixes = [cls.prefix for cls in self._formats]
            if prefix not in prefixes:
                raise LookupError(prefix)
            index = self._first + prefixes.index(prefix)
            self._told_of.add(prefix)
        return dataclasses.replace(self._field(key.removeprefix("#"), index), bits=bits, size=key[0] == "#")

    def _field(self, key: str, index: int) -> Reference:
        fields = self._formats[index - self._first].layout
        return Reference(index, key, next((field for field in fields if field.key == key), None))


_ROLES = ("sender", "receiver", "addressee", "shown_to")
_TERM = re.compile(r"(-?)(?:(\d+)\*)?(?:(#?[a-z][a-z0-9_.]*)(?:\[(\d+):(\d+)\])?|(\d+))")
_formatter = Formatter()
