"""Captures: streaming readers and writers for pcap and pcapng, frames in batches."""

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Block, Interface, RecordFormat
from ecmproto.capture.copier import CaptureCopier, format_of
from ecmproto.capture.linktypes import linktype_name
from ecmproto.capture.merging import open_captures
from ecmproto.capture.pcapng import comments
from ecmproto.capture.reader import CaptureReader, open_capture
from ecmproto.capture.records import RecordBuilder
from ecmproto.capture.sink import Sink, open_sink
from ecmproto.capture.writer import PcapngWriter, PcapWriter

__all__ = [
    "Batch",
    "Block",
    "CaptureCopier",
    "CaptureReader",
    "Interface",
    "PcapWriter",
    "PcapngWriter",
    "RecordBuilder",
    "RecordFormat",
    "Sink",
    "comments",
    "format_of",
    "linktype_name",
    "open_capture",
    "open_captures",
    "open_sink",
]
