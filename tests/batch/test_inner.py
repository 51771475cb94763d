"""Mirrored and tunnelled frames: readers return the innermost frames, and statistics equal the bare frames'
statistics.
"""

from __future__ import annotations

import logging
import random
import re
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.replay.session import replay
from ecmproto.errors import counted
from ecmproto.frames.batch import inner as inner_frames
from ecmproto.frames.batch.inner import InnerReader, open_innermost, unwrap
from ecmproto.frames.batch.sequences import psn_steps
from ecmproto.frames.capture import Batch, PcapWriter, open_capture
from ecmproto.frames.capture.batch import ETHERNET, RAW_IP, Interface
from ecmproto.frames.stats import as_document
from ecmproto.frames.stats.accumulator import capture_stats
from ecmproto.tools.check.checker import check_capture
from ecmproto.tools.check.documents import json_lines
from ecmproto.tools.craft import build
from ecmproto.tools.fuzz.strategies import frames as drawn_frames
from ecmproto.wire.codec import encode

PCAPS = Path(__file__).parents[2] / "pcaps"
BUNDLED = sorted(path for path in PCAPS.glob("*.pcap*") if path.name != "malformed.pcapng")
"""Bundled captures, except for the capture whose IP headers state wrong lengths."""
MACS = bytes.fromhex("020000001001020000001002")
ETHERNETS = [Interface(index=0, linktype=ETHERNET)]
SOURCE, DESTINATION = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
Wrapper = Callable[[bytes, int], bytes]


def ip(protocol: int, payload: bytes) -> bytes:
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0)
    return MACS + b"\x08\0" + header + SOURCE + DESTINATION + payload


def ip6(protocol: int, payload: bytes) -> bytes:
    addresses = bytes(15) + b"\1" + bytes(15) + b"\2"
    return (
        MACS + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + addresses + payload
    )


def udp(port: int, payload: bytes) -> bytes:
    return struct.pack("!HHHH", 50000, port, 8 + len(payload), 0) + payload


def gre(ethertype: int, payload: bytes, *, key: int | None = None, sequence: int | None = None) -> bytes:
    flags = (0x2000 if key is not None else 0) | (0x1000 if sequence is not None else 0)
    options = b"".join(struct.pack("!I", each) for each in (key, sequence) if each is not None)
    return struct.pack("!HH", flags, ethertype) + options + payload


def erspan3(frame: bytes, session: int, last: int) -> bytes:
    return struct.pack("!HHIHH", 0x2000, session, 12345, 0, last) + bytes(8 if last & 1 else 0) + frame


def tagged(frame: bytes) -> bytes:
    return frame[:12] + bytes.fromhex("8100 0005") + frame[12:]


WRAPPERS: dict[str, Wrapper] = {
    "GRE": lambda frame, n: ip(47, gre(0x6558, frame)),
    "GRE key sequence": lambda frame, n: ip(47, gre(0x8949, frame, key=7, sequence=n)),
    "NVGRE VSID 77": lambda frame, n: ip6(47, gre(0x6558, frame, key=77 << 8)),
    "MPLS in GRE": lambda frame, n: ip(47, gre(0x8847, bytes.fromhex("000010ff 000021ff 00000000") + frame)),
    "ERSPAN I": lambda frame, n: ip(47, gre(0x88BE, frame)),
    "ERSPAN II session 12": lambda frame, n: ip(
        47, gre(0x88BE, struct.pack("!HHI", 0x1000, 12, 3) + frame, sequence=n)
    ),
    "ERSPAN III session 12": lambda frame, n: tagged(ip(47, gre(0x22EB, erspan3(frame, 12, 4), sequence=n))),
    "ERSPAN III subheader": lambda frame, n: ip(47, gre(0x22EB, erspan3(frame, 12, 5), sequence=n)),
    "VXLAN VNI 77": lambda frame, n: ip(17, udp(4789, struct.pack("!II", 8 << 24, 77 << 8) + frame)),
    "VXLAN in IPv6": lambda frame, n: ip6(17, udp(4789, struct.pack("!II", 8 << 24, 77 << 8) + frame)),
    "VXLAN-GPE": lambda frame, n: ip(17, udp(4790, struct.pack("!II", 0x0C << 24 | 3, 77 << 8) + frame)),
    "Geneve": lambda frame, n: ip(
        17, udp(6081, struct.pack("!HHI", 0x0200, 0x6558, 77 << 8) + bytes(8) + frame)
    ),
    "MPLS label 19": lambda frame, n: tagged(MACS + bytes.fromhex("8847 000010ff 000131ff 00000000") + frame),
    "MPLS upstream": lambda frame, n: MACS + bytes.fromhex("8848 000131ff 00000001") + frame,
    "TZSP": lambda frame, n: ip(17, udp(37008, bytes.fromhex("01000001 00 0a0112 01") + frame)),
}


