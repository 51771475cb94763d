"""Discriminator word at the start of every pre-standard message and tag (wire-formats 1.1).

Any protocol may use an experimental EtherType. The octets of another protocol can start with a valid word.
Such octets are rejected if the CPID is zero or has a group address, or if a message without payload is longer
than a padded message.
"""

from __future__ import annotations

from typing import ClassVar

from ecmproto.errors import DecodeError
from ecmproto.wire.formats.base import UNBOUNDED, Crafting, Layer, layer, too_few
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.schema import REST, octets, uint
from ecmproto.wire.formats.summary import Summary

PROTOCOLS = {0: "ECM", 1: "BCN", 2: "E²CM", 3: "FECN", 4: "DBP", 5: "HPCC", 6: "CIM"}
"""Values of Protocol in the word. Value 7 is unassigned."""

MESSAGE_PRIORITY = 7
"""Priority of a message, except forward probes (wire-formats 1.2)."""

MIN_SAMPLED_OCTETS = 24
"""Minimum length of the sampled frame in an ECM, BCN or E²CM message, in octets (S000 3.1)."""

MAX_OCTETS = 64
"""Maximum length of a message without payload, in octets.

The message is padded to 60 octets, and may be followed by an FCS and the trailer of a tap.
"""

CPID_AT, CPID_OCTETS = 2, 8
"""Offset and length of the CPID in messages and tags with a CPID, in octets."""

DEFAULT_CPID = 0x0200_0000_0001_0001
"""Default CPID, 02:00:00:00:00:01/1, which is valid."""

UNKNOWN_LENGTH = UNBOUNDED >> 1
"""Minimum length that means an unknown frame length."""

_GROUP_BIT = 1
_SOURCE = "wire-formats 1.1 (choice)"


def selector(protocol: int, type: int) -> int:
    """Return the number that selects an experimental format in `Formats`."""
    return protocol << 4 | type


@layer("word", title="Discriminator word", source=_SOURCE)
class Word(Layer):
    """Discriminator word: the first 16 bits of all experimental messages and tags."""

    version: int = uint(
        4, default=0, doc="0; receivers decode higher versions as version 0", source="S000 3.1"
    )
    q: int = uint(1, default=0, doc="Qdelta saturated (ECM and E²CM)", source="S000 3.1")
    protocol: int = uint(3, default=0, doc="number of the proposal", source=_SOURCE, names=PROTOCOLS)
    type: int = uint(4, default=0, doc="type of frame or tag within the proposal", source=_SOURCE)
    reserved: int = uint(4, default=0, doc="0 on transmission, ignored on reception", source=_SOURCE)


@layer("expmsg", title="Unknown experimental message", source=_SOURCE, protocol=7)
class UnknownMessage(Word):
    """Message that no proposal defines, stored as octets.

    The Protocol or Type is unassigned, the CPID is invalid, or the message is too long.
    """

    body: bytes = octets(REST, default=b"", doc="octets after the first word")
    role = "message"
    counted_as = "unknown message"
    summary = Summary(
        label="msg?",
        colour="title",
        detail="experimental message, protocol {protocol} type {type}, {#body:octets}",
    )
    announced_by = "message"
    crafting = Crafting(priority=MESSAGE_PRIORITY)


@layer("exptag", title="Unknown experimental tag", source=_SOURCE, protocol=7)
class UnknownTag(Word):
    """Tag that no proposal defines. The tag contains all remaining octets of the frame.

    The Protocol or Type is unassigned, or the CPID is invalid.
    """

    body: bytes = octets(REST, default=b"", doc="octets after the first word")
    role = "tag"
    counted_as = "unknown tag"
    summary = Summary(
        label="tag?", detail="experimental tag, protocol {protocol} type {type}, {#body:octets}"
    )
    announced_by = "tag"


class Proposed(Word):
    """Base of the proposals' messages and tags."""

    __slots__ = ()

    otherwise: ClassVar[type[Layer] | None] = UnknownMessage
    has_cpid: ClassVar[bool] = False
    """Whether a CPID follows the word."""
    padded: ClassVar[bool] = True
    """Whether only padding follows the fields of a message without a sampled frame."""
    showing: ClassVar[tuple[int, ...]] = ()
    """Values of Type with a sampled frame after the other fields. The sampled frame starts with the DA."""
    crafting = Crafting(priority=MESSAGE_PRIORITY)

    @classmethod
    def cannot_be(cls, data: bytes, start: int, stop: int, reach: int) -> bool:
        """Return whether the CPID is invalid, or more than padding follows a message without payload."""
        cpid_at = start + CPID_AT
        following = cpid_at + CPID_OCTETS
        if cls.has_cpid and stop >= following and is_no_cpid(data[cpid_at:following]):
            return True
        if not cls.padded or _type_at(data, start, stop) in cls.showing:
            return False
        return stop - start > MAX_OCTETS or MAX_OCTETS < reach - start < UNKNOWN_LENGTH


class Sampling(Proposed):
    """Base of the messages with a sampled frame of at least 24 octets (S000 3.1)."""

    __slots__ = ()

    has_cpid = True
    role = "message"
    shows = Ethernet
    min_shown_octets = MIN_SAMPLED_OCTETS

    @classmethod
    def short(cls, data: bytes, start: int, stop: int, reach: int) -> DecodeError | None:
        """Return the error of a message with missing fields or a sampled frame that is too short."""
        wrong = too_few(cls, start, stop, reach)
        if wrong is None and _type_at(data, start, stop) in cls.showing:
            return _short_sample(cls, start, reach)
        return wrong

    def check(self, start: int, reach: int) -> DecodeError | None:
        """Return the error of a sampled frame with fewer than 24 octets on the wire."""
        return _short_sample(type(self), start, reach) if self.type in self.showing else None


def is_no_cpid(octets: bytes) -> bool:
    """Return whether the eight octets of a CPID are invalid: all zero, or with a group address."""
    return bool(octets[0] & _GROUP_BIT) or not any(octets)


def _type_at(data: bytes, start: int, stop: int) -> int | None:
    return data[start + 1] >> 4 if stop - start >= Word.fixed_octets else None


def _short_sample(cls: type[Layer], start: int, reach: int) -> DecodeError | None:
    sample_at = start + cls.fixed_octets
    if reach - sample_at >= MIN_SAMPLED_OCTETS:
        return None
    return DecodeError(
        layer=cls.prefix,
        offset=sample_at,
        needed=f"{MIN_SAMPLED_OCTETS} octets of the sampled frame",
        got=f"{reach - sample_at} octets",
    )
