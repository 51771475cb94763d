"""Comparison with tshark: addresses, tags, types, MAC Control and LLDP under the field names of tshark.

Every difference needs a reason in `DELIBERATE`, which lists deliberate differences between both programs.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ecmproto.errors import MissingDependencyError
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.tools.fuzz.checks.base import Difference, frames_of
from ecmproto.wire.codec.frame import Frame, decode_lax
from ecmproto.wire.formats import dcbx
from ecmproto.wire.formats.bcn import RRTTag
from ecmproto.wire.formats.cn import CNTag
from ecmproto.wire.formats.dcbx import CEE, CEETLV, CIN, OUI_INTEL
from ecmproto.wire.formats.ecm import CMTag
from ecmproto.wire.formats.ethernet import Data, ITag, STag
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.fecn import RDTag
from ecmproto.wire.formats.gre import GRE, SONIC
from ecmproto.wire.formats.hpcc import INTTag
from ecmproto.wire.formats.ip import UDP
from ecmproto.wire.formats.lldp import TLV, AnyTLV, LLDPPart, OrganizationTLV
from ecmproto.wire.formats.mpls import MPLS
from ecmproto.wire.formats.registry import BY_PREFIX, FORMATS

PLAIN_FIELDS = (
    "eth.dst", "eth.src", "eth.type", "eth.len",
    "vlan.priority", "vlan.dei", "vlan.id", "vlan.etype", "vlan.len",
    "ieee8021ad.priority", "ieee8021ad.dei", "ieee8021ad.id", "ieee8021ad.svid", "ieee8021ad.cvid",
    "ieee8021ah.priority", "ieee8021ah.drop", "ieee8021ah.nca", "ieee8021ah.res1", "ieee8021ah.res2",
    "ieee8021ah.isid", "ieee8021ah.cdst", "ieee8021ah.csrc", "ieee8021ah.etype",
    "macc.opcode", "macc.pause_time", "macc.cbfc.enbv",
)  # fmt: skip
_OWN = ("lldp.dcbx.cin", "lldp.dcbx.feature.pfc.enable", "lldp.dcbx.feature.app.prio")
"""Prefixes of DCBX fields that do not exist in tshark or have another meaning in tshark."""
_DCBX = tuple(
    dict.fromkeys(
        each.name
        for cls in FORMATS
        if cls.__module__ == dcbx.__name__
        for field in cls.layout
        for each in (field, *field.parts())
        if each.name.startswith("lldp.dcbx.") and not each.name.startswith(_OWN)
    )
)
FIELDS = (
    *PLAIN_FIELDS,
    *(f"macc.cbfc.pause_time.c{priority}" for priority in range(8)),
    *(f"lldp.ieee.802_1qau.cnpv.prio{priority}" for priority in range(8)),
    *(f"lldp.ieee.802_1qau.ready.prio{priority}" for priority in range(8)),
    *_DCBX,
    *("lldp.orgtlv.oui", "lldp.ieee.802_1.subtype", "lldp.ieee.802_3.subtype"),
)
MALFORMED = "_ws.malformed"
"""The field that tshark adds to malformed frames."""
_REQUESTED = (*FIELDS, MALFORMED)
_MAX_LAYERS = 400
"""Maximum number of layers in a compared frame, because tshark stops at about 500 layers."""
# ecmproto reads the contents of these protocols as data.  tshark also searches them for Ethernet frames.
STOP_AT = ("llc", "arp")

Fields = dict[str, list[str]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An Ethernet frame, its origin, and its length on the wire in octets."""

    where: str
    octets: bytes
    original: int


def ours(sample: Sample) -> Fields:
    """Return the fields from the codec with the names and the notation of tshark."""
    frame = decode_lax(sample.octets, original_octets=sample.original)
    fields: Fields = {name: [] for name in FIELDS}
    for placed in frame.fields():
        name = placed.field.name_for(placed.value)
        parts = [part for part in placed.field.meta.parts if part.name.startswith("lldp")]
        if parts:
            assert isinstance(placed.value, int)
            for part in parts:
                if part.name in fields:
                    fields[part.name].append(str(part.of(placed.value)))
        elif name in fields:
            shown = placed.value.hex(":") if isinstance(placed.value, bytes) else str(placed.value)
            fields[name].append(shown)
    _as_tshark_names_s_tags(frame, fields)
    return fields


