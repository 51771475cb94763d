"""Guided campaigns find a planted defect by coverage, store inputs that end the process, and continue."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ecmproto.errors import MissingDependencyError, OutputError, ParameterError
from ecmproto.tools.fuzz.findings import Finding, Progress
from ecmproto.tools.fuzz.guided import campaign as guided_campaign
from ecmproto.tools.fuzz.guided.campaign import GuidedCampaign
from ecmproto_cli.main import run
from tests.conftest import REPOSITORY
from tests.fuzz.guided import planted_target

PLANTED = planted_target.__name__
WHAT = "planted: three octets are one too many"
MAX_INPUTS = 200_000


@pytest.fixture(autouse=True)
def atheris(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process finds the tests, as this one does."""
    if find_spec("atheris") is None:
        pytest.skip("atheris is not installed")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


def found(campaign: GuidedCampaign) -> Iterator[Finding]:
    return campaign.run(lambda _: not campaign.findings, max_cases=MAX_INPUTS)


def test_coverage_guides_to_the_planted_defect(tmp_path: Path) -> None:
    campaign = GuidedCampaign(PLANTED, tmp_path, seed=1)
    (finding,) = found(campaign)
    assert finding.outcome.signature == WHAT
    assert finding.outcome.kind == "difference"
    assert finding.frames == (b"QCN",)
    folder = tmp_path / "findings" / finding.name
    assert (folder / "case.capture").read_bytes() == b"QCN"
    line = "NUMBA_DISABLE_JIT=1 ecmproto fuzz decode --what captures --as-is -r case.capture\n"
    assert (folder / "reproduce.sh").read_text() == line
    assert campaign.findings == {WHAT: finding}
    assert campaign.progress.failures == 1
    assert 0 < campaign.coverage.first_edges < campaign.coverage.edges
    document = json.loads((tmp_path / "campaign.json").read_text())
    assert document["progress"]["cases"] == campaign.progress.cases > 0


def test_campaign_continues_from_its_corpus(tmp_path: Path) -> None:
    first = GuidedCampaign(PLANTED, tmp_path, seed=1)
    list(found(first))
    again = GuidedCampaign(PLANTED, tmp_path, seed=1)
    cases = again.progress.cases
    assert list(again.run(lambda _: True, max_cases=500)) == []
    assert again.progress.cases >= cases + 500
    # The first campaign may have ended before its last input was stored. The input must then be found again.
    assert list(again.run(lambda _: again.findings[WHAT].count == 1, max_cases=MAX_INPUTS)) == []
    assert again.findings[WHAT].count > 1
    assert again.coverage.first_edges > first.coverage.first_edges
    with pytest.raises(ParameterError, match="seed"):
        GuidedCampaign(PLANTED, tmp_path, seed=2)


def test_crashing_input_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_CRASH", "1")
    campaign = GuidedCampaign(PLANTED, tmp_path, seed=1)

    def without_a_crash(progress: Progress) -> bool:
        return not any(finding.outcome.kind == "crash" for finding in campaign.findings.values())

    *_, finding = campaign.run(without_a_crash, max_cases=MAX_INPUTS)
    assert finding.outcome.kind == "crash"
    assert finding.frames[0].startswith(b"QCN!")
    assert "deadly signal" in finding.outcome.output
    assert list((tmp_path / "left").iterdir()) == []


def test_broken_fuzzing_process_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_BROKEN", "1")
    with pytest.raises(OutputError, match=r"atheris.log: expected a process that fuzzes, got exit status"):
        list(GuidedCampaign(PLANTED, tmp_path / "out", seed=1).run(lambda _: True))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert run(["fuzz", "guided", "captures", "--seed", "3", "--runs", "300", "-w", out]) == 0
    told = capsys.readouterr()
    assert told.err == "ecmproto: seed 3\n"
    assert "executions  3" in told.out
    assert " of them by the first inputs" in told.out
    assert told.out.endswith("  findings    0\n")


def test_missing_atheris_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.setattr(guided_campaign, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError):
        GuidedCampaign("frames", tmp_path, seed=1)
    assert run(["fuzz", "guided", "frames", "-w", str(tmp_path)]) != 0
    assert "[guided]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