UNKNOWN_TO_TSHARK = ("GRE key sequence", "MPLS in GRE", "MPLS label 19", "MPLS upstream")
"""EtherType 0x8949 of some SONiC platforms, and frames after a label that no signalling has announced."""


def written(
    path: Path,
    frames: Sequence[bytes],
    times: Sequence[int] | None = None,
    original: Sequence[int] | None = None,
) -> Path:
    with PcapWriter(str(path), resolution="ns") as writer:
        for number, frame in enumerate(frames):
            writer.write_frame(
                frame, times[number] if times else number, original=original[number] if original else None
            )
    return path


def read(path: Path) -> tuple[list[bytes], list[int], InnerReader]:
    frames: list[bytes] = []
    original: list[int] = []
    with open_innermost((path,)) as reader:
        for batch in reader:
            frames += list(batch)
            original += batch.original.tolist()
        assert isinstance(reader, InnerReader)
        return frames, original, reader


def bare(path: Path) -> tuple[list[bytes], list[int], list[int]]:
    with open_capture(str(path), batch_frames=300) as reader:
        batch = next(iter(reader))
        return list(batch), batch.original.tolist(), batch.time_ns.tolist()


@pytest.mark.parametrize("name", WRAPPERS)
def test_unwrapping_restores_the_original_frames(name: str, tmp_path: Path) -> None:
    for path in BUNDLED:
        frames, original, times = bare(path)
        wrapped = [WRAPPERS[name](frame, number) for number, frame in enumerate(frames)]
        inner, lengths, reader = read(written(tmp_path / f"{path.name}.wrapped", wrapped, times))
        assert inner == frames
        # The IP header contains the original length of a frame that the mirror truncated.
        assert lengths == original or all(map(int.__le__, lengths, original))
        assert f"unwrapped {counted(len(frames), 'frame')} " in reader.summary
        assert ("lost 0 frames" in reader.summary) == ("sequence" in name or "III" in name or "II " in name)


@pytest.fixture(scope="module")
def documents_of_bare(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, tuple[object, ...]]:
    folder, found = tmp_path_factory.mktemp("bare"), {}
    for path in BUNDLED:
        frames, original, times = bare(path)
        found[path] = documents(written(folder / f"{path.name}.pcap", frames, times, original))
    return found


def documents(path: Path) -> tuple[object, ...]:
    """Return the output of statistics, checks and a replay of a capture, without interface names."""
    counts = as_document(capture_stats(str(path)), "x")
    interfaces = [each["frames"] for each in counts.pop("interfaces") if each["frames"]]
    notes = [each for each in counts.pop("notes") if not re.search("mirror|(?i:network cards)", each)]
    text = re.sub(r"'interface': \d+", "", str(counts))
    findings = [line.partition('"interface"')[0] for line in json_lines(check_capture(str(path)), "x")]
    replayed = replay(str(path), "dcqcn", closed=True, seed=1).as_dict() | {"capture": ""}
    return text, interfaces, notes, findings, replayed


