"""Values of columns, checked against their fields: numbers, rows of octets, octet strings.

A column can be one value for all frames: an integer, text (addresses, CPIDs, octets in hex, names of code
points) or octets. A column can also have one value per frame: an array of numbers, a matrix of octets (frames
× width), a list of values, `Stretches`, a `Column` of an extraction, or an Arrow array.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ColumnError, SpecError, hint_on_name, shown
from ecmproto.wire.codec.frame import Frame, encapsulated
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.schema import REST, BitPart, Field, Meta
from ecmproto.wire.formats.text import value_of

INNER = "encapsulated."
TAILS = ("padding", "trailer", "fcs")
"""Fields after the layers of a frame, in order."""


def _octets_called(name: str) -> Field:
    """Return a field of octets that is not part of any layer's schema."""
    meta = Meta(kind="octets", default=b"", doc="")
    return Field(name=name, key=name.partition(".")[2], bit_offset=0, bits=None, meta=meta, count=REST)


_TAIL_FIELDS = {f"eth.{key}": _octets_called(f"eth.{key}") for key in TAILS}
_NUMBERED = re.compile(r"(.+)\[(0|[1-9][0-9]{0,3})\]")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The field that a column sets.

    ``name`` is the name of the column. ``layer`` is the index of the layer, ``None`` for octets after the
    layers. ``part`` is the bit range within the field, ``None`` for the whole field. With ``inner``, the
    field is in the quoted frame.
    """

    name: str
    layer: int | None
    field: Field
    part: BitPart | None = None
    inner: bool = False

    @property
    def bits(self) -> int | None:
        """Width in bits; ``None`` for octets of variable length."""
        return self.field.bits if self.part is None else self.part.bits

    @property
    def bit(self) -> int:
        """Offset in bits from the start of the layer."""
        if self.part is None:
            return self.field.bit_offset
        assert self.field.bits is not None
        return self.field.bit_offset + self.field.bits - self.part.bits - self.part.low

    @property
    def minimum(self) -> int:
        """Minimum number."""
        return self.field.minimum if self.part is None else 0

    @property
    def maximum(self) -> int:
        """Maximum number."""
        return self.field.maximum if self.part is None else (1 << self.part.bits) - 1

    def error(self, needed: str, got: str, row: int | None = None) -> ColumnError:
        """Return the error for the column."""
        return column_error(self.name, needed, got, row)


def tail_target(name: str) -> Target:
    """Return the target of octets after the layers: ``eth.padding``, ``eth.trailer`` or ``eth.fcs``."""
    return Target(name=name, layer=None, field=_TAIL_FIELDS[name])


def octets_target(name: str) -> Target:
    """Return the target for a column as octets of any length, whatever its field."""
    return Target(name=name, layer=None, field=_octets_called(name))


def column_error(name: str, needed: str, got: str, row: int | None = None) -> ColumnError:
    """Return the error for the column ``name``."""
    layer, _, field = name.partition(".")
    return ColumnError(layer=layer, field=field, needed=needed, got=got, row=row)


def targets_of(frame: Frame, names: Iterable[str]) -> list[Target]:
    """Return the targets of columns.

    Raises SpecError for a duplicate name and, with the nearest name, for an unknown name.
    """
    targets = [_target(frame, name) for name in names]
    check_once(frame, targets)
    return targets


def names_in(layer: Layer) -> Iterator[tuple[str, Field, BitPart | None]]:
    """Yield the name of every column that sets a field of a layer, or some bits of a field."""
    for field in layer.layout:
        names = (field.name, f"{layer.prefix}.{field.key}", field.meta.length_name)
        yield from ((name, field, None) for name in dict.fromkeys(names) if name)
        yield from ((part.name, field, part) for part in field.meta.parts)


def _target(frame: Frame, name: str) -> Target:
    if not isinstance(name, str):
        raise SpecError(where="columns", needed="the name of a field", got=shown(name))
    if not name.startswith(INNER):
        return _find(frame, name, name)
    inner = encapsulated(frame)
    if inner is None:
        raise SpecError(
            where="columns",
            needed="a frame with a message that quotes another",
            got=f"{name!r} of {_kind(frame)}",
        )
    return dataclasses.replace(_find(inner, name.removeprefix(INNER), name), inner=True)


def _find(frame: Frame, name: str, column: str) -> Target:
    numbered = _NUMBERED.fullmatch(name)
    plain, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
    if plain in _TAIL_FIELDS and not numbered and plain == column:
        return tail_target(plain)
    matches = [
        Target(name=column, layer=index, field=field, part=part)
        for index, layer in enumerate(frame.layers)
        for other, field, part in names_in(layer)
        if other == plain
    ]
    if number < len(matches):
        return matches[number]
    if matches:
        raise SpecError(
            where=f"column {column}",
            needed=f"{number + 1} layers with {plain}",
            got=f"{len(matches)} of them",
        )
    prefix = column.removesuffix(name)
    names = [prefix + other for layer in frame.layers for other, _, _ in names_in(layer)]
    raise SpecError(
        where="columns",
        needed=f"a field of {_kind(frame)}",
        got=shown(column),
        hint=hint_on_name(prefix + plain, dict.fromkeys(names if prefix else [*names, *_TAIL_FIELDS])),
    )


def _kind(frame: Frame) -> str:
    return ":".join(layer.prefix for layer in frame.layers)


def check_once(frame: Frame, targets: Iterable[Target]) -> None:
    """Raise SpecError if targets are equal or overlap."""
    targets = list(targets)
    seen: dict[tuple[bool, int | None, str], dict[str, int]] = {}
    for target in targets:
        of_field = seen.setdefault((target.inner, target.layer, target.field.key), {})
        bits = _ALL_BITS if target.part is None else target.part.mask
        other = next((name for name, mask in of_field.items() if mask & bits), None)
        if other is not None:
            raise _twice(target.name, other)
        of_field[target.name] = bits
    shown_at = len(frame.layers) - 1
    for target in targets:
        whole = (False, shown_at, frame.layers[shown_at].layout[-1].key) if frame.layers else None
        if target.inner and whole in seen:
            raise _twice(target.name, next(iter(seen[whole])))


_ALL_BITS = -1


def _twice(name: str, other: str) -> SpecError:
    return SpecError(where=f"column {name}", needed="each field once", got=f"{other} too, which contains it")


Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]


class Strings(NamedTuple):
    """Octet strings of any length, one per frame.

    String i has ``octets[i]`` octets from ``start[i]`` in ``buffer``.
    """

    buffer: Octets
    start: Int64
    octets: Int64

    def select(self, rows: Any) -> Strings:
        """Return the strings of the frames in ``rows``."""
        return Strings(self.buffer, self.start[rows], self.octets[rows])

    def matrix(self, rows: Any, width: int) -> Octets:
        """Return the strings of the frames in ``rows`` as a matrix; all have ``width`` octets."""
        starts = self.start[rows]
        if not width or not len(starts):
            return np.empty((len(starts), width), np.uint8)
        # An item at every octet lets numpy copy whole rows.
        items = np.ndarray((len(self.buffer) - width + 1,), f"V{width}", self.buffer, strides=(1,))
        octets: Octets = items[starts].view(np.uint8)
        return octets.reshape(-1, width)


class Coded(NamedTuple):
    """Dictionary-encoded values: ``codes`` has, for each frame, the index of its value in ``values``."""

    codes: NDArray[np.integer]
    values: Sequence[Any]


Values: TypeAlias = "NDArray[Any] | Strings"
"""Numbers, rows of octets of a field's width, or octet strings."""


