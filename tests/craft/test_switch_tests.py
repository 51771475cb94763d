"""Tests for switches, and the verdicts on generated captures, without interfaces."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from ecmproto.errors import EcmprotoError
from ecmproto.frames.capture import PcapngWriter
from ecmproto.tools.craft.expectations import Expectation, Judge, Side, number_in
from ecmproto.tools.craft.recipe import chunks
from ecmproto.tools.craft.spec import Reading, read_expectations, read_items, toml_of
from ecmproto.tools.craft.switch_tests import SEQUENCES, sequence_named
from ecmproto.wire.codec import PFC, VLAN, decode
from ecmproto_cli.main import run
from tests.junit import valid_junit

Timed = tuple[int, bytes]
MS = 10**6
BEGAN_NS = 10**18
WAY_NS = 50_000


@functools.cache
def sent(name: str, **given: str) -> dict[Side, list[Timed]]:
    """Return the frames of a test by the side from which they are sent, with times."""
    of = sequence_named(name).steps(given)
    frames: dict[Side, list[Timed]] = {"near": [], "far": []}
    for side, reverse in (("near", False), ("far", True)):
        items = (step.item for step in of if step.reverse is reverse)
        for chunk in chunks(read_items(items, "recipe", Reading())):
            frames[side] += zip(chunk.times().tolist(), chunk.octets(), strict=True)  # type: ignore[index]
    return frames


def paused(frames: Iterable[Timed]) -> list[tuple[int, int]]:
    """Return the spans in which PFC pauses priority 3 at 10 Gb/s."""
    spans: list[tuple[int, int]] = []
    for time_ns, octets in frames:
        pfc = decode(octets).get(PFC)
        if pfc is None:
            continue
        end = time_ns + pfc.times[3] * 512 // 10
        if spans and time_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((time_ns, end))
    return spans


def bridge(near: list[Timed], far: list[Timed]) -> tuple[list[Timed], list[Timed]]:
    """Forward all frames except PFC frames."""
    return [(t + WAY_NS, o) for t, o in near if PFC not in decode(o)], [(t + WAY_NS, o) for t, o in far]


def obeys(near: list[Timed], far: list[Timed]) -> tuple[list[Timed], list[Timed]]:
    """Forward all frames except PFC, and stop priority 3 towards the near side while the priority is
    paused.
    """
    ahead, back = bridge(near, far)
    spans = paused(near)

    def leaves(time_ns: int, octets: bytes) -> int:
        if decode(octets)[VLAN].priority == 3:
            return next((end for first, end in spans if first <= time_ns < end), time_ns)
        return time_ns

    return ahead, sorted(((leaves(*each), each[1]) for each in back), key=lambda each: each[0])


Device = Callable[[list[Timed], list[Timed]], tuple[list[Timed], list[Timed]]]


def captures(folder: Path, frames: dict[Side, list[Timed]], device: Device) -> tuple[str, str]:
    """Write what a tester captures on both sides of a device; return the far and the near capture."""
    ahead, back = device(frames["near"], frames["far"])
    paths = []
    for name, seen in (("far", frames["far"] + ahead), ("near", frames["near"] + back)):
        paths.append(str(folder / f"{name}.pcapng"))
        with PcapngWriter(paths[-1], force=True) as writer:
            for time_ns, octets in sorted(seen, key=lambda each: each[0]):
                writer.write_frame(octets, BEGAN_NS + time_ns)
    return paths[0], paths[1]


def judged(
    words: list[str], folder: Path, device: Device, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the exit code, and the outcome and what was found by the expectation's name."""
    given = dict(word.split("=", 1) for word in words[1:])
    far, near = captures(folder, sent(words[0], **given), device)
    code = run(["send", *words, "--received", far, "--sent", near, "-T", "json", *more])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ecmproto/verdicts/1"
    verdicts = {each["name"]: (each["outcome"], each["found"]) for each in document["verdicts"]}
    assert len(verdicts) == document["passed"] + document["failed"] + document["unknown"]
    return code, verdicts


def failed(verdicts: dict[str, tuple[str, str]]) -> list[str]:
    return [name for name, (outcome, _) in verdicts.items() if outcome == "failed"]


