"""Conversion of messages to and from frames.

A :class:`MessageFormat` describes the wire format of one message kind. A format field gets the value of the
message field with the same name. ``MessageFormat.fields`` maps format fields whose names differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

from ecmproto.errors import ParameterError
from ecmproto.kernels.record import record_dtype
from ecmproto.wire.codec import VLAN, Ethernet, EtherTypes, Frame, STag, decode_lax, encode
from ecmproto.wire.codec.frame import MIN_OCTETS
from ecmproto.wire.codec.tags import is_tag, joined_word, split_word
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.registry import announcement

ADDRESS_OCTETS = 6
_TYPE_OCTETS = 2
_SHOWN_OCTETS = 256
"""Number of octets to decode, which is more than any plausible stack of tags occupies."""
_WORD_BITS = 64
_LARGEST_WORD = (1 << _WORD_BITS) - 1


def headers(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> Frame:
    """Return the frame's addresses and tags without decoding the rest of the frame.

    The last tag counts as complete even if the EtherType after the tag is truncated.
    """
    return _headers(octets[:_SHOWN_OCTETS], ethertypes)


@lru_cache(maxsize=16)
def _headers(shown: bytes, ethertypes: EtherTypes) -> Frame:
    # Cached because callers often read the priority and then the addresses of the same frame.
    return decode_lax(shown + bytes(_TYPE_OCTETS), original_octets=1 << 30, ethertypes=ethertypes)


def tags(frame: Frame) -> list[Layer]:
    """Return the tags after the addresses, outermost first, as defined in `ecmproto.wire.codec.tags`."""
    return list(takewhile(lambda layer: is_tag(type(layer)), frame.layers[1:]))


def outer_vlan(frame: Frame) -> VLAN | STag | None:
    """Return the outermost VLAN tag, or ``None`` for an untagged frame."""
    return next((layer for layer in tags(frame) if isinstance(layer, VLAN | STag)), None)


def priority_of(frame: Frame) -> int:
    """Return the priority in the outermost VLAN tag, or 0 for an untagged frame."""
    vlan = outer_vlan(frame)
    return 0 if vlan is None else vlan.priority


def is_group(address: bytes) -> bool:
    """Return whether a MAC address is a group address."""
    return bool(address[0] & 1)


def framed(
    message: Layer,
    like: Frame,
    *,
    dst: bytes,
    src: bytes,
    priority: int | None,
    following: Sequence[Layer] = (),
    fix: bool = False,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return a frame with ``message`` after the VLAN tags of ``like``, padded to 60 octets, without FCS.

    The outermost VLAN tag gets ``priority`` and DEI 0; ``None`` keeps the priority of the tag.
    ``following`` contains the layers after the message. With ``fix``, all lengths and checksums are computed.
    """
    stack: list[tuple[int, VLAN | STag]] = []
    for before, layer in pairwise((like.layers[0], *tags(like))):
        if not isinstance(layer, VLAN | STag):
            continue
        tag: VLAN | STag = layer
        if not stack:
            tag = layer.replace(priority=layer.priority if priority is None else priority, dei=0)
        stack.append((int(getattr(before, before.next_key)), tag))
    # Each header's type announces the next layer.
    types = [*(announced for announced, _ in stack), announced_by(type(message), ethertypes)]
    layers = (
        Ethernet(dst=dst, src=src, type=types[0]),
        *(tag.replace(etype=etype) for (_, tag), etype in zip(stack, types[1:], strict=True)),
        message,
        *following,
    )
    return encode(Frame(layers=layers, ethertypes=ethertypes), fix=fix).ljust(MIN_OCTETS, b"\0")


def announced_by(kind: type[Layer], ethertypes: EtherTypes) -> int:
    """Return the EtherType that announces a format.

    Raises ParameterError if no EtherType announces the format.
    """
    ethertype = announcement(kind, ethertypes)
    if ethertype is None:
        raise ParameterError(name=kind.prefix, needed="a format that an EtherType announces", got="another")
    return ethertype


