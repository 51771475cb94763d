"""``ecmproto check``: output, exit codes, report documents, baselines, and user-defined rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ecmproto.frames.capture import PcapngWriter
from ecmproto_cli.main import run
from tests.check.planting import LINKS, MS, batch_of, frame
from tests.junit import valid_junit
from tests.sarif import assert_sarif

LINE = "vlan id=5 priority=6 cntag flow_id=7 cnm qntz_fb=12 q_offset=-406 q_delta=0"
CPID = "02:00:00:00:00:c1/1"


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """Write three CNMs: a correct CNM, a CNM with Version 1, and a CNM from another congestion point."""
    seen = [
        frame(LINE),
        frame(LINE, version=1),
        frame(f"eth src=02:00:00:00:00:c2 {LINE}", cpid="02:00:00:00:00:c2/1"),
    ]
    return written(tmp_path / "in.pcapng", seen)


def written(path: Path, frames: list[bytes]) -> str:
    with PcapngWriter(path, interfaces=LINKS[:1]) as writer:
        if frames:
            writer.write_batch(batch_of([(at * MS, each) for at, each in enumerate(frames)]))
    return str(path)


def test_text_contains_rule_frame_and_fault(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", capture, "--select", "QCN001,QCN002,PFC"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "QCN001 error: The Version field and the reserved bits of a CNM are 0."
    assert lines[1] == f"  {capture}:2  0.001000000  {CPID}"
    assert lines[2].startswith("    a field that must be 0 is not 0: Version 1")
    assert lines[-3:-1] == [
        f"{capture}: 3 frames, 1 finding", "18 rules: 1 passed, 1 failed, 16 not applicable"
    ]  # fmt: skip
    assert lines[-1] == "  passed: QCN002"


def test_a_clean_capture_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", written(tmp_path / "in.pcapng", [frame(LINE)])]) == 0
    assert "0 findings" in capsys.readouterr().out
    assert run(["check", written(tmp_path / "none.pcapng", [])]) == 0
    assert "0 frames, 0 findings" in capsys.readouterr().out


def test_findings_beyond_the_limit_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "in.pcapng", [frame(LINE, version=1)] * 12)
    assert run(["check", path, "--select", "QCN001", "--limit", "3"]) == 1
    assert "  … 9 more (--limit 0 shows all stored findings)" in capsys.readouterr().out.splitlines()
    assert run(["check", path, "--select", "QCN001", "--limit", "0"]) == 1
    assert capsys.readouterr().out.count("in.pcapng:") == 12 + 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1), (("--ignore", "QCN001"), 0), (("--select", "QCN002"), 0), (("--fail-on", "error"), 1),
        (("--fail-on", "never"), 0), (("--fail-on", "QCN002,PFC"), 0), (("--fail-on", "qcn001"), 1),
        (("--select", "pfc"), 0), (("--select", "qcn,pfc"), 1), (("-Y", "frame.number != 2"), 0),
        (("-c", "1"), 0), (("--set", "qcn.cnm_priority=7", "--ignore", "QCN001", "--fail-on", "error"), 0),
        (("--set", "qcn.cnm_priority=7", "--ignore", "QCN001", "--fail-on", "warning"), 1),
    ],
)  # fmt: skip
def test_options_determine_the_exit_code(capture: str, options: tuple[str, ...], code: int) -> None:
    assert run(["check", capture, *options]) == code


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--select", "QCN9"], "rule: expected one of"),
        (["--set", "qcn.ww=1"], "did you mean 'qcn.w'"),
        (["--set", "qcn.w"], "expected NAME=VALUE"),
        (["--select", "qnc"], "did you mean 'qcn'"),
        (["--explain", "QCN0001"], "did you mean 'QCN001'"),
        (["--fail-on", "errors"], "rule: expected one of"),
        (["--rules", "some.yaml"], "expected a file that ends in .py or .toml, got .yaml"),
    ],
)
def test_wrong_options_are_refused_with_suggestions(
    capture: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", capture, *arguments]) == 2
    assert told in capsys.readouterr().err


def test_rules_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--rules", "list", "--select", "qcn"]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith("QCN (qcn)\n  QCN000  error    A CNM is well-formed.\n")
    assert max(map(len, listed.splitlines())) <= 80
    assert run(["check", "--explain", "qcn003"]) == 0
    told = capsys.readouterr().out
    assert "--set qcn.w=2" in told
    assert max(map(len, told.splitlines())) <= 80
    assert run(["check"]) == 2


def test_ndjson_has_findings_and_a_summary(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", capture, "-T", "ndjson", "--select", "QCN001"]) == 1
    finding, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (finding["schema"], finding["rule"], finding["frame"], finding["interface"]) == (
        "ecmproto/finding/1", "QCN001", 2, "east",
    )  # fmt: skip
    assert (finding["subject"], finding["allowed"], finding["time_ns"] % 10**9) == (CPID, 0, MS)
    assert (summary["schema"], summary["frames"], summary["findings"]) == ("ecmproto/check/1", 3, 1)
    (rule,) = summary["rules"]
    assert [(case["CPID"], case["judged"], case["findings"]) for case in rule["cases"]] == [
        (CPID, 2, 1), ("02:00:00:00:00:c2/1", 1, 0),
    ]  # fmt: skip


def test_junit_has_case_for_each_rule_and_subject(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.xml"
    assert run(["check", capture, "--select", "QCN001,PFC001", "--junit", str(out)]) == 1
    root = valid_junit(out.read_text())
    assert root.attrib == {"tests": "3", "failures": "1", "errors": "0"}
    assert [suite.attrib["skipped"] for suite in root] == ["0", "1"]
    cases = {
        (case.attrib["classname"].split(".")[-1], case.attrib["name"]): [each.tag for each in case]
        for case in root.iter("testcase")
    }
    assert list(cases.values()) == [["failure"], [], ["skipped"]]
    assert ("QCN001", f"CPID {CPID}") in cases
    failure = next(root.iter("failure"))
    assert failure.text is not None
    assert failure.text.startswith("frame 2: a field that must be 0")
    capsys.readouterr()
    assert run(["check", capture, "--select", "QCN001,PFC001", "-T", "junit"]) == 1
    assert capsys.readouterr().out == out.read_text()


def test_sarif_conforms_to_its_schema(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", capture, "-T", "sarif", "--select", "QCN00"]) == 1
    log: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (log["version"], "sarif-schema-2.1.0" in log["$schema"]) == ("2.1.0", True)
    assert_sarif(log)
    (run_,) = log["runs"]
    driver = run_["tool"]["driver"]
    assert driver["name"] == "ecmproto check"
    assert all(rule["shortDescription"]["text"] and rule["id"] for rule in driver["rules"])
    (result,) = run_["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "QCN001"
    assert (result["level"], bool(result["message"]["text"])) == ("error", True)
    place = result["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("in.pcapng")
    assert place["logicalLocations"][0]["name"] == "frame 2"
    assert run_["invocations"][0]["executionSuccessful"] is True


def test_findings_of_a_baseline_are_omitted(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = str(tmp_path / "known.json")
    assert run(["check", capture, "--write-baseline", known]) == 0
    assert run(["check", capture, "--write-baseline", known]) == 2
    capsys.readouterr()
    assert run(["check", capture, "--baseline", known]) == 0
    assert "0 findings, 1 known finding left out" in capsys.readouterr().out
    # With two findings and one known finding, the new finding cannot be identified.
    worse = written(tmp_path / "worse.pcapng", [frame(LINE, version=1)] * 2)
    assert run(["check", worse, "--baseline", known]) == 1
    assert "2 findings" in capsys.readouterr().out
    for text in ("{", "[]", '{"schema": "other"}', '{"schema": "ecmproto/baseline/1", "known": [1]}'):
        Path(known).write_text(text)
        assert run(["check", capture, "--baseline", known]) == 2
        assert "known.json" in capsys.readouterr().err


OWN = """
schema = "ecmproto/rules/1"
[[rule]]
id = "RACK001"
sentence = "CNMs come from the rack's own switch."
filter = "cnm"
needed = "cnm.cpid[0:6] == 02:00:00:00:00:c1"
subject = "cnm.cpid"
severity = "warning"
[[rule]]
id = "RACK002"
sentence = "There is no CNM of Version 1."
filter = "cnm.version == 1"
"""


def test_custom_rules_may_be_filters(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "rack.toml"
    own.write_text(OWN)
    assert run(["check", capture, "--rules", str(own), "--select", "RACK"]) == 1
    told = capsys.readouterr().out
    assert "RACK001 warning: CNMs come from the rack's own switch." in told
    assert f"{capture}:3  0.002000000  02:00:00:00:00:c2/1" in told
    assert f"{capture}:2  0.001000000  interface east" in told
    for spoilt in (
        OWN.replace("cnm.cpid[0:6]", "cnm.cpidd"), OWN.replace("RACK001", "rack"),
        OWN.replace("RACK002", "RACK001"),
        OWN.replace('"warning"', '"bad"'), OWN.replace("rules/1", "rules/2"), OWN.replace("filter", "fitler"),
        OWN.replace("[[rule]]", "[rule]"), "[[", OWN.replace('subject = "cnm.cpid"', 'subject = "cnm.msdu"'),
        OWN.replace("RACK002", "QCN001"),
    ):  # fmt: skip
        own.write_text(spoilt)
        assert run(["check", capture, "--rules", str(own)]) == 2
        assert "rack" in capsys.readouterr().err


def test_custom_rules_may_be_python(capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "my_rules.py"
    own.write_text(
        "from ecmproto.tools.check import Judged, Rule\n"
        "from ecmproto.tools.check.rule import STATION\n"
        "def low(cnms, parameters):\n"
        "    return Judged(cnms['cnm.qntz_fb'] > 10, 'strong', cnms['cnm.qntz_fb'], 10)\n"
        "RULES = [Rule(id='MINE001', name='low', sentence='Feedback is low.', why='', clause='mine',\n"
        "    severity='error', subject=STATION, on=('cnm.cpid',), fields=('cnm.qntz_fb',), expression=low)]\n"
    )
    assert run(["check", capture, "--rules", str(own), "--select", "MINE"]) == 1
    assert "strong: 12, expected 10" in capsys.readouterr().out
    forgotten = own.read_text().replace("fields=('cnm.qntz_fb',), ", "")
    for spoilt in ("1/0", "import nothing_like_it", "x = 1", "RULES = []", forgotten):
        own.write_text(spoilt)
        assert run(["check", capture, "--rules", str(own), "--select", "MINE"]) == 2
        assert "my_rules.py" in capsys.readouterr().err


def test_truncated_captures_are_checked_and_reported(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Path(capture).read_bytes()
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(whole[:-7])
    out = tmp_path / "out.xml"
    assert run(["check", str(cut), "--junit", str(out), "--select", "QCN001"]) == 3
    told = capsys.readouterr()
    assert "1 finding" in told.out
    assert "cut.pcapng" in told.err
    assert valid_junit(out.read_text()).attrib["errors"] == "1"
    cut.write_bytes(b"nothing")
    assert run(["check", str(cut)]) == 3
    assert run(["check", str(tmp_path / "none.pcap")]) == 3


@pytest.mark.parametrize("name", ["malformed.pcapng", "mixed.pcap", "vlan_stacks.pcap", "qcn_pbb.pcap"])
def test_odd_frames_are_judged_without_a_traceback(name: str, repository: Path) -> None:
    assert run(["check", str(repository / "pcaps" / name)]) in (0, 1)


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        (".".join("a" * 40_000) + " = 1", "keys of at most 64 parts, got 40,000 parts"),
        ("x = " + "[" * 100_000, "a TOML document, got nesting without end"),
        ("x = " + "9" * 5_000, "numbers of at most 4,300 digits"),
        ("x = ", "a TOML document, got"),
        ('a = "' + "x" * (17 << 20) + '"', "at most 16 MiB"),
    ],
    ids=["parts", "nesting", "digits", "broken", "large"],
)
def test_rules_in_toml_are_read_within_bounds(
    text: str, needed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    assert run(["check", "--rules", str(path), "--rules", "list"]) == 2
    assert needed in capsys.readouterr().err
