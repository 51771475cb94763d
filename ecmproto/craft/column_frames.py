"""Frames from a file of columns: of a template with its fields from the columns, or rebuilt from all of them.

Names of columns are those of ``--sweep``: of a field of the template or of a layer it implies (``flow_id`` of
a CNM: a CN-TAG), ``vlan.id[1]`` of the second layer that has it; also ``eth.padding`` and its like and
``encapsulated.NAME``.  What a default is derived from is the first row's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.linktypes import ETHERNET, LINUX_SLL, LINUX_SLL2, RAW_IP
from ecmproto.columns.building.frames import batch_of, cast, times_of, values_for
from ecmproto.columns.building.template import Finish
from ecmproto.columns.building.values import (
    INNER,
    TAILS,
    Coded,
    Strings,
    Target,
    check_once,
    column_error,
    each,
    octets_target,
    plain,
    targets_of,
)
from ecmproto.craft.builders import finish
from ecmproto.craft.capture_info import CaptureInfo
from ecmproto.craft.column_file import Rows, column_batches, form_of
from ecmproto.craft.recipe import MAX_TIME_NS, Chunk
from ecmproto.craft.spec import located
from ecmproto.craft.stack import Part, Stack
from ecmproto.errors import ColumnError, EncodeError, SpecError, shown
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.registry import FORMATS
from ecmproto.formats.schema import Field
from ecmproto.units import NS_PER_S

TIME = "frame.time_epoch"
_NUMBERED = re.compile(r"(.+)\[(0|[1-9][0-9]{0,3})\]")
_FLAGS = frozenset(
    field.meta.flags.format(bit)
    for cls in FORMATS
    for field in cls.layout
    if field.meta.flags
    for bit in range(8)
)
_BEHIND = tuple(f"eth.{key}" for key in TAILS)


_SECONDS = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,9}))?")

_LINKTYPES = {"sll": LINUX_SLL, "sll2": LINUX_SLL2, "ip": RAW_IP, "ipv6": RAW_IP}
"""What link a capture is of whose frames start with these; with any other, Ethernet."""


def frames_of_template(
    path: str, stack: Stack, *, ethertypes: EtherTypes = DEFAULT, raw: bool = False, timed: bool = False
) -> Iterator[Chunk]:
    """Yield the frames of a settled ``stack``, one for each row of the file at ``path``.

    ``timed`` says that their times come from elsewhere.  SpecError with the file, row and column of what is
    wrong; rows count from 1, the line of names is none.
    """
    done, template = 0, None
    for count, rows in column_batches(path):
        with _placed(path, done):
            _check_timed(rows, timed)
            if template is None:
                template = _Template(stack, rows, count, ethertypes, raw)
            if count:
                yield template.chunk(rows, count)
        done += count


def rebuilt_frames(
    path: str,
    *,
    capture: CaptureInfo,
    ethertypes: EtherTypes = DEFAULT,
    fix: bool = False,
    timed: bool = False,
) -> Iterator[Chunk]:
    """Yield the frames that the file at ``path`` has all columns of, as ``dissect -T parquet`` writes them.

    Their interfaces are described in ``capture``.  Errors as in `frames_of_template`.
    """
    from ecmproto.columns.building.rebuilding import batch_from

    if form_of(path) == "csv":
        got = "CSV without a layer to craft"
        raise SpecError(where=path, needed="a LAYER, or Parquet or Arrow with all columns of frames", got=got)
    done = 0
    for count, rows in column_batches(path):
        with _placed(path, done):
            _check_timed(rows, timed)
            batch = batch_from(_table(rows), ethertypes=ethertypes, fix=fix)
            linktype = _linktype(rows)
        if count:
            capture.describe(int(batch.interface.max()), linktype)
            times = batch.time_ns if TIME in rows else None
            yield Chunk(
                frames=batch,
                time_ns=times,
                original=batch.original,
                interface=batch.interface,
                linktype=linktype,
            )
        done += count


def _check_timed(rows: Rows, timed: bool) -> None:
    if timed and TIME in rows:
        raise SpecError(where=f"column {TIME}", needed="times from one place", got="a time or rate as well")


class _Template:
    """A template whose fields the columns of a file set."""

    def __init__(self, stack: Stack, rows: Rows, count: int, ethertypes: EtherTypes, raw: bool) -> None:
        named: list[tuple[str, Part, Field]] = []
        for name, cells in rows.items():
            if name == TIME or name in _BEHIND or name in _FLAGS or name.startswith(INNER):
                continue
            numbered = _NUMBERED.fullmatch(name)
            # what sweeps count from 1
            other = f"{numbered[1]}#{int(numbered[2]) + 1}" if numbered else name
            try:
                part, field = located(stack, other, raw=raw)
                part.give(field, _first(Target(name=name, layer=0, field=field), cells, count))
            except SpecError as error:
                where = f"column {name if name.isprintable() else shown(name)}"
                raise SpecError(where=where, needed=error.needed, got=error.got, hint=error.hint) from None
            named.append((name, part, field))
        made = finish(stack, ethertypes=ethertypes, raw=raw)
        # padded anew as each row needs it
        self._frame = dataclasses.replace(made.frame, padding=b"")
        self._finish = Finish(fix=not raw, transport=True, keep=made.given)
        targets = [
            Target(name=name, layer=made.parts.index(part), field=field) for name, part, field in named
        ]
        places = {name for name, _, _ in named} | {TIME}
        self._targets = [*targets, *targets_of(made.frame, [name for name in rows if name not in places])]
        check_once(made.frame, self._targets)

    def chunk(self, rows: Rows, count: int) -> Chunk:
        """Return a frame for each row."""
        columns = [
            (target, values_for(self._frame, target, rows[target.name], count)) for target in self._targets
        ]
        made = cast(self._frame, columns, count, self._finish)
        times = _times(rows[TIME], count) if TIME in rows else None
        matrix = made.matrix()
        if matrix is not None:
            return Chunk(frames=matrix, time_ns=times)
        return Chunk(frames=batch_of(made, np.zeros(count, np.int64)), time_ns=times)


def _first(target: Target, cells: Any, count: int) -> int | bytes:
    """Return a column's first value, which the template has; without rows the field's default."""
    if not count:
        return target.field.meta.default
    value = each(target, cells[:1], 1)
    if isinstance(value, Strings):
        return value.matrix(slice(None), int(value.octets[0])).tobytes()
    return int(value[0]) if target.field.is_number else bytes(value[0])


def _times(cells: Any, count: int) -> NDArray[np.int64]:
    """Return times: timestamps and integers are in ns, text is in seconds."""
    plain_cells = plain(octets_target(TIME), cells)
    if isinstance(plain_cells, Coded):
        plain_cells = [plain_cells.words[code] for code in plain_cells.codes.tolist()]
    if isinstance(plain_cells, list):
        return np.array([_seconds(cell, row) for row, cell in enumerate(plain_cells)], np.int64)
    if isinstance(plain_cells, Strings):
        raise column_error(TIME, "timestamps, ns or seconds in text", "octets")
    return times_of(plain_cells, count)


def _seconds(text: Any, row: int | None) -> int:
    found = _SECONDS.fullmatch(text) if isinstance(text, str) else None
    time_ns = int(found[1]) * NS_PER_S + int((found[2] or "").ljust(9, "0")) if found else MAX_TIME_NS + 1
    if time_ns > MAX_TIME_NS:
        raise column_error(TIME, "seconds since 1970 such as 1.000000001", shown(text), row)
    return time_ns


def _table(rows: Rows) -> Any:
    """Return columns as an Arrow table; texts as they are."""
    import pyarrow as pa

    return pa.table(dict(rows))


def _linktype(rows: Rows) -> int:
    """Return the link type of frames, from the layer that they start with."""
    protocols = rows["frame.protocols"].unique().to_pylist() if "frame.protocols" in rows else []
    starts = {str(each).partition(":")[0] for each in protocols}
    found = {_LINKTYPES.get(start, ETHERNET) for start in starts - {"data", ""}} or {ETHERNET}
    if len(found) > 1:
        got = " and ".join(sorted(starts))
        raise column_error("frame.protocols", "frames of one link type", f"some that start with {got}")
    return found.pop()


@contextlib.contextmanager
def _placed(path: str, done: int) -> Iterator[None]:
    """Put the file, and the row in it, in front of what an error inside says."""
    try:
        yield
    except ColumnError as error:
        row = "" if error.row is None else f"row {done + error.row + 1}, "
        column = ".".join(filter(None, (error.layer, error.field)))
        raise SpecError(where=f"{path}: {row}column {column}", needed=error.needed, got=error.got) from None
    except SpecError as error:
        raise SpecError(
            where=f"{path}: {error.where}", needed=error.needed, got=error.got, hint=error.hint
        ) from None
    except EncodeError as error:
        where = f"{path}: {error.layer}.{error.field}"
        raise SpecError(where=where, needed=error.needed, got=error.got) from None
