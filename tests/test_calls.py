"""The functions that correspond to commands return results as tables and accept the commands' options."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ecmproto
from docs.option_reference import declarations
from ecmproto.errors import (
    CaptureError,
    DecodeError,
    FilterError,
    OutputError,
    ParameterError,
    SpecError,
)
from ecmproto.frames.stats import document_text
from ecmproto.tables import Tabular
from ecmproto_cli.main import cli, run


def printed(*words: str) -> str:
    return CliRunner().invoke(cli, words, catch_exceptions=False).stdout


@pytest.fixture
def mixed(repository: Path) -> Path:
    return repository / "pcaps" / "mixed.pcap"


def test_dissect_yields_selected_frames(mixed: Path) -> None:
    (record,) = ecmproto.dissect(mixed, filter="cnm")
    assert (record.number, record.frame["cnm.qntz_fb"]) == (2, 40)
    assert [each.number for each in ecmproto.dissect([mixed], count=3)] == [1, 2, 3]
    with mixed.open("rb") as file:
        assert len(list(ecmproto.dissect(file))) == 26


def test_dissect_raises_at_end_of_truncated_capture(mixed: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(mixed.read_bytes()[:-5])
    read: list[object] = []
    with pytest.raises(CaptureError):
        read.extend(ecmproto.dissect(path))
    assert len(list(ecmproto.dissect(path, count=25))) == 25


def test_stats_are_the_commands(mixed: Path) -> None:
    statistics = ecmproto.stats(mixed, speed="400G", interval="1us", lossless=[3])
    words = (
        "stats",
        "-r",
        str(mixed),
        "-T",
        "json",
        "--speed",
        "400G",
        "--interval",
        "1us",
        "--lossless",
        "3",
    )
    document = json.loads(printed(*words))
    assert statistics.records()[0].items() <= document["kinds"][0].items()
    assert [row["frames"] for row in statistics.records()] == [each["frames"] for each in document["kinds"]]
    assert repr(statistics).startswith("26 frames in ")


def test_samples_and_storms_are_the_commands(mixed: Path) -> None:
    statistics = ecmproto.stats(mixed, sampled="1:16", storm_detect="1us", storm_restore="2us")
    words = ("--sampled", "1:16", "--storm-detect", "1us", "--storm-restore", "2us")
    assert document_text(statistics, str(mixed)) == printed("stats", "-r", str(mixed), "-T", "json", *words)
    assert any("are a sample" in note for note in ecmproto.check(mixed, sampled="1:16").notes)


def test_check_lists_findings(tmp_path: Path) -> None:
    path = tmp_path / "wrong.pcap"
    printed("craft", "cnm", "qntz_fb=0", "--vlan", "5", "-w", str(path))
    checked = ecmproto.check(path, select=["QCN004", "QCN002"], set={"qcn.cnm_priority": 5})
    assert repr(checked).startswith("2 findings in 1 frame: QCN002 1, QCN004 1")
    table = checked.to_arrow().to_pylist()
    assert {row["rule"]: row["severity"] for row in table} == {"QCN002": "warning", "QCN004": "warning"}
    assert not ecmproto.check(path, ignore=["QCN", "DOM"]).wrong
    with pytest.raises(ParameterError):
        ecmproto.check(path, set={"qcn.colour": 1})


def test_a_table_without_rows_has_its_columns(mixed: Path) -> None:
    checked = ecmproto.check(mixed, select=["QCN004"])
    assert checked.to_arrow().column_names[:3] == ["rule", "severity", "frame"]
    assert "<th>rule</th>" in checked._repr_html_()


def test_diff_lists_and_counts(mixed: Path, tmp_path: Path) -> None:
    out = tmp_path / "edited.pcap"
    report = ecmproto.edit(mixed, out, set={"vlan.id": 7}, filter="cnm")
    assert (report.changed, report.selected) == (1, 1)
    assert repr(report) == "26 frames written, 1 of them changed"
    rows = {(row["what"], row["name"]): row["frames"] for row in report.to_arrow().to_pylist()}
    assert (rows["set", "vlan.id"], rows["written", ""]) == (1, 26)
    differences = ecmproto.diff(mixed, out)
    assert repr(differences) == "25 frames the same; 1 changed"
    assert differences.to_arrow()["kind"].to_pylist() == ["changed"]
    assert repr(ecmproto.diff(mixed, out, ignore=["vlan.id"])) == "26 frames the same; no difference"
    shown = ecmproto.diff(mixed, mixed.with_name("pfc.pcap"), limit=2)
    assert (len(shown.listed), shown.summary["missing"]) == (2, 23)


def test_edit_does_not_overwrite(mixed: Path, tmp_path: Path) -> None:
    out = tmp_path / "edited.pcap"
    ecmproto.edit([mixed], out, strip=["cntag"], add_tag=["vlan id=9"], frames="1-3", fix=True)
    assert [each.frame["vlan.id"] for each in ecmproto.dissect(out, count=1)] == [9]
    with pytest.raises(ecmproto.OutputError):
        ecmproto.edit(mixed, out)
    with pytest.raises(SpecError):
        ecmproto.edit(mixed, out, set={"vlan.colour": 7}, force=True)
    with pytest.raises(FilterError):
        ecmproto.edit(mixed, out, filter="vlan.id ==", force=True)


def test_lab_runs_a_changed_scenario() -> None:
    outcome = ecmproto.lab(
        "incast-victim", mechanism="none", set={"duration": "4ms", "measure.from": "2ms"}, seeds=2,
        show=["queue.p99"],
    )  # fmt: skip
    assert len(outcome.seeds) == 2
    rows = {row["figure"]: row for row in outcome.to_arrow().to_pylist()}
    assert rows["queue.p99"]["minimum"] <= rows["queue.p99"]["median"] <= rows["queue.p99"]["maximum"]
    assert "queue.p99" in repr(outcome)
    with pytest.raises(SpecError):
        ecmproto.lab("incast-victm")


def test_a_replay_is_a_table(repository: Path) -> None:
    both = ecmproto.replay(repository / "pcaps" / "hotspot.pcap.gz", ["qcn", "none"], set={}, seed=1)
    assert both.to_arrow()["mechanism"].to_pylist() == ["qcn", "none"]


def test_rows_convert_to_other_libraries() -> None:
    class Rows(Tabular):
        def records(self) -> list[dict[str, object]]:
            return [{"name": "a<b", "value": 1}, {"name": "c", "value": "two"}]

        def __repr__(self) -> str:
            return "2 rows"

    rows = Rows()
    assert rows.to_arrow().to_pydict() == {"name": ["a<b", "c"], "value": ["1", "two"]}
    assert list(rows.to_pandas()["value"]) == ["1", "two"]
    assert pytest.importorskip("polars").DataFrame(rows).shape == (2, 2)
    assert "a&lt;b" in rows._repr_html_()


def test_an_unknown_field_names_the_nearest(mixed: Path) -> None:
    frame = next(ecmproto.dissect(mixed, filter="cnm"))
    assert frame["cnm.qntz_fb"] == 40
    with pytest.raises(KeyError, match=r"cnm\.qntzfb: not in the frame \(did you mean 'cnm\.qntz_fb'\?\)"):
        frame["cnm.qntzfb"]
    with pytest.raises(DecodeError):
        ecmproto.decode(b"")


API: Any = ecmproto
"""The package without types, for arguments of wrong types."""
WRONG: tuple[object, ...] = (None, True, -1, 1.5, "", "x", b"x", [], [1], {1: 2}, object(), ("a=b",), 2**70)


COMMANDS = {
    "dissect": "dissect", "stats": "stats", "check": "check", "diff": "diff", "craft": "craft",
    "edit": "edit", "replay": "replay", "lab run": "lab",
}  # fmt: skip
NAMES = {
    "--read": "captures", "--from": "start", "--to": "stop", "--cp": "mechanism", "--compare": "mechanism",
    "--rp": "closed", "edit -T": "format", "craft -T": "format", "craft --write": "out",
    "edit --write": "out", "replay --write": "output", "dissect --outer": "inner",
}  # fmt: skip
"""Options, some of one command, whose arguments have other names."""
PRINTED = "the result has these values, in Python's types"
OTHERS = {
    "-T": PRINTED, "-V": PRINTED, "-x": PRINTED, "-e": "ecmproto.read_table has fields", "-E": PRINTED,
    "--all-fields": "ecmproto.read_table has all_fields", "--deep": PRINTED, "--junit": PRINTED,
    "--sarif": PRINTED, "--quiet": PRINTED, "--stat": PRINTED, "check --limit": PRINTED,
    "--explain": "Rule has these texts", "--list": "SEQUENCES has them", "--fail-on": PRINTED,
    "--expect": "the figures of the result are compared in Python", "--samples": PRINTED, "--flows": PRINTED,
    "dissect --write": "ecmproto.edit(keep=True) and write_columns write frames",
    "lab run --write": "a capture of a laboratory is written by simulations, not by their results",
    "dissect --force": "writes nothing", "stats --force": "writes nothing", "check --force": "writes nothing",
    "lab run --force": "writes nothing", "edit --dry-run": "out=os.devnull",
    "--report": "ecmproto.tools.report has the pages", "--panels": "ecmproto.tools.report has the pages",
    "--interface": "captures from interfaces do not end; ecmproto.frames.capture.linux has readers",
    "--baseline": "sets of findings are compared in Python",
    "--write-baseline": "sets of findings are compared in Python",
    "--spec": "ecmproto.tools.craft.spec reads files", "--from-json": "ecmproto.tools.craft.spec reads files",
    "--from-columns": "ecmproto.frames_from", "--fix": "ecmproto.encode(fix=True)",
    "--memory": "ecmproto.frames_from",
    "--storm": "ecmproto.tools.craft.sequences.Storm", "--duration": "ecmproto.tools.craft.sequences.Storm",
    "--renew": "ecmproto.tools.craft.sequences.Storm", "--no-release": "ecmproto.tools.craft.sequences.Storm",
    "--expectations": "ecmproto.tools.craft.sequences.Sequence.expected",
}  # fmt: skip
"""Options, some of one command, without an argument in Python, and the reason."""


def test_calls_have_the_options_of_their_commands() -> None:
    uses = [(path, option) for option, each in declarations().items() for path, _ in each if path in COMMANDS]
    names = {(path, option): f"{path} {option}" for path, option in uses}
    without = {
        use for use in uses
        if NAMES.get(names[use], NAMES.get(use[1], use[1].lstrip("-").replace("-", "_")))
        not in inspect.signature(getattr(ecmproto, COMMANDS[use[0]])).parameters
    }  # fmt: skip
    reasons = {use for use in uses if names[use] in OTHERS or use[1] in OTHERS}
    assert sorted(without - reasons) == []
    used = {names[use] for use in without} | {option for _, option in without}
    assert sorted(set(OTHERS) - used) == []


def test_crafted_frames_are_the_commands(tmp_path: Path) -> None:
    line, out, same = "cnm qntz_fb=40", tmp_path / "out.pcap", tmp_path / "same.pcap"
    batch = ecmproto.craft(
        line, out, sweep={"cntag.flow_id": "0..9"}, count=12, vlan=5, prio=6, rate="1Mpps", time="5s"
    )
    options = "--sweep cntag.flow_id=0..9 -c 12 --vlan 5 --prio 6 --rate 1Mpps --time 5s"
    assert run(["craft", *line.split(), *options.split(), "-w", str(same)]) == 0
    assert out.read_bytes() == same.read_bytes()
    assert [ecmproto.decode(octets)["cntag.flow_id"] for octets in batch] == [*range(10), 0, 1]
    assert batch.time_ns.tolist() == [5 * 10**9 + 1000 * number for number in range(12)]
    with pytest.raises(OutputError, match="a name that is free"):
        ecmproto.craft(line, out)
    assert len(ecmproto.craft("cnm-flood flows=0..9 fb=1..3")) == 120


def test_edits_and_differences_accept_the_new_arguments(mixed: Path, tmp_path: Path) -> None:
    wrapped, bare = tmp_path / "wrapped.pcap", tmp_path / "bare.pcapng"
    ecmproto.edit(mixed, wrapped, encap="erspan2,session=12", shift="-20ms", scale_time="2")
    ecmproto.edit(wrapped, bare, decap=True, shift="20ms", scale_time="1/2", format="pcapng")
    same = ecmproto.diff(mixed, bare, ignore="frame.interface_id", snaplen=60, window=1000)
    assert repr(same) == "26 frames the same; no difference"
    ecmproto.edit(mixed, wrapped, add_tag="vlan id=9", replace_tags=True, shift="1s", force=True)
    assert {each["kind"] for each in ecmproto.diff(mixed, wrapped, times=True, ignore="vlan").listed} == {
        "retimed"
    }


@pytest.mark.parametrize(
    "name", ["craft", "dissect", "stats", "check", "diff", "edit", "replay", "lab", "read_table"]
)
def test_wrong_arguments_raise_errors_of_ecmproto(
    name: str, mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments with impossible values raise EcmprotoError, unless a call with the value is allowed."""
    monkeypatch.chdir(tmp_path)  # some values are names of output files
    call = getattr(ecmproto, name)
    paths = {"captures": mixed, "path": mixed, "a": mixed, "b": tmp_path / "missing.pcap"}
    given: dict[str, object] = {
        "frame": "pfc",
        "out": tmp_path / "out.pcap",
        "mechanism": "qcn",
        "scenario": "missing",
    }
    parameters = inspect.signature(call).parameters
    needed = {key: (paths | given)[key] for key, each in parameters.items() if each.default is each.empty
              and each.kind is not each.VAR_KEYWORD}  # fmt: skip
    for key, parameter in parameters.items():
        for wrong in WRONG:
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            with contextlib.suppress(ecmproto.EcmprotoError):
                result = call(**needed | {key: wrong})
                assert name != "dissect" or list(result) is not None


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda path: API.edit(path, path, set=[7]), "set: expected a mapping of names to values"),
        (lambda path: API.craft("pfc", path.with_suffix(".x")), "out: expected a name that ends in .pcap"),
        (lambda path: API.stats(path, speed=-1), 'speed: expected a rate such as "10G"'),
        (lambda path: API.check(path, count=0), "count: expected a whole number from 1 to"),
        (lambda path: API.check(path, sampled="16"), "sampled: expected 1:N or every:N"),
        (lambda path: API.stats(path, trailer="tap"), "trailer: expected one of metamako"),
        (lambda path: API.replay(path, "qcn", closed=1), "closed: expected True or False, got 1"),
        (lambda path: API.diff(path, path, align_time="none "), "none or offset or drift, got 'none '"),
        (
            lambda path: API.read_table(path, filter=7),
            "filter: expected a display filter as text, got 7",
        ),
    ],
)
def test_wrong_types_are_named(call: Callable[[Path], object], expected: str, mixed: Path) -> None:
    with pytest.raises(ParameterError) as caught:
        call(mixed)
    assert expected in str(caught.value)


def test_arguments_are_accepted_as_on_command_lines(mixed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pcap"
    ecmproto.edit(mixed, out, set=["vlan.id=7", "vlan.priority=2"], strip="cntag", filter="cnm")
    assert (
        repr(ecmproto.diff(mixed, out, ignore="vlan.id,vlan.priority,cntag"))
        == "26 frames the same; no difference"
    )
    assert (
        ecmproto.check(mixed, select="qcn,pfc", set="qcn.w=2").records()
        == ecmproto.check(mixed, select=["qcn", "pfc"], set={"qcn.w": 2}).records()
    )
    assert ecmproto.read_table(mixed, "frame.number").column_names == ["frame.number"]
