"""Codecs, Scapy layers, captures and replay for congestion management in layer-2 Ethernet.

Each name of this package is imported when a program first uses the name: the frame codec, captures, columns
and replays. ``layers`` contains the Scapy layers. ``import ecmproto`` imports neither Scapy nor numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ecmproto._version import __version__
from ecmproto.errors import (
    CaptureError,
    DecodeError,
    EcmprotoError,
    EncodeError,
    OutputError,
    ParameterError,
    SpecError,
)

if TYPE_CHECKING:
    from ecmproto.control.replay.session import replay
    from ecmproto.frames.batch.flows import FlowTable
    from ecmproto.frames.capture import Batch, PcapngWriter, PcapWriter, open_capture
    from ecmproto.frames.columns import (
        batch_from,
        extract,
        frames_from,
        read_table,
        record_batches,
        scan_capture,
        selected,
        tagged_batch,
        write_columns,
    )
    from ecmproto.tools.calls import check, craft, diff, dissect, edit, lab, stats
    from ecmproto.wire.codec import *
    from ecmproto.wire.flow import FlowKey

_MODULES = {
    "ecmproto.wire.flow": ("FlowKey",),
    "ecmproto.frames.batch.flows": ("FlowTable",),
    "ecmproto.frames.capture": ("Batch", "PcapWriter", "PcapngWriter", "open_capture"),
    "ecmproto.frames.columns": (
        "batch_from", "extract", "frames_from", "read_table", "record_batches", "scan_capture", "selected",
        "tagged_batch", "write_columns",
    ),
    "ecmproto.control.replay.session": ("replay",),
    "ecmproto.tools.calls": ("check", "craft", "diff", "dissect", "edit", "lab", "stats"),
}  # fmt: skip
"""Names in modules other than the codec."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AETH",
    "ARP",
    "BCN",
    "BTH",
    "CNM",
    "CNP",
    "CSIG",
    "E2CM",
    "ECM",
    "GRH",
    "ICRC",
    "MSDU",
    "PFC",
    "RETH",
    "TCP",
    "TLV",
    "UDP",
    "VLAN",
    "Batch",
    "CMTag",
    "CNTag",
    "CaptureError",
    "CongestionNotificationTLV",
    "DBPRateReport",
    "Data",
    "DecodeError",
    "EcmprotoError",
    "EncodeError",
    "EtherTypes",
    "Ethernet",
    "EthernetARP",
    "FECNReturn",
    "Field",
    "FlowKey",
    "FlowTable",
    "Frame",
    "IPv4",
    "IPv4ARP",
    "IPv6",
    "ITag",
    "Layer",
    "MACControl",
    "OtherARP",
    "OutputError",
    "ParameterError",
    "Pause",
    "PcapWriter",
    "PcapngWriter",
    "Placed",
    "RDTag",
    "RRTTag",
    "STag",
    "Span",
    "SpecError",
    "UnknownMessage",
    "UnknownTag",
    "__version__",
    "batch_from",
    "check",
    "craft",
    "decode",
    "decode_lax",
    "diff",
    "dissect",
    "edit",
    "encapsulated",
    "encode",
    "extract",
    "frames_from",
    "lab",
    "open_capture",
    "read_table",
    "record_batches",
    "replay",
    "scan_capture",
    "selected",
    "stats",
    "tagged_batch",
    "write_columns",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF.get(name, "ecmproto.wire.codec")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
