"""What every format is to those who handle frames: a frozen value that reads, writes and explains itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from ecmproto.errors import DecodeError
from ecmproto.formats.ethertypes import MAX_LENGTH, EtherTypes
from ecmproto.formats.layout import Field
from ecmproto.formats.schema import FlatStruct

Following: TypeAlias = "tuple[type[Layer] | None, int]"
"""The format of what follows a layer (None: nothing does) and the octet where that must end."""


UNBOUNDED = 1 << 32
"""Longer than any frame: the length of one that is not known, as that of a sampled frame."""


class Formats(Protocol):
    """What a layer may ask about the formats around it."""

    @property
    def ethertypes(self) -> EtherTypes:
        """The EtherType map."""

    def announced(self, value: int, data: bytes, pos: int, stop: int) -> tuple[type[Layer], int]:
        """Return the format that EtherType or length ``value`` announces at ``data[pos:stop]``, and where
        it may reach.
        """

    def ethertype_of(self, following: Layer | None) -> int | None:
        """Return the EtherType that announces ``following``, None when none does."""


class Layer:
    """Base of every typed layer value: one format's fields as they stand in a frame.

    Frozen, slotted, keyword-only; equal when all fields are equal.  Values are not range-checked when
    constructed but when encoded, so that a decoder never has to refuse a code point.
    """

    __slots__ = ()

    schema: ClassVar[FlatStruct]
    """The construct schema."""
    prefix: ClassVar[str]
    """What the names of its fields start with, and its name in JSON and on the command line."""
    title: ClassVar[str]
    """Its name in prose."""
    source: ClassVar[str]
    """The clause or document that defines it."""

    announced_by: ClassVar[str | int] = ""
    """The role in the `EtherTypes` map, or the EtherType itself, that announces it; "" when neither does."""
    selected_by: ClassVar[tuple[int, ...]] = ()
    """Where formats share an EtherType: the selector values that mean this one; () for any other."""
    next_key: ClassVar[str] = ""
    """The field that announces what follows by EtherType or length; "" when the layer ends the frame."""

    layout: ClassVar[tuple[Field, ...]]
    """Its fields in wire order, as the walk over the schema finds them."""
    fixed_octets: ClassVar[int]
    """Octets of its fixed part."""
    parse: ClassVar[Callable[[bytes, int, int], tuple[Layer, int, int] | None]]
    """Read one from ``data[start:stop]``: (value, end, octets missing at its end), or None when not even
    the fixed part is there.  Generated from the schema by `ecmproto.formats.packing`."""
    build: Callable[[], bytes]
    """Write one; EncodeError for a value out of its field's range.  Generated from the schema."""

    otherwise: ClassVar[type[Layer] | None] = None
    """The format of octets that are announced as this one and cannot be it; None where all can."""

    @classmethod
    def cannot_be(cls, data: bytes, start: int, stop: int, reach: int) -> bool:
        """Return whether the octets announced as this format are none of it, but of ``otherwise``.

        They are ``data[start:stop]`` and went on to octet ``reach`` on the wire.
        """
        return False

    @classmethod
    def short(cls, data: bytes, start: int, stop: int, reach: int) -> DecodeError | None:
        """Return the error of octets, too few to be read, that were too few on the wire too; None if not.

        Arguments as in `cannot_be`.
        """
        return too_few(cls, start, stop, reach)

    def check(self, start: int, reach: int) -> DecodeError | None:
        """Return what makes this value, found at octet ``start``, one that its format forbids, or None.

        ``reach`` is the octet up to which it may have gone on the wire.
        """
        return None

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the values that length, type and checksum fields should have.

        ``rest`` is what follows this layer in the frame (without padding), ``following`` the layer it
        starts with.
        """
        if not self.next_key:
            return {}
        value: int = getattr(self, self.next_key)
        ethertype = formats.ethertype_of(following)
        if ethertype is None:
            return {self.next_key: len(rest)} if value <= MAX_LENGTH >= len(rest) else {}
        old = ethertype == formats.ethertypes.c_tag and value == formats.ethertypes.old_s_tag
        return {} if old else {self.next_key: ethertype}

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of what follows in ``data[end:stop]`` and where that may reach.

        None when this layer is the last: what is left is padding or trailer.
        """
        if not self.next_key:
            return None, end
        return formats.announced(getattr(self, self.next_key), data, end, stop)

    def __repr__(self) -> str:
        """Python that makes an equal value: the fields that differ from their defaults."""
        shown = (
            (field, getattr(self, field.key))
            for field in self.layout
            if getattr(self, field.key) != field.meta.default
        )
        return f"{type(self).__name__}({', '.join(f'{f.key}={_literal(f, v)}' for f, v in shown)})"

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


def too_few(cls: type[Layer], start: int, stop: int, reach: int) -> DecodeError | None:
    """Return the error of octets in which not even the fixed part of a format is whole, cut or not."""
    if reach - start >= cls.fixed_octets:
        return None
    return DecodeError(
        layer=cls.prefix, offset=start, needed=f"{cls.fixed_octets} octets", got=f"{stop - start} octets"
    )


def _literal(field: Field, value: int | bytes) -> str:
    if isinstance(value, int):
        return f"{value:#x}" if field.meta.base == "hex" else str(value)
    # a value is checked when encoded, not before, so it may be anything here
    return f"bytes.fromhex('{value.hex()}')" if isinstance(value, bytes) else repr(value)
