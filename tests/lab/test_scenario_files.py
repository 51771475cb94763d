"""Files that scenarios name must be regular, of limited size, and in the scenario's folder, except on
request.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ecmproto.control.lab.setup import captured
from ecmproto.control.lab.setup.scenario import Scenario, load_scenario
from ecmproto.errors import SpecError
from ecmproto_cli.main import run
from pcaps.manifest import FOLDER

SIZES = "octets,share\n1000,0.5\n2MB,1\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a scenario with a flow of this pattern into a temporary folder."""
    (tmp_path / "own").mkdir()
    (tmp_path / "other.csv").write_text(SIZES)
    (tmp_path / "own" / "sizes.csv").write_text(SIZES)
    (tmp_path / "own" / "link.csv").symlink_to("sizes.csv")
    (tmp_path / "own" / "up").symlink_to("..")
    os.mkfifo(tmp_path / "own" / "fifo.csv")
    shutil.copy(FOLDER / "pfc.pcap", tmp_path / "own" / "in.pcap")

    def write(flow: str) -> str:
        path = tmp_path / "own" / "mine.toml"
        path.write_text(
            '[scenario]\nname = "mine"\ntitle = "Mine"\nduration = "1ms"\n'
            'topology = "dumbbell sources=2 rate=10Gb/s buffer=300kB"\n'
            f'[[flow]]\nname = "x"\nfrom = "s1"\nto = "d1"\n{flow}\n'
            '[control]\nmechanism = "none"\n[measure]\nfrom = "0ms"\nport = "left>right"\n'
        )
        return str(path)

    return write


def sizes(name: str) -> str:
    return f'pattern = "sizes"\nrate = "1G"\nsizes = "{name}"'


def capture(name: str) -> str:
    return f'pattern = "capture"\ncapture = "{name}"'


@pytest.mark.parametrize("flow", [sizes, capture])
@pytest.mark.parametrize(
    "name",
    [
        "/etc/x.csv", "../other.csv", "up/other.csv", "link.csv", "fifo.csv", "./../other.csv",
        "http://127.0.0.1:9/x.csv", "file:///etc/x.csv",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_refused(
    flow: Callable[[str], str], name: str, scenario: Callable[[str], str]
) -> None:
    with pytest.raises(
        SpecError, match=r"flow\[0\]\.(sizes|capture): expected (the name of a regular|a file)"
    ):
        run_captures(load_scenario(scenario(flow(name))))


def run_captures(found: Scenario) -> None:
    """Read the captures of a scenario, as a run does."""
    captured.captured_frames(found.experiment().flows)


def test_files_are_found_from_any_folder(
    scenario: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (flow,) = load_scenario(scenario(sizes("sizes.csv"))).experiment().flows
    assert flow.sizes == ((1_000, 0.5), (2_000_000, 1.0))
    (flow,) = load_scenario(scenario(capture("in.pcap"))).experiment().flows
    assert flow.capture == str(tmp_path / "own" / "in.pcap")


def test_values_from_command_line_follow_same_rule(
    scenario: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = scenario(sizes("sizes.csv")), str(tmp_path / "other.csv")
    assert run(["lab", "show", path, "--set", f"flow.sizes={other}"]) == 2
    assert "flow[0].sizes: expected the name of a regular file below" in capsys.readouterr().err
    assert run(["lab", "show", path, "--set", f"flow.sizes={other}", "--outside"]) == 0


def test_sweeps_find_files_of_the_scenario(
    scenario: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = os.path.relpath(scenario(sizes("sizes.csv")), tmp_path)
    assert (
        run(["lab", "sweep", path, "--sweep", "flow.rate=1G,2G", "--show", "queue.p99", "--jobs", "1"]) == 0
    )


def test_a_long_file_of_sizes_is_refused(scenario: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "own" / "sizes.csv").write_text("#" * (1 << 21))
    with pytest.raises(SpecError, match="a file of at most 1,048,576 characters, got a longer file"):
        load_scenario(scenario(sizes("sizes.csv")))


def test_captures_of_too_many_frames_are_refused(
    scenario: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captured, "MAX_FRAMES", 2)
    with pytest.raises(SpecError, match="at most 2 frames, got more"):
        run_captures(load_scenario(scenario(capture("in.pcap"))))
