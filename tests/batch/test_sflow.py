"""sFlow: sampled headers become frames, discards and counters become rows, and lengths are checked."""

from __future__ import annotations

import json
import random
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ecmproto.frames.batch.inner import InnerReader, open_innermost
from ecmproto.frames.batch.sflow import REASONS, SflowReports
from ecmproto.frames.capture.batch import ETHERNET, RAW_IP
from ecmproto.frames.stats import as_document
from ecmproto.frames.stats.accumulator import capture_stats
from ecmproto.tools.craft import build
from ecmproto.tools.report.capture_page import statistics_html
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from tests.batch.test_inner import WRAPPERS, bare, ip, ip6, read, udp, written

PCAPS = Path(__file__).parents[2] / "pcaps"
DATA = encode(build("vlan id=5 prio=3 ip udp dstport=9 data data=" + "00" * 400))
V6_AGENT = bytes.fromhex("20010db8000000000000000000000007")


def xdr(octets: bytes) -> bytes:
    return struct.pack("!I", len(octets)) + octets + bytes(-len(octets) % 4)


def block(form: int, octets: bytes) -> bytes:
    return struct.pack("!I", form) + xdr(octets)


def raw(frame: bytes, *, cut: int = 128, protocol: int = 1) -> bytes:
    return block(1, struct.pack("!III", protocol, len(frame) + 4, 4) + xdr(frame[:cut]))


def flow(*records: bytes, port: int = 3, rate: int = 4096) -> bytes:
    return block(1, struct.pack("!8I", 1, port, rate, 0, 0, port, 9, len(records)) + b"".join(records))


def expanded(*records: bytes, port: int = 3, rate: int = 4096) -> bytes:
    head = struct.pack("!11I", 1, 0, port, rate, 0, 0, 0, port, 0, 9, len(records))
    return block(3, head + b"".join(records))


def counters(port: int, octets_in: int, discards_out: int, *, form: int = 2) -> bytes:
    source = struct.pack("!I", port) if form == 2 else struct.pack("!II", 0, port)
    values = struct.pack("!IIQII", port, 6, 10**11, 1, 3) + struct.pack("!Q6I", octets_in, *range(6))
    values += struct.pack("!Q6I", 0, 0, 0, 0, discards_out, 0, 0)
    return block(form, struct.pack("!I", 1) + source + struct.pack("!I", 1) + block(1, values))


def discard(reason: int, port: int = 3, output: int = 4) -> bytes:
    record = raw(DATA)
    return block(5, struct.pack("!8I", 1, 0, port, 0, port, output, reason, 1) + record)


def datagram(*samples: bytes, agent: bytes = b"\x0a\0\0\7", sequence: int = 1, sub_agent: int = 0) -> bytes:
    head = struct.pack("!II", 5, 1 if len(agent) == 4 else 2) + agent
    return head + struct.pack("!4I", sub_agent, sequence, 0, len(samples)) + b"".join(samples)


def sent(*datagrams: bytes) -> list[bytes]:
    return [ip(17, udp(6343, each)) for each in datagrams]


def test_sampled_headers_are_frames_of_agents_and_ports(tmp_path: Path) -> None:
    one = datagram(flow(raw(DATA)), expanded(raw(DATA, cut=64), port=5), counters(3, 1, 1))
    other = datagram(flow(raw(DATA[18:], protocol=11), rate=16), agent=V6_AGENT)
    frames = [*sent(one), DATA, WRAPPERS["VXLAN in IPv6"](ip6(17, udp(6343, other)), 0)]
    inner, lengths, reader = read(written(tmp_path / "sflow.pcap", frames))
    assert inner == [DATA[:128], DATA[:64], DATA, DATA[18:146]]
    assert lengths == [len(DATA)] * 3 + [len(DATA) - 18]
    assert [(each.name, each.linktype, each.sampling) for each in reader.interfaces] == [
        ("", ETHERNET, 1),
        ("VXLAN VNI 77", ETHERNET, 1),
        ("sFlow 10.0.0.7 port 3", ETHERNET, 4096),
        ("sFlow 10.0.0.7 port 5", ETHERNET, 4096),
        ("VXLAN VNI 77 sFlow 2001:db8::7 port 3", RAW_IP, 16),
    ]
    assert reader.summary == (
        "unwrapped 1 frame (VXLAN 1); "
        "3 sampled headers of 2 sFlow datagrams, and 0 datagrams lost by sequence numbers"
    )