def _as_tshark_names_s_tags(frame: Frame, fields: Fields) -> None:
    """Rename S-TAG fields to the names in tshark.

    For two consecutive S-TAGs, tshark names the VLAN IDs svid and cvid. The EtherType after S-TAGs is
    ieee8021ah.etype. tshark shows no EtherType between two S-TAGs, or between a B-TAG and an I-TAG.
    """
    for name in ("ieee8021ad.id", "ieee8021ah.etype"):
        fields[name] = []
    layers = [value for value in frame.layers if not isinstance(value, Data)]
    index = 0
    while index < len(layers):
        tag = layers[index]
        following = layers[index + 1] if index + 1 < len(layers) else None
        if isinstance(tag, STag) and isinstance(following, STag):
            fields["ieee8021ad.svid"].append(str(tag.id))
            fields["ieee8021ad.cvid"].append(str(following.id))
            fields["ieee8021ah.etype"].append(str(following.etype))
            index += 2
            continue
        if isinstance(tag, STag):
            fields["ieee8021ad.id"].append(str(tag.id))
        if isinstance(tag, ITag) or (isinstance(tag, STag) and tag.etype != DEFAULT.i_tag):
            fields["ieee8021ah.etype"].append(str(tag.etype))
        index += 1


def theirs(program: str, capture: Path) -> list[Fields]:
    """Return the fields of each frame from tshark, with numbers in decimal and errors under `MALFORMED`."""
    command = [program, "-n", "-r", str(capture), "-T", "fields", "-E", "occurrence=a", "-E", "separator=/t"]
    for protocol in STOP_AT:
        command += ["--disable-protocol", protocol]
    for name in _REQUESTED:
        command += ["-e", name]
    # in a separate session, because Ctrl-C is for this process; messages from tshark are not needed
    run = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)
    return [_row(line) for line in run.stdout.splitlines()]


def _row(line: str) -> Fields:
    cells = line.split("\t")
    assert len(cells) == len(_REQUESTED), line
    return {
        name: [_number(value) for value in cell.split(",")] if cell else []
        for name, cell in zip(_REQUESTED, cells, strict=True)
    }


def _number(text: str) -> str:
    return str(int(text, 16)) if text.startswith("0x") else text


def write_pcap(path: Path, samples: Sequence[Sample]) -> None:
    """Write a capture without the ecmproto writer, because only the codec is compared."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, ETHERNET))
        for sample in samples:
            file.write(struct.pack("<IIII", 0, 0, len(sample.octets), sample.original) + sample.octets)


class FieldComparison(NamedTuple):
    """The values of a field in both programs, together with all fields of the frame."""

    sample: Sample
    name: str
    mine: Fields
    their: Fields

    @property
    def ours(self) -> list[str]:
        """The values of the field in ecmproto."""
        return self.mine[self.name]

    @property
    def theirs(self) -> list[str]:
        """The values of the field in tshark."""
        return self.their[self.name]

    @property
    def they_stopped(self) -> bool:
        """Whether the values in tshark are a prefix of the values in ecmproto."""
        return self.ours[: len(self.theirs)] == self.theirs

    @property
    def they_went_on(self) -> bool:
        """Whether the values in ecmproto are a proper prefix of the values in tshark."""
        return len(self.ours) < len(self.theirs) and self.theirs[: len(self.ours)] == self.ours


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A reason for a deliberate difference in some fields, and the condition for this reason."""

    why: str
    fields: tuple[str, ...] = FIELDS
    applies: Callable[[FieldComparison], bool]


def _type_of_data(sample: Sample) -> int:
    """Return the EtherType before undecoded data, or 0 if a frame has no such data."""
    layers = decode_lax(sample.octets, original_octets=sample.original).layers
    if len(layers) < 2 or not isinstance(layers[-1], Data):
        return 0
    announcing = layers[-2]
    return int(getattr(announcing, announcing.next_key)) if announcing.next_key else 0


