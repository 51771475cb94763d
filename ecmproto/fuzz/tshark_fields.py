"""Fields as tshark names and writes them: what it says of frames, and what the codec says likewise."""

from __future__ import annotations

import dataclasses
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ecmproto.capture.batch import ETHERNET
from ecmproto.codec.frame import Frame, decode_lax
from ecmproto.formats.ethernet import Data, ITag, STag
from ecmproto.formats.ethertypes import DEFAULT

PLAIN_FIELDS = (
    "eth.dst", "eth.src", "eth.type", "eth.len",
    "vlan.priority", "vlan.dei", "vlan.id", "vlan.etype", "vlan.len",
    "ieee8021ad.priority", "ieee8021ad.dei", "ieee8021ad.id", "ieee8021ad.svid", "ieee8021ad.cvid",
    "ieee8021ah.priority", "ieee8021ah.drop", "ieee8021ah.nca", "ieee8021ah.res1", "ieee8021ah.res2",
    "ieee8021ah.isid", "ieee8021ah.cdst", "ieee8021ah.csrc", "ieee8021ah.etype",
    "macc.opcode", "macc.pause_time", "macc.cbfc.enbv",
)  # fmt: skip
FIELDS = (
    *PLAIN_FIELDS,
    *(f"macc.cbfc.pause_time.c{priority}" for priority in range(8)),
    *(f"lldp.ieee.802_1qau.cnpv.prio{priority}" for priority in range(8)),
    *(f"lldp.ieee.802_1qau.ready.prio{priority}" for priority in range(8)),
)
MALFORMED = "_ws.malformed"
"""What tshark gives up on, asked for besides."""
_ASKED = (*FIELDS, MALFORMED)
# What could hold another Ethernet frame, whose fields would be listed behind those of the outer one.
STOP_AT = ("ip", "ipv6", "llc", "mpls", "arp")

Fields = dict[str, list[str]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An Ethernet frame, where it came from, and its octets on the wire."""

    where: str
    octets: bytes
    original: int


def ours(sample: Sample) -> Fields:
    """Return what the codec says, under tshark's names and in tshark's notation."""
    frame = decode_lax(sample.octets, original_octets=sample.original)
    fields: Fields = {name: [] for name in FIELDS}
    for placed in frame.fields():
        name = placed.field.name_for(placed.value)
        if placed.field.meta.flags.startswith("lldp"):
            assert isinstance(placed.value, int)
            for bit in range(8):
                fields[placed.field.meta.flags.format(bit)].append(str(placed.value >> bit & 1))
        elif name in fields:
            shown = placed.value.hex(":") if isinstance(placed.value, bytes) else str(placed.value)
            fields[name].append(shown)
    _as_tshark_names_s_tags(frame, fields)
    return fields


def _as_tshark_names_s_tags(frame: Frame, fields: Fields) -> None:
    """Rename as tshark does.

    Of two S-TAGs in a row it calls the identifiers svid and cvid; the EtherType behind S-TAGs it calls
    ieee8021ah.etype, and shows none between the two, or between a B-TAG and its I-TAG.
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
    """Return what tshark says of each frame, numbers in decimal, and under MALFORMED what it gives up on."""
    command = [program, "-n", "-r", str(capture), "-T", "fields", "-E", "occurrence=a", "-E", "separator=/t"]
    for protocol in STOP_AT:
        command += ["--disable-protocol", protocol]
    for name in _ASKED:
        command += ["-e", name]
    # in a session of its own: Ctrl-C is for who compares, and nothing that tshark has to say
    run = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)
    return [_row(line) for line in run.stdout.splitlines()]


def _row(line: str) -> Fields:
    cells = line.split("\t")
    assert len(cells) == len(_ASKED), line
    return {
        name: [_number(value) for value in cell.split(",")] if cell else []
        for name, cell in zip(_ASKED, cells, strict=True)
    }


def _number(text: str) -> str:
    return str(int(text, 16)) if text.startswith("0x") else text


def write_pcap(path: Path, samples: Sequence[Sample]) -> None:
    """Write a capture by hand: what is compared is the codec, not the writer."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, ETHERNET))
        for sample in samples:
            file.write(struct.pack("<IIII", 0, 0, len(sample.octets), sample.original) + sample.octets)
