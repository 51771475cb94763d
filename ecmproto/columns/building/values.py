"""What columns may hold, checked against their fields: numbers, rows of octets, octet strings.

A column is one value for all frames or one each: an integer, text (addresses, CPIDs, octets in hex, names of
code points) or octets; or an array of numbers, a matrix of octets (frames × width), a list of values,
`Stretches`, a `Column` of an extraction that every frame has once, or an Arrow array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.columns.building.target import Target
from ecmproto.errors import ColumnError, SpecError, shown
from ecmproto.formats.text import value_of

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]


class Strings(NamedTuple):
    """Octet strings of any length: ``octets`` from ``start`` on in ``buffer``, one a frame."""

    buffer: Octets
    start: Int64
    octets: Int64

    def select(self, rows: Any) -> Strings:
        """Return those of some frames."""
        return Strings(self.buffer, self.start[rows], self.octets[rows])

    def matrix(self, rows: Any, width: int) -> Octets:
        """Return those of some frames, which are all of ``width`` octets, as rows."""
        starts = self.start[rows]
        if not width or not len(starts):
            return np.empty((len(starts), width), np.uint8)
        # an item at every octet lets numpy copy whole rows
        items = np.ndarray((len(self.buffer) - width + 1,), f"V{width}", self.buffer, strides=(1,))
        found: Octets = items[starts].view(np.uint8)
        return found.reshape(-1, width)


class Coded(NamedTuple):
    """Values out of few: for each frame the place of its value among ``words``."""

    codes: NDArray[np.integer]
    words: Sequence[Any]


Values: TypeAlias = "NDArray[Any] | Strings"
"""Numbers; rows of octets of a field's width; octet strings."""


def is_single(given: object) -> bool:
    """Whether what was given for a column is one value for all frames."""
    if isinstance(given, np.ndarray):
        return given.ndim == 0
    return given is None or isinstance(given, int | float | str | bytes | bytearray | np.generic)


def single(target: Target, given: Any) -> int | bytes:
    """Return one value for all frames; ColumnError for one that the field cannot hold."""
    return _checked(target, _value(target, given, None), None)


def each(target: Target, given: Any, count: int) -> Values:
    """Return a value for each of ``count`` frames; ColumnError, with the row, for what is none."""
    given = plain(target, given)
    _check_count(target, given, count)
    if isinstance(given, Coded):
        return _of_words(target, given)
    if isinstance(given, np.ndarray) and given.dtype.kind in "OU":
        given = given.tolist()
    if isinstance(given, list | range) or type(given) is tuple:
        given = _of_items(target, given)
    if target.bits is not None and target.field.is_number:
        return _numbers(target, given)
    strings = _strings(target, given)
    if target.bits is None:
        return strings
    return _fixed(target, strings)


def plain(target: Target, given: Any) -> Any:
    """Return what a column holds as numpy's arrays, strings, codes or Python's values."""
    if type(given).__module__.partition(".")[0] == "pyarrow":
        from ecmproto.columns.building.arrow import plain_array

        return plain_array(target, given)
    if hasattr(given, "is_whole"):
        if not given.is_whole:
            needed = f"a value for each of {given.frames} frames"
            raise target.error(needed, f"{len(given)} values")
        given = given.values
    if hasattr(given, "codes"):
        return Coded(given.codes, given.words)
    if hasattr(given, "start") and hasattr(given, "octets"):
        return Strings(given.buffer, given.start, given.octets)
    if hasattr(given, "__array__") and not isinstance(given, np.ndarray):
        return np.asarray(given)
    return given


def _check_count(target: Target, given: Any, count: int) -> None:
    # both are tuples: of arrays with a value a frame
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
    """Return a value in any form that people write; ColumnError for none."""
    given = given.item() if isinstance(given, np.generic | np.ndarray) else given
    given = bytes(given) if isinstance(given, bytearray | memoryview) else given
    try:
        return value_of(target.field, given)
    except SpecError as error:
        needed = error.needed if target.flag is None else _needed(target)
        raise target.error(needed, error.got, row) from None


