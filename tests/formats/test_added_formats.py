"""Formats of another package are found wherever formats are distinguished."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.transcripts import REPOSITORY, Folder, blocks_of
from ecmproto.frames.dissect import lines
from ecmproto.wire.formats.schema import Count
from ecmproto.wire.formats.summary import CLAUSES, STYLES, Case, First, Summary, check_summary
from tests.formats import check_added

PAGE = REPOSITORY / "docs/extending.md"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder in which the formats of the documentation are installed."""
    path = tmp_path_factory.mktemp("added")
    folder = Folder(path)
    module, entry_points = [
        b for b in blocks_of(PAGE.read_text(encoding="utf-8")) if b.language in ("python", "toml")
    ][:2]
    folder.run(module)
    folder.run(entry_points)
    return path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    known = os.pathsep.join([str(folder), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, text=True,
        env=os.environ | {"PYTHONPATH": known, "NUMBA_DISABLE_JIT": "1"},
        encoding="utf-8", capture_output=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def failed(installed: Path) -> dict[str, str]:
    """Return the errors of failed checks by name; all checks run in one process."""
    ended = run(installed, "-m", "tests.formats.check_added", *check_added.NAMES)
    assert not ended.returncode, ended.stderr
    return dict(json.loads(ended.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", check_added.NAMES)
def test_added_formats_are_supported(name: str, failed: dict[str, str]) -> None:
    assert name not in failed, failed[name]


def declared(prefix: str, announcement: str) -> str:
    return f"""
from ecmproto.wire.formats.base import Layer, layer, register
from ecmproto.wire.formats.schema import uint

@register
@layer("{prefix}", title="Toy", source="here")
class Toy(Layer):
    number: int = uint(8, default=0, doc="a number", source="here")
    {announcement}
"""


ADDED_TLV = """
from ecmproto.wire.formats.base import Limit, layer, register
from ecmproto.wire.formats.lldp import OrganizationalTLV, information, tlv_subtype
from ecmproto.wire.formats.schema import uint

@register
@layer("lldpmtu", title="Maximum frame size", source="802.3 79.3.4", length=6, oui=0x00120F)
class MaximumFrameSize(OrganizationalTLV):
    subtype: int = tlv_subtype(4, "lldp.ieee.802_3.subtype")
    octets: int = uint(16, default=1518, doc="maximum frame size", source="802.3 79.3.4")
    follows = "tlv"
    constants = ("type", "length", "oui", "subtype")
    limits = (Limit(key="length", low=6, high=6),)
    selected_by = (information(0x00120F, 4),)

from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.tools.craft import build
from ecmproto.wire.codec import decode, encode
from ecmproto.wire.layers import payload_text

octets = encode(build("lldpmtu octets=9216"))
assert MaximumFrameSize in decode(octets)
columns = extract(Batch.from_frames([octets]), ["lldpmtu.octets", "lldp.orgtlv.oui", "frame.protocols"])
print([columns[name].values.tolist() for name in ("lldpmtu.octets", "lldp.orgtlv.oui")])
print(columns["frame.protocols"].values.words[-1], "octets = 9216" in payload_text(octets))
"""


def test_single_class_adds_a_tlv(tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", ADDED_TLV)
    assert ended.stdout == "[[9216], [4623]]\neth:lldp:lldpmtu:lldp True\n", ended.stderr


@pytest.mark.parametrize(
    ("prefix", "announcement", "same"),
    [
        ("cnm", "announced_by = 0x1234", "name"),
        ("toy", "announced_by = 0x0800", "EtherType"),
        ("toy", "announced_by = 0x22E7", "EtherType"),
        ("toy", "announced_by = 0x0806; selected_by = (1,)", "EtherType"),
        ("toy", "announced_by = 'mac_control'; selected_by = (1,)", "EtherType"),
        ("toy", "ip_protocol = 17", "IP protocol"),
        ("toy", "ip_protocol = 44", "IP protocol"),
    ],
)
def test_ambiguous_format_is_refused(prefix: str, announcement: str, same: str, tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", declared(prefix, announcement) + "import ecmproto.wire.codec")
    assert f"expected a {same} that no other format has" in ended.stderr


def test_late_registration_is_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", "import ecmproto.wire.codec\n" + declared("toy", "announced_by = 0x1234"))
    assert "ParameterError: toy: expected a format registered before" in ended.stderr


def test_reserved_field_name_is_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", declared("toy", "announced_by = 0x1234").replace("number:", "role:"))
    assert "TypeError: Toy: a field of a format cannot be called role" in ended.stderr


def test_map_with_an_added_ethertype_is_refused(tmp_path: Path) -> None:
    code = "from ecmproto.wire.codec import EtherTypes, decode\n"
    code += "decode(bytes(60), ethertypes=EtherTypes(message=0x1234))"
    ended = run(tmp_path, "-c", declared("toy", "announced_by = 0x1234") + code)
    assert "ParameterError: ethertype: expected an unused value, got 0x1234" in ended.stderr


BROKEN = {
    "import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "exit": ("import sys; sys.exit('gone')", "SystemExit: gone"),
    "no format": ("Toy = 1", "expected a format, got 1"),
    "taken": (declared("cnm", "announced_by = 0x1234").replace("@register", ""), "cnm: expected a name"),
    "style": (
        declared("toy", 'summary = Summary(label="TOY", detail="{number:hexx}"); announced_by = 0x1234')
        .replace("@register", "from ecmproto.wire.formats.summary import Summary"),
        "TypeError: Toy: summary: expected a known style or clause, got 'hexx' in '{number:hexx}' "
        "(did you mean 'hex'?)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_plugin_is_named_and_left_out(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[ecmproto.formats]\ntoy = toy:Toy\n")
    (tmp_path / "toy.py").write_text(BROKEN[text][0])
    ended = run(tmp_path, "-m", "ecmproto_cli", "dissect", str(REPOSITORY / "pcaps" / "mixed.pcap"))
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 26
    named = "ecmproto: warning: toy, the entry point toy:Toy of broken 1.0, is left out: "
    (line,) = ended.stderr.splitlines()
    assert line.startswith(named + BROKEN[text][1])


def test_a_wrong_style_is_refused_where_declared(tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", BROKEN["style"][0] + "print('declared')")
    assert ended.stdout == ""
    assert BROKEN["style"][1] in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("detail", ["{number:hexx}", "{number", "{@:stranger} {number:signd}"])
def test_templates_are_checked_in_all_clauses(detail: str) -> None:
    clauses = {"own": Case("@", 0, 0, "", First(("", detail)))}
    with pytest.raises(TypeError, match=r"^Toy: summary: expected a "):
        check_summary("Toy", Summary(detail="{number:own}", clauses=clauses))


def test_styles_and_clauses_match_dissect() -> None:
    with_pieces = {"decimal", "signed", "hex", "capacity", "ticks"}
    assert set(lines._STYLES) | with_pieces == STYLES
    assert set(lines.CLAUSES) == CLAUSES


def test_formats_of_one_ethertype_differ_by_subtype(tmp_path: Path) -> None:
    code = """
from ecmproto.wire.formats.base import Layer, layer, register
from ecmproto.wire.formats.schema import uint

def declare(prefix, number, announced):
    class Toy(Layer):
        subtype: int = uint(16, default=number, doc="which", source="here")
        value: int = uint(8, default=0, doc="a number", source="here")
        announced_by = announced
        selected_by = (number,)
        constants = ("subtype",)
    register(layer(prefix, title=prefix, source="here")(Toy))

declare("one", 1, 0x1234)
declare("two", 2, 0x1234)
declare("cbfc", 0x0202, "mac_control")
from ecmproto.wire.codec import decode
header = bytes(12)
for octets in ("12340001ff", "12340002ff", "12340003ff", "88080202ff", "88080203ff", "88080001ffff"):
    print(decode(header + bytes.fromhex(octets) + bytes(50)).layers[1].prefix)
"""
    assert run(tmp_path, "-c", code).stdout.split() == ["one", "two", "data", "cbfc", "macc", "pause"]


BOTH_WAYS = (
    declared("toy", "announced_by = 0x22EA; udp_ports = (9999,)")
    + """
from ecmproto.wire.codec import decode, encode
from ecmproto.tools.craft import build

for line in (
    "toy", "eth toy", "eth type=0x22ea toy", "vlan id=5 toy", "cntag flow_id=1 toy",
    "ip toy", "ipv6 toy", "eth udp toy", "udp toy",
):
    print(*(value.prefix for value in decode(encode(build(line))).layers))
"""
)


def test_format_with_ethertype_and_port_is_craftable(tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", BOTH_WAYS)
    assert ended.stdout.splitlines() == [
        "eth toy", "eth toy", "eth toy", "eth vlan toy", "eth cntag toy",
        "eth ip udp toy", "eth ipv6 udp toy", "eth ip udp toy", "eth ip udp toy",
    ], ended.stderr  # fmt: skip


def test_an_own_format_has_a_scapy_layer(tmp_path: Path) -> None:
    code = declared("toy", "announced_by = 0x1234") + (
        "from ecmproto.wire.formats import registry\n"
        "registry.OWN = registry.FORMATS\n"
        "from ecmproto.wire.codec import encode\n"
        "from ecmproto.tools.craft import build\n"
        "from ecmproto.wire.layers import to_scapy\n"
        "print(to_scapy(encode(build('toy', number=7)))['Toy'].number)"
    )
    ended = run(tmp_path, "-c", code)
    assert ended.stdout == "7\n", ended.stderr


@pytest.mark.parametrize("given", [{"scale": 0}, {"minus": 4}])
def test_a_count_of_no_field_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"^Count: expected the key of a field to count by, got "):
        Count(**given)
