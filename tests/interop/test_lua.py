"""The Wireshark dissector: its output in tshark, and its compatibility with Lua 5.2 to 5.4."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ecmproto.frames.capture import open_capture
from ecmproto.frames.dissect.lines import describe
from ecmproto.tools.fuzz.checks.tshark import Sample, write_pcap
from ecmproto.tools.interop.lua import dissector
from ecmproto.wire.codec import (
    BCN,
    CNM,
    E2CM,
    ECM,
    UDP,
    VLAN,
    CNTag,
    Data,
    Ethernet,
    FECNReturn,
    IPv4,
    RDTag,
    encode,
)
from ecmproto.wire.codec.frame import Frame, decode_lax, encapsulated
from ecmproto.wire.formats.base import Layer, layer
from ecmproto.wire.formats.experimental import DEFAULT_CPID, Sampling, selector
from ecmproto.wire.formats.infiniband import BTH, CNP, GRH, ICRC
from ecmproto.wire.formats.schema import CPID, REST, Count, octets, uint
from tests.conftest import REPOSITORY
from tests.interop.dissection import OURS, SAMPLED, crafted, differences, theirs, truncated, tshark_output

STATION, SWITCH = "02:00:00:00:00:01", "02:00:00:00:00:c1"
TO_STATION = Ethernet(dst=STATION, src=SWITCH)
DATA = encode(
    Ethernet(dst="02:00:00:00:00:02", src=STATION), CNTag(flow_id=7),
    IPv4(src="192.0.2.1", dst="192.0.2.2", proto=253),
)  # fmt: skip
MESSAGE = encode(
    TO_STATION, VLAN(id=5, priority=6), CNTag(flow_id=7),
    CNM(qntz_fb=40, cpid="02:00:00:00:00:c1/1", encap_dst="02:00:00:00:00:02", msdu=DATA[16:38]),
)  # fmt: skip

OF_WIRESHARK = {
    "base", "Column", "Dissector", "DissectorTable", "expert", "gui_enabled", "Listener",
    "MENU_STAT_UNSORTED", "Pref", "Proto", "ProtoExpert", "ProtoField", "register_menu", "report_failure",
    "retap_packets", "TextWindow", "TreeItem", "Tvb", "TvbRange", "UInt64",
}  # fmt: skip
OF_LUA = {"error", "ipairs", "math", "pairs", "pcall", "print", "string", "table", "tonumber", "tostring"}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "ecmproto.lua"
    path.write_text(dissector(), encoding="utf-8")
    return path


def header(ethertype: int) -> bytes:
    return encode(Ethernet(dst=STATION, src=SWITCH, type=ethertype), fix=False)


class Shown:
    """Tshark's fields of frames."""

    def __init__(self, program: str, plugin: Path, folder: Path) -> None:
        self._program, self._plugin, self._folder = program, plugin, folder

    def __call__(self, *frames: bytes, options: str = "", cut: int = 0, sampled: bool = True) -> str:
        capture = self._folder / "frames.pcap"
        samples = [Sample(where="", octets=each[: cut or None], original=len(each)) for each in frames]
        write_pcap(capture, samples)
        preferences = ["-o", SAMPLED] if sampled else []
        return tshark_output(self._program, self._plugin, capture, *preferences, *options.split())


@pytest.fixture
def shown(tshark: str, plugin: Path, tmp_path: Path) -> Shown:
    return Shown(tshark, plugin, tmp_path)


def from_captures() -> list[Sample]:
    samples = []
    for path in sorted((REPOSITORY / "pcaps").glob("*.pcap*")):
        with open_capture(path) as reader:
            batch = next(iter(reader))
            for index in range(min(len(batch), 200)):
                octets, original = bytes(batch.frame(index)), int(batch.original[index])
                samples.append(Sample(where=f"{path.name} {index + 1}", octets=octets, original=original))
    return samples