# -- the recipes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prio", "held"), [("3", {3}), ("3,4", {3, 4}), ("0..7", set(range(8))), ("all", set(range(8)))]
)
def test_storm_holds_the_given_priorities(prio: str, held: set[int]) -> None:
    frames = sent("pfc-storm", prio=prio)["near"]
    pauses = [(time_ns, decode(octets)[PFC]) for time_ns, octets in frames if PFC in decode(octets)]
    assert {p for _, pfc in pauses for p in range(8) if pfc.enabled(p)} == held
    times = [time_ns for time_ns, _ in pauses]
    # 65535 quanta are 3.355392 ms at 10 Gb/s; a frame every half of that, and the last one releases
    assert {b - a for a, b in pairwise(times[:-1])} == {1_677_696}
    assert pauses[-1][1].times == (0,) * 8
    assert (times[0], times[-1]) == (200 * MS, 350 * MS)


def test_frames_are_in_time_order_with_unique_numbers() -> None:
    frames = sent("pfc-storm")
    for side in frames.values():
        assert [t for t, _ in side] == sorted(t for t, _ in side)
    numbers = [number_in(octets) for side in frames.values() for _, octets in side]
    marked = [number for number in numbers if number is not None]
    assert sorted(marked) == list(range(1, len(marked) + 1))