_CARRIERS = frozenset((
    0x0641, 0x0643, 0x0644, 0x0645,  # Roofnet
    0x22F3,  # TRILL
    0x2452,  # WLAN over Ethernet, Centrino
    0x6558,  # transparent Ethernet bridging
    0x8783,  # MiNT
    0x88E5,  # MACsec
    0x8909,  # Cisco metadata
    0x8926,  # VN-TAG
    0x892F,  # HSR
    0x893F,  # E-TAG
    0x8988,  # HiGig backbone
    0xD28B,  # Arista vendor-specific
    0xE555,  # EXEH
    0xF1C1,  # R-TAG
))  # fmt: skip
"""EtherTypes of headers and tags after which tshark decodes frames or fields of frames."""


def _after_a_congestion_tag(seen: FieldComparison) -> bool:
    layers = decode_lax(seen.sample.octets).layers
    return (
        any(isinstance(value, CNTag | CMTag | RRTTag | RDTag | INTTag) for value in layers)
        and seen.they_stopped
    )


_MAX_TAGS = 20


def _too_deep(seen: FieldComparison) -> bool:
    tags = "vlan.id"
    return len(seen.their[tags]) == _MAX_TAGS < len(seen.mine[tags]) and seen.they_stopped


def _unfinished(seen: FieldComparison) -> bool:
    frame = decode_lax(seen.sample.octets, original_octets=seen.sample.original)
    ends_early = frame.error is not None and not _wrong_length(frame)
    return (ends_early or frame.cut > 0) and seen.they_went_on


def _wrong_length(frame: Frame) -> bool:
    """Return whether a frame is malformed because of the length of a TLV with a known format."""
    return (
        frame.error is not None
        and frame.error.layer != TLV.prefix
        and issubclass(BY_PREFIX.get(frame.error.layer, TLV), LLDPPart)
    )


def _cin(seen: FieldComparison) -> bool:
    frame = decode_lax(seen.sample.octets)
    others = any(value.oui == OUI_INTEL for value in frame.all(OrganizationTLV))
    return others or any(value.proto == CIN for value in frame.all(CEE))


def _mandatory_tlvs_misplaced(seen: FieldComparison) -> bool:
    types = [value.type for value in decode_lax(seen.sample.octets).layers if isinstance(value, AnyTLV)]
    misplaced = types[:3] != [1, 2, 3] or not {1, 2, 3}.isdisjoint(types[3:])
    return misplaced and seen.they_stopped


def _malformed_tlv(seen: FieldComparison) -> bool:
    return (
        any(text.startswith("[Malformed Packet: LLDP") for text in seen.their[MALFORMED])
        and seen.they_stopped
    )


def _time_to_live_length(seen: FieldComparison) -> bool:
    """Return whether the difference disappears if the length of the TTL TLV is set to 2."""
    frame = decode_lax(seen.sample.octets)
    for value, start in zip(frame.layers, frame.boundaries(), strict=False):
        if isinstance(value, TLV) and value.type == _TIME_TO_LIVE and value.length > _TIME_OCTETS:
            octets = bytearray(seen.sample.octets)
            octets[start : start + 2] = (_TIME_TO_LIVE << 9 | _TIME_OCTETS).to_bytes(2)
            sample = dataclasses.replace(seen.sample, octets=bytes(octets))
            mine = ours(sample)
            return mine[seen.name] == seen.theirs or bool(reasons(sample, seen.name, mine, seen.their))
    return False


_TIME_TO_LIVE = 3
_TIME_OCTETS = 2
_BY_ADDRESS = {1: 4, 2: 3}
_BY_NETWORK = {1: 5, 2: 4}
_SUBTYPES = range(1, 8)


def _odd_identifier(seen: FieldComparison) -> bool:
    tlvs = [value for value in decode_lax(seen.sample.octets).layers if isinstance(value, TLV)]
    return any(_is_odd(tlv) for tlv in tlvs if tlv.type in _BY_ADDRESS) and seen.they_stopped


