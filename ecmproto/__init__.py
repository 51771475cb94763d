"""Layer-2 Ethernet congestion management: codecs, Scapy layers, captures and replay.

The names here are the frame codec's, loaded when first used; `ecmproto.layers` has the Scapy layers,
`ecmproto.capture` the capture files, `ecmproto.replay` the software congestion points.  Importing this
package imports neither Scapy nor numba.
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
    from ecmproto.codec import (
        ARP,
        BCN,
        CNM,
        E2CM,
        ECM,
        MSDU,
        PFC,
        TCP,
        TLV,
        UDP,
        VLAN,
        CMTag,
        CNTag,
        CongestionNotificationTLV,
        Data,
        DBPRateReport,
        Ethernet,
        EtherTypes,
        FECNReturn,
        Field,
        Frame,
        IPv4,
        IPv6,
        ITag,
        Layer,
        MACControl,
        Pause,
        Placed,
        RDTag,
        RRTTag,
        Span,
        STag,
        UnknownMessage,
        UnknownTag,
        decode,
        decode_lax,
        encapsulated,
        encode,
    )
    from ecmproto.replay.session import replay

__all__ = [
    "ARP",
    "BCN",
    "CNM",
    "E2CM",
    "ECM",
    "MSDU",
    "PFC",
    "TCP",
    "TLV",
    "UDP",
    "VLAN",
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
    "FECNReturn",
    "Field",
    "Frame",
    "IPv4",
    "IPv6",
    "ITag",
    "Layer",
    "MACControl",
    "OutputError",
    "ParameterError",
    "Pause",
    "Placed",
    "RDTag",
    "RRTTag",
    "STag",
    "Span",
    "SpecError",
    "UnknownMessage",
    "UnknownTag",
    "__version__",
    "decode",
    "decode_lax",
    "encapsulated",
    "encode",
    "replay",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "replay":
        return importlib.import_module("ecmproto.replay")
    return getattr(importlib.import_module("ecmproto.codec"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