def test_tshark_has_the_codecs_fields_everywhere(tshark: str, plugin: Path, tmp_path: Path) -> None:
    samples = from_captures()
    samples += [sample for cls in OURS for sample in (*crafted(cls, 24), *truncated(cls))]
    capture = tmp_path / "frames.pcap"
    write_pcap(capture, samples)
    found = theirs(tshark, plugin, capture)
    assert list(differences(samples, found)) == []
    tshark_output(tshark, plugin, capture, "-2", "-V")
    seen = {name for fields in found for name in fields}
    assert {field.name for cls in OURS for field in cls.layout} <= seen


def test_info_column_equals_the_summary(shown: Shown) -> None:
    samples = [sample for cls in OURS for sample in crafted(cls, 9)]
    octets = [each.octets for each in samples]
    said = shown(*octets, options="-T fields -e _ws.col.Info --disable-protocol=ip")
    checked = set()
    for sample, info in zip(samples, said.splitlines(), strict=True):
        frame = decode_lax(sample.octets)
        layers = [value for value in frame.layers if type(value) in (Ethernet, *OURS)]
        if frame.error is None and type(layers[-1]) in OURS and encapsulated(frame) is None:
            _, told = describe(Frame(layers=tuple(layers)))
            assert info.startswith(told), sample
            checked.add(type(layers[-1]).prefix)
    assert {"e2cm", "fecn", "dbp", "expmsg", "exptag"} <= checked


def test_inner_headers_and_sampled_frame_are_dissected(shown: Shown) -> None:
    inner = IPv4(dst="192.0.2.9", proto=253)
    tagged = encode(TO_STATION, RDTag(rate=1000), CNTag(flow_id=3), VLAN(id=9), inner)
    ecm = encode(TO_STATION, ECM(q_off=5, payload=b"\2\0\0\0\0\2\2\0\0\0\0\1" + DATA[12:]))
    fields = "-T fields -e rdtag.rate -e cntag.flow_id -e vlan.id -e ip.dst -e eth.dst -e _ws.col.Source"
    assert shown(tagged, MESSAGE, ecm, options=fields).splitlines() == [
        f"1000\t3\t9\t192.0.2.9\t{STATION}\t0.0.0.0",
        f"\t7\t5\t192.0.2.2\t{STATION}\t{SWITCH}",
        f"\t7\t\t192.0.2.2\t{STATION},02:00:00:00:00:02\t{SWITCH}",
    ]
    line = shown(MESSAGE)
    assert "CNM" in line
    assert "Fb 40 flow 7 prio 0 QOffset 0 B QDelta 0 B CPID src/1 | of → 02:00:00:00:00:02 IPv4" in line


def test_filters_skip_fields_inside_messages_by_default(shown: Shown) -> None:
    sampled = b"\2\0\0\0\0\2\2\0\0\0\0\1" + DATA[12:]
    ecm = encode(TO_STATION, ECM(q_off=5, payload=sampled))
    fields = "-T fields -e frame.number -e ecm.q_off -e eth.src -e ip.dst"
    assert shown(MESSAGE, ecm, DATA, options=f"{fields} -Y ip.dst==192.0.2.2", sampled=False) == (
        f"3\t\t{STATION}\t192.0.2.2\n"
    )
    assert shown(ecm, options=fields, sampled=False) == f"1\t5\t{SWITCH}\t\n"