@pytest.mark.parametrize("name", WRAPPERS)
def test_statistics_equal_those_of_bare_frames(
    name: str, documents_of_bare: dict[Path, tuple[object, ...]], tmp_path: Path
) -> None:
    for path in BUNDLED:
        frames, original, times = bare(path)
        whole = [frame + bytes(octets - len(frame)) for frame, octets in zip(frames, original, strict=True)]
        wrapped = [WRAPPERS[name](frame, number) for number, frame in enumerate(whole)]
        cut = [
            each[: len(each) - octets + len(frame)]
            for each, frame, octets in zip(wrapped, frames, original, strict=True)
        ]
        mirror = written(tmp_path / f"{path.name}.pcap", cut, times, list(map(len, wrapped)))
        assert documents(mirror) == documents_of_bare[path], path


def test_outer_leaves_frames_wrapped(tmp_path: Path) -> None:
    frame = encode(build("pfc prio3=65535"))
    path = str(written(tmp_path / "mirror.pcap", [WRAPPERS["VXLAN VNI 77"](frame, 0)]))
    assert as_document(capture_stats(path, outer=True), "x")["mirrors"] == {"VXLAN": 1}
    assert as_document(capture_stats(path), "x")["mirrors"] == {}
    assert capture_stats(path).pfc is not None
    assert capture_stats(path, outer=True).pfc is None


