"""Many frames of one template, with fields from columns.

Frames of equal length are built together from one `FrameTemplate`. `pack` encodes a single format, with one
row per frame:

>>> pack(CMTag, 3, cpid=cpids, timestamp=ticks, etype=0x0800)      # 3 × 16 octets
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecmproto.errors import ColumnError, EncodeError, ParameterError, shown
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.columns.building.template import (
    BitRange,
    Computing,
    Finish,
    FrameTemplate,
    Source,
    finished,
    frame_template,
)
from ecmproto.frames.columns.building.values import (
    TAILS,
    Octets,
    Strings,
    Target,
    Values,
    each,
    is_single,
    single,
    targets_of,
)
from ecmproto.wire.codec.frame import Frame, decode, encapsulated
from ecmproto.wire.codec.tags import TagFormat, is_tag, telling_fields
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

Int64 = NDArray[np.int64]

MAX_TIME_NS = (1 << 63) - 1


def frames_from(
    template: Frame | bytes,
    count: int,
    columns: Mapping[str, Any],
    *,
    time_ns: ArrayLike = 0,
    ethertypes: EtherTypes | None = None,
    fix: bool = True,
    transport_checksums: bool = False,
    keep: Collection[str] = (),
) -> Batch:
    """Return ``count`` frames like ``template`` with the fields set by ``columns``.

    ``template`` is a `Frame`, or octets to decode. Column names are filter fields as listed by ``ecmproto
    fields``: ``cnm.qntz_fb``, ``vlan.id`` (the outermost), ``vlan.id[1]`` (the second), ``eth.padding``,
    ``encapsulated.ip.src`` (in the frame quoted by a message). A column is one value for all frames or an
    array with one value per frame; see `columns.building.values`. Octet strings of variable length may have
    different lengths in different frames.

    ``fix`` computes types, lengths, IPv4 header checksums and padding as ``encode(frame, fix=True)`` does for
    each frame. Computed values replace the values of columns, unless the field is named in ``keep``. Nothing
    is computed in a quoted frame. ``transport_checksums`` also computes TCP and UDP checksums. A UDP checksum
    of 0 (no checksum) over IPv4 is unchanged. ``time_ns`` is one time or an array with one time per frame, in
    ns since 1970.

    Raises DecodeError for an invalid template. Raises SpecError, with the nearest name, for a name that is no
    field of the template. Raises ColumnError, with the row counted from 0, for a value that a field cannot
    hold.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise ParameterError(name="count", needed="a number of frames from 0", got=shown(count))
    count = int(count)
    frame = _frame(template, ethertypes)
    targets = targets_of(frame, columns)
    filled: list[TargetValues] = []
    for target, given in zip(targets, columns.values(), strict=True):
        if is_single(given) and not target.inner and target.part is None:
            frame = _with(frame, target, single(target, given))
        else:
            filled.append((target, values_for(frame, target, given, count)))
    finish = Finish(fix=fix, transport=transport_checksums, keep=_keys_by_layer(frame, keep))
    return batch_of(cast(frame, filled, count, finish), times_of(time_ns, count))


