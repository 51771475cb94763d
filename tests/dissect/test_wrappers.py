"""Wrapped frames: lines, names of the innermost and outermost frame, and crafting."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from ecmproto.errors import SpecError
from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.dissect.lines import describe
from ecmproto.frames.filter import compile_filter
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto.wire.codec.document import from_document, to_document
from ecmproto.wire.codec.frame import Frame, decode_lax
from ecmproto.wire.formats.registry import FORMATS
from ecmproto_cli.main import run
from tests.batch.test_inner import written

INSIDE = "eth src=02:00:00:00:00:05 vlan id=5 ip src=10.9.9.1 dst=10.9.9.2 udp srcport=7 dstport=9"
AROUND = {
    "erspan session=12": ("ERSPAN 12 port 0", ["eth", "ip", "gre", "greseq", "erspan"]),
    "erspan3 session=12": ("ERSPAN 12 in", ["eth", "ip", "gre", "greseq", "erspan3"]),
    "gre": ("GRE", ["eth", "ip", "gre"]),
    "vxlan vni=77": ("VXLAN 77", ["eth", "ip", "udp", "vxlan"]),
    "ipv6 vxlan vni=77": ("VXLAN 77", ["eth", "ipv6", "udp", "vxlan"]),
    "gpe vni=77": ("VXLAN-GPE 77", ["eth", "ip", "udp", "gpe"]),
    "geneve vni=77": ("Geneve 77", ["eth", "ip", "udp", "geneve"]),
    "mpls label=19": ("MPLS 19", ["eth", "mpls", "pwethcw"]),
    "tzsp": ("TZSP", ["eth", "ip", "udp", "tzsp", "tzsp.mark"]),
    "vxlan vni=5 erspan session=3": (
        "VXLAN 5 | ERSPAN 3 port 0",
        ["eth", "ip", "udp", "vxlan", "eth", "ip", "gre", "greseq", "erspan"],
    ),
}


def crafted(text: str) -> Frame:
    return decode_lax(encode(build(f"{text} {INSIDE}")))


@pytest.mark.parametrize("text", AROUND)
def test_lines_name_wrappers_and_innermost_addresses(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = crafted(text)
    line, around = AROUND[text]
    assert describe(frame) == ("UDP", f"{line} | vlan 5 prio 0 | 10.9.9.1:7 → 10.9.9.2:9 len 0")
    assert [layer.prefix for layer in frame.layers] == [*around, "eth", "vlan", "ip", "udp"]
    assert run(["dissect", str(written(tmp_path / "a.pcap", [encode(frame)]))]) == 0
    assert "02:00:00:00:00:05 → " in capsys.readouterr().out


@pytest.mark.parametrize("text", AROUND)
def test_documents_return_wrapped_frames(text: str) -> None:
    frame = crafted(text)
    assert encode(from_document(to_document(frame))[0]) == encode(frame)


@pytest.mark.parametrize("text", AROUND)
def test_inner_and_outer_name_one_frame(text: str) -> None:
    frame = crafted(text)
    batch = Batch.from_frames([encode(frame)])

    def values(name: str) -> Sequence[object]:
        return list(extract(batch, [name])[name].python_values())

    every = values("eth.src")
    assert len(every) == text.count("erspan session=3") + 2
    assert values("inner.eth.src") == [bytes.fromhex("020000000005")] == every[-1:]
    assert values("outer.eth.src") == every[:1] != every[-1:]
    assert values("inner.vlan.id") == [5]
    assert values("outer.vlan.id") == []
    assert values("inner.udp.dstport") == [9]
    for test, selects in (
        ("eth.src == 02:00:00:00:00:05", True),
        ("inner.eth.src == 02:00:00:00:00:05", True),
        ("outer.eth.src == 02:00:00:00:00:05", False),
        ("inner.ip.src == 10.9.9.1 && vlan.id == 5", True),
        ("outer.vlan", False),
        ("inner.vlan", True),
    ):
        assert bool(selected(batch, compile_filter(test)).any()) == selects, test


def test_tshark_faults_no_crafted_wrapper(tshark: str, tmp_path: Path) -> None:
    wrappers = [cls.prefix for cls in FORMATS if cls.role == "wrapper"]
    frames: list[bytes] = []
    for outer in wrappers:
        for inner in ("", "cnm", "pfc", "arp", "ipv6 udp dstport=9", *wrappers):
            with suppress(SpecError) if inner in wrappers else nullcontext():  # a part of another header
                frames.append(encode(build(f"{outer} {inner}")))
    assert len(frames) > 12 * len(wrappers)
    path = written(tmp_path / "a.pcap", frames)
    sums = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
    shown = ["-e", "_ws.expert", "-e", "ip.checksum.status", "-e", "udp.checksum.status"]
    command = [tshark, "-n", "-r", str(path), *sums, "-T", "fields", *shown]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    assert len(lines) == len(frames)
    for line, octets in zip(lines, frames, strict=True):
        expert, ip, udp = line.split("\t")
        assert expert == "", octets.hex()
        assert set(ip.split(",")) <= {"1", ""}
        # 3: there is no checksum
        assert set(udp.split(",")) <= {"1", "3", ""}


def test_parts_of_other_headers_are_refused() -> None:
    for line, message in (
        ("gre tzsp.tag", "gre: expected gresum, grekey, greseq, or a frame after it, got tzsp.tag"),
        ("vxlan erspan3.platform", "vxlan: expected a frame after it, got erspan3.platform"),
        ("grekey gresum", "gre: expected greseq, or a frame after it, got gresum"),
    ):
        with pytest.raises(SpecError) as caught:
            build(line)
        assert message in str(caught.value)
