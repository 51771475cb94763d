"""Reading one field of every layer of a format: kernels for each width, steered by where the field stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.table.columns.threads import released
from ecmproto.table.columns.transitions import place_of
from ecmproto.table.headers import signed
from ecmproto.wire.layout import Field

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
_SIGNED = (np.int8, np.int16, np.int32, np.int64)


def number_dtype(bits: int, *, signed: bool) -> np.dtype[Any]:
    """Return the least dtype that holds numbers of ``bits``."""
    index = (bits > 8) + (bits > 16) + (bits > 32)
    return np.dtype((_SIGNED if signed else _UNSIGNED)[index])


@released
def _read_1(buffer: Octets, start: Int64, at: int, shift: int, mask: int, out: NDArray[np.uint8]) -> None:
    for i in range(len(start)):
        out[i] = (signed(buffer[start[i] + at]) >> shift) & mask


@released
def _read_2(buffer: Octets, start: Int64, at: int, shift: int, mask: int, out: NDArray[np.uint16]) -> None:
    for i in range(len(start)):
        first = start[i] + at
        out[i] = (((signed(buffer[first]) << 8) | signed(buffer[first + 1])) >> shift) & mask


@released
def _read_4(buffer: Octets, start: Int64, at: int, shift: int, mask: int, out: NDArray[np.uint32]) -> None:
    for i in range(len(start)):
        first = start[i] + at
        high = (signed(buffer[first]) << 24) | (signed(buffer[first + 1]) << 16)
        low = (signed(buffer[first + 2]) << 8) | signed(buffer[first + 3])
        out[i] = ((high | low) >> shift) & mask


@released
def _read_many(
    buffer: Octets, start: Int64, at: int, octets: int, shift: int, mask: np.uint64, out: NDArray[np.uint64]
) -> None:
    for i in range(len(start)):
        number = np.uint64(0)
        first = start[i] + at
        for octet in range(first, first + octets):
            number = (number << np.uint64(8)) | np.uint64(buffer[octet])
        out[i] = (number >> np.uint64(shift)) & mask


@released
def _read_octets(buffer: Octets, start: Int64, at: int, out: Octets) -> None:
    for i in range(len(start)):
        first = start[i] + at
        for octet in range(out.shape[1]):
            out[i, octet] = buffer[first + octet]


@released
def copy_octets(buffer: Octets, start: Int64, octets: Int64, stop: Int64, out: Octets) -> None:
    """Copy stretches of ``buffer`` one behind the other: each ends in ``out`` at its ``stop``."""
    for i in range(len(start)):
        behind = stop[i] - octets[i]
        for octet in range(octets[i]):
            out[behind + octet] = buffer[start[i] + octet]


def empty_values(field: Field, count: int) -> NDArray[Any]:
    """Return where the values of a field of fixed width are read to: numbers, or rows of octets."""
    assert field.bits is not None
    if not field.is_number:
        return np.empty((count, field.bits // 8), np.uint8)
    return np.empty(count, number_dtype(field.bits, signed=field.kind == "sint"))


def read_values(field: Field, buffer: Octets, start: Int64, out: NDArray[Any]) -> None:
    """Read a field of fixed width of the layers that start at ``start`` into ``out``."""
    if out.ndim == 2:
        _read_octets(buffer, start, field.bit_offset // 8, out)
        return
    place = place_of(field)
    bits = field.bits or 0
    sized: dict[int, tuple[Callable[..., None], type[np.generic]]] = {
        1: (_read_1, np.uint8), 2: (_read_2, np.uint16), 4: (_read_4, np.uint32)
    }  # fmt: skip
    reader, loaded = sized.get(place.octets, (_read_many, np.uint64))
    plain = out.view(out.dtype.str.replace("i", "u"))
    direct = plain.dtype == loaded
    target = plain if direct else np.empty(len(out), loaded)
    if reader is _read_many:
        _read_many(buffer, start, place.at, place.octets, place.shift, np.uint64(place.mask), target)
    else:
        reader(buffer, start, place.at, place.shift, place.mask, target)
    if not direct:
        plain[:] = target
    if field.kind == "sint" and bits < 8 * out.itemsize:
        # two's complement of fewer bits than the array's numbers have
        unused = 8 * out.itemsize - bits
        np.right_shift(np.left_shift(plain, unused).view(out.dtype), unused, out=out)
