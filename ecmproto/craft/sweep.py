"""A frame swept over the values of some of its fields: every combination, the last field fastest.

One template is encoded; the bits of the swept fields are then set in many copies at once, and the
checksums that cover them computed anew.  A swept field that decides what the frame looks like (octets of
variable length, the type of an E²CM message or of a TLV) gets a template per value.  Frames come in
batches of bounded size, so that a sweep of any length needs no more memory than a short one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.craft.axis import Axis
from ecmproto.craft.builders import Finished, finish
from ecmproto.craft.checksums import Checksum, checksums_of
from ecmproto.craft.stack import Stack
from ecmproto.wire.e2cm import E2CM
from ecmproto.wire.encoder import encode
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.lldp import TLV

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_CHUNK_OCTETS = 4 << 20
_CHUNK_FRAMES = 32_768
_TEMPLATES = 4096
_WIDE = 1 << 62
"""Counts from here on are not divided by: no frame number reaches them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """What to build: the layers, the swept fields and how the frame is finished."""

    stack: Stack
    axes: tuple[Axis, ...] = ()
    ethertypes: EtherTypes = DEFAULT
    raw: bool = False
    padding: bytes = b""
    trailer: bytes = b""
    fcs: bytes = b""

    @property
    def combinations(self) -> int:
        """How many different frames there are."""
        return math.prod(axis.count for axis in self.axes)

    def finished(self) -> Finished:
        """Return the frame with the values its parts have now."""
        return finish(
            self.stack,
            ethertypes=self.ethertypes,
            raw=self.raw,
            padding=self.padding,
            trailer=self.trailer,
            fcs=self.fcs,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Template:
    """An encoded frame and where its swept fields stand."""

    octets: Octets
    columns: tuple[Column, ...]
    checksums: tuple[Checksum, ...]

    def frames(self, digits: Sequence[Int64]) -> Octets:
        """Return a matrix of frames, a row per entry of ``digits``, which number each field's values."""
        out = np.empty((len(digits[0]) if digits else 1, len(self.octets)), dtype=np.uint8)
        out[:] = self.octets
        for column, numbers in zip(self.columns, digits, strict=True):
            column.write(out, numbers)
        for checksum in self.checksums:
            checksum.write(out)
        return out


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """The bits of one swept field, from ``bit`` of the frame on, and the values they take."""

    bit: int
    bits: int
    values: range | NDArray[np.uint64] | Sequence[int]

    @property
    def octets(self) -> range:
        """The octets of the frame that hold any of its bits."""
        return range(self.bit // 8, -(-(self.bit + self.bits) // 8))

    def write(self, out: Octets, digits: Int64) -> None:
        """Write value number ``digits[i]`` into row i."""
        if self.bits > 64:
            self._write_wide(out, digits)
            return
        span = self.octets
        shift = 8 * span.stop - self.bit - self.bits
        mask = ((1 << self.bits) - 1) << shift
        values = self._numbers(digits) << np.uint64(shift)
        for place, octet in enumerate(reversed(span)):
            own = mask >> 8 * place & 0xFF
            part = (values >> np.uint64(8 * place)).astype(np.uint8)
            if own == 0xFF:
                out[:, octet] = part
            else:
                out[:, octet] = out[:, octet] & (~own & 0xFF) | part & own

    def _numbers(self, digits: Int64) -> NDArray[np.uint64]:
        values = self.values
        if isinstance(values, np.ndarray):
            return values[digits]
        assert isinstance(values, range)
        # modulo 2^64, as two's complement wants it
        start, step = np.uint64(values.start & _ALL), np.uint64(values.step & _ALL)
        return start + digits.astype(np.uint64) * step

    def _write_wide(self, out: Octets, digits: Int64) -> None:
        """IPv6 addresses, which no machine word holds; they stand at whole octets."""
        width = self.bits // 8
        joined = b"".join([self.values[digit].to_bytes(width, "big") for digit in digits.tolist()])
        out[:, self.octets.start : self.octets.stop] = np.frombuffer(joined, dtype=np.uint8).reshape(
            -1, width
        )


_ALL = (1 << 64) - 1


class Sweep:
    """The frames of a plan by number, built in chunks; they start over behind the last combination."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._shaping = [axis for axis in plan.axes if _shapes(axis)]
        self._setting = [axis for axis in plan.axes if not _shapes(axis)]
        self._values = [_column_values(axis) for axis in self._setting]
        self._templates: dict[tuple[int, ...], Template] = {}
        for axis in plan.axes:
            axis.part.values[axis.field.key] = axis.at(0)
        plan.finished()

    def chunks(self, count: int) -> Iterator[Octets | list[bytes]]:
        """Yield the first ``count`` frames: as matrices where all are equally long, else as lists."""
        start = 0
        while start < count:
            digits = self._digits(start, min(_CHUNK_FRAMES, count - start))
            first = self._template(tuple(int(axis[0]) for axis in digits[: len(self._shaping)]))
            rows = max(1, min(_CHUNK_FRAMES, _CHUNK_OCTETS // max(1, len(first.octets)), count - start))
            yield self._chunk([axis[:rows] for axis in digits], rows)
            start += rows

    def _digits(self, start: int, count: int) -> list[Int64]:
        """Return, for frames ``start`` on, the number of each axis's value; the shaping axes come first."""
        numbers = np.arange(count, dtype=np.int64)
        total = self.plan.combinations
        numbers = (numbers + start % total) % total if total < _WIDE else numbers + start
        found: dict[int, Int64] = {}
        for axis in reversed(self.plan.axes):
            if axis.count < _WIDE:
                numbers, found[id(axis)] = np.divmod(numbers, axis.count)
            else:
                numbers, found[id(axis)] = np.zeros_like(numbers), numbers
        return [found[id(axis)] for axis in (*self._shaping, *self._setting)]

    def _chunk(self, digits: list[Int64], rows: int) -> Octets | list[bytes]:
        shaping, setting = digits[: len(self._shaping)], digits[len(self._shaping) :]
        if all(bool((axis == axis[0]).all()) for axis in shaping):
            template = self._template(tuple(int(axis[0]) for axis in shaping))
            if not setting:
                return np.repeat(template.octets[None, :], rows, axis=0)
            return template.frames(setting)
        return self._mixed(np.stack(shaping, axis=1), setting, rows)

    def _mixed(self, shaping: Int64, setting: list[Int64], rows: int) -> list[bytes]:
        """Return frames of several shapes in their order."""
        frames = [b""] * rows
        shapes, group = np.unique(shaping, axis=0, return_inverse=True)
        group = group.reshape(-1)
        for index, shape in enumerate(shapes.tolist()):
            places = np.flatnonzero(group == index)
            template = self._template(tuple(shape))
            matrix = (
                template.frames([axis[places] for axis in setting]) if setting else template.octets[None, :]
            )
            for row, place in enumerate(places.tolist()):
                frames[place] = matrix[row if setting else 0].tobytes()
        return frames

    def _template(self, shape: tuple[int, ...]) -> Template:
        template = self._templates.get(shape)
        if template is None:
            if len(self._templates) >= _TEMPLATES:
                self._templates.clear()
            template = self._templates[shape] = self._make(shape)
        return template

    def _make(self, shape: tuple[int, ...]) -> Template:
        for axis, number in zip(self._shaping, shape, strict=True):
            axis.part.values[axis.field.key] = axis.at(number)
        finished = self.plan.finished()
        starts = finished.frame.boundaries()
        columns = []
        for axis, values in zip(self._setting, self._values, strict=True):
            assert axis.field.bits is not None
            bit = 8 * starts[finished.parts.index(axis.part)] + axis.field.bit_offset
            columns.append(Column(bit=bit, bits=axis.field.bits, values=values))
        swept = {octet for column in columns for octet in column.octets}
        sums = () if self.plan.raw else checksums_of(finished.frame, finished.given)
        covered: list[Checksum] = []
        for checksum in sums:
            inner = {octet for each in covered for octet in (each.at, each.at + 1)}
            if checksum.covers(swept | inner):
                covered.append(checksum)
        octets = np.frombuffer(encode(finished.frame), dtype=np.uint8)
        return Template(octets=octets, columns=tuple(columns), checksums=tuple(covered))


def _shapes(axis: Axis) -> bool:
    """Return whether a field's value decides what else the frame holds."""
    return axis.field.bits is None or (axis.part.cls in (E2CM, TLV) and axis.field.key == "type")


def _column_values(axis: Axis) -> range | NDArray[np.uint64] | Sequence[int]:
    values = axis.values
    assert axis.field.bits is not None
    if isinstance(values, range) or axis.field.bits > 64:
        return values  # type: ignore[return-value]  # numbers: octets are swept by templates
    return np.array([int(value) & _ALL for value in values], dtype=np.uint64)
