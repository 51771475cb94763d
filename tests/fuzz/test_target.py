"""A campaign against a program finds, reduces and stores planted defects, and can be continued."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ecmproto.errors import ParameterError
from ecmproto.frames.capture import open_capture
from ecmproto.tools.fuzz.cases import Cases
from ecmproto.tools.fuzz.command import DEFAULT_MEMORY_OCTETS, CaseOutcome, Command, Kind
from ecmproto.tools.fuzz.findings import Finding, Progress, capture_of
from ecmproto.tools.fuzz.subjects import SUBJECTS
from ecmproto.tools.fuzz.target import (
    FIRST_FRAMES,
    MAX_FRAMES,
    Feed,
    RunFrames,
    Runs,
    TargetCampaign,
    Trial,
    leaking,
)
from ecmproto.wire.codec import CNM, TLV, decode_lax
from tests.conftest import requires

PCAPS = Path(__file__).parents[2] / "pcaps"
READER = Path(__file__).parent / "planted" / "reader.py"
DECODER = Path(__file__).parent / "planted" / "decoder.c"
MAX_RUNS = 600


def corpus(*names: str) -> list[bytes]:
    frames = []
    for name in names:
        with open_capture(str(PCAPS / name)) as reader:
            frames += [octets for batch in reader for octets in batch.frames()]
    return frames


def planted(defect: str, *place: str, seconds: float = 2.0) -> Command:
    return Command(arguments=(sys.executable, "-I", "-S", str(READER), defect, *place), seconds=seconds)


def shown_again(folder: Path) -> CaseOutcome:
    """Return the exit code of the stored script when a user runs the script without further limits."""
    words = ("sh", "-c", f"cd {folder} && sh reproduce.sh")
    return Command(arguments=words, seconds=600, memory_octets=1 << 40).run(folder / "finding.json")


def first_finding(campaign: TargetCampaign) -> Finding:
    def going_on(progress: Progress) -> bool:
        return progress.runs < MAX_RUNS and not campaign.findings

    (found,) = campaign.run(going_on)
    return found


@pytest.mark.parametrize(
    ("defect", "kind", "place", "seed"),
    [
        ("msdu-length", "report", "{}", 1),
        ("endless-tlv", "hang", "{}", 2),
        ("deep-tags", "crash", "", 1),
        ("full-of-tags", "crash", "{}", 2),
        ("recursion", "report", "{}", 3),
    ],
)
def test_planted_defects_are_found_reduced_and_seen_again(
    defect: str, kind: str, place: str, seed: int, tmp_path: Path
) -> None:
    command = planted(defect, *filter(None, [place]), seconds=0.5)
    feed = Feed(frames=Cases(corpus("mixed.pcap", "lldp_cn.pcap", "vlan_stacks.pcap"), seed=seed))
    found = first_finding(TargetCampaign(command, feed, tmp_path / "campaign"))
    assert found.outcome.kind == kind
    (octets,) = found.frames
    frame = decode_lax(octets)
    if defect == "msdu-length":
        assert CNM in frame
        assert "IndexError in read_cnm" in found.outcome.signature
        assert len(octets) == 12 + 2 + 24
    elif defect == "recursion":
        assert "RecursionError in pass_tag" in found.outcome.signature
        assert len(octets) > 4 * 900
    elif defect == "endless-tlv":
        assert TLV in frame
        assert len(octets) == 12 + 2 + 2
    else:
        tags = 4 if defect == "deep-tags" else 127
        assert len(octets) == 12 + 4 * tags + 2
        assert found.outcome.signature == "SIGABRT"
    folder = tmp_path / "campaign" / "findings" / found.name
    again = shown_again(folder)
    if kind == "hang":
        assert again.status == 124
    else:
        assert again.signature == found.outcome.signature
    assert (folder / "case.hex").read_text().split()[1] == octets.hex()
    with open_capture(str(folder / "case.pcap")) as reader:
        assert [frame for batch in reader for frame in batch.frames()] == [octets]


def test_finding_is_reproduced_by_its_index(tmp_path: Path) -> None:
    cases = Cases(corpus("mixed.pcap"), seed=5)
    found = first_finding(TargetCampaign(planted("msdu-length"), Feed(frames=cases), tmp_path, tries=20))
    alone = tmp_path / "alone.pcap"
    alone.write_bytes(capture_of([cases[found.index].octets]))
    assert planted("msdu-length").run(alone).signature == found.outcome.signature


def test_oversized_allocation_is_a_finding(tmp_path: Path) -> None:
    command = dataclasses.replace(planted("lying-length", "{}"), memory_octets=100_000_000)
    found = first_finding(TargetCampaign(command, Feed(frames=Cases(corpus("mixed.pcap"), seed=1)), tmp_path))
    assert found.outcome.kind == "memory"
    assert all(CNM in decode_lax(octets) for octets in found.frames)
    assert shown_again(tmp_path / "findings" / found.name).status != 0


def test_slow_leak_reduces_to_one_repeated_frame(tmp_path: Path) -> None:
    # There are more leaks than the search can remove one by one, and the stored script had no limit.
    command = dataclasses.replace(planted("leak", "{}"), memory_octets=40_000_000)
    messages = [octets for octets in corpus("mixed.pcap") if CNM in decode_lax(octets)]
    campaign = TargetCampaign(command, Feed(frames=Cases(messages, seed=1)), tmp_path, frames_per_run=1500)
    found = first_finding(campaign)
    assert found.outcome.kind == "memory"
    (octets,) = set(found.frames)
    assert CNM in decode_lax(octets)
    assert 12 + 2 + 24 <= len(octets) < 60
    folder = tmp_path / "findings" / found.name
    assert (folder / "reproduce.sh").read_text().startswith("ulimit -v 39062 && ")
    again = shown_again(folder)
    assert again.status == 1
    assert again.signature.startswith("MemoryError in read_cnm")
    fewer = tmp_path / "fewer.pcap"
    fewer.write_bytes(capture_of(found.frames[: len(found.frames) // 2]))
    assert not command.run(fewer).failed


def test_a_leak_is_found_without_a_limit(tmp_path: Path) -> None:
    messages = [octets for octets in corpus("mixed.pcap") if CNM in decode_lax(octets)]
    feed, folder = Feed(frames=Cases(messages, seed=1)), tmp_path / "campaign"
    campaign = TargetCampaign(planted("small-leak", "{}"), feed, folder, frames_per_run=64, tries=40)
    found = first_finding(campaign)
    assert found.outcome.kind == "memory"
    assert found.outcome.peak_octets < DEFAULT_MEMORY_OCTETS // 4
    (octets,) = set(found.frames)
    assert CNM in decode_lax(octets)
    assert shown_again(folder / "findings" / found.name).status != 0


def test_program_that_keeps_all_frames_does_not_leak(tmp_path: Path) -> None:
    program = planted("keeps-all", "{}")
    frames = corpus("mixed.pcap", "lldp_cn.pcap", "vlan_stacks.pcap")
    feed = Feed(frames=Cases(frames, seed=1))
    trial = feed.trial(index=0, number=0, frames=4096)
    peaks = []
    for number, part in enumerate((trial, trial.repeated(8))):
        path = tmp_path / f"{number}.pcap"
        part.write(path)
        peaks.append(dataclasses.replace(program, measured=True).run(path).peak_octets)
    assert peaks[1] - peaks[0] > 8_000_000
    assert leaking(program, trial, feed.unspoilt) is None


def test_resident_memory_is_watched_when_reproducing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The search for leaks would find the same frames first, with a lower limit.
    monkeypatch.setattr("ecmproto.tools.fuzz.target.leaking", lambda *_: None)
    # As with sanitizers, which reserve more addresses than any machine has memory.
    reserving = "import mmap; far = mmap.mmap(-1, 1 << 40, mmap.MAP_PRIVATE | 0x4000)\n"
    (tmp_path / "own.py").write_text(reserving + READER.read_text())
    words = (sys.executable, "-I", "-S", str(tmp_path / "own.py"), "lying-length", "{}")
    command = Command(arguments=words, memory_octets=100_000_000, seconds=2.0)
    feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=1))
    found = first_finding(TargetCampaign(command, feed, tmp_path / "campaign", tries=20))
    line = (tmp_path / "campaign" / "findings" / found.name / "reproduce.sh").read_text()
    case = f"{tmp_path}/campaign/findings/{found.name}/case.pcap"
    assert f" && ecmproto fuzz target --as-is -r {case} --memory 100000000B --timeout 2s -- " in line


def test_reducing_continued_after_time_was_up(tmp_path: Path) -> None:
    feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=1))
    campaign = TargetCampaign(planted("msdu-length", "{}"), feed, tmp_path, frames_per_run=64)
    found = list(campaign.run(lambda progress: not campaign.findings, left_s=lambda: 0.0))
    assert campaign.cut_short == [found[0].name]
    assert len(found[0].frames) == 64
    assert shown_again(tmp_path / "findings" / found[0].name).signature == found[0].outcome.signature


@pytest.mark.parametrize("place", ["{}", ""])
def test_captures_are_spoilt_reduced_and_seen_again(place: str, tmp_path: Path) -> None:
    command = planted("record-length", *filter(None, [place]))
    captures = SUBJECTS["captures"].cases(SUBJECTS["captures"].corpus(), 1)
    found = first_finding(TargetCampaign(command, Feed(captures=captures), tmp_path))
    assert found.outcome.signature == "SIGABRT"
    (octets,) = found.frames
    assert len(octets) == 24 + 16
    folder = tmp_path / "findings" / found.name
    assert (folder / "case.capture").read_bytes() == octets
    assert (folder / "case.hex").read_text() == f"{len(octets):5} {octets.hex()}\n"
    assert shown_again(folder).signature == "SIGABRT"


def test_frames_and_captures_take_turns(tmp_path: Path) -> None:
    subject = SUBJECTS["captures"]
    feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=1), captures=subject.cases(subject.corpus(), 1))
    campaign = TargetCampaign(planted("none"), feed, tmp_path, frames_per_run=10)
    assert list(campaign.run(lambda progress: progress.runs < 6)) == []
    assert campaign.progress.cases == 3 * 10 + 3


@pytest.fixture
def sanitized(tmp_path: Path) -> Command:
    """Build the planted decoder in C with sanitizers."""
    program = tmp_path / "decoder"
    flags = ["-g", "-fsanitize=address,undefined", "-o", str(program), str(DECODER)]
    built = subprocess.run([requires("gcc"), *flags], capture_output=True, check=False)
    if built.returncode or Command(arguments=(str(program), "{}")).run(PCAPS / "pause.pcap").failed:
        pytest.skip("gcc has no sanitizers that run here")
    return Command(arguments=(str(program),))


STACK = (
    r"AddressSanitizer heap-buffer-overflow sum_of_msdu \(decoder.c:\d+\) read_frame \(decoder.c:\d+\) main"
)


def test_a_real_sanitizer(sanitized: Command, tmp_path: Path) -> None:
    feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=1))
    found = first_finding(TargetCampaign(sanitized, feed, tmp_path / "campaign"))
    assert re.fullmatch(STACK, found.outcome.signature)
    (octets,) = found.frames
    assert len(octets) == 12 + 2 + 24
    again = shown_again(tmp_path / "campaign" / "findings" / found.name)
    assert again.signature == found.outcome.signature


def test_defects_of_one_function_were_one_finding(sanitized: Command, tmp_path: Path) -> None:
    ends = []
    for number, msdu in enumerate((b"", b"m", b"ms", b"msd")):
        head = bytes(12) + b"\x22\xe7" + bytes(22) + len(msdu).to_bytes(2)
        path = tmp_path / f"{number}.pcap"
        path.write_bytes(capture_of([head + msdu]))
        ends.append(sanitized.run(path).signature)
    assert all(re.fullmatch(STACK, signature) for signature in ends)
    assert ends[0] == ends[2] != ends[1] == ends[3]


def test_a_program_that_always_fails_needs_no_frames(tmp_path: Path) -> None:
    feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=1))
    command = Command(arguments=(sys.executable, "-S", "-c", "import no_such_module"))
    found = first_finding(TargetCampaign(command, feed, tmp_path))
    assert found.frames == ()
    assert found.outcome.signature.startswith("ModuleNotFoundError in <module>")


def test_reproduction_runs_in_the_original_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text(READER.read_text())
    monkeypatch.chdir(tmp_path)
    command = Command(arguments=(sys.executable, "-S", "-m", "own", "msdu-length", "{}"))
    feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=1))
    found = first_finding(TargetCampaign(command, feed, Path("campaign"), tries=20))
    folder = tmp_path / "campaign" / "findings" / found.name
    assert (folder / "reproduce.sh").read_text().startswith(f"cd {tmp_path} && ")
    assert shown_again(folder).signature == found.outcome.signature


def test_single_slow_run_is_no_hang(tmp_path: Path) -> None:
    once = "test -e been || { touch been; sleep 30; }"
    command = Command(arguments=("sh", "-c", f"cd {tmp_path}; {once}"), seconds=0.3)
    feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=1))
    campaign = TargetCampaign(command, feed, tmp_path / "campaign")
    assert list(campaign.run(lambda progress: progress.runs < 3)) == []
    assert campaign.progress.failures == 0


def test_several_programs_at_once_find_the_same(tmp_path: Path) -> None:
    found = []
    for jobs in (1, 4):
        feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=3))
        folder = tmp_path / str(jobs)
        campaign = TargetCampaign(
            planted("msdu-length"), feed, folder, frames_per_run=16, jobs=jobs, tries=30
        )
        list(campaign.run(lambda progress: progress.runs < 30))
        (finding,) = campaign.findings.values()
        found.append((campaign.progress.failures, finding.index, finding.frames, finding.count))
        assert campaign.progress.cases == 480
    assert found[0] == found[1]


def test_invalid_number_of_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="jobs: expected 1 to 256, got 0"):
        TargetCampaign(planted("none"), Feed(frames=Cases([], seed=1)), tmp_path, jobs=0)


def test_program_that_cannot_be_started_ends_campaign(tmp_path: Path) -> None:
    campaign = TargetCampaign(
        Command(arguments=("no-such-program",)), Feed(frames=Cases([], seed=1)), tmp_path, jobs=2
    )
    with pytest.raises(ParameterError, match="got no-such-program"):
        next(campaign.run(lambda progress: True))


def test_a_sound_program_gives_no_findings(tmp_path: Path) -> None:
    feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=1))
    campaign = TargetCampaign(planted("none"), feed, tmp_path, frames_per_run=64)
    assert list(campaign.run(lambda progress: progress.runs < 10)) == []
    assert campaign.progress.cases == campaign.progress.index == 640
    assert campaign.progress.failures == 0


def test_campaign_continues_after_its_last_run(tmp_path: Path) -> None:
    feed = Feed(frames=Cases(corpus("mixed.pcap"), seed=3))
    first = TargetCampaign(planted("msdu-length"), feed, tmp_path, tries=30)
    found = first_finding(first)
    again = TargetCampaign(planted("msdu-length"), feed, tmp_path)
    assert again.progress == first.progress
    assert again.findings == {found.outcome.signature: found}
    runs = again.progress.runs
    assert list(again.run(lambda progress: progress.runs < runs + 40)) == []
    (kept,) = again.findings.values()
    document = json.loads((tmp_path / "findings" / kept.name / "finding.json").read_text())
    assert document["count"] == kept.count > 1
    with pytest.raises(ParameterError, match="expected 3, of the campaign in"):
        TargetCampaign(planted("none"), Feed(frames=Cases([], seed=4)), tmp_path)


LUA = """
local own = Proto("own", "A decoder of one's own")
function own.dissector(tvb, pinfo, tree)
  tree:add(own, tvb(0, tvb:len() + 1))
