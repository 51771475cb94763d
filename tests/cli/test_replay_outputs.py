"""Output of ``ecmproto replay``: comparisons, JSON, series, reports, and errors."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecmproto import CNM, decode
from ecmproto.errors import pip_install
from ecmproto.frames.capture import PcapWriter, open_capture
from ecmproto.tools.report.replays import replay_report
from ecmproto.tools.report.run import Run
from ecmproto_cli.main import run
from pcaps.manifest import FOLDER

HOTSPOT = str(FOLDER / "hotspot.pcap.gz")
HOSTS = [f"02:00:00:00:00:0{n}" for n in range(1, 5)]
CLOSED = ("--cp", "qcn", "--rp", "qcn", "--speed", "5G")

Replay = Callable[..., str]


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str]) -> Replay:
    """Return a function that runs a successful replay of the hotspot capture and returns the output."""

    def replay(*arguments: str) -> str:
        assert run(["replay", "-r", HOTSPOT, "--seed", "1", "--color", "never", *arguments]) == 0
        captured = capsys.readouterr()
        assert captured.err == "ecmproto: seed 1\n"
        return captured.out

    return replay


def test_a_comparison_puts_mechanisms_side_by_side(replay: Replay) -> None:
    shown = replay("--compare", "qcn,fecn,pfc,none", "--speed", "8G").replace(HOTSPOT, "hotspot.pcap.gz")
    assert shown == Path(__file__).with_name("replay_comparison.txt").read_text(encoding="utf-8")


def test_json_of_a_comparison_contains_every_replay(replay: Replay) -> None:
    joint = json.loads(replay("--compare", "none, qcn", "--speed", "5G", "-T", "json"))
    alone = json.loads(replay(*CLOSED, "-T", "json"))
    assert (joint["schema"], joint["capture"]) == ("ecmproto/replay-comparison/1", HOTSPOT)
    assert [one["mechanism"] for one in joint["replays"]] == ["none", "qcn"]
    assert joint["replays"][1] == alone
    assert (alone["schema"], alone["loop"]) == ("ecmproto/replay/1", "closed")
    assert {flow["label"] for flow in alone["flows"]} == set(HOSTS)


def test_counters_in_json_are_consistent(replay: Replay) -> None:
    summary = json.loads(replay(*CLOSED, "-T", "json"))
    (port,), stations = summary["ports"], summary["stations"]
    assert stations["waiting_frames"] > 0
    assert summary["frames"] == (
        summary["passed_by"] + port["frames"] + stations["held_out_frames"] + stations["waiting_frames"]
    )
    assert port["frames"] == (
        port["dropped_frames"] + stations["delivered_frames"] + stations["queued_frames"]
    )
    assert summary["seed"] == 1
    assert summary["parameters"]["rp"]["threshold"] == "5"
    assert 0 < stations["fairness"] <= 1


def test_each_port_has_a_table_section(replay: Replay) -> None:
    shown = replay("--cp", "qcn", "--ports", "eth.src[5] == 1; eth.src[5] == 2")
    assert shown.count("\n  dropped ") == 2
    assert all(f"\n{title}\n" in shown for title in ("eth.src[5] == 1", "eth.src[5] == 2"))
    assert "passed by" in shown


def test_flow_control_combines_with_a_mechanism(replay: Replay) -> None:
    summary = json.loads(replay(*CLOSED, "--flow-control", "pfc", "--set", "qeq=400kB", "-T", "json"))
    assert summary["mechanism"] == "qcn over pfc"
    assert summary["ports"][0]["messages"]["PFC"] > 1
    assert 0 < summary["stations"]["paused_ns"] <= summary["stations"]["paused_sum_ns"]


def test_pause_and_pfc_count_equal_stopped_time(replay: Replay) -> None:
    joint = json.loads(replay("--compare", "pause,pfc", "--speed", "5G", "-T", "json"))["replays"]
    pause, pfc = ({name: one["stations"][name] for name in PAUSED} for one in joint)
    assert pause == pfc
    for one in joint:
        stations = one["stations"]
        by_priority = {n: sum(spans) for n, spans in stations["pauses"]["stopped_ns"].items()}
        assert by_priority == {"3": stations["paused_ns"]}
        assert stations["paused_ns"] < stations["paused_sum_ns"] <= 4 * stations["paused_ns"]
        assert stations["paused_ns"] <= one["duration_ns"]


PAUSED = ("paused_ns", "paused_sum_ns", "pauses")


def test_table_plots_and_series_count_equal_messages(
    replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events after the end of the capture are in none of the outputs."""
    drawn: list[Run] = []
    monkeypatch.setattr(
        "ecmproto_cli.commands.replay._report",
        lambda request, path, outcomes: drawn.extend(replay_report("x", outcomes, [""] * len(outcomes)).runs),
    )
    path = tmp_path / "samples.csv"
    shown = replay(
        "--compare",
        "qcn,e2cm,pfc",
        "--speed",
        "5G",
        "--samples",
        str(path),
        "--report",
        "x.svg",
        "-T",
        "json",
    )
    for told, one in zip(drawn, json.loads(shown)["replays"], strict=True):
        sent = sum(one["ports"][0]["messages"].values())
        rows = [row for row in rows_of(path) if row["variant"] == told.name and row["sent"] == "1"]
        assert len(rows) == sent > 0
        assert max(int(row["time_ns"]) for row in rows) <= one["duration_ns"]
        assert {measure.key: measure.value for measure in told.measures}["messages"] == sent
        if told.name == "pfc":
            (curve,) = told.pauses
            assert curve.stopped_ns.sum() == one["stations"]["paused_ns"]
        else:
            assert told.messages.totals is not None
            assert sum(told.messages.totals) == len(told.messages.row) == sent


