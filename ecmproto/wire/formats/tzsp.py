"""TZSP, which encapsulates captured frames with tags in UDP."""

from __future__ import annotations

from ecmproto.wire.formats.base import Following, Formats, Layer, layer
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.schema import Count, octets, uint
from ecmproto.wire.formats.summary import Summary
from ecmproto.wire.formats.wrapper import Part, Wrapper

_SOURCE = "TZSP"
_PADDING, _END = 0, 1


class _Tag(Part):
    __slots__ = ()

    type: int
    follows = "own"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next tag, or ``None`` after the end tag."""
        return (None, stop) if self.type == _END else (_tag_at(data, end, stop), stop)


@layer("tzsp.mark", title="TZSP padding or end", source=_SOURCE)
class Mark(_Tag):
    """Tag without a length: padding, or the end of the tags."""

    type: int = uint(8, default=_END, doc="0 padding, 1 end", name="tzsp.option_tag")


@layer("tzsp.tag", title="TZSP tag", source=_SOURCE)
class Tag(_Tag):
    """Tag with a measurement of the sniffer, such as signal strength or channel."""

    type: int = uint(8, default=10, doc="type of the tag", name="tzsp.option_tag")
    length: int = uint(8, default=0, unit="octets", doc="length of the value", name="tzsp.option_length")
    value: bytes = octets(Count(key="length"), default=b"", doc="value")

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the length of the value."""
        return {"length": len(self.value)}


def _tag_at(data: bytes, pos: int, stop: int) -> type[Layer]:
    return Mark if pos >= stop or data[pos] in (_PADDING, _END) else Tag


@layer("tzsp", title="TZSP", source=_SOURCE)
class TZSP(Wrapper):
    """Header of a captured frame. The tags are between this header and the frame."""

    version: int = uint(8, default=1, doc="1")
    type: int = uint(
        8, default=0, doc="type of the packet",
        names={0: "received frame", 1: "frame to send", 3: "configuration", 4: "keep-alive", 5: "port"},
    )  # fmt: skip
    encapsulated: int = uint(16, default=1, doc="type of the payload", name="tzsp.encap")
    udp_ports = (37008,)
    next_key = "encapsulated"
    follows = "own"
    holds = (Tag, Mark)
    wraps = {1: Ethernet}
    summary = Summary(tag="TZSP")

    def inside(self, data: bytes, start: int, end: int, stop: int) -> Following:
        """Return the format of the first tag, and the end of the last tag."""
        at = end
        while at < stop and data[at] != _END:
            at += 1 if data[at] == _PADDING or at + 1 == stop else 2 + data[at + 1]
        return _tag_at(data, end, stop), min(at + 1, stop)
