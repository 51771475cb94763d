"""IPv6 addresses that contain IPv4 addresses have the same text in all outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecmproto.frames.capture import PcapWriter
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run

MAPPED = "::ffff:15.0.0.2"


@pytest.mark.parametrize(
    "form", [
        ("-T", "line"), ("-T", "tree"), ("-T", "json"), ("-T", "ndjson"), ("-T", "fields", "-e", "ipv6.src"),
    ]
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 2000], ids=["one by one", "at once"])
def test_mapped_addresses_end_in_dotted_decimals(
    form: tuple[str, ...], count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    octets = encode(build(f"ipv6 src={MAPPED} udp"))
    with PcapWriter(tmp_path / "mapped.pcap") as writer:
        for time_ns in range(count):
            writer.write_frame(octets, time_ns)
    assert run(["dissect", "-r", str(tmp_path / "mapped.pcap"), *form]) == 0
    assert capsys.readouterr().out.count(MAPPED) >= count


def test_single_tlv_is_counted_in_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with PcapWriter(tmp_path / "one.pcap") as writer:
        writer.write_frame(bytes.fromhex("0180c200000e02000000000188cc0207040200000000010000"), 0)
    assert run(["dissect", "-r", str(tmp_path / "one.pcap")]) == 0
    assert "| 1 TLV\n" in capsys.readouterr().out.replace("LLDP  ", "LLDP  | ")
