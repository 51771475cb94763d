"""Plans of storms and streams: parsing, errors, sending and evaluation."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from ecmproto.errors import SpecError
from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux.streams import Stream
from ecmproto.tools.testing.plan import Plan, read_plan
from ecmproto.wire.codec import decode
from ecmproto.wire.formats.mac_control import PFC
from ecmproto_cli.main import run
from tests.namespaces import FAR, NEAR, Network

MS = 10**6
STORM = f"""
[[storm]]
ports = ["{NEAR}", "{FAR}"]
priorities = [3, 4]
speed = "1G"
duration = "60ms"
"""
DATA = f"""
[[stream]]
name = "data"
ports = ["{NEAR}"]
at = ["{FAR}"]
frame = "eth ip udp dstport=9"
sweep = {{ "ip.dsfield" = "0..255" }}
rate = "10kpps"
duration = "50ms"
"""


def plan_of(text: str, seed: int = 1) -> Plan:
    return read_plan(io.BytesIO(text.encode()), "plan.toml", seed=seed)


def pauses(stream: Stream) -> list[tuple[int, int, int]]:
    """Return the start and the end of each pause of a stream, and the times of its release frames."""
    holds, releases = stream.segments[::2], stream.segments[1::2]
    assert all(not any(decode(each.frames[0])[PFC].times) for each in releases)
    return [
        (hold.first_ns, hold.until_ns, release.first_ns)
        for hold, release in zip(holds, releases, strict=True)
    ]


def test_each_port_and_priority_is_a_stream(veth: Network) -> None:
    plan = plan_of(STORM)
    assert [(each.interface, each.name) for each in plan.streams] == [
        (port, f"{port}: priority {priority}") for port in (NEAR, FAR) for priority in (3, 4)
    ]
    assert [pauses(each) for each in plan.streams] == [[(0, 60 * MS, 60 * MS)]] * 4
    assert not plan.storms
    assert not plan.data


def test_patterns_take_turns(veth: Network) -> None:
    pattern = 'on = "10ms"\noff = "5ms"\n'
    together = plan_of(STORM + pattern)
    assert [each[:2] for each in pauses(together.streams[3])] == [
        (first * MS, (first + 10) * MS) for first in (0, 15, 30, 45)
    ]
    in_turn = plan_of(STORM + pattern + 'order = "round robin"\n')
    assert [[each[0] for each in pauses(stream)] for stream in in_turn.streams] == [
        [0], [15 * MS], [30 * MS], [45 * MS],
    ]  # fmt: skip
    drawn = [plan_of(STORM + pattern + 'order = "random"\n', seed=seed).streams for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sum(len(pauses(stream)) for stream in drawn[0]) == 4


def test_seed_of_the_plan_takes_precedence(veth: Network) -> None:
    text = "seed = 5\n" + STORM + 'on = "1ms"\norder = "random"\n'
    assert plan_of(text, seed=1) == plan_of(text, seed=2)
    assert plan_of(text).seed == 5


def test_numbers_leave_checksums_as_they_are(veth: Network) -> None:
    (stream,) = plan_of(DATA).streams
    (segment,) = stream.segments
    assert len(segment.frames) == 500
    for number, octets in enumerate(segment.frames, 1):
        words = [int.from_bytes(octets[at : at + 2], "big") for at in range(34, len(octets), 2)]
        first = [int.from_bytes(segment.frames[0][at : at + 2], "big") for at in range(34, len(octets), 2)]
        assert sum(words) % 0xFFFF == sum(first) % 0xFFFF
        assert octets[15] == (number - 1) % 256
    assert segment.interval_ns == 100_000
    assert segment.every_frame


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"a \[\[storm\]\] or a \[\[stream\]\]"),
        ("[[storm]]\nprots = []", "one of the keys ports"),
        ("[[storm]]\nports = ['near']", "frame, or priorities"),
        ("[[storm]]\nports = ['nera']\npriorities=[3]", "interfaces of this machine"),
        ("[[storm]]\nports = ['near']\nat = ['far', 'far']\npriorities=[3]", "as many as those"),
        (STORM + "order = 'sideways'", "one of together, round robin, random"),
        (STORM + "order = 'random'", "a time, for random order"),
        (STORM + "on = '1ns'", "at most 1,000,000 turns"),
        (STORM + "on = 5", "text"),
        (STORM + "duration = '0s'", "plan.toml"),
        (STORM.replace("60ms", "0s"), "more than 0"),
        (STORM.replace("[3, 4]", "[9]"), "storm 1"),
        (STORM.replace('"1G"', '"fast"'), "storm 1"),
        ("seed = 'x'\n" + STORM, "an integer"),
        ("schema = 'ecmproto/plan/2'\n" + STORM, "ecmproto/plan/1"),
        ("storm = 5", r"\[\[storm\]\] tables"),
        (DATA.replace("10kpps", "30Mpps"), "at most 1,048,576 numbered frames"),
    ],
)
def test_mistakes_are_reported_with_their_location(veth: Network, text: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence) as raised:
        plan_of(text)
    assert str(raised.value).startswith("plan.toml")


def test_a_plan_is_sent_and_judged(veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, junit = tmp_path / "plan.toml", tmp_path / "plan.xml"
    storm = STORM.replace(f'["{NEAR}", "{FAR}"]', f'["{NEAR}"]\nat = ["{FAR}"]').replace("1G", "10M")
    path.write_text(storm + DATA)
    code = run(["send", "--plan", str(path), "-T", "json", "--junit", str(junit), "--seed", "3"])
    document = json.loads(capsys.readouterr().out)
    assert code == 0, document
    assert [each["outcome"] for each in document["verdicts"]] == ["passed"] * 3
    assert document["verdicts"][2]["figures"]["came"] == 500
    assert document["streams"][2]["frames"] == 500
    assert document["seed"] == 3
    assert junit.read_text().count("<testcase") == 3


def test_lapsing_storm_fails_by_receive_times(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    # every 0.6 µs: nobody can
    words = ["pause", "quanta=6", "--storm", "2500M", "--duration", "20ms", "--receive", FAR, "-q"]
    assert run(["send", "-i", NEAR, *words]) == 1
    out = capsys.readouterr().out
    assert f"{FAR}: the link is held without a gap" in out
    assert "beyond what the quanta cover" in out
    assert "passed" not in out


def test_uninterrupted_storm_passes(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pfc", "prio3=65535", "--storm", "100M", "--duration", "1s", "--receive", FAR]
    assert run(["send", "-i", NEAR, *words, "--color", "never"]) == 0
    assert "1 passed, 0 failed, 0 unknown" in capsys.readouterr().out
    assert run(["send", "-i", NEAR, *words, "-q"]) == 0
    assert capsys.readouterr().out == "", "what failed alone"


def test_unreceived_storm_fails(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    veth.ip("link add name other type veth peer name distant")
    for name in ("other", "distant"):
        veth.ip(f"link set {name} up")
    words = ["pfc", "prio3=65535", "--storm", "100M", "--duration", "50ms", "--receive", "distant"]
    assert run(["send", "-i", NEAR, *words]) == 1
    assert "no frame came that pauses it" in capsys.readouterr().out


def test_lost_and_late_numbered_frames_are_found(veth: Network) -> None:
    from ecmproto.tools.testing.proofs import Watch

    plan = plan_of(DATA + 'latency = "1us"\n')
    frames = list(plan.streams[0].segments[0].frames)
    with Watch([], plan.data) as watch:
        ((_, near, far),) = watch._sides
        near.take(_batch(frames, 0))
        came = [*frames[10:20], frames[5], frames[5], *frames[20:]]
        far.take(_batch(came, 2000))
    (proof,) = watch.proofs()
    assert proof.outcome == "failed"
    assert proof.figures["lost"] == 9
    assert (proof.figures["out_of_order"], proof.figures["twice"]) == (1, 1)
    assert "first number 1" in proof.result
    assert proof.figures["longest_ns"] == 2000


def _batch(frames: list[bytes], time_ns: int) -> Batch:
    batch = Batch.from_frames(frames)
    batch.time_ns[:] = time_ns
    return batch
