"""Description of a format as terminal text, as Markdown for the documentation, and as plain data.

Terminal text and Markdown include a bit diagram in the style of the RFCs: 32 bits per row, two columns per
bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ecmproto.errors import counted
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.registry import announcement, type_of
from ecmproto.wire.formats.schema import Field

ROW_BITS = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """Part of a field in one row of the diagram: the bits ``start`` to ``stop``."""

    field: Field
    row: int
    start: int
    stop: int


def diagram(cls: type[Layer]) -> str:
    """Return a bit diagram of a format's fields, with the keys as labels. Variable fields are at the end."""
    segments = [segment for field in cls.layout for segment in _segments(field)]
    rows = max((segment.row for segment in segments), default=-1) + 1
    labelled = {field.key: _label_row(field, segments) for field in cls.layout}
    owner = {(s.row, bit): s.field.key for s in segments for bit in range(s.start, s.stop)}
    lines = _ruler()
    for row in range(rows):
        lines.append(_rule(owner, row))
        lines.append(_cells([s for s in segments if s.row == row], labelled))
    lines.append(_rule(owner, rows))
    for field in cls.layout:
        if field.count is not None or field.behind:
            label = f"{field.key}: {length_of(field)}"
            width = 2 * ROW_BITS - 1
            lines += [f"/{label.center(width)}/", "+" + "-+" * ROW_BITS]
    return "\n".join(line.rstrip() for line in lines)


def length_of(field: Field) -> str:
    """Return the length of a variable field as text: ``msdu_length octets``."""
    count = field.count
    if count is None:
        return f"{field.bits} bits"
    if not count.key:
        words = "every octet that is left"
    elif not count.scale:
        words = f"{-count.minus} octets"
    else:
        words = count.key if count.scale == 1 else f"{count.key}·{count.scale}"
        words += f" {'−' if count.minus > 0 else '+'} {abs(count.minus)} octets" if count.minus else " octets"
    if count.when:
        key, values = count.when
        words += f" when {key} is {', '.join(map(str, values))}"
    return words


def _segments(field: Field) -> list[_Segment]:
    if field.bits is None or field.behind:
        return []
    segments = []
    bit, stop = field.bit_offset, field.bit_offset + field.bits
    while bit < stop:
        row, start = divmod(bit, ROW_BITS)
        end = min(ROW_BITS, start + stop - bit)
        segments.append(_Segment(field=field, row=row, start=start, stop=end))
        bit += end - start
    return segments


def _label_row(field: Field, segments: list[_Segment]) -> int:
    """Return the row with the field's label: the row with the widest segment, or the first such row."""
    own = [s for s in segments if s.field is field]
    return max(own, key=lambda s: (s.stop - s.start, -s.row)).row if own else -1


def _ruler() -> list[str]:
    tens = "".join(f" {bit // 10 if bit % 10 == 0 else ' '}" for bit in range(ROW_BITS))
    ones = "".join(f" {bit % 10}" for bit in range(ROW_BITS))
    return [tens, ones]


def _rule(owner: dict[tuple[int, int], str], row: int) -> str:
    """Return the line above ``row``, with a gap where a field continues from the previous row."""
    line = ""
    open_before = True
    for bit in range(ROW_BITS):
        above, below = owner.get((row - 1, bit)), owner.get((row, bit))
        opened = above == below
        line += " " if opened and open_before and bit else "+"
        line += " " if opened else "-"
        open_before = opened
    return line + "+" if line.strip("+ ") else line


def _cells(segments: list[_Segment], labelled: dict[str, int]) -> str:
    line = ""
    for segment in segments:
        width = 2 * (segment.stop - segment.start) - 1
        label = segment.field.key if labelled[segment.field.key] == segment.row else ""
        if len(label) > width:
            label = label[:width] if width > 1 else label[0].upper()
        line += "|" + label.center(width)
    return line + "|"


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
        "bit_offset": None if field.behind else field.bit_offset,
        "bits": field.bits,
        "length": length_of(field) if field.count else None,
        "default": field.meta.default if field.is_number else bytes(field.meta.default).hex(),
        "unit": field.meta.unit,
        "values": {str(code): name for code, name in field.meta.names.items()},
        "doc": field.meta.doc,
        "source": field.source,
    }


def as_text(cls: type[Layer]) -> str:
    """Return a format as terminal text: a heading, a bit diagram, and one line per field."""
    fields = list(_fields_and_parts(cls))
    width = max(len(field.name) for field in fields)
    rows = [
        f"  {_position(field):>7}  {field.name.ljust(width)}  {type_of(field):<7} {_meaning(field)}"
        for field in fields
    ]
    return "\n".join([f"{cls.title} — {_facts(cls)}", "", diagram(cls), "", *rows])


def as_markdown(cls: type[Layer]) -> str:
    """Return a format as a section of the field reference."""
    lines = [f"## {cls.title}", "", f"`{cls.prefix}` — {_facts(cls)}", ""]
    lines += ["```text", diagram(cls), "```", ""]
    lines += ["| octets | field | type | unit | meaning | source |", "|---|---|---|---|---|---|"]
    for field in _fields_and_parts(cls):
        cells = (
            _position(field),
            f"`{field.name}`",
            type_of(field),
            field.meta.unit,
            _doc(field),
            field.source,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _fields_and_parts(cls: type[Layer]) -> Iterator[Field]:
    """Yield each field, followed by the field's named parts of more than one bit."""
    for field in cls.layout:
        yield field
        yield from (part for part in field.parts() if part.maximum > 1)


def _facts(cls: type[Layer]) -> str:
    """Return the size, EtherType, UDP ports and source of a format as one phrase."""
    ethertype = announcement(cls, DEFAULT)
    more = " and more" if any(field.count for field in cls.layout) else ""
    announced = f", EtherType {ethertype:#06x}" if ethertype is not None else ""
    announced += f", UDP port {', '.join(map(str, cls.udp_ports))}" if cls.udp_ports else ""
    return f"{counted(cls.fixed_octets, 'octet')}{more}{announced}; {cls.source}"


def _position(field: Field) -> str:
    """Return the octet offsets of a field as text.

    The text includes the first bit's number unless the field consists of whole octets.
    """
    if field.behind:
        return "then"
    start, bit = divmod(field.bit_offset, 8)
    if field.bits is None:
        return f"{start}–"
    stop = -(-(field.bit_offset + field.bits) // 8) - 1
    octets = f"{start}" if stop == start else f"{start}–{stop}"
    return f"{octets}.{bit}" if field.bits % 8 or bit else octets


def _meaning(field: Field) -> str:
    unit = f" [{field.meta.unit}]" if field.meta.unit else ""
    return f"{_doc(field)}{unit} ({field.source})"


def _doc(field: Field) -> str:
    names = ", ".join(
        f"{code:#x} {name}" if code > 255 else f"{code} {name}" for code, name in field.meta.names.items()
    )
    return f"{field.meta.doc}: {names}" if names else field.meta.doc
