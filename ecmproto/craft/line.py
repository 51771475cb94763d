"""The one-line form of a frame: ``cnm qntz_fb=40 flow_id=7``, ``vlan id=5 cntag flow_id=7 ip … udp …``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ecmproto.craft.stack import Stack
from ecmproto.errors import SpecError
from ecmproto.formats.registry import BY_PREFIX


def stack_from_words(words: Sequence[str], *, where: str = "frame") -> Stack:
    """Return the layers that words such as ``["cnm", "qntz_fb=40"]`` name; SpecError otherwise."""
    stack = Stack()
    part = None
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            part = stack.add(word, where=where)
        elif part is None:
            raise SpecError(
                where=where,
                needed="the name of a layer in front of its fields",
                got=repr(word),
                hint=f"one of {', '.join(BY_PREFIX)}",
            )
        else:
            stack.give(name, value, part)
    if part is None:
        raise SpecError(
            where=where, needed="the name of a layer", got="nothing", hint=f"one of {', '.join(BY_PREFIX)}"
        )
    return stack


def stack_from_line(line: str, *, where: str = "frame") -> Stack:
    """Return the layers of a line; words are split as a shell would."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise SpecError(where=where, needed="a line with its quotes closed", got=repr(line)) from error
    return stack_from_words(words, where=where)


def give_fields(stack: Stack, fields: Mapping[str, object]) -> None:
    """Give the last layer of ``stack``, and the layers it implies, some fields by name."""
    part = stack.parts[-1]
    for name, value in fields.items():
        stack.give(name, value, part)
