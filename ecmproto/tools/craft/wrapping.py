"""Wrappers of crafted frames: the nesting of frames, and the parts that wrappers need.

Some wrappers need another wrapper that announces them, as ERSPAN needs GRE. A wrapper also needs the header
parts that its flags announce. If the content cannot follow a wrapper directly, another wrapper is inserted
before the content.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ecmproto.errors import SpecError
from ecmproto.tools.craft.stack import Part
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import Data, Ethernet
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.wrapper import Part as HeaderPart
from ecmproto.wire.formats.wrapper import Wrapper, may_wrap

_WRAPPERS = [cls for cls in FORMATS if issubclass(cls, Wrapper)]


def frames_in(parts: Sequence[Part]) -> list[list[Part]]:
    """Return the parts of each nested frame, outermost frame first.

    Every frame except the last ends with wrappers.
    """
    frames: list[list[Part]] = [[]]
    wrapper: type[Layer] | None = None
    for part in parts:
        if wrapper is not None and not (
            issubclass(part.cls, HeaderPart) or (part.cls.role == "wrapper" and may_wrap(wrapper, part.cls))
        ):
            frames.append([])
            wrapper = None
        frames[-1].append(part)
        if part.cls.wraps:
            wrapper = part.cls
        elif issubclass(part.cls, HeaderPart) and wrapper is None:
            wrapper = _holder(part.cls)
    return frames if wrapper is None else [*frames, []]


def complete_wrappers(parts: list[Part], content: Part | None) -> dict[Part, dict[str, int | bytes]]:
    """Add the wrappers and header parts that are required around ``content``.

    Return the field values with which the wrappers announce their header parts.
    """
    filled: dict[Part, dict[str, int | bytes]] = {}
    first = next(index for index, part in enumerate(parts) if part.cls.role == "wrapper")
    while (holder := _holder(parts[first].cls)) is not None:
        parts.insert(first, Part(holder))
    last = next(part.cls for part in reversed(parts) if part.cls.wraps)
    if not may_wrap(last, Ethernet if content is None else content.cls) and not may_wrap(last, Ethernet):
        parts += [Part(cls) for cls in _WRAPPERS if may_wrap(last, cls) and may_wrap(cls, Ethernet)][:1]
    for index in reversed(range(first, len(parts))):
        if parts[index].cls.wraps:
            filled[parts[index]] = _complete_header(parts, index)
    return filled


def _holder(cls: type[Layer]) -> type[Layer] | None:
    """Return the wrapper that must announce a format, or ``None`` if another header can."""
    if cls.udp_ports or cls.announced_by or cls.ip_protocol is not None:
        return None
    holders = (each for each in _WRAPPERS if cls in (*each.holds, *_parts_of(each)) or may_wrap(each, cls))
    return next(holders)


def _parts_of(cls: type[Layer]) -> tuple[type[Layer], ...]:
    return max(cls.sequences.values(), key=len, default=())


def _complete_header(parts: list[Part], index: int) -> dict[str, int | bytes]:
    """Add the header parts of the wrapper at ``index``, and return the field value that announces them."""
    part = parts[index]
    following = [each.cls for each in itertools.takewhile(_is_part, parts[index + 1 :])]
    order = [*part.cls.holds, *_parts_of(part.cls)]
    for cls in following:
        if cls not in order:
            needed = ", ".join((*(each.prefix for each in order), "or " * bool(order) + "a frame after it"))
            raise SpecError(where=part.cls.prefix, needed=needed, got=cls.prefix)
        order = order[order.index(cls) + (cls not in part.cls.holds[:-1]) :]
    if part.cls.holds and part.cls.holds[-1] not in following[-1:]:
        parts.insert(index + 1 + len(following), Part(part.cls.holds[-1]))
    if not part.cls.sequence_key:
        return {}
    content = next(iter(parts[index + 1 + len(following) :]), None)
    values: dict[str, int | bytes] = {}
    if part.cls.sequence_key in part.given:
        sequence = part.made({}).following_headers()
    else:
        value, sequence = min(
            _possible(part.cls, following, content), key=lambda each: (len(each[1]), each[0])
        )
        values[part.cls.sequence_key] = value << part.cls.sequence_shift
    for at, cls in enumerate(sequence, index + 1):
        if at == len(parts) or parts[at].cls is not cls:
            parts.insert(at, Part(cls))
    return values


def _is_part(part: Part) -> bool:
    return issubclass(part.cls, HeaderPart)


def _possible(
    cls: type[Layer], following: Sequence[type[Layer]], content: Part | None
) -> Iterator[tuple[int, tuple[type[Layer], ...]]]:
    """Yield header sequences of a wrapper that include the given parts and allow the content to follow."""
    assert issubclass(cls, Wrapper)
    for value, sequence in [(0, ()), *cls.sequences.items()]:
        fits = (
            content is None or not may_wrap(cls, content.cls) or content.cls in cls.contents(value).values()
        )
        needed = {*following, *cls.parts_before.get(Data if content is None else content.cls, ())}
        if fits and needed <= set(sequence):
            yield value, sequence