def is_single(given: object) -> bool:
    """Return whether a column was given as one value for all frames."""
    if isinstance(given, np.ndarray):
        return given.ndim == 0
    return given is None or isinstance(given, int | float | str | bytes | bytearray | np.generic)


def single(target: Target, given: Any) -> int | bytes:
    """Return one value for all frames; raise ColumnError for a value that the field cannot hold."""
    return _checked(target, _value(target, given, None), None)


def each(target: Target, given: Any, count: int) -> Values:
    """Return a value for each of ``count`` frames; raise ColumnError, with the row, for an invalid value."""
    given = plain(target, given)
    _check_count(target, given, count)
    if isinstance(given, Coded):
        return _decoded(target, given)
    if isinstance(given, np.ndarray) and given.dtype.kind in "OU":
        given = given.tolist()
    if isinstance(given, list | range) or type(given) is tuple:
        given = _from_items(target, given)
    if target.bits is not None and target.field.is_number:
        return _numbers(target, given)
    strings = _strings(target, given)
    if target.bits is None:
        return strings
    return _fixed(target, strings)


def plain(target: Target, given: Any) -> Any:
    """Return the values of a column as numpy arrays, strings, codes or Python values."""
    if type(given).__module__.partition(".")[0] == "pyarrow":
        from ecmproto.frames.columns.building.arrow import plain_array

        return plain_array(target, given)
    if hasattr(given, "is_whole"):
        if not given.is_whole:
            needed = f"a value for each of {given.frames} frames"
            raise target.error(needed, f"{len(given)} values")
        given = given.values
    if hasattr(given, "codes"):
        return given if isinstance(given, Coded) else Coded(given.codes, given.words)
    if hasattr(given, "start") and hasattr(given, "octets"):
        return Strings(given.buffer, given.start, given.octets)
    if hasattr(given, "__array__") and not isinstance(given, np.ndarray):
        return np.asarray(given)
    return given


