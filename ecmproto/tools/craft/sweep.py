"""Frames with every combination of the values of swept fields. The value of the last field changes first.

Values are ``0..63``, ``63..0:3``, ``1,5,8..12`` or ``random:1000``. The ends of a range can be numbers, MAC
or IP addresses, CPIDs, or octets in hexadecimal.

One template is encoded. Then the bits of the swept fields are set in many copies at once, and the checksums
of these fields are computed (`columns.building.template`). Some swept fields determine the structure of the
frame: octets of variable length, and the type of an E²CM message or a TLV. Each value of a field that
determines the structure has its own template.

Frames are produced in batches of limited size, so memory use does not depend on the length of a sweep.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import SpecError, shown
from ecmproto.frames.columns.building.template import BitRange, FrameTemplate, frame_template
from ecmproto.tools.craft.builders import Finished, finish
from ecmproto.tools.craft.stack import Part, Stack
from ecmproto.wire.formats.e2cm import E2CM
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.lldp import TLV
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.text import value_of

MAX_LISTED = 1_000_000
"""Maximum number of listed or random values of a sweep. The length of a single range a..b is not limited."""

_STEP_DIGITS = 20
_NEEDED = "values such as 0..63, 0..63:2, 1,5,9 or random:1000"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Axis:
    """A swept field of a layer, with its values in order.

    ``values`` are numbers, or octets for a field of variable length. An address is represented by the number
    of its octets in network byte order.
    """

    part: Part
    field: Field
    values: Sequence[int | bytes]

    def at(self, index: int) -> int | bytes:
        """Return the field value with the index ``index``."""
        value = self.values[index]
        if isinstance(value, bytes) or self.field.is_number:
            return value
        assert self.field.bits is not None
        return value.to_bytes(self.field.bits // 8, "big")

    @property
    def count(self) -> int:
        """The number of values, also for ranges that are too long for ``len()``."""
        values = self.values
        if isinstance(values, range):
            return max(
                0, (values.stop - values.start + values.step - (1 if values.step > 0 else -1)) // values.step
            )
        return len(values)


def axis_of(part: Part, field: Field, text: object, random: Random) -> Axis:
    """Return the axis that ``text`` or a list of values describes.

    ``random`` generates the values for ``random:N``. Raises SpecError for invalid text, and EncodeError for a
    value that does not fit the field.
    """
    name = f"sweep {part.cls.prefix}.{field.key}"
    items = [item.strip() for item in text.split(",")] if isinstance(text, str) else text
    if not isinstance(items, list) or not items:
        raise SpecError(where=name, needed=_NEEDED, got=shown(text))
    pieces = [_piece(part, field, item, random, name) for item in items]
    if len(pieces) == 1:
        return Axis(part=part, field=field, values=pieces[0])
    counts = [Axis(part=part, field=field, values=piece).count for piece in pieces]
    if sum(counts) > MAX_LISTED:
        raise SpecError(where=name, needed=f"at most {MAX_LISTED:,} values in a list", got=f"{sum(counts):,}")
    return Axis(part=part, field=field, values=[value for piece in pieces for value in piece])


def _piece(part: Part, field: Field, item: object, random: Random, name: str) -> Sequence[int | bytes]:
    if isinstance(item, str) and item.startswith("random:"):
        return _drawn(field, item, random, name)
    if isinstance(item, str) and ".." in item:
        first, _, rest = item.partition("..")
        last, step = _end_and_step(field, rest)
        return _range(part, field, value_of(field, first), last, step, name)
    value = value_of(field, item)
    _check(part, field, value)
    return [value] if field.bits is None else [_as_number(value)]


def _end_and_step(field: Field, text: str) -> tuple[int | bytes, int]:
    """Return the end and step of a range. A colon can also be part of an address."""
    try:
        return value_of(field, text), 1
    except SpecError:
        end, colon, step = text.rpartition(":")
        if not colon or not step.isascii() or not step.isdigit() or len(step) > _STEP_DIGITS:
            raise
        return value_of(field, end), int(step)


def _range(
    part: Part, field: Field, first: int | bytes, last: int | bytes, step: int, name: str
) -> Sequence[int | bytes]:
    if step < 1:
        raise SpecError(where=name, needed="a step of at least 1", got=str(step))
    _check(part, field, first)
    _check(part, field, last)
    low, high = _as_number(first), _as_number(last)
    span = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
    if field.bits is not None:
        return span
    assert isinstance(first, bytes)
    assert isinstance(last, bytes)
    if len(first) != len(last):
        raise SpecError(
            where=name,
            needed="first and last values of equal length",
            got=f"{len(first)} and {len(last)} octets",
        )
    if abs(high - low) // step >= MAX_LISTED:
        raise SpecError(
            where=name, needed=f"at most {MAX_LISTED:,} values", got=f"{abs(high - low) // step + 1:,}"
        )
    return [number.to_bytes(len(first), "big") for number in span]


def _drawn(field: Field, item: str, random: Random, name: str) -> Sequence[int | bytes]:
    count = item.removeprefix("random:")
    is_number = count.isascii() and count.isdigit() and len(count) <= _STEP_DIGITS
    if field.bits is None or not is_number or not 1 <= int(count) <= MAX_LISTED:
        needed = f"random:N with N in 1..{MAX_LISTED:,}, for a field of fixed width"
        raise SpecError(where=name, needed=needed, got=shown(item))
    low, high = (field.minimum, field.maximum) if field.is_number else (0, (1 << field.bits) - 1)
    return [random.randint(low, high) for _ in range(int(count))]


def _as_number(value: int | bytes) -> int:
    return value if isinstance(value, int) else int.from_bytes(value, "big")


def _check(part: Part, field: Field, value: int | bytes) -> None:
    """Raise EncodeError for a value that does not fit the field."""
    alone = Part(part.cls)
    alone.set(field, value)
    alone.made({}).build()


Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_CHUNK_OCTETS = 4 << 20
_CHUNK_FRAMES = 32_768
_MAX_TEMPLATES = 4096
_WIDE = 1 << 62
"""Value counts from this limit on are not used as divisors, because frame numbers are always smaller."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A plan of frames to build: layers, swept fields, padding, trailer and FCS."""

    stack: Stack
    axes: tuple[Axis, ...] = ()
    ethertypes: EtherTypes = DEFAULT
    raw: bool = False
    padding: bytes = b""
    trailer: bytes = b""
    fcs: bytes = b""

    @property
    def combinations(self) -> int:
        """The number of different frames."""
        return math.prod(axis.count for axis in self.axes)

    def finished(self) -> Finished:
        """Return the frame with the current values of its parts."""
        return finish(
            self.stack,
            ethertypes=self.ethertypes,
            raw=self.raw,
            padding=self.padding,
            trailer=self.trailer,
            fcs=self.fcs,
        )


