"""All output formats contain the same frames."""

from __future__ import annotations

import io
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from ecmproto.errors import SpecError
from ecmproto.frames.capture import open_capture, open_sink
from ecmproto.frames.capture.writer import Sink
from ecmproto.tools.craft import output as output_module
from ecmproto.tools.craft.output import FORMS, output_of
from ecmproto.tools.craft.recipe import CaptureInfo, Recipe, chunks
from ecmproto.tools.craft.spec import plan_of
from ecmproto.tools.craft.stack import stack_from_line

LINES = {
    "cnm flow_id=7 vlan=5": {"qntz_fb": "1..3"},
    "lldpcn": {},
    "data data=00": {},
    "pfc": {"prio3": "0..1"},
}


def recipes() -> list[Recipe]:
    made = []
    for line, sweeps in LINES.items():
        stack = stack_from_line(line)
        stack.settle()
        plan = plan_of(stack, sweeps, random=Random(0))
        made.append(Recipe(plan=plan, spacing=Fraction(10**6), comments=("x",) if sweeps else ()))
    return made


def written(form: str) -> bytes:
    file = io.BytesIO()
    output = output_of(form, Sink("out", file), CaptureInfo())
    for chunk in chunks(recipes()):
        output.write(chunk)
    output.finish()
    return file.getvalue()


def octets() -> list[bytes]:
    return [frame for chunk in chunks(recipes()) for frame in chunk.octets()]


def test_hex_is_a_line_a_frame() -> None:
    assert [bytes.fromhex(line) for line in written("hex").decode().splitlines()] == octets()


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_captures_hold_the_frames_and_their_times(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(written(form))
    with open_capture(path) as reader:
        batches = list(reader)
        assert reader.problem is None
    assert [frame for batch in batches for frame in batch.frames()] == octets()
    assert [t for batch in batches for t in batch.time_ns.tolist()] == [i * 1_000_000 for i in range(7)]


def test_a_script_prints_the_same_octets(tmp_path: Path) -> None:
    script = tmp_path / "frames.py"
    script.write_bytes(written("python"))
    ran = subprocess.run([sys.executable, script], capture_output=True, check=True)
    assert ran.stdout == written("hex")


def test_script_of_excess_frames_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "MAX_SCRIPT_FRAMES", 3)
    with pytest.raises(SpecError, match="expected at most 3 frames in a script"):
        written("python")


def test_pcap_output_warns_of_lost_comments() -> None:
    output = output_of("pcap", Sink("out", io.BytesIO()), CaptureInfo())
    for chunk in chunks(recipes()):
        output.write(chunk)
    assert output.warnings == ["comments are lost: pcap cannot store them"]


@pytest.mark.parametrize(
    ("line", "sweeps", "field"),
    [
        ("ip tcp data data=010203", {"ip.id": "0..99", "tcp.srcport": "random:30"}, "tcp"),
        (
            "ipv6 udp data data=0102",
            {"ipv6.src": "2001:db8::fff0..2001:db8::1:ff", "udp.length": "10"},
            "udp",
        ),
        ("ip len=25 udp", {"ip.ttl": "0..255"}, "ip"),
    ],
)
def test_wireshark_finds_every_swept_checksum_right(
    line: str, sweeps: dict[str, object], field: str, tmp_path: Path, tshark: str
) -> None:
    stack = stack_from_line(line)
    made = list(chunks([Recipe(plan=plan_of(stack, sweeps, random=Random(3)))]))
    path = tmp_path / "a.pcap"
    with open_sink(path) as sink:
        output = output_of("pcap", sink, CaptureInfo())
        for chunk in made:
            output.write(chunk)
    checks = [word for name in ("ip", "tcp", "udp") for word in ("-o", f"{name}.check_checksum:TRUE")]
    command = [tshark, "-r", str(path), *checks, "-T", "fields", "-e", f"{field}.checksum.status"]
    shown = subprocess.run(command, capture_output=True, check=True).stdout.split()
    assert shown == [b"1"] * sum(map(len, made))


def test_every_form_can_be_written() -> None:
    assert all(written(form) for form in FORMS)
