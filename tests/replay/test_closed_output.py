"""The output capture of a closed loop, frame by frame, read without the code that wrote the capture."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest

from ecmproto import CNM, PFC, CMTag, CNTag, DecodeError, Ethernet, Pause, RDTag, RRTTag, decode
from ecmproto.control.engine.config import LoopConfig, PortConfig
from ecmproto.control.engine.port import DROPPED, ENQUEUED, HELD_OUT
from ecmproto.control.replay.closed_loop import ClosedLoopReplay
from ecmproto.control.replay.closed_output import ClosedLoopOutput
from ecmproto.control.replay.session import Plan, replay_capture
from ecmproto.frames.capture import Batch, CaptureReader, PcapngWriter, PcapWriter, comments, open_capture
from ecmproto_cli.main import run
from tests.replay.loops import BUSY, CP_MAC, TEN_G, Loop, Sent, loop_of, machine, mixed, ran
from tests.replay.many_kinds import FCS_OCTETS, START_NS, Parted, parted, write

PORT = PortConfig(rate_bps=5 * 10**9, buffer_octets=120_000, cp_mac=CP_MAC)
LOOP = LoopConfig(link_rate_bps=TEN_G, queue_octets=40_000)
WHOLE_HEADERS = 64
"""Length in octets that contains all headers of a frame and the inserted tags."""


class Written(NamedTuple):
    time_ns: int
    octets: bytes
    original: int
    comment: str


class Output(NamedTuple):
    """The written output in parts, the input frames, and the passages from which the output was written."""

    data: list[Written]
    generated: list[Written]
    everything: list[Written]
    read: list[tuple[bytes, int]]
    """Octets captured and on the wire, both without FCS."""
    loop: Loop


def frames_of(path: Path) -> list[Written]:
    with open_capture(path) as reader:
        return [
            Written(
                int(batch.time_ns[i]), batch.frame(i), int(batch.original[i]), "".join(comments(batch, i))
            )
            for batch in reader
            for i in range(len(batch))
        ]


def without_fcs(batch: Batch, reader: CaptureReader) -> Iterator[tuple[bytes, int]]:
    for i in range(len(batch)):
        length = int(batch.original[i]) - FCS_OCTETS * int(batch.interface[i])
        yield batch.frame(i)[:length], length


@cache
def output(name: str, *, suffix: str = ".pcapng", plain: bool = False) -> Output:
    """Return the output of a busy loop of mechanism ``name`` for a capture with frames of every kind."""
    made = machine(name, *BUSY[name])
    with TemporaryDirectory() as folder:
        source, written = Path(folder) / "in.pcapng", Path(folder) / f"out{suffix}"
        write(source, plain=plain)
        plan = Plan(machine=made, port=PORT, loop=LOOP, seed=1)
        with (
            open_capture(source, batch_frames=500) as reader,
            ClosedLoopOutput(reader, written, force=False) as out,
        ):
            replay_capture(reader, plan, output=out)
        everything = frames_of(written)
        with open_capture(source) as reader:
            batches = list(reader)
            read = [row for batch in batches for row in without_fcs(batch, reader)]
            loop = ran(
                ClosedLoopReplay(
                    batches, machine=made, port=PORT, loop=LOOP, seed=1, interfaces=reader.interfaces
                )
            )
    made_here = [row for row in everything if row.comment not in ("", "dropped by the port")]
    data = [row for row in everything if row.comment in ("", "dropped by the port")]
    return Output(data, made_here, everything, read, loop)


def came(result: Output) -> Any:
    """Return the passages of the frames in the output, in order."""
    passages = result.loop.passages
    return passages[(passages["probe"] == 0) & (passages["disposition"] != HELD_OUT)]


@pytest.mark.parametrize("name", BUSY)
def test_output_has_all_frames_at_arrival_times(name: str) -> None:
    result = output(name)
    passages = came(result)
    assert [row.time_ns for row in result.data] == (START_NS + passages["time_ns"]).tolist()
    assert [row.comment != "" for row in result.data] == (passages["disposition"] == DROPPED).tolist()
    for row, passage in zip(result.data, passages, strict=True):
        octets, length = result.read[passage["serial"]]
        assert parted(row.octets).octets == parted(octets).octets
        assert row.original - length == len(row.octets) - len(octets)
        if len(octets) >= min(length, WHOLE_HEADERS):
            assert row.original == passage["octets"]


@pytest.mark.parametrize("name", BUSY)
def test_times_of_output_never_decrease(name: str) -> None:
    everything = output(name).everything
    for before, row in pairwise(everything):
        assert before.time_ns <= row.time_ns


@pytest.mark.parametrize("name", BUSY)
def test_output_has_every_sent_message(name: str) -> None:
    result = output(name)
    messages = result.loop.messages
    machine_kinds = result.loop.replay.machine.kinds
    sent = messages[(messages["sent"] == 1) | (messages["kind"] == 102)]
    assert Counter(row.time_ns for row in result.generated) == Counter((START_NS + sent["time_ns"]).tolist())
    named = {100: "PAUSE", 101: "PFC", 102: "probe"} | dict(machine_kinds)
    by_kind = Counter(named[kind] for kind in sent["kind"].tolist())
    told = Counter(row.comment.split(" for frame ")[0].split(":")[0] for row in result.generated)
    assert told == by_kind
    assert name in ("none", "dbp", "dcqcn", "ecn", "csig") or len(sent) > 10


@pytest.mark.parametrize("name", [name for name in BUSY if name not in ("none", "dbp")])
def test_generated_frames_pass_the_strict_decoder(name: str) -> None:
    for row in output(name).generated:
        frame = decode(row.octets)
        assert len(row.octets) == row.original >= 60
        assert frame[Ethernet].dst[0] & 1 == (Pause in frame or PFC in frame)
        if " for frame " in row.comment and name not in ("pause", "pfc"):
            cause = int(row.comment.split(" for frame ")[1].split(":")[0]) - 1
            source = output(name).read[cause][0][6:12]
            forward = "BCN_PROBE_FWD" in row.comment
            assert (frame[Ethernet].src if forward else frame[Ethernet].dst) == source


TAGS: dict[str, type[Any]] = {"qcn": CNTag, "ecm": CMTag, "bcn": RRTTag, "e2cm": CMTag, "fecn": RDTag}
PROTOCOLS = {"ecm": 0, "bcn": 1, "e2cm": 2, "fecn": 3}


def own_tags(name: str, frame: Parted) -> list[bytes]:
    """Return the tags of the mechanism in a frame."""
    return frame.cn_tags if name == "qcn" else [tag for tag in frame.tags if tag[2] == PROTOCOLS[name]]


def fields_of(name: str, tag: bytes) -> tuple[int, ...]:
    """Return a tag's numbers as the passages have them: tag and mark."""
    if name == "qcn":
        return int.from_bytes(tag[2:4]), 0
    if name == "fecn":
        return int.from_bytes(tag[6:10]), int.from_bytes(tag[4:6])
    cpid = int.from_bytes(tag[4:12], signed=True)
    return (cpid, 0) if name == "bcn" else (cpid, (tag[14] >> 4) << 16 | int.from_bytes(tag[12:14]))


