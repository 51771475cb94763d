"""``ecmproto lab`` as users run the command, with substitute runs; tests/lab tests the simulation."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ecmproto.control.lab.model import Experiment
from ecmproto.control.lab.results import running, sweeps
from ecmproto.control.lab.simulation import simulate as simulation
from ecmproto.errors import pip_install
from ecmproto.frames.capture import Interface, PcapngWriter, open_capture
from ecmproto_cli.commands import lab
from ecmproto_cli.main import run
from tests.lab import synthetic

SCENARIO = """
[scenario]
name = "two-into-one"
title = "Two hosts into one"
source = "S004, Fig. 0"
duration = "200ms"
topology = "dumbbell sources=2 destinations=1 rate=10G buffer=150kB"

[[flow]]
name = "r1..r2"
group = "bulk"
from = "s1..s2"
to = "d1"
pattern = "saturating"

[control]
mechanism = "qcn"

[measure]
port = "left>right"

[[band]]
figure = "queue.p50"
low = "20kB"
high = "25kB"

[[published]]
figure = "sum(rate(bulk))"
value = "9.9 Gb/s"
source = "Table 0"

[variants.slow]
title = "A bottleneck of 1 Gb/s"
set = { "topology.bottleneck" = "1G" }
"""


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "simulate", synthetic.simulate)
    monkeypatch.setattr(running, "simulate", synthetic.simulate)
    monkeypatch.setattr(lab, "processors", lambda: 1)  # processes of a pool have the real ones


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "two.toml"
    path.write_text(SCENARIO)
    return str(path)


Captured = pytest.CaptureFixture[str]


def test_help_starts_without_the_heavy_libraries() -> None:
    for arguments in (["lab", "--help"], ["lab", "run", "--help"], ["lab", "sweep", "--help"]):
        code = (
            f"import sys; from ecmproto_cli.main import run; run({arguments!r});"
            "sys.exit(bool({'numpy', 'numba', 'scapy', 'matplotlib'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert done.returncode == 0, arguments


def test_a_run_shows_figures_beside_published_bands(scenario: str, capsys: Captured) -> None:
    assert run(["lab", "run", scenario, "--seed", "2"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "ecmproto: seed 2\n"
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["queue.p50", "22.00", "kB", "20", "kB", "…", "25", "kB", "inside"] in rows
    row = ["sum(rate(bulk))", "5.0", "Gb/s", "9.9", "Gb/s", "published:", "not", "met,", "0.505", "×"]
    assert row in rows
    assert shown.out.startswith("two-into-one: Two hosts into one\n")


def test_a_missed_band_exits_with_1(scenario: str, capsys: Captured) -> None:
    assert run(["lab", "run", scenario, "--seed", "9"]) == 1
    assert "outside, 16.0 % above" in capsys.readouterr().out


def test_several_seeds_give_ranges(scenario: str, capsys: Captured) -> None:
    assert run(["lab", "run", scenario, "--seed", "1", "--seeds", "3"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "ecmproto: seeds 1 to 3\n"
    assert "21.00 kB … 23.00 kB" in shown.out
    assert "inside on all 3" in shown.out


def test_expectations_hold_or_exit_with_1(scenario: str, capsys: Captured) -> None:
    assert run(["lab", "run", scenario, "--expect", "queue.p99 < 40kB", "--expect", "drops == 0"]) == 0
    assert "holds: queue.p99 < 40kB (31 kB)" in capsys.readouterr().out
    assert run(["lab", "run", scenario, "--seeds", "2", "--expect", "queue.p99 < 31.5kB"]) == 1
    assert "does not hold on 1 of 2 seeds: queue.p99 < 31.5kB (32 kB)" in capsys.readouterr().out


def test_shown_figures_may_refer_to_other_runs(scenario: str, capsys: Captured) -> None:
    figure = "queue.p50 / queue.p50@none"
    assert run(["lab", "run", scenario, "--show", figure, "--show", "queue.p50@slow"]) == 0
    out = capsys.readouterr().out
    assert any(line.split() == [*figure.split(), "1"] for line in out.splitlines())
    # The parameter belongs to the scenario's mechanism, and the other run has no such parameter.
    assert run(["lab", "run", scenario, "--show", figure, "--set", "rp.ai_rate=10Mb/s"]) == 0
    capsys.readouterr()


def test_json_contains_the_result_without_progress(scenario: str, capsys: Captured) -> None:
    assert run(["lab", "run", scenario, "--seed", "2", "-T", "json", "--expect", "drops == 0"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ecmproto/lab/1"
    assert document["seeds"] == [2]
    assert document["figures"][0]["verdict"] == "inside"
    assert document["expectations"] == [{"text": "drops == 0", "held": [True]}]
    paths = {row["path"]: row["set_by"] for row in document["values"]}
    assert paths["control.cp.qeq"] == "default"
    assert paths["measure.port"] == "scenario"


def test_ndjson_has_progress_then_the_result(scenario: str, capsys: Captured) -> None:
    assert run(["lab", "run", scenario, "-T", "ndjson"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["schema"] for line in lines] == ["ecmproto/lab-progress/1"] * 10 + ["ecmproto/lab/1"]
    assert lines[4]["time_ns"] == 100_000_000
    assert lines[4]["events_per_s"] == 1000
    assert lines[4]["to_go_s"] == 5.0
    assert lines[9]["to_go_s"] == 0.0


def test_csv_has_a_line_for_each_value(scenario: str, capsys: Captured) -> None:
    assert run(["lab", "run", scenario, "--seeds", "2", "-T", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    found = [row for row in rows if row["figure"] == "queue.p50"]
    assert [(row["seed"], row["value"], row["unit"]) for row in found] == [
        ("1", "21000.0", "octets"),
        ("2", "22000.0", "octets"),
    ]
    assert found[0]["high"] == "25000.0"


def test_settings_variants_and_mechanisms_reach_the_experiment(scenario: str, capsys: Captured) -> None:
    arguments = ["--variant", "slow", "--set", "duration=400ms", "--set", "control.qeq=30kB"]
    assert run(["lab", "run", scenario, *arguments, "-T", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["variant"], document["duration_ns"]) == ("slow", 400_000_000)
    assert any(each.endswith("qeq=30kB") for each in document["parameters"])
    assert run(["lab", "run", scenario, "--mechanism", "ecm", "--flow-control", "pfc", "-T", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["mechanism"], document["flow_control"]) == ("ecm", "pfc")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "no-such-scenario"], "no-such-scenario"),
        (["run", "SCENARIO", "--set", "control.qxeq=3kB"], "control.qxeq: expected a value"),
        (["run", "SCENARIO", "--expect", "queue.p99 < 3Gb/s"], "a size"),
        (["run", "SCENARIO", "--show", "queue.mid"], "queue.min"),
        (["run", "SCENARIO", "--variant", "quick"], "slow"),
        (["compare", "SCENARIO", "qnc"], "qcn"),
        (["sweep", "SCENARIO"], "--sweep"),
        (["sweep", "SCENARIO", "--sweep", "control.qeq"], "rp.ru=4Mb/s,8Mb/s"),
        (["sweep", "SCENARIO", "--sweep", "control.qeq=1kB,99m"], "qeq"),
        (["papers", "S009"], "S004"),
        (["run", "SCENARIO", "--panels", "queue,rates"], "delivered"),
        (["run", "SCENARIO", "--report", "page.txt"], ".html"),
        (["run", "SCENARIO", "-w", "frames.pcap"], "pcapng"),
        (["run", "SCENARIO", "-w", "-"], "pcapng"),
        (["run", "SCENARIO", "-w", "frames.pcapng", "--parts", "2"], "expected a run in 1 part"),
    ],
)
def test_wrong_arguments_exit_with_2_before_running(
    arguments: list[str], said: str, scenario: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "simulate", None)
    monkeypatch.setattr(simulation, "simulate", None)
    assert run(["lab", *(scenario if each == "SCENARIO" else each for each in arguments)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.splitlines()[-1].startswith("help: ")


def test_an_interrupted_run_shows_partial_results(
    scenario: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import signal

    # Where a shell has begun this in the background, it is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def simulate(given: object, *, seed: int, watch: object = None, **_: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return synthetic.simulate(given, seed=seed, watch=watch)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "simulate", simulate)
    assert run(["lab", "run", scenario, "--seeds", "3", "-T", "json"]) == 130
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["seeds"] == [1]
    assert not document["complete"]
    assert document["problems"] == ["seed 1: stopped at 20 ms of 200 ms"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_page_and_a_picture_are_written(scenario: str, tmp_path: Path) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
    arguments = ["--report", str(page), "--report", str(picture), "--panels", "queue,phase"]
    assert run(["lab", "run", scenario, *arguments]) == 0
    assert "Results and published figures" in page.read_text()
    assert "Queue and rate against each other" in picture.read_text()
    assert "Rate delivered per flow" not in picture.read_text()
    assert run(["lab", "run", scenario, *arguments]) == 2


def test_the_frames_of_the_first_run_are_written(
    scenario: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = tmp_path / "frames.pcapng"
    given = []

    def simulate(experiment: Experiment, *, seed: int, trace: PcapngWriter | None, **_: object) -> object:
        given.append((seed, trace is not None))
        if trace is not None:
            trace.add_interface(Interface(index=0, linktype=1, name="s>h1"))
            trace.write_frame(bytes(60), 5)
        return synthetic.simulate(experiment, seed=seed)

    monkeypatch.setattr(running, "simulate", simulate)
    arguments = ["lab", "run", scenario, "--seeds", "2", "-w", str(frames)]
    assert run(arguments) == 0
    assert given == [(1, True), (2, False)]
    with open_capture(frames) as reader:
        assert sum(map(len, reader)) == 1
        assert [interface.name for interface in reader.interfaces] == ["s>h1"]
    assert run(arguments) == 2
    assert "frames.pcapng" in capsys.readouterr().err
    assert run([*arguments, "--force"]) == 0


# compare --------------------------------------------------------------------------------------------------


def test_compare_runs_named_mechanisms_and_baselines(scenario: str, capsys: Captured) -> None:
    assert run(["lab", "compare", scenario, "qcn:w=4", "ecm", "-T", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["runs"]) == ["qcn", "qcn:w=4", "ecm", "none", "pause", "pfc"]
    assert document["runs"]["ecm"]["mechanism"] == "ecm"
    assert run(["lab", "compare", scenario, "ecm", "--no-baselines"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["qcn", "ecm", "published"] in [line.split() for line in lines]
    assert ["sum(rate(bulk))", "5.0", "Gb/s", "5.0", "Gb/s", "9.9", "Gb/s"] in [
        line.split() for line in lines
    ]


# sweep ----------------------------------------------------------------------------------------------------


def test_a_sweep_continues_after_stored_points(scenario: str, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "rows.ndjson"
    arguments = ["lab", "sweep", scenario, "--sweep", "control.qeq=26kB,33kB", "--seeds", "2", "--jobs", "1"]
    assert run([*arguments, "-w", str(out), "--shard", "1/2"]) == 0

    def finished() -> int:
        return len(out.read_text().splitlines())

    assert finished() == 2
    capsys.readouterr()
    shown = [*arguments, "-w", str(out), "-T", "csv", "--show", "queue.p50"]
    assert run(shown) == 0
    first = capsys.readouterr().out
    assert first.splitlines()[:2] == ["control.qeq,seed,queue.p50", "26kB,1,21000.0"]
    assert finished() == 6  # other figures are other points
    assert run(shown) == 0
    assert capsys.readouterr().out == first
    assert finished() == 6
    assert run([*shown, "--set", "duration=300ms"]) == 0
    assert finished() == 10


def test_a_sweep_keeps_foreign_files(scenario: str, tmp_path: Path, capsys: Captured) -> None:
    arguments = ["lab", "sweep", scenario, "--sweep", "control.qeq=26kB", "--show", "drops", "--seeds", "1"]
    notes, rows = tmp_path / "notes.txt", tmp_path / "rows"
    notes.write_text("buy milk")
    assert run([*arguments, "-w", str(notes)]) == 2
    assert notes.read_text() == "buy milk"
    assert run([*arguments, "-w", str(rows)]) == 0
    row = json.loads(rows.read_text())
    for changed in ({"figures": [1]}, {"figures": {"drops": "1"}}, {"events": None}, {"more": 1}):
        rows.write_text(json.dumps({**row, **changed}) + "\n")
        capsys.readouterr()
        assert run([*arguments, "-w", str(rows)]) == 2
        assert str(rows) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "seeds", "named"), [([], [1, 2, 3], "median over seeds 1 to 3"), (["1"], [1], "seed 1")]
)
def test_a_sweep_names_its_seeds(
    given: list[str], seeds: list[int], named: str, scenario: str, tmp_path: Path, capsys: Captured
) -> None:
    picture = tmp_path / "heat.svg"
    arguments = ["lab", "sweep", scenario, "--sweep", "control.qeq=26kB,33kB", "--jobs", "1"]
    arguments += [each for count in given for each in ("--seeds", count)]
    assert run([*arguments, "--show", "drops", "--report", str(picture)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == named
    assert f", {named}" in picture.read_text()
    assert run([*arguments, "--show", "drops", "-T", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seeds"] == seeds
    assert {row["seed"] for row in document["rows"]} == set(seeds)


def test_an_interrupted_sweep_can_be_continued(
    scenario: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulate(given: Experiment, *, seed: int) -> object:
        if seed == 3:
            raise KeyboardInterrupt
        return synthetic.simulate(given, seed=seed)

    monkeypatch.setattr(simulation, "simulate", simulate)
    out = str(tmp_path / "rows")
    arguments = ["lab", "sweep", scenario, "--sweep", "control.qeq=26kB", "--seeds", "5", "--jobs", "1"]
    assert run([*arguments, "-T", "csv", "--show", "drops", "-w", out]) == 130
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["control.qeq,seed,drops", "26kB,1,0.0", "26kB,2,0.0"]
    assert shown.err == (
        f"ecmproto: interrupted: 2 of 5 points done, stored in {out}: the same command continues\n"
    )
    monkeypatch.setattr(simulation, "simulate", synthetic.simulate)
    assert run([*arguments, "-T", "csv", "--show", "drops", "-w", out]) == 0
    assert capsys.readouterr().out.count("\n") == 6


def test_failing_points_are_named_others_are_done(
    scenario: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulate(given: Experiment, *, seed: int) -> object:
        if seed > 2:
            raise ValueError(f"not {seed}")
        return synthetic.simulate(given, seed=seed)

    monkeypatch.setattr(simulation, "simulate", simulate)
    arguments = ["lab", "sweep", scenario, "--sweep", "control.qeq=26kB", "--seeds", "14", "--jobs", "1"]
    assert run([*arguments, "-T", "json", "--show", "drops"]) == 1
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert [row["seed"] for row in document["rows"]] == [1, 2]
    assert [row["seed"] for row in document["failed"]] == list(range(3, 15))
    lines = shown.err.splitlines()
    assert lines[0] == "ecmproto: warning: control.qeq=26kB, seed 3: ValueError: not 3"
    assert lines[10:] == ["ecmproto: warning: 2 more failed"]


def test_wrong_executors_are_refused(
    scenario: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["lab", "sweep", scenario, "--sweep", "control.qeq=26kB"]
    assert run([*arguments, "--scheduler", "local:2", "--jobs", "2"]) == 2
    assert run([*arguments, "--scheduler", "somewhere"]) == 2
    assert run([*arguments, "--tls", "key=me.key"]) == 2
    assert run([*arguments, "--shard", "5/4"]) == 2
    monkeypatch.setattr(simulation, "simulate", None)
    assert run([*arguments, "--jobs", "1", "-w", str(tmp_path / "no folder" / "rows")]) == 2
    assert "no folder" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    capsys.readouterr()
    assert run([*arguments, "--scheduler", "tcp://127.0.0.1:1"]) == 5
    assert pip_install("cluster") in capsys.readouterr().err


def test_a_sweep_shows_effects_of_two_values_each(scenario: str, capsys: Captured) -> None:
    axes = ["--sweep", "control.qeq=26kB,33kB", "--sweep", "control.rp.gd=0.01,0.02"]
    assert run(["lab", "sweep", scenario, *axes, "--effects", "--show", "queue.p50", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "effects on queue.p50" in out
    assert "control.qeq × control.rp.gd" in out
    arguments = ["--effects", "--show", "queue.p50", "--jobs", "1", "-T", "json"]
    assert run(["lab", "sweep", scenario, *axes, *arguments]) == 0
    effects = json.loads(capsys.readouterr().out)["effects"]["queue.p50"]
    assert effects[0] == {"factors": [], "effect": 22_000, "explained": None}
    assert [each["factors"] for each in effects[1:3]] == [["control.qeq"], ["control.rp.gd"]]


def test_sweep_draws_heat_map_of_each_figure(scenario: str, tmp_path: Path, capsys: Captured) -> None:
    picture = tmp_path / "heat.svg"
    axes = ["--sweep", "control.qeq=26kB,33kB", "--sweep", "control.rp.gd=0.01,0.02,0.03"]
    shown = ["--show", "queue.p50", "--show", "drops", "--jobs", "1", "--report", str(picture)]
    assert run(["lab", "sweep", scenario, *axes, *shown]) == 0
    drawn = picture.read_text()
    for text in ("queue.p50", "drops", "26kB", "0.03", "rows: control.qeq, columns: control.rp.gd"):
        assert text in drawn
    assert drawn.count("22 kB") == 6
    capsys.readouterr()
    assert run(["lab", "sweep", scenario, *axes, "--report", str(tmp_path / "heat.txt")]) == 2


def test_points_can_be_listed_in_a_file(scenario: str, tmp_path: Path, capsys: Captured) -> None:
    points = tmp_path / "points.txt"
    points.write_text("control.qeq=26kB\ncontrol.qeq=33kB control.rp.gd=0.01\n")
    assert run(["lab", "sweep", scenario, "--points", str(points), "-T", "json", "--seeds", "1"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["settings"] for row in rows] == [
        {"control.qeq": "26kB"},
        {"control.qeq": "33kB", "control.rp.gd": "0.01"},
    ]


# list, show, new ------------------------------------------------------------------------------------------


def test_a_scenario_from_new_runs(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "mine.toml"
    assert run(["lab", "new", str(path), "--mechanism", "ecm"]) == 0
    assert run(["lab", "run", str(path)]) == 0
    assert "control   ecm" in capsys.readouterr().out
    assert run(["lab", "new", str(path)]) == 2
    assert "--force" in capsys.readouterr().err


def test_show_names_the_source_of_each_value(scenario: str, capsys: Captured) -> None:
    assert run(["lab", "show", scenario, "--set", "control.qeq=30kB"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["control.cp.qeq", "30", "kB", "command", "line"] in lines
    assert ["queue.p50", "20", "kB", "…", "25", "kB"] in lines
    assert run(["lab", "show", scenario, "-T", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["variants"] == {"slow": "A bottleneck of 1 Gb/s"}


def test_list_has_every_scenario(capsys: Captured) -> None:
    assert run(["lab", "list", "-T", "json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["scenarios"]]
    assert "bcn-parking-lot" in names
    assert run(["lab", "list"]) == 0
    assert all(name in capsys.readouterr().out for name in names[:1])


# papers ---------------------------------------------------------------------------------------------------


def test_papers_writes_a_page_with_seeds_and_verdicts(
    tmp_path: Path, scenario: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ecmproto.control.lab.results import papers
    from ecmproto.control.lab.setup.scenario import load_scenario

    def load(name: str) -> object:
        return load_scenario(scenario + name.removeprefix("two-into-one"))

    monkeypatch.setattr(papers, "simulate", synthetic.simulate)
    monkeypatch.setattr(papers, "scenario_names", lambda: ["two-into-one"])
    monkeypatch.setattr(papers, "load_scenario", load)
    out = tmp_path / "pages"
    arguments = ["lab", "papers", "-w", str(out), "--seeds", "3", "--commit", "x", "--jobs", "1"]
    rows = ["--rows", str(tmp_path / "rows")]
    code = run([*arguments, "--no-pictures", *rows])
    page = (out / "S004.md").read_text()
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "S004.md"]
    assert "## two-into-one\n" in page
    assert "## two-into-one:slow\n" in page
    row = "| `sum(rate(bulk))` | 5 Gb/s |  | 9.9 Gb/s (Table 0) |  | published: not met, 0.505 × |"
    assert row in page
    seeds = ", ".join(map(str, sweeps.seeds_of("two-into-one", "x", 3)))
    assert f"3 seeds: {seeds}." in page
    shown = capsys.readouterr()
    assert code == (1 if "missed: two-into-one" in shown.out else 0)
    assert run([*arguments, "--no-pictures", *rows]) == code
    assert (out / "S004.md").read_text() == page
