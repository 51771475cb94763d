"""Only tshark's known deviations are allowed. Any other difference in the same frame is an error."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from ecmproto.tools.fuzz.cases import Cases
from ecmproto.tools.fuzz.checks.tshark import (
    FIELDS,
    Fields,
    Sample,
    TsharkCheck,
    ours,
    theirs,
    unexplained,
    write_pcap,
)
from tests.conftest import requires

SRC = bytes.fromhex("020000000001")
VLAN = bytes.fromhex("8100a005")
HEADER = bytes.fromhex("0180c200000e") + SRC + VLAN + b"\x88\xcc"
END = bytes(22)
CNPV, READY = "lldp.ieee.802_1qau.cnpv.prio{}", "lldp.ieee.802_1qau.ready.prio{}"


def tlv(type: int, value: bytes, length: int | None = None) -> bytes:
    return (type << 9 | (len(value) if length is None else length)).to_bytes(2) + value


def cn(cnpv: int, ready: int, length: int = 6) -> bytes:
    return tlv(127, bytes.fromhex("0080c208") + bytes([cnpv, ready]), length)


CHASSIS, PORT, TIME = tlv(1, b"\4" + SRC), tlv(2, b"\3" + SRC), tlv(3, b"\0\x78")
BEFORE = HEADER + CHASSIS + PORT
RIGHT, OTHER = cn(0x4A, 0x40), cn(0x81, 0x01)

FRAMES = {
    **{
        f"a CN TLV of length {n}": BEFORE + TIME + RIGHT + cn(0xFF, 0xFF, n) + END for n in (0, 3, 4, 5, 7, 9)
    },
    **{f"an honest CN TLV of {n}": BEFORE + TIME + RIGHT + cn(0xFF, 0xFF, n)[: 2 + n] + END for n in (4, 5)},
    "a long time to live": BEFORE + tlv(3, b"\0\x78" + bytes(4)) + RIGHT + END,
    "a CN TLV within the time to live": BEFORE + tlv(3, b"\0\x78" + RIGHT) + OTHER + END,
    "a time to live that claims a CN TLV": BEFORE + tlv(3, b"\0\x78", 10) + RIGHT + OTHER + END,
    "the same, and that CN TLV is short": BEFORE + tlv(3, b"\0\x78", 10) + RIGHT + cn(0x09, 0x40, 4) + END,
    "no time to live": BEFORE + tlv(3, b"") + RIGHT + END,
    "a short organisation": BEFORE + TIME + RIGHT + tlv(127, b"\0\x12") + OTHER + END,
    "short capabilities": BEFORE + TIME + RIGHT + tlv(7, b"\0") + OTHER + END,
    "nothing wrong": BEFORE + TIME + RIGHT + OTHER + END,
}
PLAIN = bytes.fromhex("020000000002") + SRC
INNER = PLAIN + VLAN + bytes.fromhex("88080001ffff") + bytes(42)
TRILL = bytes.fromhex("22f30040") + bytes(4)
BEHIND = {
    "21 tags in front of a length": PLAIN + 21 * VLAN + b"\0\7" + bytes(7),
    "21 tags in front of a PAUSE": PLAIN + 21 * VLAN + bytes.fromhex("88080001ffff"),
    "20 tags in front of a PAUSE": PLAIN + 20 * VLAN + bytes.fromhex("88080001ffff"),
    "a frame behind TRILL": PLAIN + TRILL + INNER,
    "a frame behind a tag and TRILL": PLAIN + VLAN + TRILL + INNER,
    "a frame behind a tag and FabricPath": PLAIN + VLAN + bytes.fromhex("89030001") + INNER,
    "a bridged frame": PLAIN + bytes.fromhex("6558") + INNER,
}
"""Layers that tshark does not reach, or finds in data."""
UNFINISHED = {
    "an S-TAG, and one of which nothing came": PLAIN + bytes.fromhex("88a8000a88a8"),
    "an S-TAG, and one of which an octet came": PLAIN + bytes.fromhex("88a8b00a88a8a0"),
}
ALL = FRAMES | BEHIND | UNFINISHED
READ = [name for name in FRAMES if name not in ("a long time to live", "no time to live")]
"""Frames with a CN TLV in tshark's output."""


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Sample, Fields]]:
    """Tshark's reading of each."""
    program = requires("tshark")
    samples = [Sample(where=name, octets=octets, original=len(octets)) for name, octets in ALL.items()]
    capture = tmp_path_factory.mktemp("lldp") / "frames.pcap"
    write_pcap(Path(capture), samples)
    rows = theirs(program, capture)
    return {sample.where: (sample, row) for sample, row in zip(samples, rows, strict=True)}


@pytest.mark.parametrize("name", ALL)
def test_known_differences_of_tshark_are_excused(name: str, read: dict[str, tuple[Sample, Fields]]) -> None:
    sample, their = read[name]
    assert list(unexplained(sample, ours(sample), their)) == []


def flipped(values: list[str]) -> list[str]:
    return [str(1 - int(values[0])), *values[1:]]


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("field", [CNPV.format(3), READY.format(6)])
@pytest.mark.parametrize("change", [flipped, lambda values: ["7", *values]], ids=["flipped", "made up"])
def test_changed_tlv_value_is_reported(
    name: str, field: str, change: Callable[[list[str]], list[str]], read: dict[str, tuple[Sample, Fields]]
) -> None:
    sample, their = read[name]
    assert their[field]
    changed = their | {field: change(their[field])}
    assert [wrong for wrong, _ in unexplained(sample, ours(sample), changed)] == [field]


@pytest.mark.parametrize("name", [name for name in BEHIND if "FabricPath" not in name])
def test_changed_value_before_excused_one_is_reported(
    name: str, read: dict[str, tuple[Sample, Fields]]
) -> None:
    sample, their = read[name]
    mine = ours(sample)
    for field in filter(mine.get, FIELDS):
        assert field in dict(unexplained(sample, mine, their | {field: ["4711"]}))


@pytest.mark.parametrize("name", FRAMES)
def test_differences_outside_lldp_are_reported(name: str, read: dict[str, tuple[Sample, Fields]]) -> None:
    sample, their = read[name]
    for field in FIELDS:
        if not field.startswith("lldp"):
            found = list(unexplained(sample, ours(sample), their | {field: ["4711"]}))
            assert [wrong for wrong, _ in found] == [field]


@pytest.mark.parametrize(
    "name", ["nothing wrong", "a CN TLV of length 7", "a time to live that claims a CN TLV"]
)
def test_tlvs_missing_in_tshark_are_reported(name: str, read: dict[str, tuple[Sample, Fields]]) -> None:
    sample, their = read[name]
    lost: Fields = {field: [] if field.startswith("lldp") else values for field, values in their.items()}
    assert len(list(unexplained(sample, ours(sample), lost))) == 18


def test_spoilt_lldp_agrees() -> None:
    requires("tshark")
    cases = Cases(list(FRAMES.values()), seed=11)
    frames = [case.octets for case in islice(cases, 1_500)]
    assert list(TsharkCheck().differences(frames)) == []
