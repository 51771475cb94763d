"""Scapy layers for RoCE: the extended headers that `scapy.contrib.roce` does not have.

BTH (with the invariant CRC as a field), GRH, AETH and CNPPadding are Scapy's layers. Importing Scapy's module
binds these layers to UDP port 4791 and EtherType 0x8915. The first `layers.bind` imports the module, and
these bindings stay.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, ClassVar

from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from ecmproto.wire.formats import infiniband as formats
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.layers.derived import fields_of
from ecmproto.wire.layers.parts import over_ether, whole_or_raw

_CONTRIB = "scapy.contrib.roce"

SCAPY_NAMES = {
    "se": "solicited", "m": "migreq", "padcnt": "padcount", "tver": "version", "p_key": "pkey",
    "reserved6": "resv6", "qp": "dqpn", "a": "ackreq", "reserved7": "resv7",
}  # fmt: skip
"""Fields of BTH with other names in Scapy."""


def contrib() -> Any:
    """Return Scapy's RoCE module. The import binds the module's layers."""
    return importlib.import_module(_CONTRIB)


class ExtendedHeader(Packet):
    """Header after BTH. The opcode determines the next header."""

    dispatch_hook: Any = classmethod(whole_or_raw)

    def default_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer of the next header, or Raw after the last header."""
        opcode = _opcode_under(self)
        of = next((cls for cls, layer in EXTENDED.items() if type(self) is layer), None)
        sequence = formats.BTH.sequences.get(-1 if opcode is None else opcode, ())
        following = sequence[sequence.index(of) + 1 :] if of in sequence else ()
        return _layer_of(following[0], payload) if following else Raw

    def mysummary(self) -> Any:
        """Return the addresses, the header's name and the first fields as summary."""
        shown = " ".join(f"{field.name}=%{field.name}%" for field in self.fields_desc[:3])
        return over_ether(self.sprintf(f"{type(self).__name__} {shown}"))


def _opcode_under(packet: Packet) -> int | None:
    under = packet.underlayer
    while under is not None:
        if type(under) is contrib().BTH:
            opcode: int = under.opcode
            return opcode
        under = under.underlayer
    return None


class RDETH(ExtendedHeader):
    """Reliable datagram extended transport header: the end-to-end context."""

    name: str = formats.RDETH.title
    fields_desc: ClassVar[list[Any]] = fields_of(formats.RDETH)


class DETH(ExtendedHeader):
    """Datagram extended transport header: the sender's queue pair."""

    name: str = formats.DETH.title
    fields_desc: ClassVar[list[Any]] = fields_of(formats.DETH)


class RETH(ExtendedHeader):
    """RDMA extended transport header: address, key and length of a read or write."""

    name: str = formats.RETH.title
    fields_desc: ClassVar[list[Any]] = fields_of(formats.RETH)


class AtomicETH(ExtendedHeader):
    """Atomic extended transport header: address, key and operands."""

    name: str = formats.AtomicETH.title
    fields_desc: ClassVar[list[Any]] = fields_of(formats.AtomicETH)


class ImmDt(ExtendedHeader):
    """Immediate data: four octets for the receiver of the message."""

    name: str = formats.ImmDt.title
    fields_desc: ClassVar[list[Any]] = fields_of(formats.ImmDt)


class IETH(ExtendedHeader):
    """Invalidate extended transport header: the key that is no longer valid."""

    name: str = formats.IETH.title
    fields_desc: ClassVar[list[Any]] = fields_of(formats.IETH)


EXTENDED: dict[type[Layer], type[Packet]] = {
    formats.RDETH: RDETH,
    formats.DETH: DETH,
    formats.RETH: RETH,
    formats.AtomicETH: AtomicETH,
    formats.ImmDt: ImmDt,
    formats.IETH: IETH,
}
"""Layers that Scapy does not have, by format."""


def _layer_of(cls: type[Layer], payload: bytes) -> type[Packet]:
    layer = EXTENDED.get(cls)
    if layer is None:
        return contrib().AETH if cls is formats.AETH and len(payload) >= cls.fixed_octets else Raw
    return whole_or_raw(layer, payload)


def dissected() -> Iterator[tuple[type[Packet], dict[str, Any], type[Packet]]]:
    """Yield each lower layer with the field values that announce an upper layer, and the upper layer."""
    from scapy.layers.inet import UDP

    roce = contrib()
    yield UDP, {"dport": formats.ROCE_PORT}, roce.BTH
    yield Ether, {"type": formats.ROCE_ETHERTYPE}, roce.GRH
    yield roce.GRH, {}, roce.BTH
    yield roce.BTH, {"opcode": formats.CNP_OPCODE}, roce.CNPPadding
    for opcode, sequence in formats.BTH.sequences.items():
        if sequence:
            yield roce.BTH, {"opcode": opcode}, EXTENDED.get(sequence[0], roce.AETH)