def test_truncated_packets_are_not_malformed(shown: Shown) -> None:
    udp = UDP(srcport=49152, dstport=9)
    packet = encode(
        Ethernet(dst="02:00:00:00:00:02", src=STATION), CNTag(flow_id=7), VLAN(id=4, dei=1),
        IPv4(src="192.0.2.1", dst="192.0.2.2"), udp, Data(data=bytes(200)),
    )  # fmt: skip
    cnm = encode(TO_STATION, CNM(cpid="02:00:00:00:00:c1/1", encap_dst=STATION, msdu=packet[16:80]))
    ecm = encode(TO_STATION, ECM(payload=b"\2\0\0\0\0\2\2\0\0\0\0\1" + packet[12:70]))
    text = "vlan 4 prio 0 dei, 192.0.2.1:49152 → 192.0.2.2:9 len 200"
    tree = shown(cnm, ecm, options="-V")
    assert "alformed" not in tree
    assert "total length exceeds" not in tree
    fields = "-T fields -e vlan.dei -e ip.src -e udp.dstport -e _ws.col.Info -e _ws.col.Source"
    first, second = (line.split("\t") for line in shown(cnm, ecm, options=fields).splitlines())
    assert (first[:3], first[4]) == (["1", "192.0.2.1", "9"], SWITCH)
    assert second[:3] == ["1", "192.0.2.1", "9"]
    assert first[3].endswith(f"of → {STATION} UDP {text}")
    assert second[3].endswith(f"of → 02:00:00:00:00:02 UDP CN-TAG flow 7, {text}")
    text = "CN-TAG flow 7 | vlan 4 prio 0 dei | 192.0.2.1:49152 → 192.0.2.2:9 len 200"
    assert shown(packet, options=fields, cut=60) == f"1\t192.0.2.1\t9\t{text}\t192.0.2.1\n"


def test_filters_accept_the_same_names_and_values(shown: Shown) -> None:
    wanted = "cnm&&cnm.qntz_fb>=40&&cnm.cpid==0200000000c10001&&cntag.flow_id==7"
    assert shown(MESSAGE, DATA, options=f"-T fields -e frame.number -Y {wanted}") == "1\n"


def test_units_names_and_derived_values_are_in_tree(shown: Shown) -> None:
    tree = shown(MESSAGE, encode(TO_STATION, BCN(e=-3, capacity=10_000_000)), options="-V")
    assert "CPID: 0200000000c10001 (02:00:00:00:00:c1/1)" in tree
    assert "E: -3 × 64 octets = -192 octets" in tree
    assert "10000000 kb/s = 10 Gb/s" in tree
    assert "Quantized Feedback: 40" in tree
    assert "Sampled" not in tree
    assert "infinity" in shown(encode(TO_STATION, FECNReturn(rlq_id=1)), options="-V")


def test_malformed_and_suspicious_frames_have_expert_notes(shown: Shown) -> None:
    told = {
        "cnm at octet 22: expected 24 octets, got 18 octets": MESSAGE[:40],
        "cnm at octet 44: expected msdu_length 0..64, got 96": MESSAGE[:44] + b"\0\x60" + MESSAGE[46:],
        "expected 24 octets of the sampled frame, got 8": encode(TO_STATION, ECM(payload=bytes(30)))[:40],
        "fecn.reserved should be 0, is 5": encode(TO_STATION, FECNReturn(reserved=5)),
        "sampled frame's source is not the message's": encode(TO_STATION, ECM(payload=bytes(30))),
    }
    trees = shown(*told.values(), options="-V")
    assert [expected for expected in told if expected not in trees] == []
    assert shown(*told.values(), options="-2 -V") == trees
    experts = shown(*told.values(), options="-q -z expert,note")
    assert [expected for expected in told if expected not in experts] == []


def test_frame_cut_by_capture_is_not_malformed(shown: Shown) -> None:
    tree = shown(MESSAGE, options="-V", cut=50)
    assert "Malformed" not in tree
    assert "28 of 46 octets" in tree


def test_preferences_change_ethertypes_and_restore_old_ones(shown: Shown) -> None:
    moved = MESSAGE.replace(b"\x22\xe9", b"\x22\xf0").replace(b"\x22\xe7", b"\x22\xe9")
    fields = "-T fields -e cntag.flow_id -e cnm.qntz_fb"
    both = "-o ecmproto.cn_tag:0x22f0 -o ecmproto.cnm:8937"
    assert shown(MESSAGE, moved, options=f"{fields} {both}").splitlines() == ["\t7", "7\t40"]
    assert shown(MESSAGE, options=f"{fields} -o ecmproto.cnm:off") == "7\t\n"
    csig, fields = header(0x9900) + bytes.fromhex("e1050800") + DATA[18:], "-T fields -e csig.t -e ip.dst"
    assert shown(csig, options=fields) == "\t\n"
    assert shown(csig, options=f"{fields} -o ecmproto.csig:0x9900") == "7\t192.0.2.2\n"