@pytest.mark.parametrize("name", TAGS)
def test_data_frames_carry_tags_of_their_stations(name: str) -> None:
    result = output(name)
    given = 0
    for row, passage in zip(result.data, came(result), strict=True):
        octets, length = result.read[passage["serial"]]
        tags = own_tags(name, parted(row.octets))
        if len(octets) < min(length, WHOLE_HEADERS):
            continue
        assert len(tags) == passage["tagged"]
        if tags:
            assert fields_of(name, tags[0]) == (passage["tag"], passage["mark"])
            given += tags != own_tags(name, parted(octets))
    assert given > 100 or (name == "fecn" and given > 20)


@pytest.mark.parametrize("name", TAGS)
def test_inserted_tags_are_decoded(name: str) -> None:
    """In a capture of plain frames they come after the VLAN tag."""
    result = output(name, plain=True)
    seen = 0
    for row, passage in zip(result.data, came(result), strict=True):
        if passage["tagged"]:
            layers = decode(row.octets.ljust(1_600, b"\0")[: row.original]).layers
            assert [type(layer).__name__ for layer in layers[:3]] == ["Ethernet", "VLAN", TAGS[name].__name__]
            seen += 1
    assert seen > 10


def test_limited_frames_name_their_limiters_congestion_point() -> None:
    cpids = {
        fields_of("ecm", tag)[0]
        for row in output("ecm", plain=True).data
        for tag in own_tags("ecm", parted(row.octets))
    }
    # 64 bits as a signed number: the port's address, and priority 3's congestion point.
    assert cpids == {int.from_bytes(CP_MAC + b"\x00\x04", signed=True)}


def test_ports_never_raise_rates_in_rd_tags() -> None:
    result = output("fecn")
    rates = {"own": set[int](), "lower": set[int]()}
    for row, passage in zip(result.data, came(result), strict=True):
        octets = result.read[passage["serial"]][0]
        asked = own_tags("fecn", parted(octets))
        tags = own_tags("fecn", parted(row.octets))
        assert passage["tagged"] or not asked, "a station took a tag out"
        for tag in tags if passage["disposition"] == ENQUEUED else []:
            rate, _ = fields_of("fecn", tag)
            rates["lower" if tags == asked else "own"].add(rate)
    # 255 kb/s is less than any port advertises; a source's own tags start at infinity.
    assert rates["lower"] == {255}
    assert max(rates["own"]) <= 5_000_000
    assert len(rates["own"]) > 3


def test_existing_flow_ids_are_kept() -> None:
    result = output("qcn")
    for row, passage in zip(result.data, came(result), strict=True):
        octets = result.read[passage["serial"]][0]
        before, after = parted(octets).cn_tags, parted(row.octets).cn_tags
        if before:
            assert after == before
        elif after:
            assert int.from_bytes(after[0][2:]) == 0xFFFF - passage["flow"]
    assert any(parted(row.octets).cn_tags for row in result.data)


