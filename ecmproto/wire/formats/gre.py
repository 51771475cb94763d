"""GRE, which encapsulates packets and frames in IP, with optional fields."""

from __future__ import annotations

from collections.abc import Mapping

from ecmproto.wire.formats.base import Layer, layer
from ecmproto.wire.formats.erspan import ERSPAN, ERSPAN3
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.ip import IPv4, IPv6
from ecmproto.wire.formats.mpls import MPLS
from ecmproto.wire.formats.schema import BitPart, uint
from ecmproto.wire.formats.summary import Case, First, Summary
from ecmproto.wire.formats.wrapper import Part, Wrapper

_SOURCE, _OPTIONS = "RFC 2784", "RFC 2890"
BRIDGED, ERSPAN_TYPE, ERSPAN_3_TYPE, SONIC = 0x6558, 0x88BE, 0x22EB, 0x8949
CHECKSUM, ROUTING, KEY, SEQUENCE = 8, 4, 2, 1
"""Upper bits of the flags field."""


@layer("gresum", title="GRE checksum", source=_SOURCE)
class GREChecksum(Part):
    """Checksum of a GRE packet."""

    field_prefix = "gre"
    checksum: int = uint(16, default=0, base="hex", doc="checksum of header and payload")
    offset: int = uint(16, default=0, doc="reserved; formerly the offset of a route")


@layer("grekey", title="GRE key", source=_OPTIONS)
class GREKey(Part):
    """Key of a GRE tunnel."""

    key: int = uint(32, default=0, base="hex", doc="key of the tunnel", name="gre.key")


@layer("nvgre", title="NVGRE key", source="RFC 7637 3.2")
class NVGREKey(Part):
    """Key of an NVGRE tunnel: an identifier of 24 bits, and 8 bits that identify the flow.

    Frames do not show whether a key is of GRE or NVGRE.
    """

    vsid: int = uint(24, default=0, doc="virtual subnet identifier", source="RFC 7637 3.2")
    flow: int = uint(8, default=0, doc="flow identifier", source="RFC 7637 3.2")


@layer("greseq", title="GRE sequence number", source=_OPTIONS)
class GRESequence(Part):
    """Sequence number of a GRE packet. Gaps between sequence numbers are lost packets."""

    sequence: int = uint(32, default=0, doc="sequence number", name="gre.sequence_number")


def _sequences() -> dict[int, tuple[type[Layer], ...]]:
    parts = ((CHECKSUM, GREChecksum), (KEY, GREKey), (SEQUENCE, GRESequence))
    return {
        flags: tuple(cls for flag, cls in parts if flags & flag)
        for flags in range(1, 16)
        if not flags & ROUTING
    }


def _flag(name: str, bit: int, doc: str, bits: int = 1) -> BitPart:
    return BitPart(name=f"gre.flags.{name}", low=bit, bits=bits, doc=doc)


_PLAIN: dict[int, type[Layer]] = {
    BRIDGED: Ethernet, IPv4.announced_by: IPv4, IPv6.announced_by: IPv6, SONIC: Ethernet,
    ERSPAN_TYPE: Ethernet, ERSPAN_3_TYPE: ERSPAN3,
    **dict.fromkeys((MPLS.announced_by, *MPLS.further_ethertypes), MPLS),
}  # fmt: skip


@layer("gre", title="GRE", source=f"{_SOURCE}; {_OPTIONS}")
class GRE(Wrapper):
    """Generic routing encapsulation: flags for the optional fields, and the type of the content.

    ERSPAN without a sequence number is type I, which has no ERSPAN header. Source routing is not decoded.
    """

    flags: int = uint(
        16, default=0, base="hex", doc="flags and version",
        name="gre.flags_and_version",
        parts=(
            _flag("checksum", 15, "whether there is a checksum"),
            _flag("routing", 14, "whether there is a route"),
            _flag("key", 13, "whether there is a key"),
            _flag("sequence_number", 12, "whether there is a sequence number"),
            _flag("strict_source_route", 11, "whether the route is strict"),
            _flag("recursion_control", 8, "number of further encapsulations allowed", 3),
            _flag("reserved", 3, "0", 5),
            _flag("version", 0, "0", 3),
        ),
    )  # fmt: skip
    protocol: int = uint(
        16, default=BRIDGED, base="hex", doc="type of the payload", source=_SOURCE, name="gre.proto",
        names={
            BRIDGED: "Ethernet", ERSPAN_TYPE: "ERSPAN", ERSPAN_3_TYPE: "ERSPAN III",
            SONIC: "Ethernet of SONiC",
        },
    )  # fmt: skip
    ip_protocol = 47
    next_key = "protocol"
    sequence_key, sequence_shift = "flags", 12
    sequences = _sequences()
    parts_before = dict.fromkeys((ERSPAN, ERSPAN3), (GRESequence,))
    wraps = _PLAIN
    summary = Summary(
        tag="{:type}",
        gives_way=True,
        clauses={
            "type": Case("protocol", ERSPAN_TYPE, ERSPAN_TYPE, "ERSPAN I", "GRE{:key}"),
            "key": First((" key {grekey.key}", "")),
        },
    )

    @classmethod
    def contents(cls, selected: int) -> Mapping[int, type[Layer]]:
        """Return the formats of the content. ERSPAN has a header only with a sequence number."""
        if selected & ROUTING:
            return {}
        return _PLAIN | {ERSPAN_TYPE: ERSPAN} if selected & SEQUENCE else _PLAIN
