"""A format described for reading: as terminal text, as Markdown for the documentation, as plain data."""

from __future__ import annotations

from ecmproto.codec.diagram import diagram, length_of
from ecmproto.formats.catalogue import type_of
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.formats.layer import Layer
from ecmproto.formats.layout import Field
from ecmproto.formats.registry import announcement


def as_dict(cls: type[Layer]) -> dict[str, object]:
    """Return a format as plain data."""
    ethertype = announcement(cls, DEFAULT)
    return {
        "schema": "ecmproto/format/1",
        "name": cls.prefix,
        "title": cls.title,
        "source": cls.source,
        "ethertype": None if ethertype is None else f"{ethertype:#06x}",
        "fixed_octets": cls.fixed_octets,
        "fields": [_field_dict(field) for field in cls.layout],
    }


def _field_dict(field: Field) -> dict[str, object]:
    return {
        "name": field.name,
        "key": field.key,
        "type": type_of(field),
        "bit_offset": field.bit_offset,
        "bits": field.bits,
        "length": length_of(field) if field.count else None,
        "default": field.meta.default if field.is_number else bytes(field.meta.default).hex(),
        "unit": field.meta.unit,
        "values": {str(code): name for code, name in field.meta.names.items()},
        "doc": field.meta.doc,
        "source": field.meta.source,
    }


def as_text(cls: type[Layer]) -> str:
    """Return a format for a terminal: heading, bit diagram, one line a field."""
    width = max(len(field.name) for field in cls.layout)
    rows = [
        f"  {_place(field):>7}  {field.name.ljust(width)}  {type_of(field):<7} {_meaning(field)}"
        for field in cls.layout
    ]
    return "\n".join([_heading(cls), "", diagram(cls), "", *rows])


def as_markdown(cls: type[Layer]) -> str:
    """Return a format as a section of the field reference."""
    lines = [f"## {cls.title}", "", f"`{cls.prefix}` — {_facts(cls)}", ""]
    lines += ["```text", diagram(cls), "```", ""]
    lines += ["| octets | field | type | unit | meaning | source |", "|---|---|---|---|---|---|"]
    for field in cls.layout:
        cells = (
            _place(field),
            f"`{field.name}`",
            type_of(field),
            field.meta.unit,
            _doc(field),
            field.meta.source,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _heading(cls: type[Layer]) -> str:
    return f"{cls.title} — {_facts(cls)}"


def _facts(cls: type[Layer]) -> str:
    """Return a format's size, EtherType and source as one phrase."""
    ethertype = announcement(cls, DEFAULT)
    more = " and more" if cls.layout[-1].count else ""
    announced = f", EtherType {ethertype:#06x}" if ethertype is not None else ""
    return f"{cls.fixed_octets} octets{more}{announced}; {cls.source}"


def _place(field: Field) -> str:
    """Return the octets a field stands in, with the bit where it is not a whole number of them."""
    start, bit = divmod(field.bit_offset, 8)
    if field.bits is None:
        return f"{start}–"
    stop = -(-(field.bit_offset + field.bits) // 8) - 1
    octets = f"{start}" if stop == start else f"{start}–{stop}"
    return f"{octets}.{bit}" if field.bits % 8 or bit else octets


def _meaning(field: Field) -> str:
    unit = f" [{field.meta.unit}]" if field.meta.unit else ""
    return f"{_doc(field)}{unit} ({field.meta.source})"


def _doc(field: Field) -> str:
    names = ", ".join(
        f"{code:#x} {name}" if code > 255 else f"{code} {name}" for code, name in field.meta.names.items()
    )
    return f"{field.meta.doc}: {names}" if names else field.meta.doc
