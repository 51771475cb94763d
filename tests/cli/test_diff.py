"""``ecmproto diff`` as users run the command."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from ecmproto.frames.capture import Batch, PcapWriter, open_capture
from ecmproto_cli.main import run
from pcaps.manifest import FOLDER
from tests.diff.edited import captured, write

MIXED, NEXT = str(FOLDER / "mixed.pcap"), str(FOLDER / "mixed.pcapng")


def told(arguments: list[str], capsys: pytest.CaptureFixture[str], *, code: int) -> tuple[str, str]:
    """Run the command, and return its stdout and stderr."""
    assert run(["diff", *arguments, "--color", "never"]) == code
    seen = capsys.readouterr()
    return seen.out, seen.err


@pytest.fixture
def edited(tmp_path: Path) -> str:
    """Write an edited copy of a capture, with a missing, a changed, a later, a moved and an added frame."""
    with open_capture(MIXED) as reader:
        (batch,) = list(reader)
    frames, times = list(batch.frames()), batch.time_ns.tolist()
    changed = bytearray(frames[1])
    changed[21] ^= 1  # in the CNM
    frames[1] = bytes(changed)
    times[9] += 250
    for each in (frames, times):
        each.append(each.pop(14))
        del each[4]
    frames.insert(7, bytes(60))
    times.insert(7, times[6] + 10)
    path = tmp_path / "edited.pcap"
    with PcapWriter(path) as writer:
        writer.write_batch(Batch.from_frames(frames, time_ns=times))
    return str(path)


def test_equal_captures_have_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([MIXED, NEXT], capsys, code=0) == ("equal: 26 frames\n", "")
    assert told([MIXED, MIXED, "-q"], capsys, code=0) == ("", "")
    out, _ = told([MIXED, NEXT, "-T", "json"], capsys, code=0)
    document = json.loads(out)
    assert (document["schema"], document["differences"]) == ("ecmproto/diff/1", [])
    assert document["summary"]["same"] == 26


def test_text_lists_every_difference(edited: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told([MIXED, edited], capsys, code=1)
    assert err == ""
    lines = out.splitlines()
    assert lines[:2] == [f"A {MIXED}", f"B {edited}"]
    listed = [line for line in lines[3:] if line[:1].isalpha()]
    numbers = [line[:24].split() for line in listed[:5]]
    assert numbers == [
        ["changed", "2", "→", "2"], ["missing", "5"], ["added", "8"], ["time", "10", "→", "10"],
        ["moved", "15", "→", "26"],
    ]  # fmt: skip
    assert "22 equal, 1 changed, 1 at other times, 1 moved, 1 only in A, 1 only in B" in out
    assert "250 ns later" in out
    assert not any(line != line.rstrip() for line in lines)


def test_ndjson_has_one_line_per_difference(edited: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = told([MIXED, edited, "-T", "ndjson"], capsys, code=1)
    documents = [json.loads(line) for line in out.splitlines()]
    assert {each["schema"] for each in documents} == {"ecmproto/diff/1"}
    assert [each["kind"] for each in documents] == [
        "changed",
        "missing",
        "added",
        "retimed",
        "moved",
        "summary",
    ]
    assert documents[3]["time_difference_ns"] == 250
    assert documents[-1]["changed"] == 1
    out, _ = told([MIXED, edited, "-T", "json", "--limit", "2"], capsys, code=1)
    assert len(json.loads(out)["differences"]) == 2


def test_shown_differences_can_be_limited(edited: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told([MIXED, edited, "--quiet"], capsys, code=1) == ("", "")
    out, _ = told([MIXED, edited, "--stat"], capsys, code=1)
    assert out.startswith("26 frames in A, 26 in B: 22 equal")
    out, _ = told([MIXED, edited, "--limit", "2"], capsys, code=1)
    assert "… 3 more differences not listed" in out
    assert "moved" not in out.partition("…")[0]
    out, _ = told([MIXED, edited, "--no-times"], capsys, code=1)
    assert "later" not in out.partition("26 frames in A")[0]


def test_ignore_rules_make_captures_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = captured(range(100, 120))
    a, b = write(tmp_path / "a", frames), write(tmp_path / "b", frames, resolution="us")
    assert told([a, b, "--tolerance", "time=1us"], capsys, code=0)[0] == "equal: 20 frames\n"
    for arguments, needed in (
        (["--tolerance", "time"], "expected FIELD=VALUE"),
        (["--tolerance", "time=1"], "a number with its unit"),
        (["--ignore", "ip.tll"], "did you mean 'ip.ttl'?"),
        (["--stat", "-q"], "expected only one of them"),
        (["--window", "1"], "1000<=x<="),
    ):
        _, err = told([a, b, *arguments], capsys, code=2)
        assert needed in err
        assert len(err.splitlines()) == 2


def test_one_capture_may_come_from_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    octets = Path(NEXT).read_bytes()
    for cut, code in ((0, 0), (20, 3)):
        stdin = io.TextIOWrapper(io.BytesIO(octets[: len(octets) - cut]))
        monkeypatch.setattr(sys, "stdin", stdin)
        out, err = told(["-", MIXED], capsys, code=code)
        assert ("equal: 26" in out) == (code == 0)
        assert ("ecmproto: -: " in err) == (code == 3)
    _, err = told(["-", "-"], capsys, code=2)
    assert "stdin can be read only once" in err


def test_unreadable_captures_are_reported_in_two_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"nothing of the kind")
    for name in (str(bad), str(tmp_path / "absent"), str(tmp_path)):
        for pair in ([MIXED, name], [name, MIXED]):
            _, err = told(pair, capsys, code=3)
            assert name in err
            assert len(err.splitlines()) == 2


def test_two_empty_captures_are_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = write(tmp_path / "empty", [])
    assert told([empty, empty], capsys, code=0)[0] == "equal: 0 frames\n"


def test_interfaces_have_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(FOLDER / "malformed.pcapng")
    assert told([path, path, "--per-interface"], capsys, code=0)[1] == ""
