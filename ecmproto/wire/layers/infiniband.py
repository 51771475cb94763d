"""Scapy layers for RoCE: the extended headers that `scapy.contrib.roce` does not have.

BTH (with the invariant CRC as a field), GRH, AETH and CNPPadding are Scapy's layers. Importing Scapy's module
binds these layers to UDP port 4791 and EtherType 0x8915. The first `layers.bind` imports the module, and
these bindings stay.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from ecmproto.wire.formats import infiniband as formats
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.layers.derived import layer_on, summary_text
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

    of: type[Layer]
    """Format of the header."""

    def default_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer of the next header, or Raw after the last header."""
        under = self.underlayer
        while under is not None and type(under) is not contrib().BTH:
            under = under.underlayer
        sequence = () if under is None else formats.BTH.sequences.get(under.opcode, ())
        following = sequence[sequence.index(self.of) + 1 :] if self.of in sequence else ()
        return _layer_of(following[0], payload) if following else Raw

    def mysummary(self) -> Any:
        """Return the addresses, the header's name and the first fields as summary."""
        return over_ether(summary_text(self, 3))


EXTENDED: dict[type[Layer], type[Packet]] = {
    cls: layer_on(ExtendedHeader, cls)
    for cls in (
        formats.RDETH, formats.DETH, formats.RETH, formats.AtomicETH, formats.ImmDt, formats.IETH
    )
}  # fmt: skip
"""Layers that Scapy does not have, by format."""
RDETH, DETH, RETH, AtomicETH, ImmDt, IETH = EXTENDED.values()


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
