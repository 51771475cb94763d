"""Base classes of wrappers: headers of mirrors and tunnels that contain a whole frame or packet.

A wrapper declares in ``wraps`` the formats of the content. The content starts with an Ethernet or IP header,
and the layers of the content follow the wrapper's layer. A mirror may have truncated the content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ecmproto.wire.formats.base import Following, Follows, Formats, Layer
from ecmproto.wire.formats.ethernet import Data, Ethernet
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.ip import IPv4, IPv6


class Packet(Layer):
    """Packet whose first four bits select the format. The class is never a layer itself."""

    __slots__ = ()

    by_nibble: ClassVar[Mapping[int, type[Layer]]] = {4: IPv4, 6: IPv6}


class Announced(Layer):
    """Content whose EtherType is the value of ``next_key``. The class is never a layer itself."""

    __slots__ = ()


FURTHER_ETHERTYPES = -1
"""Key of `Announced` in ``wraps``, for all EtherTypes that are not keys of ``wraps``."""


class Wrapper(Layer):
    """Base of formats that contain a frame."""

    __slots__ = ()

    role = "wrapper"
    counted_as = ""
    follows: ClassVar[Follows] = "content"
    parts_before: ClassVar[Mapping[type[Layer], tuple[type[Layer], ...]]] = {}
    """Parts of the header that a crafted frame has before the content, by the content's format."""

    @classmethod
    def contents(cls, selected: int) -> Mapping[int, type[Layer]]:
        """Return the content formats by the value of ``next_key``.

        ``selected`` is the selected sequence of parts.
        """
        return cls.wraps

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the content, and the end of the content."""
        value = getattr(self, self.next_key) if self.next_key else 0
        contents = self.contents(self.selected_sequence)
        cls = contents.get(value, Data)
        if cls is Data and FURTHER_ETHERTYPES in contents and value > MAX_LENGTH:
            return formats.announced(value, data, end, stop)
        if issubclass(cls, Packet):
            cls = cls.by_nibble.get(data[end] >> 4, Data) if end < stop else Data
        return cls, stop

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the type of the content.

        The present value of the field stays if the value means the same type.
        """
        if not self.next_key or following is None:
            return {}
        contents = _all_contents(type(self))
        values = [value for each in contents for value, cls in each.items() if _is_one(type(following), cls)]
        return {} if not values or getattr(self, self.next_key) in values else {self.next_key: values[0]}


class Part(Layer):
    """Base of the optional parts of a wrapper's header, which a field of the wrapper selects."""

    __slots__ = ()

    role = "wrapper"
    counted_as = ""


def _is_one(cls: type[Layer], content: type[Layer]) -> bool:
    return cls in content.by_nibble.values() if issubclass(content, Packet) else cls is content


FIRST_FORMATS: tuple[type[Layer], ...] = (Ethernet, IPv4, IPv6)
"""Formats that a frame inside a wrapper can start with."""


def may_wrap(wrapper: type[Layer], cls: type[Layer]) -> bool:
    """Return whether a format can follow a wrapper directly, without an Ethernet header."""
    if not issubclass(wrapper, Wrapper):
        return False
    return any(_is_one(cls, each) for one in _all_contents(wrapper) for each in one.values())


def _all_contents(wrapper: type[Wrapper]) -> list[Mapping[int, type[Layer]]]:
    return [wrapper.contents(0), *map(wrapper.contents, wrapper.sequences)]


def inner_frames(layers: Sequence[type[Layer]]) -> list[int]:
    """Return the index of the first layer of each wrapped frame, outermost first."""
    return [
        index
        for index in range(1, len(layers))
        if layers[index] in FIRST_FORMATS and layers[index - 1].role == "wrapper"
    ]
