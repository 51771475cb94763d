"""RoCE fields, compared with tshark, for every opcode that tshark supports and in real captures."""

import subprocess
from pathlib import Path

from ecmproto.frames.capture import Batch, PcapWriter
from ecmproto.frames.dissect.fields import FieldReader
from ecmproto.wire.formats.infiniband import OPCODES
from ecmproto.wire.formats.registry import catalogue
from tests.conftest import requires
from tests.dissect.test_forms import record
from tests.formats.roce import frames

OURS = (
    "infiniband.invariant.crc.status", "infiniband.cnp.", "infiniband.bth.fecn", "infiniband.bth.becn",
    "infiniband.bth.reserved6", "infiniband.rdeth.", "infiniband.deth.reserved",
)  # fmt: skip
"""Fields that tshark 4.0 lacks; it reads the headers of reliable datagrams at wrong offsets."""
NAMES = [
    entry.name
    for entry in catalogue()
    if entry.name.startswith(("infiniband.", "ip.dsfield.", "ipv6.tclass."))
    and not entry.name.startswith(OURS)
]
CRC = "infiniband.invariant.crc"
RELIABLE_DATAGRAM = 0x40


def numbers(text: str) -> list[int | str]:
    """Return values as numbers, for any notation. Values that tshark prints twice are returned once."""
    found: list[int | str] = []
    for each in filter(None, text.split(",")):
        try:
            found.append(int(each, 0))
        except ValueError:
            octets = each.replace(":", "")
            is_hex = len(octets) == 8 and "::" not in each
            found.append(int(octets, 16) if is_hex else {"True": 1, "False": 0}.get(each, each))
    return list(dict.fromkeys(found))


def test_tshark_has_the_same_fields(tmp_path: Path) -> None:
    program = requires("tshark")
    octets = frames()
    path = tmp_path / "roce.pcap"
    with PcapWriter(path) as writer:
        writer.write_batch(Batch.from_frames(octets))
    # The heuristic for the payload stops at packets without payload.
    command = [program, "-r", str(path), "--disable-protocol", "rpcordma", "-T", "fields"]
    command += [word for name in NAMES for word in ("-e", name)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    reader = FieldReader(NAMES)
    opcodes, checked = set(), set()
    for each, line in zip(octets, shown.split("\n"), strict=False):
        theirs = dict(zip(NAMES, map(numbers, line.split("\t")), strict=True))
        mine = dict(zip(NAMES, map(numbers, reader.row(record(each))), strict=True))
        (opcode,) = mine["infiniband.bth.opcode"]
        assert isinstance(opcode, int)
        whole = opcode & 0xE0 != RELIABLE_DATAGRAM and opcode != 0x81
        if theirs[CRC]:
            checked.add(opcode)
        else:  # tshark shows no payload of packets that should have none
            mine[CRC] = []
        for name in NAMES:
            if whole or name.startswith(("infiniband.bth.", "ip")):
                assert mine[name] == theirs[name], (name, each.hex())
        opcodes.add(opcode)
    assert opcodes == OPCODES.keys()
    assert checked >= {opcode for opcode in opcodes if opcode & 0xE0 in (0x00, 0x20, 0x60)}
