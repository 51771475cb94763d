"""Which fields the frames of a capture have at all, found in a pass that reads few of them."""

from __future__ import annotations

from collections.abc import Iterable

from ecmproto.capture import CaptureReader
from ecmproto.filter import Filter
from ecmproto.filter.fields import Field
from ecmproto.table.columns.asked import asked
from ecmproto.table.columns.capture import column_batches
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.layer import Layer


def fields_present(
    reader: CaptureReader,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[str, ...]:
    """Return those of ``fields`` (None: all) that the rest of a capture has, or its next ``limit`` frames.

    It looks at one number of each format, at all octet strings and at what frames have as a whole.
    """
    wanted = asked(fields)
    evidence = {field.name: _evidence(field, wanted).name for field in wanted}
    seen: set[str] = set()
    for columns in column_batches(
        reader, evidence.values(), filter=filter, limit=limit, ethertypes=ethertypes
    ):
        seen.update(name for name, column in columns.items() if len(column))
    return tuple(field.name for field in wanted if evidence[field.name] in seen)


def _evidence(field: Field, among: tuple[Field, ...]) -> Field:
    """Return the field whose presence stands for that of ``field``: itself, or the first of its formats."""
    if not _is_whole(field):
        return field
    return next(other for other in among if _is_whole(other) and _formats(other) == _formats(field))


def _is_whole(field: Field) -> bool:
    """Whether every layer of its formats has the field."""
    whole = all(source.part in ("whole", "bit") for source in field.sources)
    # octets that are empty are no value
    return field.origin == "layers" and whole and not field.inner and field.kind != "octets"


def _formats(field: Field) -> frozenset[type[Layer]]:
    return frozenset(source.format for source in field.sources)
