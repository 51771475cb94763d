"""Every field by its name: what ``-e``, JSON and the field reference offer, read off the schemas."""

from __future__ import annotations

import dataclasses
import functools

from ecmproto.formats.layout import Field
from ecmproto.formats.registry import FORMATS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One field name: its type (``uint6``, ``sint16``, ``mac``, ``octets``, ``bit``), meaning and source."""

    name: str
    type: str
    unit: str
    doc: str
    source: str
    formats: tuple[str, ...]
    """The formats that have it."""

    def as_dict(self) -> dict[str, object]:
        """Return it as plain data."""
        return dataclasses.asdict(self)


_FRAME = (
    ("frame.number", "uint", "", "number of the frame in the capture, from 1"),
    ("frame.time_epoch", "time", "s", "time of capture in seconds since 1970, nine decimal places"),
    ("frame.len", "uint", "octets", "length on the wire"),
    ("frame.cap_len", "uint", "octets", "octets captured"),
    ("frame.interface_id", "uint", "", "interface of its section of the capture, from 0"),
    ("frame.protocols", "text", "", "the layers, outermost first"),
    ("frame.error", "text", "", "what is malformed"),
    ("eth.padding", "octets", "", "zero octets that fill the frame up to 60"),
    ("eth.trailer", "octets", "", "other octets behind the last layer"),
    ("eth.fcs", "octets", "", "frame check sequence, where the capture has it"),
)


@functools.cache
def catalogue() -> tuple[Entry, ...]:
    """Return every field name once, the frame's own first, then in the order of the formats."""
    entries: dict[str, Entry] = {
        name: Entry(name=name, type=kind, unit=unit, doc=doc, source="capture", formats=("frame",))
        for name, kind, unit, doc in _FRAME
    }
    for cls in FORMATS:
        for field in cls.layout:
            for entry in _entries(field, cls.prefix):
                known = entries.get(entry.name)
                formats = (*known.formats, cls.prefix) if known else entry.formats
                entries[entry.name] = dataclasses.replace(known or entry, formats=formats)
    return tuple(entries.values())


def _entries(field: Field, prefix: str) -> list[Entry]:
    meta = field.meta
    base = Entry(
        name=field.name,
        type=type_of(field),
        unit=meta.unit,
        doc=meta.doc,
        source=meta.source,
        formats=(prefix,),
    )
    entries = [base]
    if meta.length_name:
        doc = "802.3 length of what follows, where the value is at most 1500"
        entries.append(
            dataclasses.replace(base, name=meta.length_name, unit="octets", doc=doc, source="802.3 3.2.6")
        )
    bits = range(8 if meta.flags else 0)
    return entries + [
        dataclasses.replace(base, name=meta.flags.format(bit), type="bit", doc=f"{meta.doc}: bit {bit}")
        for bit in bits
    ]


def type_of(field: Field) -> str:
    """Return a field's type as one word: ``uint6``, ``sint16``, ``mac``, ``octets``."""
    return f"{field.kind}{field.bits}" if field.kind in ("uint", "sint") else field.kind
