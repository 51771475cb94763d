"""Which fields the frames of a capture have at all, found in a pass that reads few of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ecmproto.capture import CaptureReader
from ecmproto.columns.asked import asked
from ecmproto.columns.capture import THREADS, batch_works
from ecmproto.columns.threads import in_order
from ecmproto.filter.fields import Field
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes

if TYPE_CHECKING:
    from ecmproto.filter import Filter


def fields_present(
    reader: CaptureReader,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[str, ...]:
    """Return those of ``fields`` (None: all) that the rest of a capture has, or its next ``limit`` frames.

    It looks at one number of each format, at all octet strings and at what frames have as a whole, and at
    none of these once it was seen.
    """
    wanted = asked(fields)
    evidence = _evidence(wanted)
    unseen = dict.fromkeys(evidence.values())
    works = batch_works(reader, lambda: tuple(unseen), filter=filter, limit=limit, ethertypes=ethertypes)
    for columns in in_order(works, THREADS):
        for name in columns.found:
            unseen.pop(name, None)
    return tuple(field.name for field in wanted if evidence[field.name] not in unseen)


def _evidence(fields: Iterable[Field]) -> dict[str, str]:
    """Return for each field one whose presence stands for its own: itself, or the first of its formats."""
    first: dict[frozenset[type[Layer]], str] = {}
    return {
        field.name: first.setdefault(_formats(field), field.name) if _is_whole(field) else field.name
        for field in fields
    }


def _is_whole(field: Field) -> bool:
    """Whether every layer of its formats has the field."""
    whole = all(source.part in ("whole", "bit") for source in field.sources)
    # octets that are empty are no value
    return field.origin == "layers" and whole and not field.inner and field.kind != "octets"


def _formats(field: Field) -> frozenset[type[Layer]]:
    return frozenset(source.format for source in field.sources)