end
DissectorTable.get("ethertype"):add(0x22E9, own)
"""


def test_tshark_dissector_errors_are_failures_malformed_frames_not(tmp_path: Path) -> None:
    program = requires("tshark")
    plain = Command(arguments=(program, "-Vnr", "{}"), seconds=60).run(PCAPS / "malformed.pcapng")
    assert plain.kind == "fine"
    assert "Malformed Packet" in plain.output
    script = tmp_path / "own.lua"
    script.write_text(LUA)
    words = (program, "-X", f"lua_script:{script}", "-Vnr", "{}")
    broken = Command(arguments=words, seconds=60).run(PCAPS / "mixed.pcap")
    assert broken.kind == "report"
    assert broken.signature.startswith("Lua Error: ")
    assert broken.signature.endswith("own.lua:4: Range is out of bounds")


def ended(*, kind: Kind = "fine", seconds: float = 0.01, processor_s: float = 0.01) -> CaseOutcome:
    return CaseOutcome(
        kind=kind,
        signature="",
        status=0,
        seconds=seconds,
        output="",
        processor_s=processor_s,
    )


def test_quick_runs_get_more_frames_and_others_fewer() -> None:
    frames = RunFrames(None, 5.0)
    for _ in range(20):
        frames.took(frames.count, ended())
    assert frames.count == MAX_FRAMES
    frames.took(frames.count, ended(kind="crash"))
    assert frames.count == MAX_FRAMES // 2
    frames.took(frames.count, ended(processor_s=2))
    assert frames.count == MAX_FRAMES // 4
    # A sleeping program may take too long with more frames.
    frames.took(frames.count, ended(seconds=4))
    assert frames.count == MAX_FRAMES // 4
    frames.took(7, ended())
    assert frames.count == MAX_FRAMES // 4
    for _ in range(20):
        frames.took(frames.count, ended(kind="report"))
    assert frames.count == 1


def test_slow_start_is_no_reason_for_fewer_frames() -> None:
    frames = RunFrames(None, 60.0)
    for _ in range(4):
        frames.took(frames.count, ended(seconds=3, processor_s=3))
    assert frames.count == 16 * FIRST_FRAMES
    frames.took(frames.count, ended(seconds=13, processor_s=13))
    assert frames.count == 8 * FIRST_FRAMES
    for _ in range(20):
        frames.took(frames.count, ended(seconds=13, processor_s=13))
    assert frames.count == FIRST_FRAMES


def test_given_number_of_frames_is_kept() -> None:
    frames = RunFrames(FIRST_FRAMES, 5.0)
    frames.took(FIRST_FRAMES, ended())
    frames.took(FIRST_FRAMES, ended(kind="crash"))
    assert frames.count == FIRST_FRAMES


def trials() -> Iterator[Trial]:
    for index in itertools.count():
        yield Trial(items=(b"%d" % index,), index=index, whole=True)


@pytest.mark.parametrize("jobs", [1, 5])
def test_runs_come_in_their_order(jobs: int) -> None:
    source = trials()
    # Early frames take longer than later frames.
    script = 'n=$(cat); test $((n % 5)) != 0 || sleep 0.1; echo "$n"'
    with Runs(Command(arguments=("sh", "-c", script)), lambda: next(source), jobs=jobs) as runs:
        for index in range(12):
            trial, outcome = runs.next()
            assert trial.index == index
            assert outcome.output == f"{index}\n"


def test_leaving_ends_running_programs() -> None:
    source = trials()
    start = time.monotonic()
    script = "test $(cat) = 0 || sleep 60"
    with Runs(Command(arguments=("sh", "-c", script), seconds=60), lambda: next(source), jobs=3) as runs:
        runs.next()
    assert time.monotonic() - start < 30


def test_feed_needs_one_source_and_seed() -> None:
    with pytest.raises(ParameterError, match="expected frames, captures or both, got neither"):
        Feed()
    with pytest.raises(ParameterError, match="expected seed 1, as frames have, got 2"):
        Feed(frames=Cases([], seed=1), captures=Cases([], seed=2))


def test_parts_of_a_trial_have_an_index() -> None:
    trial = Trial(items=(b"a", b"b", b"c"), index=40)
    assert trial.part([1, 2]) == Trial(items=(b"b", b"c"), index=41)
    assert trial.part([]) == Trial(items=(), index=40)
    assert trial.changed(1, b"x").items == (b"a", b"x", b"c")