def test_late_refresh_leaves_quarter_of_pause_free() -> None:
    spans = paused(sent("pfc-late")["near"])
    assert {b[0] - a[1] for a, b in pairwise(spans[:-1])} == {3_355_392 // 4}


def test_second_storm_starts_within_restoration_time() -> None:
    first, second = paused(sent("pfc-storm-return", detect="100ms", restore="200ms")["near"])
    assert first[1] - first[0] == second[1] - second[0] == 200 * MS
    assert second[0] - first[1] == 100 * MS
    spans = {
        each.name: each.during_ns
        for each in sequence_named("pfc-storm-return").expected({"detect": "100ms", "restore": "200ms"})
        if each.during_ns is not None
    }
    # the storm begins at 200 ms; margins of 20 ms inside each span
    assert spans == {
        "priority 3 is stopped in storm 1": (220 * MS, 280 * MS),
        "priority 3 is dropped by the watchdog": (320 * MS, 880 * MS),
        "priority 3 runs again after the last pause": (920 * MS, None),
    }


def test_sentence_describes_the_expectation() -> None:
    said = Expectation(
        name="x", side="far", filter="pfc", frames=(3, 3), during_ns=(MS, 2 * MS), rate_fps=(10, None),
        in_order=True, latency_ns=MS,
    )  # fmt: skip
    assert (
        said.sentence() == "x: 3 frames, from 1 ms to 2 ms, at least 10 frames/s, in order, at most 1 ms late"
    )
    assert said.document()["during_ns"] == (MS, 2 * MS)
    assert dataclasses.replace(said, frames=(0, 0)).sentence().startswith("x: no frame, from")


def test_ecn_sweep_has_every_octet_of_field() -> None:
    frames = sent("ecn-sweep")["near"]
    assert sorted(octets[15] for _, octets in frames) == list(range(256))


# -- verdicts ---------------------------------------------------------------------------------------------


def test_obedient_switch_passes_and_plain_bridge_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = tmp_path / "out.xml"
    code, verdicts = judged(["pfc-storm"], tmp_path, obeys, capsys, "--junit", str(junit))
    assert (code, failed(verdicts)) == (0, [])
    assert {outcome for outcome, _ in verdicts.values()} == {"passed"}
    suite = valid_junit(junit.read_text())[0]
    assert suite.attrib["failures"] == "0"
    assert len(suite) == len(verdicts)

    code, verdicts = judged(["pfc-storm"], tmp_path, bridge, capsys, "--junit", str(junit), "--force")
    assert (code, failed(verdicts)) == (1, ["priority 3 is stopped"])
    # every 20 ms from 220 to 330 ms: 220, 240, 260, 280, 300, 320
    assert verdicts["priority 3 is stopped"][1] == "got 6 frames, the first at 220.1 ms; expected no frame"
    failure = valid_junit(junit.read_text()).find(".//failure")
    assert failure is not None
    assert "expected no frame" in failure.attrib["message"]


def test_a_switch_that_pauses_a_lossy_priority_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pfc-lossy", "prio=3", "latency=20ms", "rate=20pps"]
    assert judged(words, tmp_path, bridge, capsys)[0] == 0
    code, verdicts = judged(words, tmp_path, obeys, capsys)
    assert code == 1
    assert failed(verdicts) == ["priority 3 is not stopped, although paused, since it is lossy"]
    assert "frames later than 20 ms" in verdicts[failed(verdicts)[0]][1]


def test_late_refresh_must_release_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pfc-late", "latency=1ms", "rate=20pps"]
    assert judged(words, tmp_path, obeys, capsys)[0] == 0

    def holds(near: list[Timed], far: list[Timed]) -> tuple[list[Timed], list[Timed]]:
        ahead, back = bridge(near, far)
        held = [(350 * MS if 200 * MS < t < 350 * MS else t, o) for t, o in back]
        return ahead, sorted(held, key=lambda each: each[0])

    code, verdicts = judged(words, tmp_path, holds, capsys)
    assert code == 1
    assert "priority 3 starts again whenever a refresh is late" in failed(verdicts)


@pytest.mark.parametrize(("watchdog", "wrong"), [("none", "forward"), ("drop", "none"), ("forward", "drop")])
def test_watchdog_must_act_as_declared(
    watchdog: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pfc-storm-return", "detect=100ms", "restore=200ms", "rate=40pps"]

    def guarded(near: list[Timed], far: list[Timed]) -> tuple[list[Timed], list[Timed]]:
        ahead, back = obeys(near, far)
        first = 300 * MS  # 100 ms into the storm that begins at 200 ms; it is over 200 ms behind the last
        fresh = [(t, o) for t, o in bridge(near, far)[1] if decode(o)[VLAN].priority == 3]
        others = [(t, o) for t, o in back if decode(o)[VLAN].priority != 3]
        three = [(t, o) for t, o in fresh if t < 200 * MS or t > 900 * MS]
        if watchdog == "forward":
            three += [(max(t, first), o) for t, o in fresh if 200 * MS <= t <= 900 * MS]
        return ahead, sorted(others + three, key=lambda each: each[0])

    device = obeys if watchdog == "none" else guarded
    for said in (watchdog, wrong):
        code, verdicts = judged([*words, f"watchdog={said}"], tmp_path, device, capsys)
        assert (code == 0) is (said == watchdog), (said, failed(verdicts))


def test_late_tester_makes_the_verdict_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = sent("pfc-storm")
    # at 250 ms the tester sleeps for 40 ms
    late = [(290 * MS if 250 * MS < t < 290 * MS and PFC in decode(o) else t, o) for t, o in frames["near"]]
    slept: dict[Side, list[Timed]] = {"near": sorted(late, key=lambda each: each[0]), "far": frames["far"]}
    for device, outcome in ((obeys, "unknown"), (bridge, "failed")):
        far, near = captures(tmp_path, slept, device)
        run(["send", "pfc-storm", "--received", far, "--sent", near, "-T", "json"])
        verdicts = json.loads(capsys.readouterr().out)["verdicts"]
        (stopped,) = [each for each in verdicts if each["name"] == "priority 3 is stopped"]
        assert stopped["outcome"] == outcome
    assert stopped["found"].startswith("got 6 frames")


def test_drops_duplicates_order_and_changes_are_distinguished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoils(near: list[Timed], far: list[Timed]) -> tuple[list[Timed], list[Timed]]:
        ahead, back = bridge(near, far)
        spoilt: list[Timed] = []
        for t, octets in ahead:
            priority = decode(octets)[VLAN].priority
            if priority == 0 and t > 300 * MS:
                continue
            if priority == 1:
                spoilt.append((t + MS, octets))
            if priority == 2 and 100 * MS < t < 110 * MS:
                t += 60 * MS
            if priority == 4:
                octets = octets[:14] + bytes([5 << 5]) + octets[15:]
            spoilt.append((t, octets))
        return sorted(spoilt, key=lambda each: each[0]), back

    _, verdicts = judged(["pfc-lossy", "prio=7"], tmp_path, spoils, capsys)
    found = {name[9]: text for name, (_, text) in verdicts.items() if "comes through" in name}
    assert set(failed(verdicts)) == {f"priority {p} comes through from the side that pauses" for p in "0124"}
    assert found["0"].endswith("expected 33 frames")
    assert found["1"].endswith("expected 33 frames; 33 frames twice")
    assert "1 frame out of order" in found["2"]
    assert "33 frames changed on the way, such as UDP" in found["4"]
    assert "vlan 1 prio 5" in found["4"]


def test_cnps_marked_on_their_way_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cnp-flood", "count=100", "qps=5..8", "rate=1000pps"]
    assert judged(words, tmp_path, bridge, capsys)[0] == 0

    def marks(near: list[Timed], far: list[Timed]) -> tuple[list[Timed], list[Timed]]:
        return [(t, o[:15] + bytes([o[15] | 3]) + o[16:]) for t, o in near], far

    code, verdicts = judged(words, tmp_path, marks, capsys)
    assert code == 1
    assert "100 frames changed on the way, such as CNP" in verdicts[failed(verdicts)[0]][1]

    def slow(near: list[Timed], far: list[Timed]) -> tuple[list[Timed], list[Timed]]:
        return [(2 * t, o) for t, o in near], far

    code, verdicts = judged(words, tmp_path, slow, capsys)
    assert "500 frames/s; expected at least 800 frames/s" in verdicts[failed(verdicts)[0]][1]


def test_ecn_that_changes_without_congestion_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judged(["ecn-sweep"], tmp_path, bridge, capsys)[0] == 0

    def marks(near: list[Timed], far: list[Timed]) -> tuple[list[Timed], list[Timed]]:
        return [(t, o[:15] + bytes([o[15] | 3 if o[15] & 3 == 2 else o[15]]) + o[16:]) for t, o in near], far

    code, verdicts = judged(["ecn-sweep"], tmp_path, marks, capsys)
    assert (code, failed(verdicts)) == (1, ["ECT(0) of every DSCP comes through with both unchanged"])


def test_boundary_of_domain_is_judged_frame_by_frame(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = [step.expected for step in sequence_named("cnd-boundary").steps({})]
    becomes = {
        each["frame"]: bytes.fromhex(each["received"]["octets"])
        for each in expected
        if each and "received" in each
    }

    def switch(near: list[Timed], far: list[Timed]) -> tuple[list[Timed], list[Timed]]:
        return [(t, becomes[n]) for n, (t, _) in enumerate(near, 1) if n in becomes], far

    code, verdicts = judged(["cnd-boundary"], tmp_path, switch, capsys)
    assert (code, failed(verdicts)) == (0, [])
    assert len(verdicts) == 6 * 18 + 1

    # A plain bridge keeps the priority that an edge remaps: priority 3 in three of six modes, with and
    # without CN-TAG.
    code, verdicts = judged(["cnd-boundary"], tmp_path, bridge, capsys)
    assert code == 1
    missing = [name for name in failed(verdicts) if name.startswith("frame")]
    assert len(missing) == 6
    assert all("priority 3" in name and "becomes priority 2" in name for name in missing)
    assert "this came instead: UDP vlan 1 prio 3" in verdicts[missing[0]][1]
    assert "LLDP is not forwarded" in failed(verdicts)


def test_single_capture_gives_partial_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    far, _ = captures(tmp_path, sent("pfc-storm"), obeys)
    assert run(["send", "pfc-storm", "--received", far, "--color", "never"]) == 0
    text = capsys.readouterr().out
    assert (
        "unknown  priority 3 is stopped: no frame, from 220 ms to 330 ms\n           the near side was not"
        in text
    )
    assert text.splitlines()[-1] == "9 passed, 0 failed, 10 unknown"


def test_unrelated_capture_proves_loss_but_no_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with PcapngWriter(tmp_path / "else.pcapng") as writer:
        writer.write_frame(bytes(60), BEGAN_NS)
    assert run(["send", "pfc-storm", "--received", str(tmp_path / "else.pcapng"), "-T", "json"]) == 1
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    outcomes = {each["name"]: each["outcome"] for each in verdicts}
    assert outcomes["pause frames are not forwarded"] == "unknown"
    assert outcomes["priority 1 comes through from the side that pauses"] == "failed"


def test_cnps_without_sent_capture_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"count": "20", "qps": "1..4"}
    far, _ = captures(tmp_path, sent("cnp-flood", **given), bridge)
    assert run(["send", "cnp-flood", "count=20", "qps=1..4", "--received", far]) == 0
    assert "1 passed, 0 failed, 1 unknown" in capsys.readouterr().out


def test_stop_without_any_traffic_is_unproven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, verdicts = judged(["pfc-storm"], tmp_path, lambda near, far: (bridge(near, far)[0], []), capsys)
    assert verdicts["priority 3 is stopped"][0] == "unknown"
    assert verdicts["priority 3 loses nothing"][0] == "failed"


# -- mistakes, and hostile input --------------------------------------------------------------------------


IMPOSSIBLE: list[dict[str, str]] = [
    {"rate": "0"}, {"rate": "many"}, {"vlan": "5000"}, {"nonsense": "1"}, {"prio": "9"}, {"prio": "4..2"},
    {"speed": "0b/s"}, {"quanta": "70000"}, {"quanta": "1"}, {"duration": "0s"}, {"duration": "100h"},
    {"speed": "400G", "quanta": "4", "duration": "1h"}, {"watchdog": "x"}, {"detect": "2h"}, {"margin": "5"},
    {"latency": "-1s"}, {"count": "0"}, {"count": "10000000"}, {"ecn": "4"}, {"ecn": "1,1"}, {"qps": "x"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given"),
    [
        (name, given)
        for name in ("pfc-storm", "pfc-storm-return", "pfc-late", "cnp-flood", "ecn-sweep")
        for given in IMPOSSIBLE
        if set(given) <= {*SEQUENCES[name].parameters, "nonsense"}
        and (name != "cnp-flood" or "prio" not in given)
    ],
)
def test_impossible_parameters_are_refused(name: str, given: dict[str, str]) -> None:
    with pytest.raises(EcmprotoError):
        sent(name, **given)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("pfc prio3=5 --received x.pcap", "--receive needs a sequence, such as pfc-storm"),
        ("cnm-flood --received x.pcap", "cnm-flood has no expectation"),
        ("pfc-storm --received x.pcap -i lo", "--received sends nothing: expected no -i"),
        ("pfc-storm --received x.pcap --receive lo", "expected --receive, which captures, or --received"),
        ("pfc-storm --sent x.pcap", "--sent needs --received"),
        ("pfc-storm --receive lo", "expected -i IF, the interface to send from"),
        ("pfc-storm", "expected -i IF, the interface to send from"),
        ("pfc-storm -i lo --junit x.xml", "--junit needs --receive, --received or --plan"),
        ("pfc-storm --received x.pcap --count 3", "sets its own times: expected no --count"),
        ("pfc-storm --received x.pcap --rate max", "sets its own times: expected no --rate"),
        ("pfc-storm --received x.pcap --loop", "sets its own times: expected no --loop"),
        ("pfc-storm --received - --sent -", "stdin can be read only once"),
        ("pfc-strom --received x.pcap", "(did you mean 'pfc-storm'?)"),
        ("pfc-storm prio=8 --received x.pcap", "prio: expected an integer in 0..7, got '8'"),
    ],
)
def test_command_line_mistakes_are_reported(
    words: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["send", *words.split()]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.out == ""
    assert len(told.err.splitlines()) == 2
    assert not list(tmp_path.iterdir())


def test_unreadable_captures_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.pcap").write_bytes(b"no capture at all, but some octets")
    for path, code in (("x.pcap", 3), ("missing.pcap", 3)):
        assert run(["send", "pfc-storm", "--received", str(tmp_path / path)]) == code
    with PcapngWriter(tmp_path / "empty.pcapng"):
        pass
    capsys.readouterr()
    assert run(["send", "pfc-storm", "--received", str(tmp_path / "empty.pcapng")]) == 1
    assert "expected frames to judge, got none on 1 side" in capsys.readouterr().err


def test_frames_of_any_octets_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with PcapngWriter(tmp_path / "odd.pcapng") as writer:
        for octets in (
            b"",
            b"\x00",
            b"ecmp",
            bytes(14) + b"ecmp\x00",
            bytes(14) + b"ecmp\xff\xff\xff\xff",
            bytes(60),
        ):
            writer.write_frame(octets, 0)
    assert run(["send", "pfc-storm", "--received", str(tmp_path / "odd.pcapng")]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_spans_too_short_to_judge_are_refused() -> None:
    with pytest.raises(
        EcmprotoError, match="rate: expected two data frames of each priority within 110 ms, got one"
    ):
        sequence_named("pfc-storm").expected({"rate": "10pps"})
    with pytest.raises(EcmprotoError, match="within 0 ns, got one in 20 ms"):
        sequence_named("pfc-storm").expected({"duration": "30ms"})


@pytest.mark.parametrize("name", [name for name, each in SEQUENCES.items() if each.expects])
def test_specification_keeps_the_expectations(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = sequence_named(name).expected({})
    text = "".join(toml_of([], wanted))
    assert read_expectations(io.BytesIO(text.encode()), "x.toml") == wanted


def test_written_recipe_is_judged_like_the_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "storm.toml")
    assert run(["craft", "pfc-storm", "-T", "toml", "-w", path]) == 0
    far, near = captures(tmp_path, sent("pfc-storm"), bridge)
    given = ["--received", far, "--sent", near, "--color", "never"]
    assert run(["send", "pfc-storm", *given]) == 1
    told = capsys.readouterr().out
    assert run(["send", "--spec", path, *given]) == 1
    assert capsys.readouterr().out == told
    # changed by hand: a switch that obeys no PFC
    changed = Path(path).read_text(encoding="utf-8").replace('frames = "0"\nduring', 'frames = "1.."\nduring')
    Path(path).write_text(changed, encoding="utf-8")
    assert run(["send", "--spec", path, *given]) == 0
    assert run(["craft", "--spec", path, "-w", str(tmp_path / "out.pcap")]) == 0
    assert run(["craft", "pfc-storm", "-w", str(tmp_path / "again.pcap")]) == 0
    assert (tmp_path / "out.pcap").read_bytes() == (tmp_path / "again.pcap").read_bytes()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("expect = 3", "expected [[expect]], one for each"),
        ("expect = [3]", "expect[0]: expected a table of expected frames"),
        ('[[expect]]\nfilter = "cnm"', "expect[0]: expected a name, got none"),
        ('[[expect]]\nname = "x"', "expect[0]: expected a filter, or octets of a frame, got none"),
        (
            '[[expect]]\nname = "x"\nfilter = "cnm"\noctets = "00"',
            "expected a filter, or octets of a frame, got both",
        ),
        ('[[expect]]\nname = "x"\nfilter = "cnn"', "filter at character 1: expected"),
        ('[[expect]]\nname = "x"\noctets = "0"', "expect[0].octets: expected octets in hex"),
        (
            '[[expect]]\nname = "x"\nfilter = "cnm"\nframes = 3',
            "expect[0].frames: expected how many: 3, 1.. or",
        ),
        ('[[expect]]\nname = "x"\nfilter = "cnm"\nframes = "5..2"', "expect[0].frames: expected how many"),
        ('[[expect]]\nname = "x"\nfilter = "cnm"\nframes = "-1"', "expect[0].frames: expected how many"),
        (
            '[[expect]]\nname = "x"\nfilter = "cnm"\nrate = "5"',
            "expect[0].rate: expected a rate such as 100pps",
        ),
        (
            '[[expect]]\nname = "x"\nfilter = "cnm"\nduring = "5..7"',
            "expect[0].during: expected a span such as",
        ),
        (
            '[[expect]]\nname = "x"\nfilter = "cnm"\nlatency = 5',
            "expect[0].latency: expected a time such as 1ms",
        ),
        ('[[expect]]\nname = "x"\nfilter = "cnm"\nside = "top"', "expect[0].side: expected near or far"),
        (
            '[[expect]]\nname = "x"\nfilter = "cnm"\nunchanged = 1',
            "expect[0].unchanged: expected true or false",
        ),
        ('[[expect]]\nname = "x"\nfiltre = "cnm"', "(did you mean 'filter'?)"),
        (
            '[[frames]]\nframe = "cnm"\nside = "top"\n[[expect]]\nname = "x"\nfilter = "cnm"',
            "frames[0].side: expected near or far",
        ),
    ],
)
def test_mistakes_in_specification_are_reported(
    text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text, encoding="utf-8")
    for words in (["craft", "--spec", str(path)], ["send", "--spec", str(path), "--received", "x.pcap"]):
        assert run(words) == 2
        told = capsys.readouterr()
        assert sentence in told.err
        assert "Traceback" not in told.err


def test_more_frames_than_are_remembered_are_refused() -> None:
    frames: list[Timed] = [(0, b"")] * 1_000_001
    with pytest.raises(EcmprotoError, match="expected a recipe of at most 1,000,000 frames"):
        Judge([], {"near": frames})
