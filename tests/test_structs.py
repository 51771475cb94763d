"""Structs: kernels reach all parts through one pointer, and call methods through interfaces."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import columns, new_record, new_records
from ecmproto.kernels.struct_types import InterfaceType, StructType, struct_type
from ecmproto.kernels.structs import (
    Draws,
    Part,
    Random,
    Struct,
    as_interface,
    interface,
    local_copy,
    part_of,
    write_back,
)

compiles = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="kernels run as plain Python")  # type: ignore[attr-defined]


class Meter:
    octets: int
    share: float
    by_priority: Annotated[NDArray[np.int64], 8]


class Fast(Meter):
    burst: int


class Inner(Struct):
    levels: NDArray[np.int64]
    flags: NDArray[np.bool_]


class Whole(Struct):
    count: int
    rate: float
    wanted: bool
    meter: Meter
    fast: Fast
    meters: Sequence[Fast]
    inner: Inner


def whole() -> Whole:
    meter, fast, meters = new_record(Meter), new_record(Fast), new_records(Fast, 3)
    meter.octets, meter.share, meter.by_priority[5] = 11, 0.5, 55
    fast.octets, fast.burst = 12, 13
    for number, each in enumerate(meters):
        each.burst = 100 + number
    return Whole(-7, 2.5, True, meter, fast, meters, Inner(np.arange(4), np.array([False, True])))


@compiled
def total(parts: Whole) -> float:
    sum_ = parts.count + parts.rate + parts.meter.octets + parts.meter.share + parts.meter.by_priority[5]
    sum_ += parts.fast.octets + parts.fast.burst
    for meter in range(len(parts.meters)):
        sum_ += parts.meters[meter].burst
    for level in parts.inner.levels:
        sum_ += level
    if parts.wanted and parts.inner.flags[1] and not parts.inner.flags[0]:
        sum_ += 0.25
    return float(sum_)


EXPECTED = -7 + 2.5 + 11 + 0.5 + 55 + 12 + 13 + (100 + 101 + 102) + (0 + 1 + 2 + 3) + 0.25


def test_a_kernel_reads_every_kind_of_part() -> None:
    assert total(whole()) == EXPECTED


def test_kernels_see_replaced_parts() -> None:
    parts = whole()
    total(parts)
    parts.count, parts.rate, parts.wanted = 3, -1.0, False
    parts.inner.levels = np.arange(1000)
    parts.meters = new_records(Fast, 0)
    parts.meter = new_record(Meter)
    gc.collect()
    assert total(parts) == 3 - 1.0 + 12 + 13 + sum(range(1000))


@compiled
def raise_all(parts: Whole) -> None:
    parts.meter.octets += 1
    parts.meters[1].burst += 1
    parts.inner.levels[2] += 1


def test_python_sees_changes_by_kernels() -> None:
    parts = whole()
    raise_all(parts)
    assert parts.meter.octets == 12
    assert columns(parts.meters)["burst"].tolist() == [100, 102, 102]
    assert parts.inner.levels.tolist() == [0, 1, 3, 3]


def test_element_of_records_is_a_view() -> None:
    parts, meters = whole(), new_records(Fast, 4)
    columns(meters)["burst"] = [5, 6, 7, 8]
    parts.fast = meters[2]
    assert total(parts) == EXPECTED - 12 - 13 + 7


def test_struct_takes_exactly_its_parts() -> None:
    with pytest.raises(TypeError, match="Inner is made of: levels, flags"):
        Inner(np.arange(3))
    with pytest.raises(TypeError, match="Inner is made of: levels, flags"):
        Inner(np.arange(3), np.zeros(1, np.bool_), levels=np.arange(2))
    with pytest.raises(AttributeError, match="not octets"):
        whole().inner.octets = 1


@compiles
@pytest.mark.parametrize("wrong", [np.arange(3.0), np.arange(6)[::2], np.arange(6).reshape(2, 3)])
def test_incompatible_array_is_refused(wrong: NDArray[np.int64]) -> None:
    with pytest.raises(TypeError, match="levels: expected one row of int64"):
        whole().inner.levels = wrong


class Pair(NamedTuple):
    one: int
    other: int


class Sample(NamedTuple):
    octets: int
    marked: bool
    share: float


@interface
class Counter(Protocol):
    def count(self, sample: Sample, inner: Inner) -> int: ...

    def last(self) -> Sample: ...

    def reset(self) -> None: ...

    def swapped(self, pair: Pair) -> Pair: ...


class Adds(Struct):
    meter: Meter

    def count(self, sample: Sample, inner: Inner) -> int:
        self.meter.octets += sample.octets
        self.meter.share = sample.share
        return self.meter.octets + len(inner.levels)

    def last(self) -> Sample:
        return Sample(self.meter.octets, False, self.meter.share)

    def reset(self) -> None:
        self.meter.octets = 0

    def swapped(self, pair: Pair) -> Pair:
        return Pair(pair.other, pair.one)


class Doubles(Struct):
    first: Counter
    factor: int

    def count(self, sample: Sample, inner: Inner) -> int:
        return self.factor * self.first.count(sample, inner)

    def last(self) -> Sample:
        found = self.first.last()
        return Sample(found.octets, True, found.share)

    def reset(self) -> None:
        self.first.reset()

    def swapped(self, pair: Pair) -> Pair:
        return self.first.swapped(self.first.swapped(pair))


@compiled
def drive(counter: Counter, inner: Inner, frames: int) -> int:
    seen = 0
    for octets in range(frames):
        seen += counter.count(Sample(octets, True, octets / 4), inner)
    if counter.swapped(Pair(1, frames)).one == 1:
        seen += 7
    last = counter.last()
    if last.marked:
        seen += 1000 * int(4 * last.share)
    if last.octets > 100:
        counter.reset()
    return seen


@compiled
def drive_narrow(counter: Counter, inner: Inner, octets: NDArray[np.uint8]) -> int:
    return counter.count(Sample(octets[1], octets[0] > 2, np.float32(0.5)), inner)  # type: ignore[arg-type]


def test_a_named_tuple_of_narrower_numbers_is_widened() -> None:
    inner = whole().inner
    adds = as_interface(Adds(new_record(Meter)), Counter)
    assert drive_narrow(adds, inner, np.array([1, 200], np.uint8)) == 204


def drive_both(frames: int) -> tuple[int, int, int]:
    meters, inner = [new_record(Meter), new_record(Meter)], whole().inner
    adds, doubles = Adds(meters[0]), Doubles(first=Adds(meters[1]), factor=2)
    found = [drive(as_interface(each, Counter), inner, frames) for each in (adds, doubles)]
    return found[0], found[1], meters[1].octets


def test_methods_are_called_through_interface_and_through_another() -> None:
    sums = sum(sum(range(n + 1)) + 4 for n in range(5))
    assert drive_both(5) == (sums, 2 * sums + 7 + 1000 * 4, 10)
    assert drive_both(50)[2] == 0


@compiles
def test_loop_is_compiled_once_per_interface() -> None:
    drive_both(5)
    signatures = [each for each in drive.signatures if isinstance(each[0], InterfaceType)]  # type: ignore[attr-defined]
    assert len(signatures) == 1


def test_method_of_known_class_is_called_directly() -> None:
    meter = new_record(Meter)
    assert drive(Adds(meter), whole().inner, 5) == sum(sum(range(n + 1)) + 4 for n in range(5))


def test_an_interface_outlives_the_name_of_its_struct() -> None:
    meter = new_record(Meter)
    pointer = as_interface(Doubles(Adds(meter), 3), Counter)
    gc.collect()
    kept = [np.ones(100) for _ in range(100)]
    assert drive(pointer, whole().inner, 2) == 3 * (4 + 5) + 7 + 1000
    assert len(kept) == 100


def test_interface_of_a_struct_is_cached() -> None:
    adds = Adds(new_record(Meter))
    assert as_interface(adds, Counter) is as_interface(adds, Counter)


def test_interfaces_share_a_method_only_with_equal_parameters() -> None:
    class One(Protocol):
        def a_test_alone_has_this(self, now_ns: int) -> int: ...

    class Other(Protocol):
        def a_test_alone_has_this(self, octets: int) -> int: ...

    interface(One)
    interface(One)
    with pytest.raises(ValueError, match="another interface has it"):
        interface(Other)


@compiled
def draw(random: Random, count: int) -> float:
    found = 0.0
    for _ in range(count):
        found = random.random()
    return found


def test_kernels_and_python_share_the_generator() -> None:
    generator, expected = np.random.default_rng(5), np.random.default_rng(5).random(6)
    draws = Draws(generator)
    assert draw(draws, 2) == expected[1]
    assert generator.random() == expected[2]
    assert draw(draws, 1) == expected[3]
    assert draws.random() == expected[4]
    assert draw(Draws(generator), 1) == expected[5]


@compiles
def test_struct_types_with_different_parts_differ() -> None:
    now = struct_type(Inner)
    before = StructType(Inner, (*now.parts, ("more", now.parts[0][1])))
    assert pickle.loads(pickle.dumps(now)) == now
    assert pickle.loads(pickle.dumps(before)) == before != now
    assert hash(before) != hash(now)
    assert pickle.loads(pickle.dumps(InterfaceType(Counter))) == InterfaceType(Counter)


class Box(Struct):
    """A struct with an array."""

    values: NDArray[np.int64]


@interface
class Enlarges(Protocol):
    """An interface for objects that enlarge a number."""

    def enlarge(self, number: int) -> int:
        """Return the enlarged number."""


class ByAmount(Struct):
    """Adds an amount."""

    amount: int

    def enlarge(self, number: int) -> int:
        """Return the sum."""
        return number + self.amount


class ByFactor(Struct):
    """Multiplies by a factor."""

    factor: int

    def enlarge(self, number: int) -> int:
        """Return the product."""
        return number * self.factor


class Rows(Struct):
    """Arrays of structs, and of interfaces to structs of several classes."""

    boxes: Sequence[Box]
    enlargers: Sequence[Enlarges]


@compiled
def enlarged_sum(rows: Rows, which: int) -> int:
    """Return the sum of the boxes' first values after one enlargement, and set the first values to 7."""
    total = 0
    for number in range(len(rows.boxes)):
        box = rows.boxes[number]
        total += box.values[0]
        box.values[0] = 7
    return int(rows.enlargers[which].enlarge(total))


