"""Reference implementation of columns, which uses the lax decoder for single frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.columns import Columns, extract
from ecmproto.frames.dissect import records
from ecmproto.tools.fuzz.checks.frames import ETHERNET_ONLY, NAMES, FieldValues, column_differences
from ecmproto.tools.fuzz.checks.frames import INNER_NAMES as INNER
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes


def expected(
    batch: Batch,
    names: Iterable[str],
    interfaces: Sequence[Interface] = ETHERNET_ONLY,
    ethertypes: EtherTypes = DEFAULT,
) -> dict[str, list[list[Any]]]:
    """Return the values of each field, with a list per frame."""
    found: dict[str, list[list[Any]]] = {name: [[] for _ in range(len(batch))] for name in names}
    each = list(records(batch, interfaces, ethertypes=ethertypes))
    for name, listed in FieldValues(found).of(each).items():
        for row, value in zip(*listed, strict=True):
            found[name][row].append(value)
    return found


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
    each = list(records(batch, interfaces, ethertypes=ethertypes))
    for wrong in column_differences(columns, FieldValues(names), each):
        number = int(batch.numbers[wrong.row]) + 1
        raise AssertionError(f"{wrong.what} of frame {number}: {wrong.detail}")
