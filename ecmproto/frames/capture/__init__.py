"""Streaming readers and writers for pcap and pcapng captures, with frames in batches.

The names are loaded at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.lazy import lazy

if TYPE_CHECKING:
    from ecmproto.frames.capture.batch import Batch, Block, Interface, RecordFormat, linktype_name
    from ecmproto.frames.capture.copier import CaptureCopier, format_of
    from ecmproto.frames.capture.pcapng import comments, exact_times
    from ecmproto.frames.capture.reader import CaptureReader, open_capture
    from ecmproto.frames.capture.several import open_captures
    from ecmproto.frames.capture.writer import PcapngWriter, PcapWriter, RecordBuilder, Sink, open_sink

_MODULES = {
    "batch": ("Batch", "Block", "Interface", "RecordFormat", "linktype_name"),
    "copier": ("CaptureCopier", "format_of"),
    "pcapng": ("comments", "exact_times"),
    "reader": ("CaptureReader", "open_capture"),
    "several": ("open_captures",),
    "writer": ("PcapWriter", "PcapngWriter", "RecordBuilder", "Sink", "open_sink"),
}

__all__ = [
    "Batch", "Block", "CaptureCopier", "CaptureReader", "Interface", "PcapWriter", "PcapngWriter",
    "RecordBuilder", "RecordFormat", "Sink", "comments", "exact_times", "format_of", "linktype_name",
    "open_capture", "open_captures", "open_sink",
]  # fmt: skip

lazy(__name__, _MODULES)