def test_struct_has_rows_of_structs_and_of_interfaces() -> None:
    rows = Rows([Box(np.array([1, 2])), Box(np.array([10]))], [ByAmount(5), ByFactor(3)])
    assert enlarged_sum(rows, 0) == 16
    assert enlarged_sum(rows, 1) == 42
    assert [box.values.tolist() for box in rows.boxes] == [[7, 2], [7]]
    rows.boxes = [Box(np.array([100]))]
    assert enlarged_sum(rows, 0) == 105


class Count:
    octets: int
    share: float


class Late(Count):
    more: int


class Counted(Struct):
    late: Late
    meter: Meter


class Account(Struct):
    count: Count
    counted: Counted
    octets: NDArray[np.int64]


@compiled
def enter(account: Account, times: int) -> int:
    """Add to all fields of ``account`` through a copy.

    Returns the sum of two original fields, which are unchanged until the copy is written back.
    """
    own = local_copy(account)
    for number in range(times):
        own.count.octets += number
        own.count.share += 0.5
        own.counted.late.more -= number
        own.counted.meter.octets += number
        own.octets[0] += number
    before = account.count.octets + account.counted.late.more
    write_back(account, own)
    return before


def test_local_copy_is_written_back_arrays_are_shared() -> None:
    late, meter = new_record(Late), new_record(Meter)
    late.octets, late.more, meter.share = 3, 1, 0.25
    account = Account(new_record(Count), Counted(late, meter), np.zeros(1, np.int64))
    account.count.octets = 7
    for times in (1, 2, 3):
        before = enter(account, 10)
        if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # the copy is the struct itself there
            assert before == 8
        assert (account.count.octets, account.count.share) == (7 + 45 * times, 5.0 * times)
        assert (late.octets, late.share, late.more) == (3, 0.0, 1 - 45 * times)
        assert (meter.octets, meter.share, meter.by_priority.tolist()) == (45 * times, 0.25, [0] * 8)
        assert account.octets.tolist() == [45 * times]


def test_arrays_are_parts_in_each_form_of_annotation() -> None:
    arrays: tuple[Any, ...] = NDArray[np.bool_], Sequence[np.bool_]  # another origin, as from numpy 2.5 on
    assert [part_of(each) for each in arrays] == 2 * [Part("array", np.dtype(np.bool_))]
