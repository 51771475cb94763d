"""PAUSE and PFC frames, octet by octet (wire-formats 8)."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.protocol import PAUSE_KIND, PFC_KIND
from ecmproto.control.mechanisms.pause.congestion_point import Signal
from ecmproto.control.mechanisms.pause.messages import (
    PauseDiscards,
    parse_flow_control,
    pause_frame,
    pfc_frame,
    read_flow_control,
)
from ecmproto.control.mechanisms.pause.reaction_point import KIND_PAUSE, KIND_PFC, KIND_REFUSED
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec import EtherTypes

SRC = bytes.fromhex("0200000000cc")
HEADER = "0180c2000001" + "0200000000cc" + "8808"


def frame(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", "")).ljust(60, b"\0")


def test_a_pause_octet_by_octet() -> None:
    assert pause_frame(Signal(1, 0xFFFF), src=SRC) == frame(HEADER + "0001 ffff")
    assert pause_frame(Signal(1, 0), src=SRC) == frame(HEADER + "0001 0000")


def test_a_pfc_frame_octet_by_octet() -> None:
    assert pfc_frame(Signal(0x88, 0xFFFF), src=SRC) == frame(
        HEADER + "0101 0088 0000 0000 0000 ffff 0000 0000 0000 ffff"
    )
    assert pfc_frame(Signal(0x01, 0), src=SRC) == frame(HEADER + "0101 0001" + "0000" * 8)


@given(st.integers(0, 0xFF), st.integers(0, 0xFFFF))
def test_what_is_sent_is_what_is_read(vector: int, quanta: int) -> None:
    got = read_flow_control(pfc_frame(Signal(vector, quanta), src=SRC))
    assert got.kind == KIND_PFC
    assert got.enable_vector == vector
    assert got.times_quanta == tuple(quanta if vector >> priority & 1 else 0 for priority in range(8))
    got = read_flow_control(pause_frame(Signal(1, quanta), src=SRC))
    assert got == (KIND_PAUSE, 0xFF, (quanta,) * 8)


def test_high_octet_of_enable_vector_does_not_count() -> None:
    assert read_flow_control(frame(HEADER + "0101 ff02" + "0005" * 8)).enable_vector == 0x02


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0180c2000001",
        "0180c2000002 0200000000cc 8808 0001 ffff",  # a foreign group address
        "ffffffffffff 0200000000cc 8808 0001 ffff",
        "020000000001 0200000000cc 8808 0101 00ff" + "ffff" * 8,
        "0180c2000001 0200000000cc 8100 6001 8808 0001 ffff",  # never VLAN-tagged
        "0180c2000001 0200000000cc 8808 0002 ffff",  # an unknown opcode
        "0180c2000001 0200000000cc 0800 0001 ffff",
        "0180c2000001 0200000000cc 22e9 0001 8808 0001 ffff",
    ],
)
def test_what_is_no_pause_frame_is_refused(text: str) -> None:
    octets = bytes.fromhex(text.replace(" ", ""))
    assert read_flow_control(octets if len(octets) < 14 else octets.ljust(60, b"\0")).kind == KIND_REFUSED


@pytest.mark.parametrize("good", [HEADER + "0001 ffff", HEADER + "0101 00ff" + "ffff" * 8])
def test_frame_cut_anywhere_in_its_fields_is_refused(good: str) -> None:
    octets = bytes.fromhex(good.replace(" ", ""))
    assert read_flow_control(octets).kind != KIND_REFUSED
    for length in range(len(octets)):
        assert read_flow_control(octets[:length]).kind == KIND_REFUSED


@given(st.binary(max_size=70))
def test_reading_never_raises(octets: bytes) -> None:
    assert read_flow_control(octets).kind in (KIND_PAUSE, KIND_PFC, KIND_REFUSED)
    assert read_flow_control(bytes.fromhex(HEADER) + octets).kind in (KIND_PAUSE, KIND_PFC, KIND_REFUSED)


def test_frame_is_heard_as_messages_that_make_it() -> None:
    counted = new_record(PauseDiscards)
    assert parse_flow_control(pause_frame(Signal(1, 7), src=SRC), counted) == [
        {"kind": PAUSE_KIND, "enable_vector": 0xFF, "quanta": 7}
    ]
    assert parse_flow_control(pfc_frame(Signal(0x88, 9), src=SRC), counted) == [
        {"kind": PFC_KIND, "enable_vector": 0x88, "quanta": 9}
    ]
    # A message has one time. Messages with different times are distinguished, and disabled times are ignored.
    mixed = frame(HEADER + "0101 001b 0005 0000 0006 0005 0000 0007 0007 0007")
    assert parse_flow_control(mixed, counted) == [
        {"kind": PFC_KIND, "enable_vector": 0x09, "quanta": 5},
        {"kind": PFC_KIND, "enable_vector": 0x12, "quanta": 0},
    ]
    assert parse_flow_control(pfc_frame(Signal(0, 9), src=SRC), counted) == [
        {"kind": PFC_KIND, "enable_vector": 0, "quanta": 0}
    ]
    assert counted.refused_frames == 0
    assert parse_flow_control(frame(HEADER + "0002 ffff"), counted) == []
    assert parse_flow_control(b"", counted) == []
    assert counted.refused_frames == 2


def test_other_ethertypes_are_used_throughout() -> None:
    ethertypes = EtherTypes(mac_control=0x9ABC)
    octets = pause_frame(Signal(1, 7), src=SRC, ethertypes=ethertypes)
    assert octets[12:14].hex() == "9abc"
    assert read_flow_control(octets, ethertypes=ethertypes).kind == KIND_PAUSE
    assert read_flow_control(octets).kind == KIND_REFUSED


def test_tshark_reads_them_without_complaint(tshark: str, tmp_path: Path) -> None:
    octets = [pause_frame(Signal(1, 0xFFFF), src=SRC), pfc_frame(Signal(0x28, 0x1234), src=SRC)]
    capture = tmp_path / "pause.pcap"
    capture.write_bytes(
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
        + b"".join(struct.pack("<IIII", 0, 0, len(one), len(one)) + one for one in octets)
    )
    fields = [
        "macc.opcode",
        "macc.pause_time",
        "macc.cbfc.enbv",
        *(f"macc.cbfc.pause_time.c{n}" for n in (2, 3, 5)),
    ]
    command = [tshark, "-r", str(capture), "-T", "fields", "-E", "separator=,"]
    for field in [*fields, "_ws.malformed", "_ws.expert.message"]:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0x0001,65535,,,,,,", "0x0101,,0x0028,0,4660,4660,,"]