def test_frames_are_numbered_on_and_batches_stay_small(tmp_path: Path) -> None:
    frames = sent(*(datagram(*[flow(raw(DATA, cut=20))] * 300, sequence=n) for n in range(40)))
    path = written(tmp_path / "sflow.pcap", frames)
    with open_innermost((path,), batch_frames=100) as reader:
        numbers, sizes = [], []
        for batch in reader:
            numbers += batch.numbers.tolist()
            sizes.append(len(batch))
        assert reader.frames == 40 * 300
    assert numbers == list(range(40 * 300))
    assert max(sizes) == 300


def test_statistics_equal_those_of_cut_frames(tmp_path: Path) -> None:
    frames, original, times = bare(PCAPS / "hotspot.pcap.gz")
    whole = [frame + bytes(size - len(frame)) for frame, size in zip(frames, original, strict=True)]
    agent = [*sent(*(datagram(flow(raw(frame, cut=96)), sequence=n) for n, frame in enumerate(whole)))]
    plain = written(tmp_path / "plain.pcap", [each[:96] for each in whole], times, original)
    sampled = written(tmp_path / "sflow.pcap", agent, times)
    one, other = (as_document(capture_stats(str(path)), "x") for path in (plain, sampled))
    for name in ("kinds", "sizes", "priorities", "octets", "captured_octets", "frames_over_time"):
        assert one[name] == other[name]
    assert [each["frames"] for each in other["interfaces"]] == [0, len(frames)]