def test_foreign_experimental_payload_is_unknown(shown: Shown) -> None:
    foreign = header(0x88B5) + bytes([0x07, 0xF0]) + bytes(60)
    fields = "-T fields -e ecm.version -e expmsg.protocol -e data.len"
    assert shown(foreign, options=fields) == "\t7\t\n"
    assert shown(foreign, options=f"{fields} -o ecmproto.unknown:FALSE") == "\t\t62\n"


def test_roce_has_fields_missing_in_wireshark(shown: Shown) -> None:
    network = (IPv4(src="192.0.2.1", dst="192.0.2.2", proto=17), UDP(srcport=50000, dstport=4791))
    cnp = encode(TO_STATION, *network, CNP(qp=0x118, reserved=bytes(15) + b"\7"), ICRC())
    data = encode(
        TO_STATION, CNTag(flow_id=1), *network, BTH(fecn=1, reserved6=5), Data(data=bytes(8)), ICRC()
    )
    old = encode(TO_STATION, GRH(), CNP(qp=2), ICRC())
    names = ("fecn", "becn", "reserved6", "destqp")
    fields = (
        "-T fields" + "".join(f" -e infiniband.bth.{name}" for name in names) + " -e infiniband.cnp.reserved"
    )
    assert shown(cnp, data, old, options=fields).splitlines() == [
        f"0\t1\t0x00\t0x000118\t{'00' * 15}07",
        "1\t0\t0x05\t0x000000\t",
        f"0\t1\t0x00\t0x000002\t{'00' * 16}",
    ]
    assert shown(cnp, data, options="-Y cnp -T fields -e frame.number") == "1\n"
    assert shown(cnp, data, options="-Y cnp||bth -o ecmproto.roce:FALSE") == ""


def test_messages_are_counted_by_congestion_point(shown: Shown) -> None:
    other = MESSAGE.replace(bytes.fromhex("0200000000c10001"), bytes.fromhex("0200000000c20003"))
    table = shown(MESSAGE, other, MESSAGE, options="-q -o ecmproto.statistics:TRUE").splitlines()
    assert table[0] == "Messages by congestion point"
    assert [line.split()[:3] for line in table[2:]] == [
        ["CNM", "02:00:00:00:00:c1/1", "2"], ["CNM", "02:00:00:00:00:c2/3", "1"],
    ]  # fmt: skip


def test_hundreds_of_tags_are_dissected(shown: Shown) -> None:
    tags = encode(TO_STATION, *[CNTag(flow_id=1)] * 300, IPv4(dst="192.0.2.9", proto=253))
    assert shown(tags, options="-T fields -e ip.dst") == "192.0.2.9\n"
    shown(encode(TO_STATION, *[CNTag(flow_id=1), VLAN(id=1)] * 150, IPv4()), options="-V")


