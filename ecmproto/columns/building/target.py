"""Which field of which layer of a frame a column is for: ``vlan.id[1]``, ``encapsulated.ip.src``.

Names are those of filters and `ecmproto fields`.  A name means the outermost layer that has the field;
``[1]`` the second one, ``[2]`` the third.  ``encapsulated.NAME`` is a field of the frame that the last layer,
a message, shows.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from ecmproto.codec.document import nearest
from ecmproto.codec.frame import Frame, encapsulated
from ecmproto.errors import ColumnError, SpecError, shown
from ecmproto.formats.base import Layer
from ecmproto.formats.schema import REST, Field, Meta

INNER = "encapsulated."
TAILS = ("padding", "trailer", "fcs")
"""What stands behind a frame's layers, in order."""


def _octets_called(name: str) -> Field:
    """Return a field of octets that is in no layer's schema."""
    meta = Meta(kind="octets", default=b"", doc="", source="")
    return Field(name=name, key=name.partition(".")[2], bit_offset=0, bits=None, meta=meta, count=REST)


_TAIL_FIELDS = {f"eth.{key}": _octets_called(f"eth.{key}") for key in TAILS}
_NUMBERED = re.compile(r"(.+)\[(0|[1-9][0-9]{0,3})\]")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The field that a column sets.

    ``name`` is the column's, ``layer`` the layer's index, None for what stands behind the layers; ``flag``
    is the one bit of the field that is meant, None for all.  ``inner`` says that it is in the frame shown.
    """

    name: str
    layer: int | None
    field: Field
    flag: int | None = None
    inner: bool = False

    @property
    def bits(self) -> int | None:
        """How many bits it has; None for octets of any number."""
        return self.field.bits if self.flag is None else 1

    @property
    def bit(self) -> int:
        """Where it starts, counted from the layer's first bit."""
        if self.flag is None:
            return self.field.bit_offset
        assert self.field.bits is not None
        return self.field.bit_offset + self.field.bits - 1 - self.flag

    @property
    def minimum(self) -> int:
        """The least number."""
        return self.field.minimum if self.flag is None else 0

    @property
    def maximum(self) -> int:
        """The largest number."""
        return self.field.maximum if self.flag is None else 1

    def error(self, needed: str, got: str, row: int | None = None) -> ColumnError:
        """Return the error for the column."""
        return column_error(self.name, needed, got, row)


def tail_target(name: str) -> Target:
    """Return the target of octets behind the layers: ``eth.padding``, ``eth.trailer``, ``eth.fcs``."""
    return Target(name=name, layer=None, field=_TAIL_FIELDS[name])


def octets_target(name: str) -> Target:
    """Return what takes a column as octets of any number, whatever field it is of."""
    return Target(name=name, layer=None, field=_octets_called(name))


def column_error(name: str, needed: str, got: str, row: int | None = None) -> ColumnError:
    """Return the error for the column ``name``."""
    layer, _, field = name.partition(".")
    return ColumnError(layer=layer, field=field, needed=needed, got=got, row=row)


def targets_of(frame: Frame, names: Iterable[str]) -> list[Target]:
    """Return what columns of these names set in ``frame``.

    SpecError, with the nearest name, for one that is no field of it, and for fields meant twice.
    """
    targets = [_target(frame, name) for name in names]
    check_once(frame, targets)
    return targets


def names_in(layer: Layer) -> Iterator[tuple[str, Field, int | None]]:
    """Yield every name that a column may have for a field of a layer; a flag of it has its bit."""
    for field in layer.layout:
        names = (field.name, f"{layer.prefix}.{field.key}", field.meta.length_name)
        yield from ((name, field, None) for name in dict.fromkeys(names) if name)
        for bit in range(8 if field.meta.flags else 0):
            yield field.meta.flags.format(bit), field, bit


def _target(frame: Frame, name: str) -> Target:
    if not isinstance(name, str):
        raise SpecError(where="columns", needed="the name of a field", got=shown(name))
    if not name.startswith(INNER):
        return _find(frame, name, name)
    inner = encapsulated(frame)
    if inner is None:
        raise SpecError(
            where="columns",
            needed="a frame with a message that shows another",
            got=f"{name!r} of {_kind(frame)}",
        )
    return dataclasses.replace(_find(inner, name.removeprefix(INNER), name), inner=True)


def _find(frame: Frame, name: str, column: str) -> Target:
    numbered = _NUMBERED.fullmatch(name)
    plain, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
    if plain in _TAIL_FIELDS and not numbered and plain == column:
        return tail_target(plain)
    found = [
        Target(name=column, layer=index, field=field, flag=bit)
        for index, layer in enumerate(frame.layers)
        for known, field, bit in names_in(layer)
        if known == plain
    ]
    if number < len(found):
        return found[number]
    if found:
        raise SpecError(
            where=f"column {column}", needed=f"{number + 1} layers with {plain}", got=f"{len(found)} of them"
        )
    prefix = column.removesuffix(name)
    names = [prefix + known for layer in frame.layers for known, _, _ in names_in(layer)]
    raise SpecError(
        where="columns",
        needed=f"a field of {_kind(frame)}",
        got=shown(column),
        hint=nearest(prefix + plain, dict.fromkeys(names if prefix else [*names, *_TAIL_FIELDS])),
    )


def _kind(frame: Frame) -> str:
    return ":".join(layer.prefix for layer in frame.layers)


def check_once(frame: Frame, targets: Iterable[Target]) -> None:
    """Refuse targets of which one is another, or holds it."""
    targets = list(targets)
    seen: dict[tuple[bool, int | None, str, int | None], str] = {}
    for target in targets:
        place = (target.inner, target.layer, target.field.key)
        flags = (None, target.flag) if target.flag is not None else (None, *range(8))
        other = next((seen[*place, flag] for flag in flags if (*place, flag) in seen), None)
        if other is not None:
            raise _twice(target.name, other)
        seen[*place, target.flag] = target.name
    shown_at = len(frame.layers) - 1
    for target in targets:
        whole = (False, shown_at, frame.layers[shown_at].layout[-1].key, None) if frame.layers else None
        if target.inner and whole in seen:
            raise _twice(target.name, seen[whole])


def _twice(name: str, other: str) -> SpecError:
    return SpecError(where=f"column {name}", needed="each field once", got=f"{other} too, which holds it")
