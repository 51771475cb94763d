"""Many frames of one template, their fields from columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ecmproto.capture.batch import Batch
from ecmproto.codec.frame import Frame, decode, encapsulated
from ecmproto.columns.building.casting import Cast, Column, Int64, cast
from ecmproto.columns.building.finish import Finish
from ecmproto.columns.building.target import Target, targets_of
from ecmproto.columns.building.values import Strings, Values, each, is_single, single
from ecmproto.errors import ColumnError, ParameterError, shown
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes

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
    """Return ``count`` frames like ``template`` whose fields ``columns`` sets.

    ``template`` is a `Frame`, or octets to decode.  Names are those of filters and ``ecmproto fields``:
    ``cnm.qntz_fb``, ``vlan.id`` (the outermost), ``vlan.id[1]`` (the second), ``eth.padding``,
    ``encapsulated.ip.src`` (in the frame that a message shows).  A column is one value for all frames or
    one each; see `ecmproto.columns.building.values`.  Octets of variable length may have another one in each
    frame.

    ``fix`` computes types, lengths, IPv4 header checksums and padding as ``encode(frame, fix=True)`` does
    for each frame, also those that columns set, unless their names are in ``keep``; nothing is computed in
    the frame that a message shows.  ``transport_checksums`` also computes TCP's and UDP's; over IPv4 a
    UDP checksum of 0, none, stays.  ``time_ns`` is one time or one each, in ns since 1970.

    DecodeError for a template that is none, SpecError for a name that is no field of it, with the nearest,
    ColumnError for values that a field cannot hold, with the row, counted from 0.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise ParameterError(name="count", needed="a number of frames from 0", got=shown(count))
    count = int(count)
    frame = _frame(template, ethertypes)
    targets = targets_of(frame, columns)
    filled: list[Column] = []
    for target, given in zip(targets, columns.values(), strict=True):
        if is_single(given) and not target.inner and target.flag is None:
            frame = _with(frame, target, single(target, given))
        else:
            filled.append((target, values_for(frame, target, given, count)))
    finish = Finish(fix=fix, transport=transport_checksums, keep=_kept(frame, keep))
    return batch_of(cast(frame, filled, count, finish), times_of(time_ns, count))


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
    """Return a value of ``target`` for each of ``count`` frames; ColumnError for what is none."""
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
    """Octets of a frame that a message shows stay as many: nothing in it is computed."""
    inner = encapsulated(frame)
    assert inner is not None
    assert target.layer is not None
    octets = len(getattr(inner.layers[target.layer], target.field.key))
    wrong = values.octets != octets
    if wrong.any():
        row = int(wrong.argmax())
        raise target.error(f"{octets} octets, as the template has", f"{int(values.octets[row])} octets", row)


def _kept(frame: Frame, names: Collection[str]) -> tuple[frozenset[str], ...]:
    kept: list[set[str]] = [set() for _ in frame.layers]
    for target in targets_of(frame, names):
        if target.layer is not None and not target.inner:
            kept[target.layer].add(target.field.key)
    return tuple(map(frozenset, kept))


def times_of(given: ArrayLike, count: int) -> Int64:
    """Return the time of each frame; ColumnError for what is none."""

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
    """Return cast frames as a batch; ``record`` is what else their records say."""
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