def _check_count(target: Target, given: Any, count: int) -> None:
    # Both are tuples of arrays with a value per frame.
    counted = given[0] if isinstance(given, Coded) else given[1] if isinstance(given, Strings) else given
    try:
        got = len(counted)
    except TypeError:
        raise target.error(_needed(target), shown(given)) from None
    if got != count:
        raise target.error(f"{count} values or one", str(got))


def _needed(target: Target) -> str:
    if target.bits is None:
        return "octets"
    if target.field.is_number:
        return f"an integer in {target.minimum}..{target.maximum}"
    return f"{target.bits // 8} octets"


def _value(target: Target, given: Any, row: int | None) -> int | bytes:
    """Return the field value for input in any notation; raise ColumnError for unreadable input."""
    given = given.item() if isinstance(given, np.generic | np.ndarray) else given
    given = bytes(given) if isinstance(given, bytearray | memoryview) else given
    try:
        return value_of(target.field, given)
    except SpecError as error:
        needed = error.needed if target.part is None else _needed(target)
        raise target.error(needed, error.got, row) from None


def _checked(target: Target, value: int | bytes, row: int | None) -> int | bytes:
    """Return a value if its type and range suit the field; raise ColumnError otherwise."""
    if isinstance(value, int):
        if not target.minimum <= value <= target.maximum:
            raise target.error(_needed(target), shown(value), row)
    elif target.bits is not None and len(value) != target.bits // 8:
        raise target.error(_needed(target), f"{len(value)} octets", row)
    return value


def _decoded(target: Target, given: Coded) -> Values:
    """Return the values of codes; each dictionary entry is parsed once."""
    codes = given.codes
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(given.values):
        raise target.error(f"codes below {len(given.values)}", f"{int(codes.min())}..{int(codes.max())}")
    used, inverse = np.unique(codes, return_inverse=True)
    read = []
    for code in used.tolist():
        try:
            read.append(_checked(target, _value(target, given.values[code], None), None))
        except ColumnError as error:
            raise target.error(error.needed, error.got, int(np.argmax(codes == code))) from None
    values = each(target, read, len(read))
    inverse = inverse.reshape(-1)
    return values.select(inverse) if isinstance(values, Strings) else values[inverse]