def test_formats_in_one_file_are_in_the_dissector(tshark: str, tmp_path: Path) -> None:
    @layer("toytag", title="Toy tag", source="nobody")
    class ToyTag(Layer):
        colour_of: int = uint(4, default=0, doc="which", source="nobody", names={3: "blue"})
        rest: int = uint(12, default=0, doc="how much", source="nobody", unit="kb/s")
        etype: int = uint(16, default=0, base="hex", doc="next", source="nobody", length_name="toytag.len")
        announced_by = 0x1234
        next_key = "etype"

    @layer("toy", title="Toy message", source="nobody", protocol=5)
    class Toy(Sampling):
        cpid: CPID = uint(64, default=DEFAULT_CPID, kind="cpid", base="hex", doc="where", source="nobody")
        wide: int = uint(37, default=0, base="hex", doc="bits over octets", source="nobody")
        low: int = uint(3, default=0, doc="the last of them", source="nobody")
        payload: bytes = octets(REST, default=b"", doc="the sampled frame", source="nobody")
        announced_by = "message"
        selected_by = (selector(5, 0),)
        showing = (0,)

    @layer("toyudp", title="Toy datagram", source="nobody")
    class ToyDatagram(Layer):
        size: int = uint(8, default=0, doc="of the body", source="nobody")
        body: bytes = octets(Count(key="size"), default=b"", doc="some octets", source="nobody")
        udp_ports = (7777,)

    plugin = tmp_path / "toy.lua"
    plugin.write_text(dissector([*OURS, ToyTag, Toy, ToyDatagram]), encoding="utf-8")
    show = Shown(tshark, plugin, tmp_path)
    udp = UDP(srcport=1, dstport=7777, length=12).build() + ToyDatagram(size=3, body=b"abc").build()
    packet = IPv4(len=20 + len(udp), proto=17, ttl=9).build() + udp
    tagged = header(0x1234) + bytes.fromhex("30070800") + packet
    sampled = DATA[6:12] + bytes.fromhex(STATION.replace(":", "")) + DATA[12:]
    message = header(0x88B5) + Toy(wide=0x123456789A, low=5, payload=sampled).build()
    fields = "-e toytag.rest -e toyudp.body -e toy.wide -e toy.low -e cntag.flow_id -e _ws.col.Info"
    first, second = (
        line.split("\t") for line in show(tagged, message, options=f"-T fields {fields}").splitlines()
    )
    assert first == ["7", "616263", "", "", "", "toytag colour_of 3 rest 7 | body 3 octets"]
    assert second[:5] == ["", "", "0x000000123456789a", "5", "7"]
    assert second[5].startswith("q 0 protocol 5 type 0 CPID 02:00:00:00:00:01/1 wide")
    assert "Colour of: blue (3)" in show(tagged, options="-V")


def test_dissector_runs_in_all_wireshark_lua_versions(plugin: Path, needs: Callable[[str], str]) -> None:
    compiler = needs("luac5.4")
    listing = subprocess.run(
        [compiler, "-l", "-p", str(plugin)], capture_output=True, text=True, check=True
    ).stdout
    used = set(re.findall(r'_ENV "(\w+)"', listing))
    assert {"Proto", "pcall"} <= used <= OF_WIRESHARK | OF_LUA
    assert not re.search("SETTABUP.*_ENV", listing)  # no global is set
    code = re.sub(r'"(?:[^"\\]|\\.)*"|--.*', "", plugin.read_text(encoding="utf-8"))
    # Functions that are missing in Lua 5.2 or were removed in Lua 5.4.
    assert not re.search(
        r"//|[&|~](?!=)|<<|>>|\bgoto\b|\bbit(?:32|op)?\.|\brequire\b|\bunpack\(|\.pow\(", code
    )


def test_dissector_runs_in_lua_5_4(plugin: Path, needs: Callable[[str], str]) -> None:
    program = needs("lua5.4")
    stand_in = Path(__file__).with_name("stand_in.lua")
    rate = FECNReturn(rlq_id=5, rate=2_345_678)
    e2cm = E2CM(type=4, cpid="02:00:00:00:00:02/0", latency=1_234_567, throughput=9_999_999, flow_id=0x4EDD)
    ecm = ECM(
        cpid="02:00:00:00:00:c1/1", q_off=-3, q_delta=7, timestamp=291, unit=6, payload=DATA[:12] + DATA[20:]
    )
    for layers in ((rate,), (CNTag(flow_id=9), rate), (e2cm,), (ecm,)):
        octets = encode(TO_STATION, *layers)
        frame = decode_lax(octets)
        words = [program, str(stand_in), str(plugin), f"{octets[12] << 8 | octets[13]}", octets[14:].hex()]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        name, told = describe(frame)
        alone, _, _ = told.partition(" | of ")  # Wireshark dissects the sampled frame
        assert said.startswith(f"{name} {alone}")
