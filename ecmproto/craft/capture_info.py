"""What a document says about the capture its frames came from, so that it can be written again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ecmproto.capture.container import ByteOrder, Format, Interface
from ecmproto.capture.linktypes import ETHERNET
from ecmproto.capture.pcap import HEADER_OCTETS, PcapHeader, byte_order_of, parse_header
from ecmproto.capture.records import Resolution
from ecmproto.craft.quantities import is_text
from ecmproto.errors import SpecError
from ecmproto.units import NS_PER_S

MAX_INTERFACES = 65_536


@dataclasses.dataclass(slots=True, kw_only=True)
class CaptureInfo:
    """A capture's form: ``header`` is a pcap file's own, where its records can follow it.

    ``interfaces`` grows as frames name interfaces that were not described.
    """

    format: Format = "pcap"
    byte_order: ByteOrder = "little"
    resolution: Resolution = "ns"
    header: PcapHeader | None = None
    interfaces: list[Interface] = dataclasses.field(default_factory=list)

    def describe(self, index: int, linktype: int) -> None:
        """Make sure that interface ``index`` is described."""
        while len(self.interfaces) <= index:
            fresh = Interface(index=len(self.interfaces), linktype=linktype, ticks_per_second=NS_PER_S)
            self.interfaces.append(fresh)


def capture_info(document: object, *, where: str) -> CaptureInfo:
    """Return the capture that a ``capture`` object describes; SpecError when it describes none."""
    if not isinstance(document, Mapping):
        raise SpecError(where=where, needed="an object", got=_short(document))
    format = _choice(document, "format", ("pcap", "pcapng"), where)
    byte_order = _choice(document, "byte_order", ("little", "big"), where)
    given = document.get("interfaces", [])
    if not isinstance(given, list) or len(given) > MAX_INTERFACES:
        raise SpecError(where=f"{where}.interfaces", needed="a list of interfaces", got=_short(given))
    interfaces = [_interface(item, i, f"{where}.interfaces[{i}]") for i, item in enumerate(given)]
    ticks = {interface.ticks_per_second for interface in interfaces}
    ticks |= {_number(document, "ticks_per_second", NS_PER_S, where)} if not interfaces else set()
    info = CaptureInfo(
        format="pcapng" if format == "pcapng" else "pcap",
        byte_order="big" if byte_order == "big" else "little",
        resolution="us" if ticks == {1_000_000} else "ns",
        header=_header(document.get("header"), f"{where}.header"),
    )
    info.interfaces = interfaces
    return info


def _interface(document: object, index: int, where: str) -> Interface:
    if not isinstance(document, Mapping):
        raise SpecError(where=where, needed="an object", got=_short(document))
    name, description = document.get("name", ""), document.get("description", "")
    if not is_text(name) or not is_text(description):
        raise SpecError(
            where=where, needed="a name and a description in text", got=_short([name, description])
        )
    return Interface(
        index=index,
        linktype=_number(document, "linktype", ETHERNET, where, 0xFFFF),
        snaplen=_number(document, "snaplen", 0, where),
        name=str(name),
        description=str(description),
        ticks_per_second=_number(document, "ticks_per_second", NS_PER_S, where, 1 << 128),
        fcs_octets=_number(document, "fcs_octets", 0, where, 255),
    )


def _header(given: object, where: str) -> PcapHeader | None:
    if given is None:
        return None
    try:
        octets = bytes.fromhex(given) if isinstance(given, str) else b""
    except ValueError:
        octets = b""
    if len(octets) != HEADER_OCTETS or byte_order_of(octets) is None:
        raise SpecError(
            where=where, needed=f"the {HEADER_OCTETS} octets of a pcap header in hex", got=_short(given)
        )
    header = parse_header(octets, where)
    # the records of old and modified variants look different from those written here
    is_plain = header.record_header_octets == 16 and header.lengths == 0
    return header if is_plain else None


def _number(
    document: Mapping[str, object], key: str, default: int, where: str, highest: int = 0xFFFFFFFF
) -> int:
    value = document.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise SpecError(where=f"{where}.{key}", needed=f"an integer in 0..{highest}", got=_short(value))
    return value


def _choice(document: Mapping[str, object], key: str, choices: tuple[str, ...], where: str) -> str:
    value = document.get(key, choices[0])
    if value not in choices:
        raise SpecError(where=f"{where}.{key}", needed=" or ".join(choices), got=_short(value))
    return str(value)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