def _from_items(target: Target, items: Sequence[Any]) -> Any:
    """Return Python values as arrays or strings."""
    if target.field.is_number and set(map(type, items)) <= {int}:
        for dtype in (np.int64, np.uint64):
            try:
                return np.array(items, dtype)
            except OverflowError:
                continue
    cache: dict[tuple[type, Any], int | bytes] = {}
    read = []
    for row, item in enumerate(items):
        try:
            # 1, True and 1.0 are equal, but not all valid.
            value = cache.get((type(item), item))
        except TypeError:
            raise target.error(_needed(target), shown(item), row) from None
        if value is None:
            value = cache[type(item), item] = _checked(target, _value(target, item, row), row)
        read.append(value)
    if target.field.is_number:
        return np.array(read, np.int64 if target.minimum < 0 else np.uint64)
    lengths = np.array([len(value) for value in read if isinstance(value, bytes)], np.int64)
    joined = b"".join(value for value in read if isinstance(value, bytes))
    return Strings(np.frombuffer(joined, np.uint8), np.cumsum(lengths) - lengths, lengths)


def _numbers(target: Target, given: Any) -> NDArray[Any]:
    needed = _needed(target)
    if not isinstance(given, np.ndarray):
        raise target.error(needed, "octets")
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise target.error(needed, *_odd(given))
    if not len(given):
        return given
    # as Python's ints: numpy may compare int64 with uint64 as floats
    lowest, highest = int(given.min()), int(given.max())
    if lowest < target.minimum or highest > target.maximum:
        row = int(given.argmin() if lowest < target.minimum else given.argmax())
        raise target.error(needed, shown(int(given[row])), row)
    return given


def _odd(given: NDArray[Any]) -> tuple[str, int | None]:
    """Return the fault of an array that does not contain integers, and the row of the fault."""
    if given.ndim == 1 and given.dtype.kind == "f":
        wrong = ~(np.isfinite(given) & (given == np.floor(given)))
        if wrong.any():
            row = int(wrong.argmax())
            return str(given[row]), row
    return f"{given.dtype} values" + ("" if given.ndim == 1 else f" of shape {given.shape}"), None


def _strings(target: Target, given: Any) -> Strings:
    """Return octet strings after a check that they are within their buffer."""
    if isinstance(given, np.ndarray):
        if given.ndim != 2 or given.dtype != np.uint8:
            needed = f"rows of {_needed(target)}, or text" if target.bits else "rows of octets"
            raise target.error(needed, f"{given.dtype} values of shape {given.shape}")
        rows, width = given.shape
        starts = np.arange(rows, dtype=np.int64) * width
        return Strings(np.ascontiguousarray(given).reshape(-1), starts, np.full(rows, width, np.int64))
    strings = Strings(np.asarray(given.buffer), _indices(target, given.start), _indices(target, given.octets))
    buffer, start, octets = strings
    if buffer.dtype != np.uint8 or buffer.ndim != 1 or start.shape != octets.shape:
        got = f"{buffer.dtype} values of shape {buffer.shape}"
        raise target.error("slices of a buffer of octets", got)
    wrong = (start < 0) | (octets < 0) | (octets > len(buffer) - start)
    if wrong.any():
        row = int(wrong.argmax())
        got = f"{int(octets[row])} from {int(start[row])} on"
        raise target.error(f"octets within their buffer of {len(buffer)}", got, row)
    return strings._replace(buffer=np.ascontiguousarray(buffer))


def _indices(target: Target, given: Any) -> Int64:
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise target.error(
            "offsets or lengths in octets, one per frame", f"{array.dtype} values of shape {array.shape}"
        )
    return array.astype(np.int64, copy=False)


def _fixed(target: Target, strings: Strings) -> Octets:
    """Return octet strings as rows of the field's width."""
    assert target.bits is not None
    width = target.bits // 8
    wrong = strings.octets != width
    if wrong.any():
        row = int(wrong.argmax())
        raise target.error(_needed(target), f"{int(strings.octets[row])} octets", row)
    return strings.matrix(slice(None), width)
