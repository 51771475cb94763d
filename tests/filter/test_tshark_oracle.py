"""Random filters select the same frames as tshark, in real, bundled and crafted captures.

ecmproto's filters are evaluated both over columns and frame by frame, and must agree on every frame. All
Ethernet frames are in one capture. A frame is compared only if ecmproto and tshark agree on all fields that
the filter uses, because other tests compare fields. ``ECMPROTO_TSHARK_FILTERS`` is the number of filters per
test, ``ECMPROTO_TSHARK_SEED`` the seed, and ``ECMPROTO_TSHARK_FRAMES`` the maximum number of frames.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.dissect import Record
from ecmproto.frames.filter import Filter, compile_filter
from ecmproto.frames.filter.evaluation import has_field, values_of
from ecmproto.frames.filter.fields import FilterField, Value, find
from ecmproto.tools.fuzz.checks.tshark import Sample
from tests.codec.test_tshark_oracle import captures_in, crafted, from_capture
from tests.conftest import REPOSITORY, SHARED_CAPTURES, requires
from tests.filter.captured import of_capture
from tests.filter.drawn_filters import LAYERS, Drawer

FILTERS = int(os.environ.get("ECMPROTO_TSHARK_FILTERS", "30"))
FRAMES = int(os.environ.get("ECMPROTO_TSHARK_FRAMES", "1000"))
SEED = int(os.environ.get("ECMPROTO_TSHARK_SEED", "1"))

FIELDS = (
    "frame.number", "frame.len", "frame.cap_len", "frame.time_epoch",
    "eth.dst", "eth.src", "eth.addr", "eth.type", "eth.len",
    "vlan.priority", "vlan.dei", "vlan.id", "vlan.etype", "vlan.len",
    "ieee8021ad.priority", "ieee8021ad.dei", "ieee8021ah.isid", "ieee8021ah.cdst",
    "macc.opcode", "macc.pause_time", "macc.cbfc.enbv", "macc.cbfc.enbv.c3", "macc.cbfc.pause_time.c3",
    "lldp.tlv.type", "lldp.tlv.len", "lldp.ieee.802_1qau.cnpv.prio5",
    "arp.opcode", "arp.src.hw_mac", "arp.src.proto_ipv4", "arp.dst.proto_ipv4",
    "ip.src", "ip.dst", "ip.addr", "ip.len", "ip.ttl", "ip.proto", "ip.id", "ip.dsfield", "ip.flags",
    "ipv6.src", "ipv6.dst", "ipv6.addr", "ipv6.plen", "ipv6.nxt", "ipv6.hlim",
    "udp.srcport", "udp.dstport", "udp.port", "udp.length",
    "tcp.srcport", "tcp.dstport", "tcp.port", "tcp.flags", "tcp.window_size_value", "tcp.seq_raw",
)  # fmt: skip
# Layers that contain further frames or packets, whose fields would follow the fields of the outer frames.
STOP_AT = ("llc", "mpls", "icmp", "icmpv6", "gre", "vxlan")

START_S = 1_700_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus:
    """Frames, and for each field name the frames in which ecmproto and tshark agree."""

    path: Path
    records: Sequence[Record]
    batches: Sequence[Batch]
    agreed: dict[str, set[int]]


def corpus(folder: Path, frames: Sequence[bytes]) -> Corpus:
    path = folder / "frames.pcap"
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, ETHERNET))
        for index, octets in enumerate(frames):
            time = (START_S + index // 7, index % 7 * 100_000_001)
            file.write(struct.pack("<IIII", *time, len(octets), len(octets)) + octets)
    records = of_capture(path)
    with open_capture(path) as reader:
        batches = list(reader)
    return Corpus(path=path, records=records, batches=batches, agreed=agreement(path, records))


def agreement(path: Path, records: Sequence[Record]) -> dict[str, set[int]]:
    """Return the numbers of the frames in which tshark has the same values for a field."""
    names = (*FIELDS, *LAYERS)
    asked = [word for name in names for word in ("-e", name)]
    rows = tshark(path, "-T", "fields", "-E", "occurrence=a", "-E", "separator=/t", *asked)
    assert len(rows) == len(records) > 0
    agreed: dict[str, set[int]] = {name: set() for name in (*names, "frame")}
    fields = {name: field for name in names if (field := find(name)) is not None}
    for record, row in zip(records, rows, strict=True):
        for name, cell in zip(names, row.split("\t"), strict=True):
            if _agree(fields[name], record, cell):
                agreed[name].add(record.number)
        agreed["frame"].add(record.number)
    return agreed


def _agree(field: FilterField, record: Record, cell: str) -> bool:
    if field.kind == "layer":  # the end of a malformed or cut one is another matter
        return has_field(field)(record) == bool(cell) and record.frame.error is None
    mine = sorted(_shown(field, value) for value in values_of(field)(record))
    return mine == sorted(_normal(field, text) for text in cell.split(",") if text)


def _shown(field: FilterField, value: Value) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return f"{int(value) / 10**9:.9f}" if field.kind == "time" else str(value)


def _normal(field: FilterField, text: str) -> str:

    match field.kind:
        case "mac":
            return text.replace(":", "")
        case "ipv4" | "ipv6":
            return ipaddress.ip_address(text).packed.hex()
        case "time":
            return f"{float(text):.9f}"
    return str({"True": 1, "False": 0}.get(text) or int(text, 0))


def tshark(path: Path, *arguments: str) -> list[str]:
    command = [requires("tshark"), "-n", "-r", str(path)]
    for protocol in STOP_AT:
        command += ["--disable-protocol", protocol]
    run = subprocess.run([*command, *arguments], capture_output=True, check=False)
    assert run.returncode == 0, (arguments, run.stderr.decode(errors="replace"))
    return run.stdout.decode().splitlines()


def compare(frames: Corpus, count: int, seed: int) -> None:
    """Fail if a drawn filter selects different frames than tshark among the frames with equal fields."""
    pool = {name: _values(frames, name) for name in FIELDS}
    drawer = Drawer(pool, seed)
    wrong, telling, compared = [], 0, 0
    for _ in range(count):
        text = drawer.filter()
        compiled = compile_filter(text)
        alike = set.intersection(*(frames.agreed[name] for name in compiled.fields))
        mine = ours(frames, compiled) & alike
        their = {int(line) for line in tshark(frames.path, "-Y", text, "-T", "fields", "-e", "frame.number")}
        their &= alike
        compared += len(alike)
        telling += 0 < len(mine) < len(alike)
        if mine != their:
            wrong.append(
                f"{text}\n  only ours {sorted(mine - their)[:9]}, only tshark's {sorted(their - mine)[:9]}"
            )
    assert not wrong, "\n".join(wrong)
    assert telling >= count // 2
    assert compared >= 0.9 * count * len(frames.records)


def ours(frames: Corpus, filter: Filter) -> set[int]:
    """Return the numbers of the frames that a filter selects.

    Fails if both evaluations of the filter disagree.
    """
    one_by_one = {record.number for record in frames.records if filter.matches(record)}
    numbers = [batch.numbers[selected(batch, filter)] + 1 for batch in frames.batches]
    assert np.concatenate(numbers).tolist() == sorted(one_by_one), filter.text
    return one_by_one


def _values(frames: Corpus, name: str) -> list[Value]:
    field = find(name)
    assert field is not None
    read = values_of(field)
    return sorted({value for record in frames.records for value in read(record)})


def spread(samples: Iterable[Sample]) -> list[bytes]:
    """Return whole frames from all parts of the samples, without duplicates."""
    octets = list(dict.fromkeys(each.octets for each in samples if len(each.octets) == each.original))
    return octets[:: -(-len(octets) // FRAMES)]


def test_bundled_and_crafted_frames(tmp_path: Path) -> None:
    requires("tshark")
    found = [each for path in captures_in(REPOSITORY / "pcaps") for each in from_capture(path)]
    compare(corpus(tmp_path, spread([*found, *crafted()])), FILTERS, SEED)


@pytest.mark.skipif(not SHARED_CAPTURES.is_dir(), reason="the collection of real captures is not here")
def test_real_frames(tmp_path: Path) -> None:
    requires("tshark")
    found = [each for path in captures_in(SHARED_CAPTURES) for each in from_capture(path)]
    compare(corpus(tmp_path, spread(found)), FILTERS, SEED)
