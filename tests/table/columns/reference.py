"""What columns are held to: the same fields, frame by frame, from the one-frame lax decoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ecmproto.capture import Batch, Interface
from ecmproto.dissect import records
from ecmproto.fuzz.column_check import ETHERNET_ONLY, NAMES, FieldValues, column_differences
from ecmproto.fuzz.column_check import INNER_NAMES as INNER
from ecmproto.table.columns import Columns, extract
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes


def expected(
    batch: Batch,
    names: Iterable[str],
    interfaces: Sequence[Interface] = ETHERNET_ONLY,
    ethertypes: EtherTypes = DEFAULT,
) -> dict[str, list[list[Any]]]:
    """Return each field's values, a list a frame."""
    names = list(names)
    values = FieldValues(names)
    each = [values.of(record) for record in records(batch, interfaces, ethertypes=ethertypes)]
    return {name: [found.get(name, []) for found in each] for name in names}


def assert_equal(
    batch: Batch,
    names: Sequence[str] = NAMES + INNER,
    interfaces: Sequence[Interface] = ETHERNET_ONLY,
    ethertypes: EtherTypes = DEFAULT,
    columns: Columns | None = None,
) -> None:
    """Fail for the first field of the first frame that columns have differently."""
    if columns is None:
        columns = extract(batch, names, interfaces=interfaces, ethertypes=ethertypes)
    assert list(columns) == list(names)
    values = FieldValues(names)
    for wrong in column_differences(batch, columns, values, interfaces=interfaces, ethertypes=ethertypes):
        number = int(batch.numbers[wrong.row]) + 1
        raise AssertionError(f"{wrong.what} of frame {number}: {wrong.detail}")