def _is_odd(tlv: TLV) -> bool:
    """Return whether a Chassis or Port ID TLV has an unknown subtype, or octets against its subtype."""
    subtype = tlv.value[0] if len(tlv.value) > 1 else 0
    wrong_address = subtype == _BY_ADDRESS[tlv.type] and len(tlv.value) != 7
    return (
        subtype not in _SUBTYPES or wrong_address or subtype == _BY_NETWORK[tlv.type] or len(tlv.value) > 256
    )


def _second_s_tag_unfinished(seen: FieldComparison) -> bool:
    frame = decode_lax(seen.sample.octets, original_octets=seen.sample.original)
    tags = [value for value in frame.layers if not isinstance(value, Data)]
    return any(isinstance(last, STag) and last.etype == DEFAULT.s_tag for last in tags[-1:])


_WRAPPER_PORTS = frozenset(port for cls in FORMATS if cls.role == "wrapper" for port in cls.udp_ports)


def _from_a_port(seen: FieldComparison) -> bool:
    packets = decode_lax(seen.sample.octets).all(UDP)
    return any(packet.srcport in _WRAPPER_PORTS for packet in packets) and seen.they_went_on


def _short_udp(seen: FieldComparison) -> bool:
    packets = decode_lax(seen.sample.octets, original_octets=seen.sample.original).all(UDP)
    return any(packet.length < UDP.fixed_octets for packet in packets) and seen.they_stopped


_LLDP = tuple(name for name in FIELDS if name.startswith("lldp"))

DELIBERATE = (
    Reason(
        why="tshark takes DA 01-00-0C-00-00-XX for Cisco's ISL header; we follow 802.3",
        applies=lambda seen: seen.sample.octets[:5] == bytes.fromhex("01000c0000"),
    ),
    Reason(
        why="tshark guesses by addresses whether a control word is after MPLS labels; for us four bits of 0 "
        "start one",
        applies=lambda seen: MPLS in decode_lax(seen.sample.octets),
    ),
    Reason(
        why="tshark does not decode the mirrors of SONiC, EtherType 0x8949 in GRE",
        applies=lambda seen: any(
            value.protocol == SONIC for value in decode_lax(seen.sample.octets).all(GRE)
        ),
    ),
    Reason(
        why="tshark takes UDP for a wrapper by its source port too; we go by the destination port",
        applies=_from_a_port,
    ),
    Reason(
        why="tshark stops at a UDP length below 8; for us the datagram ends with its IP packet",
        applies=_short_udp,
    ),
    Reason(
        why="tshark reads on after Cisco's FabricPath header and lists the inner addresses; for us it is an "
        "EtherType with data",
        applies=lambda seen: _type_of_data(seen.sample) == 0x8903,
    ),
    Reason(
        why="tshark reads on after tags and headers that no document of ours has (TRILL, VN-TAG, MACsec and "
        "others); for us what follows is data",
        applies=lambda seen: _type_of_data(seen.sample) in _CARRIERS and seen.they_went_on,
    ),
    Reason(
        why="tshark stops at CN-TAGs and experimental tags (wire-formats 11); we read the layers after them",
        applies=_after_a_congestion_tag,
    ),
    Reason(
        why="1501 to 1535 is neither length nor type (802.3 3.2.6): tshark shows neither, we an unknown type",
        fields=("eth.type",),
        applies=lambda seen: (
            1500 < int.from_bytes(seen.sample.octets[12:14], "big") < 1536 and not seen.theirs
        ),
    ),
    Reason(
        why="0 is a length for us (wire-formats 1.2: up to 1500), an EtherType for tshark",
        fields=("eth.type", "eth.len", "vlan.etype", "vlan.len"),
        applies=lambda seen: (
            [each for each in seen.ours if each != "0"] == [each for each in seen.theirs if each != "0"]
        ),
    ),
    Reason(why="tshark gives up after 20 VLAN tags; wire-formats 1.2: any depth", applies=_too_deep),
    Reason(
        why="of a header that ends too early tshark shows the fields there are; we keep it as octets and, "
        "where no snap length cut it, report the missing part",
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
        why="of a Time To Live TLV that is longer than 2 tshark reads two octets and takes what follows for "
        "the next TLV; we go by the length",
        fields=_LLDP,
        applies=_time_to_live_length,
    ),
    Reason(
        why="an S-TAG in front of one that ends too early is a service tag for tshark, the only tag for us",
        fields=(
            "ieee8021ad.id",
            "ieee8021ad.svid",
            "ieee8021ad.cvid",
            "ieee8021ad.priority",
            "ieee8021ad.dei",
            "ieee8021ah.etype",
        ),
        applies=_second_s_tag_unfinished,
    ),
    Reason(
        why="at a TLV of congestion notification or DCBX of a wrong length we stop; after one that is too "
        "long tshark reads on",
        fields=_LLDP,
        applies=lambda seen: _wrong_length(decode_lax(seen.sample.octets)) and seen.they_went_on,
    ),
    Reason(
        why="tshark reads CIN, and any other subtype of the OUI, as it does CEE, which has other fields; for "
        "us they are octets",
        fields=_LLDP,
        applies=_cin,
    ),
    Reason(
        why="in a CEE TLV, tshark reads a head in a TLV of another subject than the four, whatever its "
        "length; for us it is octets",
        fields=_LLDP,
        applies=lambda seen: CEETLV in decode_lax(seen.sample.octets),
    ),
    Reason(
        why="tshark stops reading LLDP, with an error, at a TLV with fewer octets than its kind has, or more "
        "than there are; for us most are octets, and of one that has a format we read the fields",
        fields=_LLDP,
        applies=_malformed_tlv,
    ),
)