def test_discards_and_counters_are_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [
        datagram(discard(259), discard(259), discard(260), counters(3, 2**64 - 5, 2**32 - 1)),
        datagram(discard(259), discard(4000), counters(3, 95, 6, form=4), sequence=4),
    ]
    path = str(written(tmp_path / "sflow.pcap", [DATA, *sent(*reports)]))
    assert run(["stats", path, "-T", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["sflow"]
    assert [(each["reason"], each["frames"]) for each in found["discards"]] == [
        ("no_buffer_space", 3), ("red", 1), ("reason 4000", 1),
    ]  # fmt: skip
    assert {each["agent"] for each in found["discards"]} == {"10.0.0.7"}
    (port,) = found["ports"]
    assert (port["in_octets"], port["out_discards"], port["reports"]) == (100, 7, 2)
    assert port["speed_bps"] == 10**11
    assert found["datagrams_lost"] == 2
    assert run(["stats", path]) == 0
    shown = capsys.readouterr().out
    section = shown.partition("discarded packets, as reported by sFlow\n")[2].splitlines()[1:4]
    assert [line.split() for line in section[:2]] == [
        ["no_buffer_space", "3", "port", "3", "port", "4", "10.0.0.7"],
        ["red", "1", "port", "3", "port", "4", "10.0.0.7"],
    ]
    reports_read = capture_stats(path).sflow
    assert reports_read is not None
    rows = reports_read.records()
    assert [row["report"] for row in rows] == ["discards"] * 3 + ["counters"]
    assert {tuple(row) for row in rows} == {SflowReports.COLUMNS}
    assert (rows[0]["reason"], rows[0]["frames"], rows[0]["in_octets"]) == ("no_buffer_space", 3, None)
    assert (rows[3]["port"], rows[3]["in_octets"], rows[3]["reason"]) == (3, 100, None)
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(reports_read)
    assert table.filter([kind == "counters" for kind in table["report"].to_pylist()])[
        "out_discards"
    ].to_pylist() == [7]
    assert "no_buffer_space" in statistics_html(capture_stats(path), "sflow.pcap").decode()


def test_reports_without_samples_are_no_frames(tmp_path: Path) -> None:
    path = written(tmp_path / "sflow.pcap", sent(*(datagram(discard(259), sequence=n) for n in range(3000))))
    with open_innermost((path,), batch_frames=1) as reader:
        assert not list(reader)
        assert isinstance(reader, InnerReader)
        assert reader.sflow is not None
        assert reader.sflow.discards[0].frames == 3000


def test_sampled_tunnel_is_unwrapped_sampled_sflow_is_not(tmp_path: Path) -> None:
    tunnel = WRAPPERS["VXLAN VNI 77"](DATA, 0)
    sampled = sent(datagram(flow(raw(DATA))))[0]
    path = written(tmp_path / "sflow.pcap", sent(datagram(flow(raw(tunnel)), flow(raw(sampled, cut=200)))))
    inner, lengths, reader = read(path)
    assert inner == [DATA[:78], sampled[:200]]
    assert lengths == [len(DATA), len(sampled)]
    assert reader.interfaces[-1].name == "sFlow 10.0.0.7 port 3 VXLAN VNI 77"
    assert reader.interfaces[-1].sampling == 4096


def test_ports_without_number_share_an_interface(tmp_path: Path) -> None:
    frames = sent(*(datagram(flow(raw(DATA), port=port), sequence=port) for port in range(1, 3001)))
    inner, _, reader = read(written(tmp_path / "sflow.pcap", frames))
    assert inner == [DATA[:128]] * 3000
    assert len(reader.interfaces) == 1025
    assert (reader.interfaces[-1].name, reader.interfaces[-1].sampling) == ("sFlow (further sessions)", 0)


def test_unread_records_are_counted_by_name(tmp_path: Path) -> None:
    strange = datagram(
        block(0x1001, bytes(8)), flow(block(1001, bytes(16)), raw(DATA)), flow(raw(DATA, protocol=13)),
        block(2, struct.pack("!III", 1, 3, 1) + block(2, bytes(52))), flow(raw(DATA))[:100],
    )  # fmt: skip
    inner, _, reader = read(written(tmp_path / "sflow.pcap", sent(strange)))
    assert inner == [DATA[:128], DATA[:36]]
    assert reader.sflow is not None
    assert reader.sflow.skipped == {
        "sample 1:1": 1, "flow record 0:1001": 1, "header protocol 13": 1, "counter record 0:2": 1,
        "cut datagram": 1,
    }  # fmt: skip


@pytest.mark.parametrize("first", [struct.pack("!II", 4, 1), struct.pack("!II", 5, 3), b"\0\0\0\5"])
def test_other_sflow_versions_stay_frames(first: bytes, tmp_path: Path) -> None:
    octets = ip(17, udp(6343, first + bytes(40 if len(first) > 4 else 0)))
    path = written(tmp_path / "sflow.pcap", [octets])
    assert read(path)[0] == [octets]
    assert as_document(capture_stats(str(path)), "x")["mirrors"] == {"sFlow": 1}


def slow(octets: bytes) -> tuple[list[bytes], Counter[str]]:
    """Return the sampled Ethernet headers and the discards of a datagram, read field by field."""

    def word(at: int) -> int:
        return int(struct.unpack_from("!I", octets, at)[0])

    headers: list[bytes] = []
    discards: Counter[str] = Counter()
    at = 8 + (4 if word(4) == 1 else 16) + 16
    for _ in range(word(at - 4)):
        if at + 8 > len(octets):
            break
        form, start = word(at), at + 8
        at = start + word(at + 4)
        stop = min(at, len(octets))
        size = {1: 32, 3: 44, 5: 28}.get(form)
        if size is None or start + size > stop:
            continue
        if form == 5:
            discards[REASONS.get(word(start + 24), f"reason {word(start + 24)}")] += 1
            continue
        place = start + size
        while place + 8 <= stop:
            record, begin = word(place), place + 8
            place = begin + word(place + 4)
            end = min(place, stop)
            if record == 1:
                if begin + 16 <= end and word(begin) == 1:
                    headers.append(octets[begin + 16 : min(end, begin + 16 + word(begin + 12))])
                break
    return headers, discards


def mutated(draw: random.Random) -> bytes:
    makers = (
        lambda: flow(raw(DATA)), lambda: expanded(block(1001, bytes(16)), raw(DATA, cut=33)),
        lambda: counters(1, 2, 3), lambda: discard(draw.choice((259, 260, 7))), lambda: block(9, bytes(4)),
    )  # fmt: skip
    samples = [draw.choice(makers)() for _ in range(draw.randrange(6))]
    octets = bytearray(datagram(*samples, agent=draw.choice((b"\1\2\3\4", V6_AGENT))))
    for _ in range(draw.randrange(4)):
        place = draw.randrange(8, len(octets) & ~3, 4)
        value = draw.choice((0, 1, 2, 3, 4, 5, 8, 40, 2**31, 2**32 - 1, draw.randrange(2**32)))
        struct.pack_into("!I", octets, place, value)
    return bytes(octets[: draw.randrange(44, len(octets) + 1)]) if len(octets) > 44 else bytes(octets)


def test_mutated_datagrams_are_read_as_field_by_field(tmp_path: Path) -> None:
    draw = random.Random(7)
    datagrams = [mutated(draw) for _ in range(4000)]
    inner, lengths, reader = read(written(tmp_path / "sflow.pcap", sent(*datagrams)))
    wanted = [slow(each) for each in datagrams]
    assert [each for each in inner if each] == [each for headers, _ in wanted for each in headers if each]
    assert len(inner) > 1500
    assert all(length >= len(each) for each, length in zip(inner, lengths, strict=True))
    assert reader.sflow is not None
    discards: Counter[str] = Counter()
    for each in reader.sflow.discards:
        discards[each.reason] += each.frames
    assert discards + Counter() == sum((found for _, found in wanted), Counter())


def test_thousands_of_empty_samples_are_bounded(tmp_path: Path) -> None:
    octets = datagram(*[struct.pack("!II", 9, 0)] * 8000)
    inner, _, reader = read(written(tmp_path / "sflow.pcap", sent(*[octets] * 20)))
    assert inner == []
    assert reader.sflow is not None
    assert reader.sflow.skipped == {"sample 0:9": 160000}


def fields_of(tshark: str, path: Path, names: Sequence[str]) -> list[list[list[str]]]:
    """Return the values of fields from tshark, by packet and field."""
    options = [part for name in names for part in ("-e", name)]
    command = [tshark, "-n", "-r", str(path), "-T", "fields", *options]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [[cell.split(",") for cell in line.split("\t")] for line in output.splitlines()]


def test_tshark_has_the_same_samples(tshark: str, tmp_path: Path) -> None:
    draw = random.Random(3)
    frames = [encode(build(f"eth src=02:00:00:00:01:{n:02x} ip udp dstport=9")) for n in range(90)]
    samples = [
        draw.choice((flow, expanded))(raw(frame), port=draw.randrange(1, 9), rate=draw.choice((16, 4096)))
        for frame in frames
    ]
    path = written(
        tmp_path / "sflow.pcap",
        sent(*(datagram(*samples[n : n + 9], agent=bytes((10, 0, 0, n))) for n in range(0, 90, 9))),
    )
    names = [
        "eth.src", "sflow_245.agent", "sflow_245.header.frame_length",
        "sflow_245.header.sampled_header_length", "sflow.flow_sample.sampling_rate",
    ]  # fmt: skip
    seen = fields_of(tshark, path, names)
    inner, lengths, reader = read(path)
    with open_innermost((path,)) as again:
        interface = [number for batch in again for number in batch.interface.tolist()]
    assert [each[6:12].hex(":") for each in inner] == [mac for row in seen for mac in row[0][1:]]
    assert lengths == [int(size) - 4 for row in seen for size in row[2]]
    assert [len(each) for each in inner] == [int(size) for row in seen for size in row[3]]
    agents = [row[1][0] for row in seen for _ in range(9)]
    interfaces = [reader.interfaces[number] for number in interface]
    assert [each.name.split()[1] for each in interfaces] == agents
    assert [each.sampling for each in interfaces] == [int(rate) for row in seen for rate in row[4]]
