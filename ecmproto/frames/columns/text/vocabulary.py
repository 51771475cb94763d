"""Words computed by Python functions, once for each combination of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import signed
from ecmproto.frames.columns.text.program import KEY_NUMBERS, SPARE_OCTETS, Programs, number_at, parts_of
from ecmproto.kernels.kernel import inlined, over_batches

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_MAX_WORDS = 1 << 17
"""Maximum number of words; all words are dropped above this number, so that memory stays bounded."""
_KEY = 1 + KEY_NUMBERS
_THIRTY_BITS = (1 << 30) - 1
_MULTIPLIER = 0x9E3779B1


@inlined
def _slot(key: Int64, at: int, mask: int) -> int:
    mixed = 0
    for part in range(_KEY):
        number = key[at, part]
        folded = (number ^ (number >> 30)) & _THIRTY_BITS
        mixed = ((mixed ^ folded) * _MULTIPLIER) & _THIRTY_BITS
        mixed ^= mixed >> 15
    return mixed & mask


@inlined
def _same(keys: Int64, one: int, other: int) -> bool:
    for part in range(_KEY):  # noqa: SIM110  # kernels have no generators
        if keys[one, part] != keys[other, part]:
            return False
    return True


@over_batches
def look_up(
    begin: int,
    end: int,
    program: Int32,
    bounds: Int64,
    calls: Int64,
    numbers: Int64,
    record: Int64,
    buffer: Octets,
    boundaries: Int64,
    boundaries_at: Int64,
    keys: Int64,
    slots: Int32,
    known: int,
    codes: Int32,
) -> int:
    """Find the words of each row, and return the number of known words.

    New words are appended to ``keys``, which must have enough capacity.
    """
    mask = len(slots) - 1
    for row in range(begin, end):
        which = signed(program[row])
        if which < 0:
            continue
        base = boundaries_at[row]
        for call in range(bounds[which], bounds[which + 1]):
            # The key is written to the next free entry. A new key remains there.
            keys[known, 0] = calls[call, 0]
            count = calls[call, 1]
            for part in range(count):
                number = number_at(calls[call, 2 + part], numbers, record, row, buffer, boundaries, base)
                keys[known, 1 + part] = number
            for part in range(count, KEY_NUMBERS):
                keys[known, 1 + part] = 0
            slot = _slot(keys, known, mask)
            while slots[slot] != 0 and not _same(keys, signed(slots[slot]) - 1, known):
                slot = (slot + 1) & mask
            if slots[slot] == 0:
                known += 1
                slots[slot] = known
            codes[row - begin, call - bounds[which]] = slots[slot] - 1
    return known


@over_batches
def _enter(keys: Int64, known: int, slots: Int32) -> None:
    mask = len(slots) - 1
    for entry in range(known):
        slot = _slot(keys, entry, mask)
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = entry + 1


class Vocabulary:
    """The known words, with the octets of each word."""

    def __init__(self) -> None:
        self.octets: NDArray[np.uint8] = np.empty(1 << 12, np.uint8)
        self.longest: int = 0
        self._clear()

    def _clear(self) -> None:
        self._known = 0
        self._keys = np.empty((1 << 8, _KEY), np.int64)
        self._slots = np.zeros(1 << 10, np.int32)
        self.bounds: Int64 = np.zeros((1 << 8) + 1, np.int64)
        """Offset of each word in ``octets``, followed by the total length."""

    def codes(
        self,
        begin: int,
        end: int,
        program: Int32,
        programs: Programs,
        functions: Sequence[Callable[..., str]],
        argument_octets: Sequence[tuple[int, ...]],
        record: Int64,
        buffer: Octets,
        boundaries: Int64,
        boundaries_at: Int64,
    ) -> Int32:
        """Return the indices of the words of rows ``begin`` to ``end``, with one column per word piece."""
        columns = int(np.diff(programs.word_bounds).max(initial=0))
        codes = np.empty((end - begin, columns), np.int32)
        if not columns:
            return codes
        if self._known > _MAX_WORDS:
            self._clear()
        self._reserve((end - begin) * columns)
        before = self._known
        self._known = look_up(
            begin, end, program, programs.word_bounds, programs.word_calls, programs.numbers, record, buffer,
            boundaries, boundaries_at, self._keys, self._slots, before, codes,
        )  # fmt: skip
        for entry in range(before, self._known):
            function, *numbers = self._keys[entry].tolist()
            word = functions[function](*_values(argument_octets[function], numbers))
            self._append(entry, word.encode("utf-8", errors="replace"))
        return codes

    def _reserve(self, more: int) -> None:
        capacity = self._known + more + 1
        if capacity <= len(self._keys):
            return
        capacity = 1 << capacity.bit_length()
        keys, bounds = np.empty((capacity, _KEY), np.int64), np.zeros(capacity + 1, np.int64)
        keys[: self._known] = self._keys[: self._known]
        bounds[: self._known + 1] = self.bounds[: self._known + 1]
        self._keys, self.bounds = keys, bounds
        self._slots = np.zeros(2 * capacity, np.int32)
        _enter(self._keys, self._known, self._slots)

    def _append(self, entry: int, word: bytes) -> None:
        start = int(self.bounds[entry])
        stop = start + len(word)
        if stop + SPARE_OCTETS > len(self.octets):
            longer = np.empty(2 * (stop + SPARE_OCTETS), np.uint8)
            longer[:start] = self.octets[:start]
            self.octets = longer
        self.octets[start:stop] = np.frombuffer(word, np.uint8)
        self.bounds[entry + 1] = stop
        self.longest = max(self.longest, len(word))


def _values(sizes: tuple[int, ...], numbers: list[int]) -> list[int | bytes]:
    """Return the arguments of a function: numbers unchanged, and octets joined from their parts."""
    values: list[int | bytes] = []
    left = iter(numbers)
    for octets in sizes:
        if octets:
            values.append(b"".join(next(left).to_bytes(size, "big") for _, size in parts_of(octets)))
        else:
            values.append(next(left))
    return values
