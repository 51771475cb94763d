"""Frames of one template cast from columns: those that are equally long from one mold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec.frame import Frame, encapsulated
from ecmproto.columns.building.finish import Computing, Finish, finished
from ecmproto.columns.building.mold import Mold, Source, mold_of
from ecmproto.columns.building.place import Place
from ecmproto.columns.building.target import TAILS, Target
from ecmproto.columns.building.values import Octets, Strings, Values
from ecmproto.errors import ColumnError, EncodeError

Int64 = NDArray[np.int64]

Column: TypeAlias = "tuple[Target, Values]"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cast:
    """Frames in one buffer, in no order there: where each one starts, and its octets."""

    buffer: Octets
    offset: Int64
    octets: Int64

    def matrix(self) -> Octets | None:
        """Return the frames as the rows of a matrix where they are equally long and in order there."""
        if not len(self.octets) or not (self.octets == self.octets[0]).all():
            return None
        rows = self.buffer.reshape(len(self.octets), -1)
        return rows if (np.diff(self.offset) == rows.shape[1]).all() else None


def cast(frame: Frame, columns: Sequence[Column], count: int, finish: Finish) -> Cast:
    """Return ``count`` frames like ``frame`` with the values of ``columns``, finished.

    ColumnError for what a format cannot hold, with the first row it is of.
    """
    shapes = []
    octets = np.zeros(count, np.int64)
    for rows, lengths in _shapes(columns, count):
        try:
            shape = _shape(frame, columns, lengths, finish)
        except EncodeError as error:
            raise ColumnError(
                layer=error.layer,
                field=error.field,
                needed=error.needed,
                got=error.got,
                row=int(rows[0]) if isinstance(rows, np.ndarray) else None,
            ) from None
        octets[rows] = len(shape[0].octets)
        shapes.append((rows, shape))
    buffer = np.empty(int(octets.sum()), np.uint8)
    offset = np.empty(count, np.int64)
    end = 0
    for rows, (mold, sources) in shapes:
        length = len(mold.octets)
        frames = len(rows) if isinstance(rows, np.ndarray) else count
        offset[rows] = np.arange(end, end + frames * length, length) if length else end
        out = buffer[end : end + frames * length].reshape(frames, length)
        mold.fill(out, rows if isinstance(rows, np.ndarray) else 0, sources)
        end += frames * length
    buffer.flags.writeable = False
    return Cast(buffer=buffer, offset=offset, octets=octets)


def _shapes(columns: Sequence[Column], count: int) -> Iterator[tuple[Any, dict[int, int]]]:
    """Yield the frames whose octet strings are equally long, and of each string's column how long."""
    ragged = {index: values for index, (_, values) in enumerate(columns) if isinstance(values, Strings)}
    if not count:
        return
    codes = np.zeros(count, np.int64)
    for values in ragged.values():
        lengths, places = np.unique(values.octets, return_inverse=True)
        if len(lengths) > 1:
            # numbered anew each time: the codes stay small however many columns there are
            codes = np.unique(codes * len(lengths) + places.reshape(-1), return_inverse=True)[1].reshape(-1)
    if not codes.any():
        yield slice(None), {index: int(values.octets[0]) for index, values in ragged.items()}
        return
    order = np.argsort(codes, kind="stable")
    firsts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for rows in np.split(order, firsts[1:]):
        yield rows, {index: int(values.octets[rows[0]]) for index, values in ragged.items()}


def _shape(
    frame: Frame, columns: Sequence[Column], lengths: Mapping[int, int], finish: Finish
) -> tuple[Mold, list[Source]]:
    """Return the mold of frames whose octet strings have these lengths, and what fills it."""
    frame = finished(_resized(frame, columns, lengths), finish)
    computing = Computing(frame, finish)
    starts = frame.boundaries()
    places, sources = [], []
    for index, (target, values) in enumerate(columns):
        source = _source(target, values, lengths.get(index), frame, computing)
        if source is not None:
            places.append(_place(target, lengths.get(index), frame, starts))
            sources.append(source)
    mold = mold_of(frame, places, finish.given(frame), checksums=finish.fix, transport=finish.transport)
    return mold, sources


def _source(
    target: Target, values: Values, octets: int | None, frame: Frame, computing: Computing
) -> Source | None:
    """Return what gives the values of some frames; None where what is computed takes their place."""
    if target.layer is None:
        # padding that is too short is not what the frame gets
        return None if len(getattr(frame, target.field.key)) != octets else _strings(values, octets)
    if not target.inner:
        layer, key = frame.layers[target.layer], target.field.key
        if key == layer.next_key:
            assert isinstance(values, np.ndarray)
            announced = computing.announcing(target.layer, values)
            return announced.__getitem__
        if key in computing.of(target.layer):
            return None
    return values.__getitem__ if isinstance(values, np.ndarray) else _strings(values, octets)


def _strings(values: Values, octets: int | None) -> Source:
    assert isinstance(values, Strings)
    assert octets is not None
    return lambda rows: values.matrix(rows, octets)


def _resized(frame: Frame, columns: Sequence[Column], lengths: Mapping[int, int]) -> Frame:
    """Return the frame with as many octets, of whatever value, as the strings have."""
    layers = list(frame.layers)
    behind: dict[str, bytes] = {}
    for index, octets in lengths.items():
        target = columns[index][0]
        if target.layer is None:
            behind[target.field.key] = bytes(octets)
        elif not target.inner:
            layers[target.layer] = layers[target.layer].replace(**{target.field.key: bytes(octets)})
    return dataclasses.replace(frame, layers=tuple(layers), **behind)  # type: ignore[arg-type]


def _place(target: Target, octets: int | None, frame: Frame, starts: Sequence[int]) -> Place:
    """Return where a target stands in a frame whose layers start at ``starts``."""
    bits = target.bits if octets is None else 8 * octets
    assert bits is not None
    if target.layer is None:
        before = TAILS[: TAILS.index(target.field.key)]
        return Place(bit=8 * (starts[-1] + sum(len(getattr(frame, key)) for key in before)), bits=bits)
    start = _shown_at(frame, starts, target.layer) if target.inner else starts[target.layer]
    return Place(bit=8 * start + target.bit, bits=bits)


def _shown_at(frame: Frame, starts: Sequence[int], layer: int) -> int:
    """Return where a layer of the frame that a message shows starts in the frame that holds the message."""
    inner = encapsulated(frame)
    assert inner is not None
    return starts[-2] + frame.layers[-1].fixed_octets + inner.boundaries()[layer]