# Variants


def test_parameter_variants_of_a_mechanism_are_compared(replay: Replay) -> None:
    variants = ["qcn", "qcn:w=4", "qcn:w=4:rp.gd=0.004", "pfc:priorities=3,5-7"]
    arguments = ("--speed", "5G", "--set", "qcn:qeq=30kB")
    shown = replay("--compare", ",".join(variants), *arguments)
    header = next(line for line in shown.splitlines() if line.lstrip().startswith("qcn "))
    assert header.split() == variants
    assert [line.split()[0] for line in shown.splitlines()[-4:]] == variants
    joint = json.loads(replay("--compare", ",".join(variants), *arguments, "-T", "json"))["replays"]
    assert [(one["mechanism"], one["variant"]) for one in joint] == [
        (variant.partition(":")[0], variant) for variant in variants
    ]
    chosen = [
        (p["cp"].get("w"), p["cp"].get("qeq"), p.get("rp", {}).get("gd"), p["cp"].get("priorities"))
        for p in (one["parameters"] for one in joint)
    ]
    assert chosen[:3] == [
        ("2.0", "30 kB", "0.0078125", None),
        ("4.0", "30 kB", "0.0078125", None),
        ("4.0", "30 kB", "0.004", None),
    ]  # fmt: skip
    assert chosen[3][3] == "3,5,6,7"
    assert joint[0]["ports"] != joint[1]["ports"] != joint[2]["ports"]


@pytest.mark.parametrize("option", ["--samples", "--flows"])
def test_series_of_comparisons_name_the_variant(option: str, replay: Replay, tmp_path: Path) -> None:
    alone, joint = tmp_path / "alone.csv", tmp_path / "joint.csv"
    replay(*CLOSED, "--set", "w=4", option, str(alone))
    replay("--compare", "none,qcn:w=4", "--speed", "5G", option, str(joint))
    rows = rows_of(joint)
    assert next(iter(rows[0])) == "variant"
    expected = ["none", "qcn:w=4"] if option == "--flows" else ["qcn:w=4"]
    assert list(dict.fromkeys(row.pop("variant") for row in rows)) == expected
    assert rows[-len(rows_of(alone)) :] == rows_of(alone)


# Time series


def rows_of(path: Path) -> list[dict[str, str]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(io.StringIO(text.decode())))


