"""Subjects of ``fuzz decode --what``, each with a default corpus, cases and checks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ecmproto.frames.capture import Batch, Interface, PcapngWriter, PcapWriter
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.dissect.json import FRAME_SCHEMA
from ecmproto.tools.craft import build
from ecmproto.tools.fuzz.agreement import BATCH_CASES
from ecmproto.tools.fuzz.cases import Cases, CaseSource, OctetCases
from ecmproto.tools.fuzz.checks.base import BatchCheck
from ecmproto.tools.fuzz.checks.frames import ColumnCheck, DocumentCheck, SchemaCheck, TextCheck
from ecmproto.tools.fuzz.checks.headers import HeaderCheck
from ecmproto.tools.fuzz.checks.messages import MessageCheck
from ecmproto.tools.fuzz.checks.readers import CaptureCheck, CaptureUseCheck, FilterCheck, SpecCheck
from ecmproto.tools.fuzz.mutators import CAPTURE_MUTATORS, TEXT_MUTATORS
from ecmproto.wire.codec.document import to_document
from ecmproto.wire.codec.frame import decode_lax, encode

_LINES = (
    "cnm qntz_fb=40 flow_id=7", "vlan id=5 priority=6 cntag flow_id=7 cnm qntz_fb=63", "ecm q_off=-3",
    "bcn e=-9", "e2cm type=1", "e2cm type=3", "fecn", "dbp rate=1000", "pfc prio3=65535", "pause", "lldp",
    "lldpcn", "vlan id=5 ip udp", "ieee8021ad id=9 vlan id=5 ip tcp", "ieee8021ah ip udp", "cntag ip udp",
    "cmtag ip udp", "rrttag ip udp", "rdtag ip udp", "ipv6 udp", "arp", "data", "bth", "vlan bth reth",
    "ipv6 udp bth aeth", "ipv6 ipv6.hopopts udp bth", "grh bth", "cnp", "ieee8021ah bth",
    "lldpets lldpetsrec lldppfc enable=8 lldpapp lldpapp.entry protocol=4791",
    "lldpcee lldpcee.control lldpcee.pg lldpcee.pfc enable=8 lldpcee.app lldpcee.app.entry lldpcee.tlv",
)  # fmt: skip
_FILTERS = (
    "cnm", "cnm.qntz_fb > 40 and vlan.priority == 3", "eth.src == 02:00:00:00:00:01 or not ip",
    "ip.addr == 192.0.2.0/24 && udp.port in {4791, 1..100}",
    'frame contains "abc" || eth.dst[0:3] == 01:80:c2',
    "vlan.id & 0xf == 5 and !(lldp or macc.opcode == 0x0101)", 'frame matches "\\x02.*[a-f]{2}"',
    "encapsulated.ip.src == 192.0.2.1 and cnm.cpid != 02:00:00:00:00:c1/1",
    "frame.len >= 64 and frame.time_epoch < 1",
    "vlan.id all_ne 5", "tcp.port any_eq udp.port", "ipv6.addr == 2001:db8::/32",
)  # fmt: skip
_TOML = """schema = "ecmproto/frames/1"

[[frames]]
frame = "cnm qntz_fb=40 flow_id=7"
vlan = 5
prio = 3
count = 10
interval = "1us"
time = "1s"
sweep = {"cnm.qntz_fb" = "0..63:3", "cntag.flow_id" = "1,5,8..12"}
comment = "some words"

[[frames]]
layers = [{layer = "eth", dst = "02:00:00:00:00:01"}, {layer = "vlan"}, {layer = "data", data = "00ff"}]
trailer = "0001"
raw = true
rate = 1000
"""
_TIME_STEP_NS = 1_001


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A type of octets to mutate, with the checks of these octets."""

    file: str
    """File name for the case of a finding."""
    corpus: Callable[[], list[bytes]]
    """Function that returns the default corpus."""
    cases: Callable[[Sequence[bytes], int], CaseSource]
    """Function that returns the cases of a corpus and a seed."""
    checks: Callable[[], list[BatchCheck]]
    batch_cases: int = BATCH_CASES
    """Number of cases in a batch, large enough for fast batch processing."""


def template_frames() -> list[bytes]:
    """Return a default frame of each frame type in `ecmproto.tools.craft`."""
    return [encode(build(line)) for line in _LINES]


def _captures() -> list[bytes]:
    frames = [
        *template_frames()[:6],
        *(encode(build(line)) for line in ("pfc prio3=65535", "vlan id=5 ip udp")),
    ]
    times = range(0, len(frames) * _TIME_STEP_NS, _TIME_STEP_NS)
    interfaces = [Interface(index=index, linktype=ETHERNET, name=f"eth{index}") for index in range(2)]
    batch = Batch.from_frames(frames, time_ns=times, interface=[0, 1] * (len(frames) // 2))
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("little", "big", "ng", "ng-big")]
        writers = [
            PcapWriter(paths[0]),
            PcapWriter(paths[1], byte_order="big", resolution="us"),
            PcapngWriter(paths[2], interfaces=interfaces, comment="a capture"),
            PcapngWriter(paths[3], interfaces=interfaces, byte_order="big"),
        ]
        for writer in writers:
            with writer:
                writer.write_batch(batch)
        return [path.read_bytes() for path in paths]


def _specs() -> list[bytes]:
    documents = [
        {"schema": FRAME_SCHEMA, **to_document(decode_lax(octets))} for octets in template_frames()[:8]
    ]
    lines = "".join(json.dumps(document) + "\n" for document in documents[:3])
    return [_TOML.encode(), lines.encode(), *(json.dumps(document).encode() for document in documents)]


SUBJECTS = {
    "frames": Subject(
        file="case.pcap",
        corpus=template_frames,
        cases=lambda corpus, seed: Cases(corpus, seed=seed),
        checks=lambda: [SchemaCheck(), HeaderCheck(), ColumnCheck(), DocumentCheck(), TextCheck()],
        batch_cases=2048,
    ),
    "captures": Subject(
        file="case.capture",
        corpus=_captures,
        cases=lambda corpus, seed: OctetCases(corpus, CAPTURE_MUTATORS, seed=seed),
        checks=lambda: [CaptureCheck(), CaptureUseCheck()],
        batch_cases=64,
    ),
    "filters": Subject(
        file="case.filter",
        corpus=lambda: [text.encode() for text in _FILTERS],
        cases=lambda corpus, seed: OctetCases(corpus, TEXT_MUTATORS, seed=seed),
        checks=lambda: [FilterCheck(template_frames())],
    ),
    "specs": Subject(
        file="case.spec",
        corpus=_specs,
        cases=lambda corpus, seed: OctetCases(corpus, TEXT_MUTATORS, seed=seed),
        checks=lambda: [SpecCheck()],
    ),
    "messages": Subject(
        file="case.pcap",
        corpus=template_frames,
        cases=lambda corpus, seed: Cases(corpus, seed=seed),
        checks=lambda: [MessageCheck()],
    ),
}
"""Subjects by their name on the command line."""