_HEAD = frozenset({"priority", "qlen_octets", "qoff_octets", "qdelta_octets", "fb_octets", "rate_kbps"})
"""Names of the message header fields that a wire format can carry; other header fields are local numbers."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class _MappedField(NamedTuple):
    """The format field that corresponds to a message field, with the unit and the range."""

    key: str
    unit: int
    minimum: int
    maximum: int

    def written(self, value: float) -> int:
        """Return ``value`` in the unit of the wire format, clamped to the range of the field."""
        number = int(value) if self.unit == 1 else int(abs(value) // abs(self.unit))
        if self.unit != 1 and (value < 0) != (self.unit < 0):
            number = -number
        if self.maximum == _LARGEST_WORD:
            # Records store an unsigned 64-bit number as the signed number with the same bits.
            return number & _LARGEST_WORD
        return max(self.minimum, min(self.maximum, number))

    def read(self, value: int) -> int:
        """Return a value of the wire format in the unit of the message field."""
        return _signed(value) * self.unit


def _signed(value: int) -> int:
    """Return a 64-bit unsigned number as the signed number with the same bits."""
    return value - (1 << _WORD_BITS) if value >> (_WORD_BITS - 1) > 0 else value


@dataclass(frozen=True, kw_only=True)
class MessageFormat:
    """The wire format of one message kind."""

    format: type[Layer]
    payload: type[Any] | None = None
    """Record type of the message payload; ``None`` for a message without payload."""
    name: str = ""
    """Name of the message kind; empty for the name of the format in counters."""
    fields: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Message field name by format field name, for fields whose names differ."""
    packed: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NOTHING)
    """Format fields that together form one message field, by message field name, most significant first."""
    units: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    """Size of a format field's unit in units of the message field; a negative size inverts the sign."""
    constants: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    """Format fields with constant values, which identify the message kind."""
    destination: str = ""
    """Name of the format field with the destination address of the flow that the message is about."""
    is_answer: bool = False
    """Whether a destination sends the message; other messages are about a frame that a port sampled."""
    lowered: str = ""
    """Name of the rate field that congestion points lower (`protocol.CongestionPoint.rewrite_tag`)."""
    shown_octets: int = 64
    """Number of octets of the sampled frame in the message, if the format contains a sampled frame."""

    @cached_property
    def mapped_fields(self) -> Mapping[str, _MappedField]:
        """Format fields by the names of the message fields."""
        kind: Any = self.payload
        carried = _HEAD | set(record_dtype(kind).names or () if kind is not None else ())
        named = {self.fields.get(each.key, each.key): each for each in self.format.layout if each.is_number}
        unknown = sorted(set(self.fields.values()) - carried)
        if unknown or not set(self.fields) | set(self.units) <= {each.key for each in named.values()}:
            raise ParameterError(
                name=self.format.prefix,
                needed=f"fields of the format, and of the message: {', '.join(sorted(carried))}",
                got=str(dict(self.fields)),
            )
        return {
            name: _MappedField(at.key, self.units.get(at.key, 1), at.minimum, at.maximum)
            for name, at in named.items()
            if name in carried
        }

    def layer_of(self, message: Mapping[str, Any]) -> Layer:
        """Encode the fields of a message in this format.

        Values are rounded toward zero to units of the format field. A value outside the range of a field is
        clamped.
        """
        values: dict[str, int] = dict(self.constants)
        for name, at in self.mapped_fields.items():
            values[at.key] = at.written(message.get(name, 0))
        for name, keys in self.packed.items():
            values |= split_word(self.format, keys, message.get(name, 0) & _LARGEST_WORD)
        return self.format(**values)

    def fields_of(self, layer: Layer) -> dict[str, int]:
        """Return the message fields in ``layer``, as exactly as the format represents these fields."""
        fields = {name: at.read(getattr(layer, at.key)) for name, at in self.mapped_fields.items()}
        return fields | {name: _signed(joined_word(layer, keys)) for name, keys in self.packed.items()}

    def is_of(self, layer: Layer) -> bool:
        """Return whether a layer of this format is a message of this kind."""
        return all(getattr(layer, name) == value for name, value in self.constants.items())