def test_cnms_contain_the_sampled_frame_with_tag() -> None:
    result = output("qcn", plain=True)
    by_serial = {int(p["serial"]): row for row, p in zip(result.data, came(result), strict=True)}
    for row in result.generated:
        cause = int(row.comment.split(" for frame ")[1].split(":")[0]) - 1
        sampled = by_serial[cause].octets
        cnm = decode(row.octets)
        assert row.time_ns == by_serial[cause].time_ns
        assert cnm[CNTag].flow_id == int.from_bytes(sampled[18:20])
        assert cnm[CNM].msdu == sampled[20 : 20 + 64][: len(cnm[CNM].msdu)]
        assert len(cnm[CNM].msdu) > 30


@pytest.mark.parametrize("name", ["qcn", "pfc", "e2cm"])
def test_pcap_output_lacks_only_comments(name: str) -> None:
    with_comments, without = output(name).everything, output(name, suffix=".pcap").everything
    assert [row._replace(comment="") for row in with_comments] == without


@pytest.mark.parametrize("name", [name for name in BUSY if name not in ("none", "dbp")])
def test_dissect_reads_generated_frames_without_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_generated(name, tmp_path)
    assert run(["dissect", "-r", str(path), "-T", "json"]) == 0
    frames = json.loads(capsys.readouterr().out)["frames"]
    assert len(frames) == len(output(name).generated)
    assert run(["dissect", "-r", str(path)]) == 0
    lines = capsys.readouterr().out
    assert "malformed" not in lines
    assert "cut" not in lines


def write_generated(name: str, tmp_path: Path) -> Path:
    path = tmp_path / "generated.pcap"
    with PcapWriter(str(path)) as writer:
        for row in output(name).generated:
            writer.write_frame(row.octets, row.time_ns)
    return path


def test_the_strict_decoder_refuses_cut_messages() -> None:
    cut = output("qcn").generated[0].octets[:30]
    with pytest.raises(DecodeError):
        decode(cut)


@pytest.mark.parametrize("name", ["qcn", "ecm", "bcn", "e2cm", "fecn", "pause", "pfc"])
def test_tshark_reads_output_without_complaint(name: str, tmp_path: Path, tshark: str) -> None:
    path = tmp_path / "out.pcapng"
    rewrite(output(name, plain=True).everything, path)
    fields = ["vlan.id", "macc.opcode", "_ws.malformed", "_ws.expert.message"]
    command = [tshark, "-r", str(path), "-T", "fields", "-E", "separator=;", "-E", "occurrence=f"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    shown = [line.split(";") for line in done.stdout.splitlines()]
    everything = output(name, plain=True).everything
    assert len(shown) == len(everything)
    opcodes = {"pause": "0x0001", "pfc": "0x0101"}
    for row, (vlan, opcode, malformed, complaint) in zip(everything, shown, strict=True):
        control = name in opcodes and row.comment.startswith(name.upper())
        assert (vlan, opcode) == (("", opcodes[name]) if control else ("10", ""))
        assert (malformed, complaint) == ("", "")


def rewrite(rows: list[Written], path: Path) -> None:
    with PcapngWriter(str(path)) as writer:
        for row in rows:
            writer.write_frame(row.octets, row.time_ns, original=row.original)


@pytest.mark.parametrize("name", ["fecn", "e2cm", "qcn", "pause"])
def test_the_octets_do_not_depend_on_the_batches(name: str, tmp_path: Path) -> None:
    """For FECN, two VLANs are one flow. The reply of the receiver shows which frame was used."""
    frames = mixed(2_500, stations=4, gap_ns=500)
    digests = set()
    for sizes in ([], [7] * 400):
        path = tmp_path / f"{len(sizes)}.pcapng"
        replay = loop_of(frames, name, *BUSY[name], rate_bps=5 * 10**9, buffer_octets=90_000, sizes=sizes)
        digests.add(octets_written(replay, path))
    assert len(digests) == 1


def octets_written(replay: Any, path: Path) -> bytes:
    empty = path.with_suffix(".empty.pcapng")
    rewrite([], empty)
    with open_capture(empty) as reader, ClosedLoopOutput(reader, path, force=False) as out:
        for taken, pieces in replay.batches():
            if taken is not None:
                out.take(taken)
            for piece in pieces:
                out.write(piece, replay)
    return path.read_bytes()


def test_output_of_a_limiter_keeps_order(tmp_path: Path) -> None:
    frames = [Sent(100 * n, 1 + n % 2, 976) for n in range(200)]
    replay = loop_of(frames, "fecn", *BUSY["fecn"])
    octets_written(replay, tmp_path / "out.pcapng")
    times = [row.time_ns for row in frames_of(tmp_path / "out.pcapng")]
    assert times == sorted(times)
    assert max(np.diff(times)) > 1_000