@given(drawn_frames(), st.lists(st.sampled_from(list(WRAPPERS)), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_stacks_of_wrappers_are_unwrapped(
    tmp_path_factory: pytest.TempPathFactory, frame: object, names: list[str]
) -> None:
    innermost = encode(frame)  # type: ignore[call-overload]
    folder = tmp_path_factory.mktemp("stacks")
    inner, _, _ = read(written(folder / "bare.pcap", [innermost]))
    octets = innermost
    for name in names:
        octets = WRAPPERS[name](octets, 0)
    assert read(written(folder / "wrapped.pcap", [octets]))[0] == inner


def test_thousand_wrappers_are_unwrapped(tmp_path: Path) -> None:
    octets = frame = encode(build("arp"))
    for _ in range(1000):
        octets = WRAPPERS["VXLAN VNI 77"](octets, 0)
    assert read(written(tmp_path / "deep.pcap", [octets]))[0] == [frame]


def test_lost_frames_are_counted_by_sequence_numbers(tmp_path: Path) -> None:
    frame = encode(build("arp"))
    numbers = [2**32 - 2, 2**32 - 1, 1, 2, 2, 7, 6]
    wrapped = [WRAPPERS["ERSPAN II session 12"](frame, number) for number in numbers]
    reader = read(written(tmp_path / "mirror.pcap", wrapped))[2]
    assert reader.summary == (
        "unwrapped 7 frames (ERSPAN II 7); sequence numbers show that the mirror lost 5 frames"
    )
    assert [each.name for each in reader.interfaces] == ["", "ERSPAN II session 12"]


def test_lost_frames_are_counted_per_source_and_session(tmp_path: Path) -> None:
    frame = encode(build("arp"))
    wrapped, lost = [], 0
    draw = random.Random(3)
    last: dict[tuple[int, int], int] = {}
    for _ in range(3000):
        stream = draw.randrange(4), draw.randrange(3)
        step = draw.choice((1, 1, 1, 2, 9))
        lost += step - 1 if stream in last else 0
        last[stream] = (last.get(stream, 2**32 - 500) + step) % 2**32
        octets = bytearray(ip(47, gre(0x22EB, erspan3(frame, stream[1], 4), sequence=last[stream])))
        octets[29] = stream[0]
        wrapped.append(bytes(octets))
    path = written(tmp_path / "mirror.pcap", wrapped)
    with open_innermost((path,), batch_frames=100) as reader:
        assert sum(map(len, reader)) == 3000
    assert isinstance(reader, InnerReader)
    assert reader.summary.endswith(f"the mirror lost {lost:,} frames")
    assert len(reader.interfaces) == 4


def test_sessions_without_number_share_an_interface(tmp_path: Path) -> None:
    frame = encode(build("arp"))
    wrapped = [
        ip(17, udp(4789, struct.pack("!II", 8 << 24, number % 1500 << 8) + frame)) for number in range(3000)
    ]
    inner, _, reader = read(written(tmp_path / "tunnels.pcap", wrapped))
    assert inner == [frame] * 3000
    assert len(reader.interfaces) == 1025
    assert reader.interfaces[-1].name == "VXLAN (further sessions)"


def test_sessions_and_packets_are_interfaces(tmp_path: Path) -> None:
    frame = encode(build("ip udp dstport=9"))
    sessions = [WRAPPERS["ERSPAN II session 12"](frame, 0), ip(47, gre(0x0800, frame[14:42])), frame]
    inner, _, reader = read(written(tmp_path / "mirror.pcap", sessions))
    assert inner == [frame, frame[14:42], frame]
    assert [each.linktype for each in reader.interfaces] == [ETHERNET, ETHERNET, RAW_IP]


def test_packets_after_labels_are_unwrapped(tmp_path: Path) -> None:
    frame = encode(build("ipv6 udp dstport=9"))
    labels = bytes.fromhex("000010ff000021ff") + frame[14:]
    wrapped = [ip(47, gre(0x8848, labels)), MACS + bytes.fromhex("8847") + labels + bytes(3)]
    inner, _, reader = read(written(tmp_path / "labels.pcap", wrapped))
    assert inner == [frame[14:], frame[14:] + bytes(3)]
    assert [each.linktype for each in reader.interfaces] == [ETHERNET, RAW_IP, RAW_IP]
    assert reader.interfaces[2].name == "MPLS label 2"


def test_cut_frames_have_the_length_in_their_header(tmp_path: Path) -> None:
    frame = encode(build("ip udp dstport=9 data data=" + "00" * 400))
    inner, lengths, _ = read(written(tmp_path / "mirror.pcap", [WRAPPERS["ERSPAN I"](frame[:128], 0)]))
    assert inner == [frame[:128]]
    assert lengths == [len(frame)]


@pytest.mark.parametrize(
    "octets",
    [
        ip(47, struct.pack("!HH", 0x0001, 0x6558) + bytes(60)),  # version 1 is PPTP's
        ip(47, struct.pack("!HH", 0x4000, 0x6558) + bytes(60)),  # routing
        ip(47, gre(0x88BE, struct.pack("!HHI", 0x2000, 12, 3) + bytes(60), sequence=1)),
        ip(47, gre(0x22EB, erspan3(bytes(60), 12, 0x0400), sequence=1)),  # frame type 1
        ip(47, gre(0x6558, b"")),
        ip(47, gre(0x8847, bytes(60))),  # labels without an end
        ip(47, gre(0x8847, bytes.fromhex("000011ff10") + bytes(60))),
        MACS + bytes.fromhex("8847 000010ff") + bytes.fromhex("000011ff 10") + bytes(60),
        MACS + bytes.fromhex("8847 000011ff 40 00"),
        MACS + bytes.fromhex("8847"),
        ip(17, udp(37008, bytes.fromhex("01000001 0a") + bytes(1))),
        ip(17, udp(4788, struct.pack("!II", 8 << 24, 0) + bytes(60))),
    ],
)
def test_other_packets_stay_unchanged(octets: bytes, tmp_path: Path) -> None:
    inner, _, reader = read(written(tmp_path / "other.pcap", [octets]))
    assert inner == [octets]
    assert reader.summary == ""


def test_first_fragments_stay_wrapped(tmp_path: Path) -> None:
    octets = bytearray(WRAPPERS["VXLAN VNI 77"](encode(build("arp")), 0))
    octets[20] = 0x20
    assert read(written(tmp_path / "fragment.pcap", [bytes(octets)]))[0] == [bytes(octets)]


def mutated() -> list[bytes]:
    """Return mutated and truncated frames in two wrappers."""
    draw = random.Random(5)
    frame = encode(build("vlan id=5 ip udp dstport=4791"))
    names, frames = list(WRAPPERS), []
    for number in range(4000):
        octets = bytearray(WRAPPERS[draw.choice(names)](WRAPPERS[draw.choice(names)](frame, number), number))
        for _ in range(draw.choice((1, 1, 2, 4))):
            octets[draw.randrange(12, len(octets))] = draw.choice((0, 1, 8, 255, draw.randrange(256)))
        frames.append(bytes(octets[: draw.randrange(14, len(octets) + 1)]))
    return frames


def test_frames_that_are_not_searched_contain_no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [octets for path in BUNDLED for octets in bare(path)[0]]
    batch = Batch.from_frames(
        [*mutated(), *(octets[:length] for octets in known for length in (14, 18, 64, 99))]
    )
    searched: list[int] = []
    candidates = inner_frames._candidates

    def noted(*arguments: Any) -> int:
        searched.append(candidates(*arguments))
        return searched[0]

    def every(*arguments: Any) -> int:
        arguments[-1][:] = np.arange(len(batch))
        return len(batch)

    monkeypatch.setattr(inner_frames, "_candidates", noted)
    found = unwrap(batch, ETHERNETS, psn_steps())
    monkeypatch.setattr(inner_frames, "_candidates", every)
    expected = unwrap(batch, ETHERNETS, psn_steps())
    assert found is not None
    assert expected is not None
    for name in ("positions", "link", "kind", "session", "sequence", "source"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    assert np.array_equal(found.batch.offset, expected.batch.offset)
    assert len(found.positions) < searched[0] < len(batch) - len(known)


def test_mutated_wrappers_stay_within_the_frame(tmp_path: Path) -> None:
    frames = mutated()
    inner, lengths, _ = read(written(tmp_path / "mutated.pcap", frames))
    assert all(one in whole for one, whole in zip(inner, frames, strict=True))
    assert all(length >= len(one) for one, length in zip(inner, lengths, strict=True))
    assert len({len(one) for one in inner}) > 10


@pytest.mark.parametrize("name", [name for name in WRAPPERS if name not in UNKNOWN_TO_TSHARK])
def test_tshark_has_the_same_innermost_addresses(name: str, tshark: str, tmp_path: Path) -> None:
    frames = [encode(build(f"eth src=02:00:00:00:01:{number:02x} ip udp dstport=9")) for number in range(20)]
    path = written(tmp_path / "mirror.pcap", [WRAPPERS[name](frame, n) for n, frame in enumerate(frames)])
    command = [tshark, "-n", "-r", str(path), "-T", "fields", "-e", "eth.src", "-E", "occurrence=l"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [bytes.fromhex(line.replace(":", "")) for line in output.split()] == [
        frame[6:12] for frame in read(path)[0]
    ]


def test_scapys_wrappers_are_unwrapped(tmp_path: Path) -> None:
    logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
    from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import GRE, Ether
    from scapy.layers.vxlan import VXLAN
    from scapy.packet import Raw

    frame = encode(build("pfc prio3=65535"))
    outside = Ether(dst="02:00:00:00:10:01", src="02:00:00:00:10:02") / IP(src="10.0.0.1", dst="10.0.0.2")
    inside = [
        GRE(proto=0x6558), UDP(sport=5000, dport=4789) / VXLAN(vni=5),
        GRE(seqnum_present=1, sequence_number=3, proto=0x88BE) / ERSPAN_II(session_id=9),
        GRE(seqnum_present=1, sequence_number=4, proto=0x22EB) / ERSPAN_III(session_id=9),
    ]  # fmt: skip
    wrapped = [bytes(outside / wrapper / Raw(frame)) for wrapper in inside]
    inner, _, reader = read(written(tmp_path / "scapy.pcap", wrapped))
    assert inner == [frame] * 4
    assert [each.name for each in reader.interfaces] == [
        "", "GRE", "VXLAN VNI 5", "ERSPAN II session 9", "ERSPAN III session 9",
    ]  # fmt: skip
