"""Frames of a capture for people and programs: lines, trees, hex, fields, JSON.

>>> with open_capture("in.pcap") as reader:
...     lines = Lines()
...     for batch in reader:
...         for record in records(batch, reader.interfaces):
...             print(lines.record(record), end="")

All forms, except hex and trees that include Scapy's, can also return the text of a whole batch at once. The
text is the same, but compiled kernels write it:

>>> for text in lines.batch(batch, reader.interfaces):
...     out.write(text)

The names are loaded at their first use, so that lines do not require the load of JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.lazy import lazy

if TYPE_CHECKING:
    from ecmproto.frames.dissect.fields import Csv, FieldReader, Tabs
    from ecmproto.frames.dissect.form import Form, Record, plain, records
    from ecmproto.frames.dissect.hexdump import WithHex, hex_text
    from ecmproto.frames.dissect.json import Json, NdJson, capture_document, record_document
    from ecmproto.frames.dissect.lines import Lines, describe
    from ecmproto.frames.dissect.tree import Trees, tree_text

_MODULES = {
    "fields": ("Csv", "FieldReader", "Tabs"),
    "form": ("Form", "Record", "plain", "records"),
    "hexdump": ("WithHex", "hex_text"),
    "json": ("Json", "NdJson", "capture_document", "record_document"),
    "lines": ("Lines", "describe"),
    "tree": ("Trees", "tree_text"),
}

__all__ = [
    "Csv", "FieldReader", "Form", "Json", "Lines", "NdJson", "Record", "Tabs", "Trees", "WithHex",
    "capture_document", "describe", "hex_text", "plain", "record_document", "records", "tree_text",
]  # fmt: skip

lazy(__name__, _MODULES)
