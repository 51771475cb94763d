"""Correct captures from replays, lab runs and other sources cause no findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecmproto.errors import CaptureError
from ecmproto.tools.check import check_capture
from ecmproto_cli.main import run
from pcaps.manifest import FOLDER
from tests.conftest import SHARED_CAPTURES

JUDGED = {
    "qcn": {"QCN001", "QCN003", "QCN005", "QCN007", "QCN009", "QCN010"},
    "ecm": {"ECM002", "ECM004", "ECM006", "ECM010"},
    "bcn": {"BCN002", "BCN004", "BCN005", "BCN009"},
    "e2cm": {"E2CM002", "E2CM004", "E2CM006", "E2CM008", "E2CM009", "E2CM010"},
    "fecn": {"FECN001", "FECN002", "FECN004"},
    "dbp": {"DBP001"},
    "pfc": {"PFC001", "PFC006"},
    "dcqcn": set(),
}
"""Rules that must apply in a closed loop of each mechanism."""
SAMPLING = {"ecm.sf": "150kB", "bcn.sf": "150kB"}


def assert_clean(path: Path, judged: set[str]) -> None:
    checked = check_capture(path, parameters=SAMPLING)
    assert [(each.rule, each.frame, each.what, each.measured) for each in checked.findings] == []
    assert judged <= {each.rule.id for each in checked.results if each.judged}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", JUDGED)
def test_captures_of_replay_have_no_finding(mechanism: str, tmp_path: Path) -> None:
    capture = FOLDER / ("roce_incast.pcap.gz" if mechanism == "dcqcn" else "hotspot.pcap.gz")
    options = ["--seed", "1", "--buffer", "100kB"] if mechanism == "pfc" else ["--seed", "1"]
    for loop in (["--cp", mechanism], ["--cp", mechanism, "--rp", mechanism]):
        out = tmp_path / f"{len(loop)}.pcapng"
        assert run(["replay", "-r", str(capture), *loop, *options, "-w", str(out)]) == 0
        assert_clean(out, JUDGED[mechanism] if len(loop) == 4 else set())


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["qcn", "ecm", "e2cm", "fecn"])
def test_captures_of_laboratory_have_no_finding(mechanism: str, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    short = ["--set", "duration=6ms", "--set", "measure.from=2ms"]
    assert run(["lab", "run", "incast-victim", "--mechanism", mechanism, *short, "-w", str(out)]) in (0, 1)
    several = {"fecn": {"FECN003"}}
    assert_clean(out, several.get(mechanism, set()))


def test_captures_of_others_have_no_finding() -> None:
    if not SHARED_CAPTURES.is_dir():
        pytest.skip(f"{SHARED_CAPTURES} is not here")
    frames = 0
    for path in sorted(SHARED_CAPTURES.rglob("*")):
        if not path.is_file() or path.suffix in (".md", ".tsv"):
            continue
        try:
            checked = check_capture(path)
        except CaptureError:
            continue
        frames += checked.frames
        assert [(each.rule, each.frame, each.what) for each in checked.findings] == [], path
    assert frames > 20_000