def pack(kind: type[Layer], count: int, **columns: Given) -> NDArray[np.uint8]:
    """Return ``count`` rows of octets of the format ``kind``, with field values from ``columns``.

    Fields without a column have their defaults. Raises EncodeError, with the row, for a value that its field
    cannot hold. Raises EncodeError also for an array of another length than ``count``, and for a name that is
    no fixed field of the format.
    """
    fields = [field.key for field in kind.layout if field.bits is not None and not field.behind]
    for key in columns:
        if key not in fields:
            raise EncodeError(layer=kind.prefix, field=key, needed=f"one of {', '.join(fields)}", got="it")
    named = {f"{kind.prefix}.{key}": column for key, column in columns.items()}
    frames = frames_from(Frame(layers=(kind(),)), count, named, fix=False)
    # A variable last field with a non-empty default (an IPv6 extension header's) is cut off.
    whole = frames.buffer.reshape(count, len(frames.buffer) // max(count, 1))
    return (
        np.ascontiguousarray(whole[:, : kind.fixed_octets]) if count else whole.reshape(0, kind.fixed_octets)
    )


Given: TypeAlias = "int | np.integer | bytes | NDArray[np.integer]"
"""One value for all rows, or an array with one value per row.

Numbers are integers of any width. Signed CPIDs are passed as ``cpids.view(np.uint64)``. Addresses are rows of
octets.
"""


def tagged_batch(
    batch: Batch,
    kind: type[Layer],
    *,
    only: NDArray[np.bool_] | None = None,
    ethertypes: EtherTypes = DEFAULT,
    **columns: Given,
) -> Batch:
    """Return ``batch`` with a tag of the format ``kind`` in every frame, or in the frames selected by
    ``only``.

    ``columns`` are the fields of the tag: one value for all frames, or an array with one value per frame. The
    new tag replaces an existing tag of the same format. A CN-TAG is inserted after the VLAN tags. Any other
    tag is inserted after the CN-TAG. A frame with a truncated header receives no tag. Raises EncodeError as
    `pack` does, and ParameterError for a format that is no tag.
    """
    if not is_tag(kind) or kind.announced_by in _VLANS:
        raise ParameterError(name="kind", needed="a tag of congestion management", got=kind.__name__)
    # Building frames alone needs no compiler.
    from ecmproto.frames.batch.tags import spliced_batch, tag_splice

    telling = {name: _one_value(name, columns[name]) for name in telling_fields(kind) if name in columns}
    packed = pack(kind, len(batch), **columns)
    own = TagFormat(format=kind, constants=telling)
    return spliced_batch(batch, tag_splice(batch, packed, own, only=only, ethertypes=ethertypes))


_VLANS = ("c_tag", "s_tag")


def _one_value(name: str, given: Given) -> int:
    """Return the common value of a field that distinguishes tag formats.

    Raises ParameterError if the frames have different values.
    """
    values = np.unique(np.asarray(given))
    if len(values) != 1:
        raise ParameterError(
            name=name, needed="the same number of values for each tag", got=f"{len(values)} of them"
        )
    return int(values[0])


def _frame(template: Frame | bytes, ethertypes: EtherTypes | None) -> Frame:
    if not isinstance(template, Frame):
        return decode(template, ethertypes=ethertypes or DEFAULT)
    return template if ethertypes is None else dataclasses.replace(template, ethertypes=ethertypes)


def _with(frame: Frame, target: Target, value: int | bytes) -> Frame:
    """Return the template with one value for all frames."""
    if target.layer is None:
        return dataclasses.replace(frame, **{target.field.key: value})  # type: ignore[arg-type]
    layers = list(frame.layers)
    layers[target.layer] = layers[target.layer].replace(**{target.field.key: value})
    return dataclasses.replace(frame, layers=tuple(layers))


def values_for(frame: Frame, target: Target, given: Any, count: int) -> Values:
    """Return a value of ``target`` for each of ``count`` frames; raise ColumnError for an invalid value."""
    if is_single(given):
        value = single(target, given)
        if isinstance(value, int):
            return np.broadcast_to(np.array(value, np.int64 if value < 0 else np.uint64), count)
        given = np.broadcast_to(np.frombuffer(value, np.uint8), (count, len(value)))
    values = each(target, given, count)
    if target.inner and isinstance(values, Strings):
        _check_inner(frame, target, values)
    return values


def _check_inner(frame: Frame, target: Target, values: Strings) -> None:
    """Raise ColumnError for octets of a quoted frame that differ in length from the template.

    The length fields of a quoted frame are not recomputed.
    """
    inner = encapsulated(frame)
    assert inner is not None
    assert target.layer is not None
    octets = len(getattr(inner.layers[target.layer], target.field.key))
    wrong = values.octets != octets
    if wrong.any():
        row = int(wrong.argmax())
        raise target.error(f"{octets} octets, as in the template", f"{int(values.octets[row])} octets", row)


def _keys_by_layer(frame: Frame, names: Collection[str]) -> tuple[frozenset[str], ...]:
    keys: list[set[str]] = [set() for _ in frame.layers]
    for target in targets_of(frame, names):
        if target.layer is not None and not target.inner:
            keys[target.layer].add(target.field.key)
    return tuple(map(frozenset, keys))


def times_of(given: ArrayLike, count: int) -> Int64:
    """Return the time of each frame; raise ColumnError for an invalid time."""

    def error(got: str, row: int | None = None) -> ColumnError:
        return ColumnError(layer="frame", field="time_epoch", needed="ns since 1970", got=got, row=row)

    times = np.asarray(given)
    if times.ndim and times.shape != (count,):
        raise error(f"an array of shape {times.shape} for {count} frames")
    if times.dtype.kind not in "iu" and times.size:
        raise error(f"{times.dtype} values")
    times = np.broadcast_to(times, count)
    if count and (int(times.min()) < 0 or int(times.max()) > MAX_TIME_NS):
        row = int(times.argmin() if int(times.min()) < 0 else times.argmax())
        raise error(str(times[row]), row)
    return times.astype(np.int64)


def batch_of(cast: Cast, time_ns: Int64, **record: Any) -> Batch:
    """Return cast frames as a batch; ``record`` contains the other data of the records."""
    whole = {"original": cast.octets, "interface": np.zeros(len(time_ns), np.int64)} | record
    return Batch(
        buffer=cast.buffer,
        offset=cast.offset,
        captured=cast.octets,
        time_ns=time_ns,
        record_offset=cast.offset,
        record_length=cast.octets,
        **whole,
    )


TargetValues: TypeAlias = "tuple[Target, Values]"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cast:
    """Frames in one buffer in any order, with the offset and the length in octets of each frame."""

    buffer: Octets
    offset: Int64
    octets: Int64

    def matrix(self) -> Octets | None:
        """Return the frames as rows of a matrix; ``None`` unless they are in order and equally long."""
        if not len(self.octets) or not (self.octets == self.octets[0]).all():
            return None
        rows = self.buffer.reshape(len(self.octets), -1)
        return rows if (np.diff(self.offset) == rows.shape[1]).all() else None


def cast(frame: Frame, columns: Sequence[TargetValues], count: int, finish: Finish) -> Cast:
    """Return ``count`` finished frames like ``frame`` with the values of ``columns``.

    Raises ColumnError, with the row, for a value that the encoder refuses.
    """
    templates = []
    octets = np.zeros(count, np.int64)
    for rows, lengths in _equally_long(columns, count):
        try:
            filled = _template(frame, columns, lengths, finish)
        except EncodeError as error:
            raise ColumnError(
                layer=error.layer,
                field=error.field,
                needed=error.needed,
                got=error.got,
                row=int(rows[0]) if isinstance(rows, np.ndarray) else None,
            ) from None
        octets[rows] = len(filled[0].octets)
        templates.append((rows, filled))
    buffer = np.empty(int(octets.sum()), np.uint8)
    offset = np.empty(count, np.int64)
    end = 0
    for rows, (template, sources) in templates:
        length = len(template.octets)
        frames = len(rows) if isinstance(rows, np.ndarray) else count
        offset[rows] = np.arange(end, end + frames * length, length) if length else end
        out = buffer[end : end + frames * length].reshape(frames, length)
        template.fill(out, rows if isinstance(rows, np.ndarray) else 0, sources)
        end += frames * length
    buffer.flags.writeable = False
    return Cast(buffer=buffer, offset=offset, octets=octets)


def _equally_long(columns: Sequence[TargetValues], count: int) -> Iterator[tuple[Any, dict[int, int]]]:
    """Yield groups of frames whose octet strings have equal lengths, with the length for each column."""
    ragged = {index: values for index, (_, values) in enumerate(columns) if isinstance(values, Strings)}
    if not count:
        return
    codes = np.zeros(count, np.int64)
    for values in ragged.values():
        lengths, inverse = np.unique(values.octets, return_inverse=True)
        if len(lengths) > 1:
            # The codes are renumbered for each column, so that they remain small.
            codes = np.unique(codes * len(lengths) + inverse.reshape(-1), return_inverse=True)[1].reshape(-1)
    if not codes.any():
        yield slice(None), {index: int(values.octets[0]) for index, values in ragged.items()}
        return
    order = np.argsort(codes, kind="stable")
    firsts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for rows in np.split(order, firsts[1:]):
        yield rows, {index: int(values.octets[rows[0]]) for index, values in ragged.items()}


def _template(
    frame: Frame, columns: Sequence[TargetValues], lengths: Mapping[int, int], finish: Finish
) -> tuple[FrameTemplate, list[Source]]:
    """Return the frame template for octet strings of these lengths, and the sources of its fields."""
    frame = finished(_resized(frame, columns, lengths), finish)
    computing = Computing(frame, finish)
    starts = frame.boundaries()
    ranges, sources = [], []
    for index, (target, values) in enumerate(columns):
        source = _source(target, values, lengths.get(index), frame, computing)
        if source is not None:
            ranges.append(_bit_range(target, lengths.get(index), frame, starts))
            sources.append(source)
    template = frame_template(
        frame, ranges, finish.given(frame), checksums=finish.fix, transport=finish.transport
    )
    return template, sources


def _source(
    target: Target, values: Values, octets: int | None, frame: Frame, computing: Computing
) -> Source | None:
    """Return a function that yields the values for some frames; ``None`` for a computed field."""
    if target.layer is None:
        # Padding that is too short is replaced.
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


def _resized(frame: Frame, columns: Sequence[TargetValues], lengths: Mapping[int, int]) -> Frame:
    """Return the frame with variable fields of the given lengths, filled with zero octets."""
    layers = list(frame.layers)
    tails: dict[str, bytes] = {}
    for index, octets in lengths.items():
        target = columns[index][0]
        if target.layer is None:
            tails[target.field.key] = bytes(octets)
        elif not target.inner:
            layers[target.layer] = layers[target.layer].replace(**{target.field.key: bytes(octets)})
    return dataclasses.replace(frame, layers=tuple(layers), **tails)  # type: ignore[arg-type]


def _bit_range(target: Target, octets: int | None, frame: Frame, starts: Sequence[int]) -> BitRange:
    """Return the position of a target in a frame whose layers start at ``starts``."""
    bits = target.bits if octets is None else 8 * octets
    assert bits is not None
    if target.layer is None:
        before = TAILS[: TAILS.index(target.field.key)]
        return BitRange(bit=8 * (starts[-1] + sum(len(getattr(frame, key)) for key in before)), bits=bits)
    holder, shown_at = frame, 0
    if target.inner:
        inner = encapsulated(frame)
        assert inner is not None
        holder, shown_at, starts = inner, starts[-2] + frame.layers[-1].fixed_octets, inner.boundaries()
    layer = holder.layers[target.layer]
    moved = sum(len(getattr(layer, key)) for key in target.field.behind)
    return BitRange(bit=8 * (shown_at + starts[target.layer] + moved) + target.bit, bits=bits)
