"""Conversion of Arrow arrays into numpy arrays: numbers, rows of octets, octet strings, dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

from ecmproto.frames.columns.building.values import Coded, Strings, Target, octets_target
from ecmproto.frames.columns.column import bounds_of

_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"
"""Pattern of decimal integers; `ecmproto.wire.formats.text` reads all other notations."""


def plain_array(target: Target, given: Any) -> Any:
    """Return an Arrow column with one value per frame as numpy arrays, strings or codes.

    Raises ColumnError for a missing value or an unsupported type.
    """
    array = whole(given)
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise target.error("a value", "none", row)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        odd = np.asarray(array.value_lengths()) != 1
        if odd.any():
            row = int(odd.argmax())
            raise target.error("one value", f"a list of {len(array[row])}", row)
        array = array.flatten()
    return unpacked(target, array)


def whole(given: Any) -> Any:
    """Return an array as a single chunk."""
    if isinstance(given, pa.ChunkedArray):
        return given.chunk(0) if given.num_chunks == 1 else given.combine_chunks()
    return given


def unpacked(target: Target, array: Any) -> Any:
    """Return an Arrow array without nulls as numpy arrays, strings or codes."""
    kind = array.type
    if isinstance(array, pa.ChunkedArray):  # the octets are too many for one array
        raise target.error("octets that fit in one Arrow array", f"{array.nbytes} octets")
    if pa.types.is_dictionary(kind):
        return Coded(np.asarray(array.indices), array.dictionary.to_pylist())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if (
            target.field.kind in ("uint", "sint")
            and compute.all(compute.match_substring_regex(array, _NUMBER)).as_py()
        ):
            return np.asarray(array.cast(pa.int64()))
        return unpacked(target, array.dictionary_encode())
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        octets = np.frombuffer(array.buffers()[1] or b"", np.uint8)
        return octets[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _strings(array, np.int64 if pa.types.is_large_binary(kind) else np.int32)
    if pa.types.is_timestamp(kind):
        return np.asarray(array.cast(pa.timestamp("ns")).view(pa.int64()))
    if pa.types.is_duration(kind):
        return np.asarray(array.cast(pa.duration("ns")).view(pa.int64()))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return array.to_numpy(zero_copy_only=False)
    raise target.error("numbers, octets or text", f"Arrow values of type {kind}")


def _strings(array: Any, offset_type: Any) -> Strings:
    _, offsets, octets = array.buffers()
    bounds: NDArray[Any] = np.frombuffer(offsets or bytes(8), offset_type)[array.offset :][: len(array) + 1]
    starts = bounds.astype(np.int64)
    return Strings(np.frombuffer(octets or b"", np.uint8), starts[:-1], np.diff(starts))


def listed(columns: Any, names: list[str]) -> Iterator[tuple[str, Any, NDArray[np.int64]]]:
    """Yield the name, the values and the bounds of each column of a table or record batch.

    The bounds are the offset of each frame's first value, followed by the number of values.
    """
    # Most columns have no values, or one value for each frame. Such columns share their offsets.
    none, every = np.zeros(columns.num_rows + 1, np.int64), np.arange(columns.num_rows + 1)
    for name in names:
        array = whole(columns.column(name))
        bounds = every
        if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
            bounds = bounds_of(np.asarray(array.value_lengths().fill_null(0)))
            array = array.flatten()
        elif array.null_count:
            bounds = none if array.null_count == len(array) else bounds_of(np.asarray(array.is_valid()))
            array = array.drop_null()
        yield name, plain_array(octets_target(name), array), bounds
