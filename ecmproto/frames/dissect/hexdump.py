"""The octets of a frame in hex, with the layer of each octet.

A ``|`` precedes the first octet of a layer. The right-hand column names the layers of the row in order.
``…vlan`` is a layer that started in an earlier row, and ``>ip`` is a layer of the quoted frame.
"""

from __future__ import annotations

from ecmproto.frames.capture import CaptureReader
from ecmproto.frames.dissect.form import Form, Paint, Record, plain
from ecmproto.wire.codec.frame import Frame, encapsulated

_ROW = 16
_STYLES = ("name", "tag", "congestion", "pause")
"""Styles of adjacent layers, which differ only in colour."""

Segment = tuple[int, int, str]
"""Start offset, end offset (exclusive) and name of a layer."""


class WithHex:
    """A form that adds a hex dump to each frame of another form."""

    def __init__(self, form: Form, paint: Paint = plain) -> None:
        self._form = form
        self._paint = paint

    def begin(self, reader: CaptureReader) -> str:
        """Return the text before the first frame in the other form."""
        return self._form.begin(reader)

    def passed(self, record: Record) -> None:
        """Pass the record to the other form."""
        self._form.passed(record)

    def record(self, record: Record) -> str:
        """Return the text of the frame in the other form, followed by the hex dump and an empty line."""
        return self._form.record(record).rstrip("\n") + "\n" + hex_text(record, self._paint) + "\n"

    def end(self, reader: CaptureReader) -> str:
        """Return the text after the last frame in the other form."""
        return self._form.end(reader)


def hex_text(record: Record, paint: Paint = plain) -> str:
    """Return the octets of the frame, sixteen per row, with offset, hex, text and layers."""
    octets, spans = record.octets, segments(record.frame)
    styles = [_STYLES[index % len(_STYLES)] for index in range(len(spans))]
    lines = []
    at = 0
    for row in range(0, len(octets), _ROW):
        chunk = octets[row : row + _ROW]
        while at < len(spans) and spans[at][1] <= row:
            at += 1
        hexes = names = ""
        for index in range(at, len(spans)):
            start, stop, name = spans[index]
            if start >= row + _ROW:
                break
            part = octets[max(start, row) : min(stop, row + _ROW)]
            begins = start >= row
            hexes += ("|" if begins else " ") + paint(part.hex(" "), styles[index])
            names += (" | " if begins else " …") + paint(name, styles[index])
        pad = " " * (3 * (_ROW - len(chunk)))
        lines.append(f"{row:04x} {hexes}{pad}  {_text(chunk):<{_ROW}} {names}".rstrip() + "\n")
    return "".join(lines)


def _text(octets: bytes) -> str:
    return "".join(chr(octet) if 32 <= octet < 127 else "." for octet in octets)


def segments(frame: Frame) -> list[Segment]:
    """Return the octets of each layer, in order and without gaps.

    The names of layers in the quoted frame start with ``>``.
    """
    result = _segments(frame, 0, "")
    end = frame.boundaries()[-1]
    for name, octets in (("padding", frame.padding), ("trailer", frame.trailer), ("fcs", frame.fcs)):
        if octets:
            result.append((end, end + len(octets), name))
            end += len(octets)
    return result


def _segments(frame: Frame, base: int, mark: str) -> list[Segment]:
    boundaries = frame.boundaries()
    result = [
        (boundaries[index] + base, boundaries[index + 1] + base, mark + value.prefix)
        for index, value in enumerate(frame.layers)
        if boundaries[index + 1] > boundaries[index]
    ]
    inner = encapsulated(frame)
    if inner is not None:
        start, stop, name = result.pop()
        shown = start + frame.layers[-1].fixed_octets
        result += [(start, shown, name), *_segments(inner, shown, mark + ">")]
        if result[-1][1] < stop:
            result.append((result[-1][1], stop, mark + ">rest"))
    return result