def test_sample_series_have_every_sample_and_message(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    (port,) = json.loads(replay(*CLOSED, "-T", "json", "--samples", str(path)))["ports"]
    rows = rows_of(path)
    assert list(rows[0]) == [
        "time_ns", "port", "flow", "priority", "kind", "sent", "qlen_octets", "fb_octets", "rate_kbps",
        "quanta", "enable_vector",
    ]  # fmt: skip
    assert len(rows) == port["samples"]
    assert sum(row["kind"] == "CNM" and row["sent"] == "1" for row in rows) == port["messages"]["CNM"]
    assert {row["kind"] for row in rows} == {"CNM", "sample"}
    assert all(float(row["fb_octets"]) < 0 for row in rows if row["kind"] == "CNM")
    times = [int(row["time_ns"]) for row in rows]
    assert times == sorted(times)


def test_round_trip_times_are_in_all_outputs(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    ecm = ["--cp", "ecm", "--rp", "ecm", "--speed", "5G", "--seed", "1", "--feedback-delay", "40us"]
    document = json.loads(replay(*ecm, "-T", "json", "--flows", str(path)))
    # Frames are sampled when they arrive at the port, so only the return path remains, in steps of 1 µs.
    assert document["stations"]["rtt_average_ns"] == pytest.approx(40_000, abs=1_000)
    seen = [rtt for flow in document["flows"] for rtt in flow["rtt_average_ns"] if rtt is not None]
    assert seen == [float(row["rtt_average_ns"]) for row in rows_of(path) if row["rtt_average_ns"]]
    assert len(seen) > 10
    assert all(abs(rtt - 40_000) <= 1_000 for rtt in seen)
    assert json.loads(replay(*CLOSED, "-T", "json"))["stations"]["rtt_average_ns"] is None


@pytest.mark.parametrize("name", ["samples.csv.gz", "SAMPLES.CSV"])
def test_file_names_select_the_series_format(name: str, replay: Replay, tmp_path: Path) -> None:
    plain, named = tmp_path / "plain.csv", tmp_path / name
    replay(*CLOSED, "--samples", str(plain))
    replay(*CLOSED, "--samples", str(named))
    assert rows_of(named) == rows_of(plain)


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_flow_series_contain_rates_over_time(loop: str, replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    arguments = CLOSED if loop == "closed" else ("--cp", "qcn", "--speed", "5G")
    flows = json.loads(replay(*arguments, "-T", "json", "--flows", str(path)))["flows"]
    rows = rows_of(path)
    assert list(dict.fromkeys((row["flow"], row["label"]) for row in rows)) == [
        (str(flow["number"]), flow["label"]) for flow in flows
    ]
    for flow in flows:
        mine = [row for row in rows if row["label"] == flow["label"]]
        octets = {
            name: sum(float(row[f"{name}_bps"]) * int(row["span_ns"]) / 8e9 for row in mine)
            for name in ("offered", "sent", "passed")
        }
        assert octets["offered"] == pytest.approx(flow["offered_octets"], rel=0.01)
        assert octets["passed"] == pytest.approx(flow["passed_octets"], rel=0.01 if loop == "open" else 0.2)
        assert octets["passed"] <= octets["sent"]
        limits = [float(row["limit_bps"]) for row in mine if row["limit_bps"]]
        assert (len(limits) > 10) == (loop == "closed")
        assert all(0 < limit <= 5e9 for limit in limits)
        starts = [int(row["time_ns"]) for row in mine]
        assert starts == [n * int(mine[0]["span_ns"]) for n in range(len(mine))]


@pytest.mark.parametrize("option", ["--samples", "--flows"])
def test_parquet_has_the_columns_of_csv(option: str, replay: Replay, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: no Parquet to read")
    as_csv, as_parquet = tmp_path / "series.csv", tmp_path / "series.parquet"
    replay(*CLOSED, option, str(as_csv))
    replay(*CLOSED, option, str(as_parquet))
    table: list[dict[str, Any]] = parquet.read_table(as_parquet).to_pylist()
    texts = rows_of(as_csv)
    assert len(table) == len(texts) > 100
    for row, text in zip(table, texts, strict=True):
        assert list(row) == list(text)
        for name, value in row.items():
            expected = "" if value != value else str(value)
            assert text[name] == expected


def test_series_of_an_empty_capture_have_their_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.pcap"
    with PcapWriter(str(empty)):
        pass
    series = {option: tmp_path / f"{option[2:]}.csv" for option in ("--samples", "--flows")}
    options = [text for option, path in series.items() for text in (option, str(path))]
    assert run(["replay", "-r", str(empty), *CLOSED, *options]) == 0
    for path in series.values():
        (header,) = path.read_text().splitlines()
        assert header.startswith("time_ns,")


# Reports


MAGIC = {".html": b"<!DOCTYPE html>", ".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml"}


def test_reports_are_written_in_every_form(replay: Replay, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: no report to look at")
    paths = [tmp_path / f"report{suffix}" for suffix in MAGIC]
    replay(
        "--compare",
        "qcn,none",
        "--speed",
        "5G",
        *(text for path in paths for text in ("--report", str(path))),
    )
    for path in paths:
        content = path.read_bytes()
        assert content.lower().startswith(MAGIC[path.suffix].lower())
        assert len(content) > 10_000
    page = paths[0].read_text(encoding="utf-8")
    for text in ("qcn", "none", *HOSTS, "500 kB", "seed"):
        assert text in page
    assert 'src="http' not in page
    assert "<link" not in page


def test_the_same_seed_gives_the_same_report(replay: Replay, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: no report to look at")
    pages = []
    for name in ("one.html", "two.html"):
        replay("--cp", "fecn", "--rp", "fecn", "--speed", "5G", "--report", str(tmp_path / name))
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]


# The capture


def test_equal_seeds_write_equal_captures(replay: Replay, tmp_path: Path) -> None:
    made = []
    for name in ("one.pcapng", "two.pcapng"):
        replay(*CLOSED, "-w", str(tmp_path / name))
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]


def test_closed_loop_captures_contain_tags_and_messages(replay: Replay, tmp_path: Path) -> None:
    out = tmp_path / "out.pcap"
    summary = json.loads(replay(*CLOSED, "-T", "json", "-w", str(out)))
    with open_capture(out) as reader:
        frames = [(int(batch.time_ns[i]), batch.frame(i)) for batch in reader for i in range(len(batch))]
    # Frames that waited at the end of the capture are also written, although no figure counts them.
    held_out = summary["stations"]["held_out_frames"]
    cnms = [octets for _, octets in frames if octets[16:18] + octets[20:22] == b"\x22\xe9\x22\xe7"]
    assert len(frames) - len(cnms) == summary["frames"] - held_out
    assert [time for time, _ in frames] == sorted(time for time, _ in frames)
    # Station 4 adds no tags, but its reaction point does.
    fourth = [octets for _, octets in frames if octets[6:12].hex(":") == HOSTS[3]]
    assert {octets[16:20].hex() for octets in fourth} == {"22e9ffff"}
    end_ns = summary["first_time_ns"] + summary["duration_ns"]
    timely = [time for time, octets in frames if octets in cnms and time <= end_ns]
    assert len(timely) == summary["ports"][0]["messages"]["CNM"]
    assert all(decode(octets)[CNM].version == 0 for octets in cnms)


# Mistakes

ONE_MECHANISM = "-w writes the capture of one replay, --compare makes several"
SAME = "are the same replay: omit one"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--compare ,", "--compare needs mechanisms, as in qcn,ecm,none"),
        (
            "--compare qcn,fcen",
            "mechanism: expected one of qcn, ecm, bcn, e2cm, fecn, dbp, dcqcn, ecn, hpcc, swift, csig, "
            "isolation, pause, pfc, none, "
            "got 'fcen' (did you mean 'fecn'?)",
        ),
        ("--compare qcn,none -w x.pcap", ONE_MECHANISM),
        (
            "--compare qcn,none,qcn",
            f"--compare: qcn and qcn {SAME}, or give one other parameters, as in qcn:NAME=VALUE",
        ),
        (
            "--compare qcn:w=2,ecm,qcn --samples x.csv --flows y.csv",
            f"--compare: qcn:w=2 and qcn {SAME}, or give one other parameters, as in qcn:NAME=VALUE",
        ),
        ("--compare none,none", f"--compare: none and none {SAME}"),
        ("--compare none:w=1", "parameter: expected none: none has no parameters, got w=1"),
        ("--compare qcn:w", "parameter: expected name=value, such as qeq=33kB, got 'w'"),
        (
            "--compare qcn,none --set qeq=30kB",
            "parameter: expected none: none has no parameters, got qeq=30kB",
        ),
        (
            "--compare qcn,none --set ecm:qeq=30kB",
            "param: expected a mechanism of this command (qcn, none), got 'ecm'",
        ),
        ("--cp qcn --flows x.json", "x.json: expected a name that ends in .csv or .parquet, got another"),
        ("--cp qcn --samples -", "-: expected a name that ends in .csv or .parquet, got another"),
        ("--cp qcn --report x.pdf", "x.pdf: expected a name that ends in .html, .htm, .png, .svg, got .pdf"),
        ("--cp qcn --report x", "x: expected a name that ends in .html, .htm, .png, .svg, got no suffix"),
        (
            "--cp qcn --rp qcn --feedback-delay soon",
            "Invalid value for '--feedback-delay': expected a time such as 15ms, 500us or 1s, got 'soon'",
        ),
        (
            "--cp qcn --rp qcn --feedback-delay 1001s",
            "feedback_delay: expected 0 to 1000000000000 ns, got 1001000000000",
        ),
        ("--cp qcn --rp qcn --rp-queue 0", "rp_queue: expected 1 to 1000000000 octets, got 0"),
        ("--cp qcn --rp qcn --link-speed 1b/s", "link_rate: expected 1000 to 10000000000000 bit/s, got 1"),
        (
            "--cp qcn -w nowhere/x.pcap",
            "nowhere/x.pcap: expected a writable output, got No such file or directory",
        ),
    ],
)
def test_wrong_arguments_leave_no_output(
    arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["replay", "-r", HOTSPOT, *arguments.split()]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("ecmproto: seed ")]
    assert told[0] == f"ecmproto: {sentence}"
    assert told[1].startswith("help: ")
    assert len(told) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_parameter_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "-r", HOTSPOT, *CLOSED, "--set", "rp.treshold=5"]) == 2
    assert "(did you mean 'threshold'?)" in capsys.readouterr().err


