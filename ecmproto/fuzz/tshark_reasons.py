"""Why tshark and this project's decoders differ in some frames, on purpose; nothing else may differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from ecmproto.fuzz.tshark_fields import FIELDS, Fields, Sample
from ecmproto.wire.bcn import RRTTag
from ecmproto.wire.cn import CNTag
from ecmproto.wire.decoder import decode_lax
from ecmproto.wire.ecm import CMTag
from ecmproto.wire.ethernet import Data, STag
from ecmproto.wire.ethertypes import DEFAULT
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


def _mandatory_tlvs_misplaced(sample: Sample, mine: list[str], their: list[str]) -> bool:
    types = [
        value.type
        for value in decode_lax(sample.octets).layers
        if isinstance(value, TLV | CongestionNotificationTLV)
    ]
    misplaced = types[:3] != [1, 2, 3] or not {1, 2, 3}.isdisjoint(types[3:])
    return misplaced and mine[: len(their)] == their


def _wrong_tlv_length(sample: Sample, mine: list[str], their: list[str]) -> bool:
    layers = decode_lax(sample.octets).layers
    return any(isinstance(value, CongestionNotificationTLV) and value.length != 6 for value in layers)


def _time_to_live_length(sample: Sample, mine: list[str], their: list[str]) -> bool:
    tlvs = [value for value in decode_lax(sample.octets).layers if isinstance(value, TLV)]
    return any(tlv.type == 3 and tlv.length != 2 for tlv in tlvs)


_BY_ADDRESS = {1: 4, 2: 3}
_BY_NETWORK = {1: 5, 2: 4}
_SUBTYPES = range(1, 8)


def _odd_identifier(sample: Sample, mine: list[str], their: list[str]) -> bool:
    tlvs = [value for value in decode_lax(sample.octets).layers if isinstance(value, TLV)]
    return any(_is_odd(tlv) for tlv in tlvs if tlv.type in _BY_ADDRESS) and mine[: len(their)] == their


def _is_odd(tlv: TLV) -> bool:
    """Whether a Chassis or Port ID TLV has a unknown subtype, or one that does not allow its octets."""
    subtype = tlv.value[0] if len(tlv.value) > 1 else 0
    wrong_address = subtype == _BY_ADDRESS[tlv.type] and len(tlv.value) != 7
    return (
        subtype not in _SUBTYPES or wrong_address or subtype == _BY_NETWORK[tlv.type] or len(tlv.value) > 256
    )


def _second_s_tag_unfinished(sample: Sample, mine: list[str], their: list[str]) -> bool:
    frame = decode_lax(sample.octets, original_octets=sample.original)
    tags = [value for value in frame.layers if not isinstance(value, Data)]
    return len(tags) < len(frame.layers) and isinstance(tags[-1], STag) and tags[-1].etype == DEFAULT.s_tag


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
        why="tshark stops reading LLDP where the mandatory TLVs are not the first three, each once; we read "
        "every TLV",
        fields=_LLDP,
        applies=_mandatory_tlvs_misplaced,
    ),
    Reason(
        why="tshark stops reading LLDP at a Chassis or Port ID whose subtype does not go with its octets; "
        "for us they are octets",
        fields=_LLDP,
        applies=_odd_identifier,
    ),
    Reason(
        why="of a Time To Live TLV whose length is not 2 tshark reads two octets and takes what follows for "
        "the next TLV; we go by the length",
        fields=_LLDP,
        applies=_time_to_live_length,
    ),
    Reason(
        why="an S-TAG in front of one that ends too early is a service tag for tshark, the only tag for us",
        fields=("ieee8021ad.id", "ieee8021ad.svid", "ieee8021ad.cvid", "ieee8021ah.etype"),
        applies=_second_s_tag_unfinished,
    ),
    Reason(
        why="of a Congestion Notification TLV whose length is wrong tshark reads as far as the length goes; "
        "we read the fields, and say that the length is wrong",
        fields=_LLDP,
        applies=_wrong_tlv_length,
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
