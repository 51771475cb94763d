"""Points of sweeps, their digests and files, and the effects of factors."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.executors import SCENARIO as TWO_INTO_ONE
from ecmproto.control.lab.model import Experiment
from ecmproto.control.lab.results.sweeps import (
    Axis,
    Point,
    effects,
    full_factorial,
    in_order,
    listed_points,
    parse_axis,
    run_sweep,
    seeds_of,
    sweep_call,
)
from ecmproto.control.lab.setup.scenario import read_scenario
from ecmproto.control.lab.simulation import simulate as simulation
from ecmproto.errors import ParameterError, SpecError
from ecmproto.executors.processes import Processes
from ecmproto.executors.protocol import Call, Shard
from ecmproto.executors.rows import Row, RowStore
from tests.lab import synthetic

RU = Axis(path="rp.ru", values=("4Mb/s", "8Mb/s"))
PM = Axis(path="cp.pm", values=("0.01", "0.05", "0.1"))


def test_an_axis_is_a_parameter_and_its_values() -> None:
    assert parse_axis("rp.ru=4Mb/s, 8Mb/s") == RU
    assert parse_axis("flows.n=2..4").values == ("2", "3", "4")


def test_an_axis_has_ranges_with_units() -> None:
    assert parse_axis("cp.qeq=13kB..52kB:13kB").values == ("13kB", "26kB", "39kB", "52kB")
    assert parse_axis("cp.qeq=1..2kB:0.5,8kB").values == ("1kB", "1.5kB", "2kB", "8kB")
    assert parse_axis("cp.pm=0.1..0.35:0.1").values == ("0.1", "0.2", "0.3")


@pytest.mark.parametrize(
    "text",
    [
        "rp.ru", "rp.ru=", "=4", "rp.ru=4,4", "cp.qeq=1kB..2kB", "cp.qeq=1kB..2MB:1kB", "cp.qeq=2..1",
        "a=1..3:0", "a=1..9999999999", "a=1..2,2",
    ],
)  # fmt: skip
def test_what_is_no_axis_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="sweep"):
        parse_axis(text)


def test_full_factorial_has_every_combination_per_seed_once() -> None:
    points = full_factorial([RU, PM], [1, 2])
    assert len(points) == len(set(points)) == 2 * 3 * 2
    assert points[0] == Point(settings=(("rp.ru", "4Mb/s"), ("cp.pm", "0.01")), seed=1)
    assert points[1].seed == 2
    assert points[2].settings == (("rp.ru", "4Mb/s"), ("cp.pm", "0.05"))


def test_points_are_made_when_they_are_asked_for() -> None:
    million = full_factorial([Axis(path="a", values=tuple(map(str, range(1000)))), RU], range(500))
    assert len(million) == 1_000_000
    part = Shard(3, 4).of(million)
    assert len(part) == 250_000
    assert part[-1] == million[999_998] == Point(settings=(("a", "999"), ("rp.ru", "8Mb/s")), seed=498)
    made: list[int] = []

    class Made(list[Point]):
        def __iter__(self) -> Iterator[Point]:
            for point in super().__iter__():
                made.append(point.seed)
                yield point

    points = Made(Point(settings=(), seed=seed) for seed in range(9))
    rows = run_sweep(points, Call("tests.executors.functions:seeded"), executor=Processes(1))
    assert [next(rows)["seed"], next(rows)["seed"]] == made == [0, 1]


def test_a_parameter_has_one_axis() -> None:
    with pytest.raises(ParameterError, match="once"):
        full_factorial([RU, RU], [1])


def test_points_can_be_listed_line_by_line() -> None:
    lines = ["# ru and pm", "rp.ru=4Mb/s cp.pm=0.01  # the first", "", "rp.ru=8Mb/s", "rp.ru=8Mb/s"]
    points = listed_points(lines, [7])
    assert [point.text for point in points] == ["rp.ru=4Mb/s, cp.pm=0.01", "rp.ru=8Mb/s"]
    with pytest.raises(SpecError, match="line 2"):
        listed_points(["rp.ru=1", "rp.ru"], [7])


def test_seeds_are_the_words_of_a_digest() -> None:
    """From sha256sum of ``qcn-baseline-1abc``."""
    assert seeds_of("qcn-baseline-1", "abc", 2) == seeds_of("qcn-baseline-1", "abc", 20)[:2]
    assert len(set(seeds_of("qcn-baseline-1", "abc", 20))) == 20
    assert seeds_of("qcn-baseline-1", "abc", 3) != seeds_of("qcn-baseline-2", "abc", 3)
    assert seeds_of("a", "b", 1) == (0xFB8E20FC,)  # SHA-256("ab") = fb8e20fc 2e4c3f24 …


# Runs -----------------------------------------------------------------------------------------------------

SCENARIO = TWO_INTO_ONE.format(duration="20ms")
QEQ = Axis(path="control.qeq", values=("26kB", "33kB"))


@pytest.fixture
def seeds_run(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of the runs, which are made up."""
    seeds: list[int] = []

    def simulate(experiment: Experiment, *, seed: int) -> object:
        seeds.append(seed)
        if seed == 13:
            raise ValueError("thirteen")
        return synthetic.simulate(experiment, seed=seed)

    monkeypatch.setattr(simulation, "simulate", simulate)
    return seeds


