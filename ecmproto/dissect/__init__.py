"""Frames of a capture as a person or a program reads them: lines, trees, hex, fields, JSON.

>>> with open_capture("in.pcap") as reader:
...     lines = Lines()
...     for batch in reader:
...         for record in records(batch, reader.interfaces):
...             print(lines.record(record), end="")
"""

from ecmproto.dissect.fields import Csv, FieldReader, Tabs
from ecmproto.dissect.form import Form, plain
from ecmproto.dissect.hexdump import WithHex, hexdump
from ecmproto.dissect.json import Json, NdJson, capture_document, record_document
from ecmproto.dissect.record import Record, records
from ecmproto.dissect.summary import Lines, describe
from ecmproto.dissect.tree import Trees, tree

__all__ = [
    "Csv", "FieldReader", "Form", "Json", "Lines", "NdJson", "Record", "Tabs", "Trees", "WithHex",
    "capture_document", "describe", "hexdump", "plain", "record_document", "records", "tree",
]  # fmt: skip