def _checked(target: Target, value: int | bytes, row: int | None) -> int | bytes:
    """Return a value of the field's kind if it is within the field's range."""
    if isinstance(value, int):
        if not target.minimum <= value <= target.maximum:
            raise target.error(_needed(target), shown(value), row)
    elif target.bits is not None and len(value) != target.bits // 8:
        raise target.error(_needed(target), f"{len(value)} octets", row)
    return value


def _of_words(target: Target, given: Coded) -> Values:
    """Return what codes stand for: each word is read once."""
    codes = given.codes
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(given.words):
        raise target.error(f"codes of {len(given.words)} words", f"{int(codes.min())}..{int(codes.max())}")
    used, places = np.unique(codes, return_inverse=True)
    read = []
    for code in used.tolist():
        try:
            read.append(_checked(target, _value(target, given.words[code], None), None))
        except ColumnError as error:
            raise target.error(error.needed, error.got, int(np.argmax(codes == code))) from None
    values = each(target, read, len(read))
    places = places.reshape(-1)
    return values.select(places) if isinstance(values, Strings) else values[places]


def _of_items(target: Target, items: Sequence[Any]) -> Any:
    """Return Python's values as arrays or strings."""
    if target.field.is_number and set(map(type, items)) <= {int}:
        for dtype in (np.int64, np.uint64):
            try:
                return np.array(items, dtype)
            except OverflowError:
                continue
    known: dict[tuple[type, Any], int | bytes] = {}
    read = []
    for row, item in enumerate(items):
        try:
            # 1, True and 1.0 are equal, but not as good
            value = known.get((type(item), item))
        except TypeError:
            raise target.error(_needed(target), shown(item), row) from None
        if value is None:
            value = known[type(item), item] = _checked(target, _value(target, item, row), row)
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
    least, most = int(given.min()), int(given.max())
    if least < target.minimum or most > target.maximum:
        row = int(given.argmin() if least < target.minimum else given.argmax())
        raise target.error(needed, shown(int(given[row])), row)
    return given


def _odd(given: NDArray[Any]) -> tuple[str, int | None]:
    """Return what is wrong with an array that holds no integers, and where."""
    if given.ndim == 1 and given.dtype.kind == "f":
        wrong = ~(np.isfinite(given) & (given == np.floor(given)))
        if wrong.any():
            row = int(wrong.argmax())
            return str(given[row]), row
    return f"{given.dtype} values" + ("" if given.ndim == 1 else f" of shape {given.shape}"), None


def _strings(target: Target, given: Any) -> Strings:
    """Return octet strings, checked to lie within their buffer."""
    if isinstance(given, np.ndarray):
        if given.ndim != 2 or given.dtype != np.uint8:
            needed = f"rows of {_needed(target)}, or text" if target.bits else "rows of octets"
            raise target.error(needed, f"{given.dtype} values of shape {given.shape}")
        rows, width = given.shape
        starts = np.arange(rows, dtype=np.int64) * width
        return Strings(np.ascontiguousarray(given).reshape(-1), starts, np.full(rows, width, np.int64))
    strings = Strings(np.asarray(given.buffer), _places(target, given.start), _places(target, given.octets))
    buffer, start, octets = strings
    if buffer.dtype != np.uint8 or buffer.ndim != 1 or start.shape != octets.shape:
        got = f"{buffer.dtype} values of shape {buffer.shape}"
        raise target.error("stretches of a buffer of octets", got)
    wrong = (start < 0) | (octets < 0) | (octets > len(buffer) - start)
    if wrong.any():
        row = int(wrong.argmax())
        got = f"{int(octets[row])} from {int(start[row])} on"
        raise target.error(f"octets within their buffer of {len(buffer)}", got, row)
    return strings._replace(buffer=np.ascontiguousarray(buffer))


def _places(target: Target, given: Any) -> Int64:
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise target.error("places of octets, one a frame", f"{array.dtype} values of shape {array.shape}")
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