def differing(mine: Fields, their: Fields) -> list[str]:
    """Return the names of fields that differ."""
    return [name for name in FIELDS if mine[name] != their[name]]


def reasons(sample: Sample, name: str, mine: Fields, their: Fields) -> list[Reason]:
    """Return the reasons that explain a difference in a field of a frame."""
    seen = FieldComparison(sample, name, mine, their)
    return [one for one in DELIBERATE if name in one.fields and one.applies(seen)]


def unexplained(sample: Sample, mine: Fields, their: Fields) -> Iterator[tuple[str, str]]:
    """Yield the fields that differ without a reason, with the values in both programs."""
    for name in differing(mine, their):
        if not reasons(sample, name, mine, their):
            yield name, f"we {mine[name]}, tshark {their[name]}; {sample.octets[:64].hex()}"


_PRIORITY = re.compile(r"\.(prio|pause_time\.c)\d$")
"""Suffix of per-priority fields. Equal defects in per-priority fields are one finding."""


class TsharkCheck:
    """Check that compares a batch with the output of tshark.

    Raises MissingDependencyError if tshark is not installed.
    """

    name = "tshark"
    every = 128

    def __init__(self) -> None:
        program = self.program()
        if program is None:
            raise MissingDependencyError(package="tshark", extra="fuzz", purpose="comparing with tshark")
        self._program = program

    @staticmethod
    def program() -> str | None:
        """Return the path of tshark, or ``None`` if tshark is not installed."""
        return shutil.which("tshark")

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the fields of each frame that differ without a reason."""
        # tshark prints nothing for a frame without octets
        samples = {
            row: Sample(where="", octets=octets, original=len(octets))
            for row, (octets, frame) in enumerate(zip(items, frames_of(items), strict=True))
            if octets and len(frame.layers) <= _MAX_LAYERS
        }
        with tempfile.TemporaryDirectory() as folder:
            capture = Path(folder) / "frames.pcap"
            write_pcap(capture, list(samples.values()))
            rows = theirs(self._program, capture)
        if len(rows) != len(samples):
            yield Difference(what="number of frames", detail=f"tshark {len(rows)}, not {len(samples)}")
            return
        for (row, sample), their in zip(samples.items(), rows, strict=True):
            for name, detail in unexplained(sample, ours(sample), their):
                yield Difference(what=_PRIORITY.sub("", name), detail=f"{name}: {detail}", row=row)
