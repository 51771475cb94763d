"""Why tshark and this project's decoders differ in some frames, on purpose; nothing else may differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from ecmproto.fuzz.tshark_fields import FIELDS, Fields, Sample
from ecmproto.wire.bcn import RRTTag
from ecmproto.wire.cn import CNTag
from ecmproto.wire.decoder import decode_lax
from ecmproto.wire.ecm import CMTag
from ecmproto.wire.fecn import RDTag
from ecmproto.wire.lldp import TLV, CongestionNotificationTLV

_Applies = Callable[[Sample, list[str], list[str]], bool]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why the two differ in some fields on purpose, and whether that is why in a given frame."""

    why: str
    fields: tuple[str, ...] = FIELDS
    applies: _Applies


def _ethertype(sample: Sample) -> int:
    return int.from_bytes(sample.octets[12:14], "big")


def _isl(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return sample.octets[:5] == bytes.fromhex("01000c0000")


def _fabric_path(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return _ethertype(sample) == 0x8903


def _vn_tag(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return _ethertype(sample) == 0x8926 and their[: len(mine)] == mine


def _behind_a_congestion_tag(sample: Sample, mine: list[str], their: list[str]) -> bool:
    layers = decode_lax(sample.octets).layers
    return (
        any(isinstance(value, CNTag | CMTag | RRTTag | RDTag) for value in layers)
        and mine[: len(their)] == their
    )


def _neither_length_nor_type(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return 1500 < _ethertype(sample) < 1536 and not their


def _length_0(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return {tuple(mine), tuple(their)} == {("0",), ()}


def _too_deep(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return len(their) == 20 and mine[:20] == their


def _unfinished(sample: Sample, mine: list[str], their: list[str]) -> bool:
    frame = decode_lax(sample.octets, original_octets=sample.original)
    return (
        (frame.error is not None or frame.cut > 0) and len(mine) < len(their) and their[: len(mine)] == mine
    )


def _mandatory_tlvs_missing(sample: Sample, mine: list[str], their: list[str]) -> bool:
    types = [
        value.type
        for value in decode_lax(sample.octets).layers
        if isinstance(value, TLV | CongestionNotificationTLV)
    ]
    return types[:3] != [1, 2, 3] and not their


_LLDP = tuple(name for name in FIELDS if name.startswith("lldp"))
_VLAN = tuple(name for name in FIELDS if name.startswith("vlan"))

DELIBERATE = (
    Reason(
        why="tshark takes DA 01-00-0C-00-00-XX for Cisco's ISL header; we read what 802.3 says", applies=_isl
    ),
    Reason(
        why="tshark reads on behind Cisco's FabricPath header and lists the inner addresses; for us it is an "
        "EtherType with data",
        applies=_fabric_path,
    ),
    Reason(
        why="tshark reads on behind a VN-TAG; no document of ours has it, so what follows is data",
        applies=_vn_tag,
    ),
    Reason(
        why="tshark stops at CN-TAGs and experimental tags (wire-formats 10); we read what is behind them",
        applies=_behind_a_congestion_tag,
    ),
    Reason(
        why="1501 to 1535 is neither length nor type (802.3 3.2.6): tshark shows neither, we an unknown type",
        fields=("eth.type",),
        applies=_neither_length_nor_type,
    ),
    Reason(
        why="0 is a length for us (wire-formats 1.2: up to 1500), an EtherType for tshark",
        fields=("eth.type", "eth.len", "vlan.etype", "vlan.len"),
        applies=_length_0,
    ),
    Reason(
        why="tshark gives up after 20 VLAN tags; wire-formats 1.2: any depth", fields=_VLAN, applies=_too_deep
    ),
    Reason(
        why="of a header that ends too early tshark shows the fields there are; we keep it as octets and, "
        "where no snap length cut it, say what is missing",
        applies=_unfinished,
    ),
    Reason(
        why="tshark reads no LLDP whose first three TLVs are not the mandatory ones; we read every TLV",
        fields=_LLDP,
        applies=_mandatory_tlvs_missing,
    ),
)


def differing(mine: Fields, their: Fields) -> list[str]:
    """Return the fields that differ."""
    return [name for name in FIELDS if mine[name] != their[name]]


def reasons(sample: Sample, name: str, mine: Fields, their: Fields) -> list[Reason]:
    """Return why a field may differ in a frame."""
    return [one for one in DELIBERATE if name in one.fields and one.applies(sample, mine[name], their[name])]


def unexplained(sample: Sample, mine: Fields, their: Fields) -> Iterator[tuple[str, str]]:
    """Yield the fields that differ without a reason, and how."""
    for name in differing(mine, their):
        if not reasons(sample, name, mine, their):
            yield name, f"we {mine[name]}, tshark {their[name]}; {sample.octets[:64].hex()}"