def swept(
    path: Path | None, points: Sequence[Point], text: str = SCENARIO, figures: Sequence[str] = ("drops",)
) -> list[Row]:
    call = sweep_call(read_scenario(io.BytesIO(text.encode())), figures)
    store = RowStore(path) if path is not None else None
    rows = list(run_sweep(points, call, executor=Processes(1), store=store))
    if store is not None:
        store.close()
    return in_order(rows, points)


def test_a_sweep_goes_on_where_it_ended(tmp_path: Path, seeds_run: list[int]) -> None:
    path = tmp_path / "rows.ndjson"
    points = full_factorial([QEQ], [1, 2])
    first = swept(path, points[:3])
    with path.open("a") as file:
        file.write('{"digest": "cut sho')
    rows = swept(path, points)
    assert rows[:3] == first
    assert [(row["settings"], row["seed"]) for row in rows] == [
        ({"control.qeq": qeq}, seed) for qeq in QEQ.values for seed in (1, 2)
    ]
    assert seeds_run == [1, 2, 1, 2]
    assert swept(path, points) == rows
    assert len(seeds_run) == 4
    swept(path, points, figures=["drops", "queue.p50"])
    assert len(seeds_run) == 8
    swept(path, points, SCENARIO.replace("20ms", "30ms"))
    assert len(seeds_run) == 12
    assert len(RowStore(path)) == 12


def test_shards_joined_are_the_whole_sweep(tmp_path: Path, seeds_run: list[int]) -> None:
    points = full_factorial([QEQ], [1, 2, 3])
    for number in (1, 2, 3):
        swept(tmp_path / str(number), Shard(number, 3).of(points))
    joined = tmp_path / "joined"
    joined.write_bytes(b"".join((tmp_path / name).read_bytes() for name in "213"))
    assert len(seeds_run) == 6
    rows = swept(joined, points)
    assert len(seeds_run) == 6
    assert [row["figures"] for row in rows] == [row["figures"] for row in swept(None, points)]


def test_point_that_fails_is_named_and_tried_again(tmp_path: Path, seeds_run: list[int]) -> None:
    path = tmp_path / "rows.ndjson"
    points = full_factorial([QEQ], [12, 13])
    failed = [row for row in swept(path, points) if "failure" in row]
    assert [(row["settings"], row["seed"]) for row in failed] == [
        ({"control.qeq": qeq}, 13) for qeq in QEQ.values
    ]
    assert failed[0]["failure"] == {"kind": "failed", "error": "ValueError", "sentence": "thirteen"}
    swept(path, points)
    assert seeds_run == [12, 13, 12, 13, 13, 13]


# Effects --------------------------------------------------------------------------------------------------


A, B = Axis(path="a", values=("0", "1")), Axis(path="b", values=("0", "1"))


def design(values: dict[tuple[str, str], list[float]]) -> list[Row]:
    return [
        {"settings": {"a": a, "b": b}, "figures": {"y": [value]}}
        for (a, b), each in values.items()
        for value in each
    ]


def test_effects_of_a_textbook_design() -> None:
    """Jain, The Art of Computer Systems Performance Analysis, 17.1: 15, 45, 25, 75 = 40 + 20a + 10b + 5ab."""
    rows = design({("0", "0"): [15], ("1", "0"): [45], ("0", "1"): [25], ("1", "1"): [75]})
    found = {effect.factors: effect for effect in effects(rows, [A, B], "y")}
    assert found[()].effect == 40
    assert [found[key].effect for key in [("a",), ("b",), ("a", "b")]] == [20, 10, 5]
    shares = [found[key].explained for key in [("a",), ("b",), ("a", "b")]]
    assert shares == pytest.approx([1600 / 2100, 400 / 2100, 100 / 2100])


def test_effects_with_repetitions_leave_rest_to_seeds() -> None:
    """Jain 18.1: (15, 18, 12), (45, 48, 51), (25, 28, 19), (75, 75, 81); SSE = 102 of SST = 7032."""
    rows = design(
        {
            ("0", "0"): [15, 18, 12],
            ("1", "0"): [45, 48, 51],
            ("0", "1"): [25, 28, 19],
            ("1", "1"): [75, 75, 81],
        }
    )
    mean, a, b, both, rest = effects(rows, [A, B], "y")
    assert [mean.effect, a.effect, b.effect, both.effect] == pytest.approx([41, 21.5, 9.5, 5])
    assert [a.explained, b.explained, both.explained, rest.explained] == pytest.approx(
        [5547 / 7032, 1083 / 7032, 300 / 7032, 102 / 7032]
    )
    assert math.isnan(rest.effect)


def test_effects_need_two_values_and_a_number_everywhere() -> None:
    with pytest.raises(ParameterError, match="two values"):
        effects([], [PM], "y")
    with pytest.raises(ParameterError, match="a value of y in every row"):
        effects(design({("0", "0"): [1]}), [A, B], "y")