def test_wrong_filters_are_shown_with_position(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "-r", HOTSPOT, "--cp", "qcn", "--ports", "vlan.prio == 3"]) == 2
    told = capsys.readouterr().err
    assert "did you mean 'vlan.priority'?" in told
    assert "\n  ^^^^^^^^^\n" in told


def test_a_comparison_cannot_read_stdin_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "-r", "-", "--compare", "qcn,none"]) == 2
    assert "stdin can be read only once" in capsys.readouterr().err


def test_a_missing_capture_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "-r", str(tmp_path / "x.pcap"), "--compare", "qcn,none"]) == 3
    assert "expected a readable capture file, got No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "name"),
    [("-w", "x.pcap"), ("-w", "x.pcapng.gz"), ("--samples", "x.csv"), ("--flows", "x.csv"),
     ("--report", "x.html")],
)  # fmt: skip
def test_existing_files_are_kept_without_force(
    option: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(b"mine")
    assert run(["replay", "-r", HOTSPOT, *CLOSED, option, str(path)]) == 2
    assert f"{path}: expected a name that is free, got a file of that name" in capsys.readouterr().err
    assert path.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [path]
    assert run(["replay", "-r", HOTSPOT, *CLOSED, option, str(path), "--force"]) == 0
    assert path.read_bytes() != b"mine"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("option", "name", "module", "extra"),
    [
        ("--samples", "x.parquet", "pyarrow", "arrow"),
        ("--flows", "x.parquet", "pyarrow", "arrow"),
        ("--report", "x.html", "matplotlib.figure", "report"),
        ("--report", "x.png", "matplotlib.figure", "report"),
    ],
)
def test_missing_extras_are_reported_with_install_command(
    option: str, name: str, module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, module, None)
    assert run(["replay", "-r", HOTSPOT, *CLOSED, option, str(tmp_path / name)]) == 5
    told = capsys.readouterr().err.splitlines()
    assert told[-2].endswith(f": expected {module.partition('.')[0]}, which is not installed")
    assert told[-1] == f"help: {pip_install(extra)}"
    assert list(tmp_path.iterdir()) == []


def test_csv_needs_no_extra(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    replay(*CLOSED, "--samples", str(tmp_path / "x.csv"))
    assert (tmp_path / "x.csv").stat().st_size > 1_000
