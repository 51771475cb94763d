"""A campaign against a program finds planted defects, reduces them, keeps them, and goes on later."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ecmproto.capture import open_capture
from ecmproto.errors import ParameterError
from ecmproto.fuzz.cases import Cases
from ecmproto.fuzz.command import Command
from ecmproto.fuzz.findings import Finding, reproduction
from ecmproto.fuzz.state import Progress
from ecmproto.fuzz.target import TargetCampaign
from ecmproto.wire import CNM, TLV, decode_lax

PCAPS = Path(__file__).parents[2] / "pcaps"
READER = Path(__file__).parent / "planted" / "reader.py"
MOST_RUNS = 600


def corpus(*names: str) -> list[bytes]:
    frames = []
    for name in names:
        with open_capture(str(PCAPS / name)) as reader:
            frames += [octets for batch in reader for octets in batch.frames()]
    return frames


def planted(defect: str, *place: str, seconds: float = 2.0) -> Command:
    return Command(words=(sys.executable, "-I", "-S", str(READER), defect, *place), seconds=seconds)


def first_finding(campaign: TargetCampaign) -> Finding:
    def going_on(progress: Progress) -> bool:
        return progress.runs < MOST_RUNS and not campaign.findings

    (found,) = campaign.run(going_on)
    return found


@pytest.mark.parametrize(
    ("defect", "kind", "place"),
    [("msdu-length", "report", "{}"), ("endless-tlv", "hang", "{}"), ("deep-tags", "crash", "")],
)
def test_planted_defects_are_found_reduced_and_seen_again(
    defect: str, kind: str, place: str, tmp_path: Path
) -> None:
    command = planted(defect, *filter(None, [place]), seconds=0.5)
    cases = Cases(corpus("mixed.pcap", "lldp_cn.pcap", "vlan_stacks.pcap"), seed=1)
    found = first_finding(TargetCampaign(command, cases, tmp_path / "campaign", tries=120))
    assert found.outcome.kind == kind
    (octets,) = found.frames
    frame = decode_lax(octets)
    if defect == "msdu-length":
        assert CNM in frame
        assert "IndexError in read_cnm" in found.outcome.signature
    elif defect == "endless-tlv":
        assert TLV in frame
    else:
        assert len(octets) == 12 + 4 * 4 + 2
        assert found.outcome.signature == "SIGABRT"
    folder = tmp_path / "campaign" / "findings" / found.name
    again = Command(words=("sh", "-c", f"cd {folder} && . ./reproduce.sh"), seconds=0.5)
    assert again.run(folder / "case.pcap").failed
    assert (folder / "case.hex").read_text().split()[1] == octets.hex()
    with open_capture(str(folder / "case.pcap")) as reader:
        assert [frame for batch in reader for frame in batch.frames()] == [octets]


def test_a_sound_program_gives_no_findings(tmp_path: Path) -> None:
    campaign = TargetCampaign(planted("none"), Cases(corpus("mixed.pcap"), seed=1), tmp_path)
    assert list(campaign.run(lambda progress: progress.runs < 10)) == []
    assert campaign.progress.cases == campaign.progress.index == 640
    assert campaign.progress.failures == 0


def test_a_campaign_goes_on_where_it_ended(tmp_path: Path) -> None:
    cases = Cases(corpus("mixed.pcap"), seed=3)
    first = TargetCampaign(planted("msdu-length"), cases, tmp_path, tries=30)
    found = first_finding(first)
    again = TargetCampaign(planted("msdu-length"), cases, tmp_path)
    assert again.progress == first.progress
    assert again.findings == {found.outcome.signature: found}
    runs = again.progress.runs
    assert list(again.run(lambda progress: progress.runs < runs + 40)) == []
    (kept,) = again.findings.values()
    document = json.loads((tmp_path / "findings" / kept.name / "finding.json").read_text())
    assert document["count"] == kept.count > 1
    with pytest.raises(ParameterError, match="needed 3, of the campaign in"):
        TargetCampaign(planted("none"), Cases([], seed=4), tmp_path)


def test_how_programs_end_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"octets")

    def run(script: str, **limits: object) -> tuple[str, str]:
        outcome = Command(words=("sh", "-c", script), **limits).run(path)  # type: ignore[arg-type]
        return outcome.kind, outcome.signature

    assert run("cat >/dev/null") == ("fine", "")
    assert run("exit 3") == ("fine", "")
    assert run("exit 3", failing=frozenset({3})) == ("exit", "exit status 3")
    assert run("kill -SEGV $$") == ("crash", "SIGSEGV")
    assert run("sleep 30", seconds=0.2) == ("hang", "hang")
    assert run("sleep 30 & exec >&-; exit 0") == ("fine", "")
    assert run("yes | head -c 3000000") == ("fine", "")
    address = (
        "==12==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1\n    #0 0x55 in parse a.c:1\n"
    )
    assert run(f"printf '{address}' >&2; exit 1") == ("report", "AddressSanitizer heap-buffer-overflow parse")
    undefined = "a.c:7:3: runtime error: shift exponent 4711 is too large"
    assert run(f"echo '{undefined}'") == ("report", "a.c:7:3: shift exponent N is too large")
    failed = "prog: a.c:9: main: Assertion `x > 0' failed."
    (tmp_path / "told").write_text(failed)
    assert run(f"cat {tmp_path}/told; kill -ABRT $$")[1] == "SIGABRT a.c:9: main: Assertion `x > 0' failed"
    growing = "import time\nkept = bytearray(200_000_000)\ntime.sleep(20)"
    command = Command(words=(sys.executable, "-S", "-c", growing), memory_octets=100_000_000)
    assert command.run(path).kind == "memory"


def test_commands_that_cannot_run(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(ParameterError, match="needed a program that can be run, got no-such-program"):
        Command(words=("no-such-program",)).run(path)
    with pytest.raises(ParameterError, match="needed a program and its arguments"):
        Command(words=())


def test_reproduction_is_a_line_for_a_shell() -> None:
    assert reproduction(["tshark", "-r", "{}"], "case.pcap") == "tshark -r case.pcap"
    assert reproduction(["my reader", "-"], "a b.pcap") == "'my reader' - < 'a b.pcap'"