class AxisValues:
    """Values of a swept field of fixed width, in the representation of a `BitRange`."""

    def __init__(self, axis: Axis) -> None:
        assert axis.field.bits is not None
        self._values = axis.values
        self._octets = axis.field.bits // 8 if axis.field.bits > 64 else 0
        if not isinstance(axis.values, range) and not self._octets:
            self._listed = np.array([int(value) & _ALL for value in axis.values], dtype=np.uint64)

    def of(self, digits: Int64) -> NDArray[np.unsignedinteger]:
        """Return the values with the given indices, as two's complement numbers or rows of octets."""
        values = self._values
        if self._octets:  # IPv6 addresses do not fit into 64 bits
            numbers = (int(values[digit]) for digit in digits.tolist())
            joined = b"".join([number.to_bytes(self._octets, "big") for number in numbers])
            return np.frombuffer(joined, dtype=np.uint8).reshape(-1, self._octets)
        if not isinstance(values, range):
            return self._listed[digits]
        # modulo 2^64, as in two's complement
        start, step = np.uint64(values.start & _ALL), np.uint64(values.step & _ALL)
        return start + digits.view(np.uint64) * step


_ALL = (1 << 64) - 1


class Sweep:
    """The frames of a plan, built in chunks. The frames repeat after the last combination."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._shaping = [axis for axis in plan.axes if _shapes(axis)]
        self._setting = [axis for axis in plan.axes if not _shapes(axis)]
        self._values = [AxisValues(axis) for axis in self._setting]
        self._templates: dict[tuple[int, ...], FrameTemplate] = {}
        for axis in plan.axes:
            axis.part.set(axis.field, axis.at(0))
        plan.finished()

    def chunks(self, count: int) -> Iterator[Octets | list[bytes]]:
        """Yield the first ``count`` frames, as matrices of frames with equal length or as lists."""
        start = 0
        while start < count:
            digits = self._digits(start, min(_CHUNK_FRAMES, count - start))
            first = self._template(tuple(int(axis[0]) for axis in digits[: len(self._shaping)]))
            rows = max(1, min(_CHUNK_FRAMES, _CHUNK_OCTETS // max(1, len(first.octets)), count - start))
            yield self._chunk([axis[:rows] for axis in digits], rows)
            start += rows

    def _digits(self, start: int, count: int) -> list[Int64]:
        """Return the value index of each axis for ``count`` frames from ``start``.

        The axes that determine the frame structure come first.
        """
        numbers = np.arange(count, dtype=np.int64)
        total = self.plan.combinations
        numbers = (numbers + start % total) % total if total < _WIDE else numbers + start
        result: dict[int, Int64] = {}
        for axis in reversed(self.plan.axes):
            if axis.count < _WIDE:
                numbers, result[id(axis)] = np.divmod(numbers, axis.count)
            else:
                numbers, result[id(axis)] = np.zeros_like(numbers), numbers
        return [result[id(axis)] for axis in (*self._shaping, *self._setting)]

    def _chunk(self, digits: list[Int64], rows: int) -> Octets | list[bytes]:
        shaping, setting = digits[: len(self._shaping)], digits[len(self._shaping) :]
        if all(bool((axis == axis[0]).all()) for axis in shaping):
            return self._filled(tuple(int(axis[0]) for axis in shaping), setting, rows)
        return self._mixed(np.stack(shaping, axis=1), setting, rows)

    def _filled(self, shape: tuple[int, ...], setting: list[Int64], rows: int) -> Octets:
        """Return frames of one template."""
        template = self._template(shape)
        out = np.empty((rows, len(template.octets)), dtype=np.uint8)
        sources = [
            partial(_picked, values, digits) for values, digits in zip(self._values, setting, strict=True)
        ]
        template.fill(out, 0, sources)
        return out

    def _mixed(self, shaping: Int64, setting: list[Int64], rows: int) -> list[bytes]:
        """Return frames of several templates in frame order."""
        frames = [b""] * rows
        shapes, group = np.unique(shaping, axis=0, return_inverse=True)
        group = group.reshape(-1)
        for index, shape in enumerate(shapes.tolist()):
            indices = np.flatnonzero(group == index)
            matrix = self._filled(tuple(shape), [axis[indices] for axis in setting], len(indices))
            for row, position in enumerate(indices.tolist()):
                frames[position] = matrix[row].tobytes()
        return frames

    def _template(self, shape: tuple[int, ...]) -> FrameTemplate:
        template = self._templates.get(shape)
        if template is None:
            if len(self._templates) >= _MAX_TEMPLATES:
                self._templates.clear()
            template = self._templates[shape] = self._make(shape)
        return template

    def _make(self, shape: tuple[int, ...]) -> FrameTemplate:
        for axis, number in zip(self._shaping, shape, strict=True):
            axis.part.set(axis.field, axis.at(number))
        finished = self.plan.finished()
        starts = finished.frame.boundaries()
        positions = []
        for axis in self._setting:
            assert axis.field.bits is not None
            number = finished.parts.index(axis.part)
            layer = finished.frame.layers[number]
            moved = sum(len(getattr(layer, key)) for key in axis.field.behind)
            bit = 8 * (starts[number] + moved) + axis.field.bit_offset
            positions.append(BitRange(bit=bit, bits=axis.field.bits))
        return frame_template(finished.frame, positions, finished.given, checksums=not self.plan.raw)


def _picked(values: AxisValues, digits: Int64, rows: slice) -> NDArray[np.unsignedinteger]:
    return values.of(digits[rows])


def _shapes(axis: Axis) -> bool:
    """Return whether the value of a field determines the structure of the frame."""
    cls, key = axis.part.cls, axis.field.key
    return axis.field.bits is None or key == cls.sequence_key or (cls in (E2CM, TLV) and key == "type")
