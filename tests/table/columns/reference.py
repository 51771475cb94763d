"""What columns are held to: the same fields, frame by frame, from the one-frame lax decoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ecmproto.capture import Batch, Interface
from ecmproto.capture.linktypes import ETHERNET
from ecmproto.dissect import records
from ecmproto.filter.fields import find
from ecmproto.filter.reading import values_of
from ecmproto.table.columns import Columns, every_name, extract
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes

NAMES = every_name()
INNER = tuple(
    f"encapsulated.{name}"
    for name in NAMES
    if name in ("frame.protocols", "frame.error") or name[:6] != "frame."
)
ETHERNET_ONLY = (Interface(index=0, linktype=ETHERNET),)


def expected(
    batch: Batch,
    names: Iterable[str],
    interfaces: Sequence[Interface] = ETHERNET_ONLY,
    ethertypes: EtherTypes = DEFAULT,
) -> dict[str, list[list[Any]]]:
    """Return each field's values, a list a frame."""
    readers = {}
    for name in names:
        field = find(name)
        assert field is not None, name
        readers[name] = values_of(field)
    got: dict[str, list[list[Any]]] = {name: [] for name in readers}
    for record in records(batch, interfaces, ethertypes=ethertypes):
        for name, read in readers.items():
            got[name].append(list(read(record)))
    return got


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
    wanted = expected(batch, names, interfaces, ethertypes)
    assert list(columns) == list(names)
    for name, lists in wanted.items():
        got = columns[name].lists()
        if got != lists:
            row = next(i for i, (one, other) in enumerate(zip(got, lists, strict=True)) if one != other)
            frame = batch.frame(row).hex()
            raise AssertionError(
                f"{name} of frame {int(batch.numbers[row]) + 1}: {got[row]} for {lists[row]} in {frame}"
            )
