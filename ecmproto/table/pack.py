"""Values to octets for many frames at once: the other direction of a format's layout, a row a frame.

>>> pack(CMTag, 3, cpid=cpids, timestamp=ticks, etype=0x0800)      # 3 × 16 octets

A row holds what the format's own ``build`` gives; of a format whose last field is variable, its fixed part.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import EncodeError, shown
from ecmproto.wire.layer import Layer
from ecmproto.wire.layout import Field

Column: TypeAlias = "int | np.integer | bytes | NDArray[np.integer]"
"""One value for all rows, or an array of one each.

Numbers: integers of any width; CPIDs that records hold signed come as ``cpids.view(np.uint64)``.  Addresses:
octets, a row each.
"""

_OCTET = 8


def pack(kind: type[Layer], count: int, **columns: Column) -> NDArray[np.uint8]:
    """Return ``count`` rows of octets of the format ``kind``, its fields' values from ``columns``.

    Fields without a column have their defaults.  EncodeError for a value that its field cannot hold, with
    the row; for an array of another length than ``count``; for a name that is no fixed field's.
    """
    fields = {field.key: field for field in kind.layout if field.bits is not None}
    each = {key: column for key, column in columns.items() if isinstance(column, np.ndarray) and column.ndim}
    for key in columns:
        if key not in fields:
            raise EncodeError(layer=kind.prefix, field=key, needed=f"one of {', '.join(fields)}", got="it")
    alike = {key: _alike(fields[key], column) for key, column in columns.items() if key not in each}
    blank = {key: 0 if fields[key].is_number else bytes(_octets(fields[key])) for key in each}
    rows = np.empty((count, kind.fixed_octets), np.uint8)
    rows[:] = np.frombuffer(kind(**alike, **blank).build(), np.uint8)[: kind.fixed_octets]
    for key, column in each.items():
        _put(rows, kind, fields[key], column)
    return rows


def _octets(field: Field) -> int:
    return (field.bits or 0) // _OCTET


def _alike(field: Field, value: Any) -> Any:
    """Return a value for all rows as `Layer.build` takes it."""
    return value.item() if isinstance(value, np.ndarray) and field.is_number else value


def _put(rows: NDArray[np.uint8], kind: type[Layer], field: Field, column: NDArray[Any]) -> None:
    """Put the values of ``column`` where ``field`` stands in ``rows``, which have zeros there."""
    if len(column) != len(rows):
        raise EncodeError(
            layer=kind.prefix, field=field.key, needed=f"{len(rows)} values or one", got=f"{len(column)}"
        )
    if field.is_number:
        _check_numbers(kind, field, column)
        _put_numbers(rows, field, column)
        return
    first, octets = field.bit_offset // _OCTET, _octets(field)
    if column.dtype != np.uint8 or column.shape[1:] != (octets,):
        raise EncodeError(
            layer=kind.prefix, field=field.key, needed=f"rows of {octets} octets",
            got=f"{column.dtype} values of shape {column.shape}",
        )  # fmt: skip
    rows[:, first : first + octets] = column


def _check_numbers(kind: type[Layer], field: Field, column: NDArray[Any]) -> None:
    needed = f"an integer in {field.minimum}..{field.maximum}"
    if column.dtype.kind not in "iu" or column.ndim != 1:
        got = f"{column.dtype} values of shape {column.shape}"
        raise EncodeError(layer=kind.prefix, field=field.key, needed=needed, got=got)
    if not len(column):
        return
    # As Python's ints: numpy may compare int64 with uint64 as floats.
    least, most = int(column.min()), int(column.max())
    if least < field.minimum or most > field.maximum:
        row = int(column.argmin() if least < field.minimum else column.argmax())
        got = f"{shown(int(column[row]))} in row {row}"
        raise EncodeError(layer=kind.prefix, field=field.key, needed=needed, got=got)


def _put_numbers(rows: NDArray[np.uint8], field: Field, column: NDArray[Any]) -> None:
    """Write big-endian, most significant bit first, beside what other fields have in the same octets."""
    assert field.bits is not None
    end = field.bit_offset + field.bits
    last = (end - 1) // _OCTET
    below = (last + 1) * _OCTET - end
    numbers = (
        column.astype(np.int64).view(np.uint64) if column.dtype.kind == "i" else column.astype(np.uint64)
    )
    for octet in range(field.bit_offset // _OCTET, last + 1):
        # This octet's bits begin so far above the number's lowest one.
        shift = (last - octet) * _OCTET - below
        part = numbers >> np.uint64(shift) if shift >= 0 else numbers << np.uint64(-shift)
        rows[:, octet] |= part.astype(np.uint8)
