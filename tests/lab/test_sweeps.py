"""Points of sweeps, their digests and files, and the effects of factors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from ecmproto.errors import ParameterError, SpecError
from ecmproto.lab.results.sweeps import (
    Axis,
    LocalExecutor,
    Point,
    ResultFile,
    Row,
    Shard,
    code_digest,
    effects,
    full_factorial,
    listed_points,
    parse_axis,
    parse_shard,
    point_digest,
    run_sweep,
    seeds_of,
)

RU = Axis(path="rp.ru", values=("4Mb/s", "8Mb/s"))
PM = Axis(path="cp.pm", values=("0.01", "0.05", "0.1"))


def test_an_axis_is_a_parameter_and_its_values() -> None:
    assert parse_axis("rp.ru=4Mb/s, 8Mb/s") == RU
    assert parse_axis("flows.n=2..4").values == ("2", "3", "4")


@pytest.mark.parametrize("text", ["rp.ru", "rp.ru=", "=4", "rp.ru=4,4"])
def test_what_is_no_axis_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="sweep"):
        parse_axis(text)


def test_a_full_factorial_has_each_combination_with_each_seed_once() -> None:
    points = full_factorial([RU, PM], [1, 2])
    assert len(points) == len(set(points)) == 2 * 3 * 2
    assert points[0] == Point(settings=(("rp.ru", "4Mb/s"), ("cp.pm", "0.01")), seed=1)
    assert points[1].seed == 2
    assert points[2].settings == (("rp.ru", "4Mb/s"), ("cp.pm", "0.05"))


def test_a_parameter_has_one_axis() -> None:
    with pytest.raises(ParameterError, match="once"):
        full_factorial([RU, RU], [1])


def test_points_can_be_listed_line_by_line() -> None:
    points = listed_points(["# ru and pm", "rp.ru=4Mb/s cp.pm=0.01  # the first", "", "rp.ru=8Mb/s"], [7])
    assert [point.text for point in points] == ["rp.ru=4Mb/s, cp.pm=0.01", "rp.ru=8Mb/s"]
    with pytest.raises(SpecError, match="line 2"):
        listed_points(["rp.ru=1", "rp.ru"], [7])


def test_shards_are_all_points_and_none_twice() -> None:
    points = full_factorial([RU, PM], [1, 2, 3])
    parts = [parse_shard(f"{number}/4").of(points) for number in range(1, 5)]
    assert sorted((point for part in parts for point in part), key=points.index) == points
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "a/b"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="3/40"):
        parse_shard(text)


def test_a_digest_depends_on_scenario_point_seed_and_code() -> None:
    point = Point(settings=(("a", "1"),), seed=1)
    given = ("text", point, "code")
    others = [
        ("text2", point, "code"),
        ("text", Point(settings=(("a", "2"),), seed=1), "code"),
        ("text", Point(settings=(("a", "1"),), seed=2), "code"),
        ("text", point, "code2"),
    ]
    assert len({point_digest(*each) for each in [given, *others]}) == 5
    assert point_digest(*given) == point_digest(*given)
    assert code_digest() == code_digest()


def test_seeds_are_the_words_of_a_digest() -> None:
    """From sha256sum of ``qcn-baseline-1abc``."""
    assert seeds_of("qcn-baseline-1", "abc", 2) == seeds_of("qcn-baseline-1", "abc", 20)[:2]
    assert len(set(seeds_of("qcn-baseline-1", "abc", 20))) == 20
    assert seeds_of("qcn-baseline-1", "abc", 3) != seeds_of("qcn-baseline-2", "abc", 3)
    assert seeds_of("a", "b", 1) == (0xFB8E20FC,)  # SHA-256("ab") = fb8e20fc 2e4c3f24 …


def squared(point: Point, *, calls: Path) -> Row:
    """Run a point: the square of what is set."""
    with calls.open("a") as file:
        file.write(f"{point.seed}\n")
    return {"figures": {"y": [float(dict(point.settings)["x"]) ** 2 + point.seed]}}


X = Axis(path="x", values=("1", "2", "3"))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_sweep_goes_on_where_it_ended(tmp_path: Path, jobs: int) -> None:
    calls = tmp_path / "calls"
    work = functools.partial(squared, calls=calls)
    path = tmp_path / "rows.ndjson"
    points = full_factorial([X], [1, 2])

    def run(some: Sequence[Point], code: str = "c") -> list[Row]:
        executor = LocalExecutor(jobs)
        return run_sweep(some, work, scenario="s", file=ResultFile(path), executor=executor, code=code)

    first = run(points[:3])
    with path.open("a") as file:
        file.write('{"digest": "cut sho')
    rows = run(points)
    assert rows[:3] == first
    assert [row["figures"]["y"][0] for row in rows] == [2, 3, 5, 6, 10, 11]
    assert len(calls.read_text().split()) == 6
    assert run(points) == rows
    assert len(calls.read_text().split()) == 6
    run(points, code="other")
    assert len(calls.read_text().split()) == 12
    assert len(ResultFile(path).rows) == 12


def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n")
    with pytest.raises(SpecError, match="line 1"):
        ResultFile(path)
    assert path.read_text() == "buy milk\n"


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


def test_effects_with_repetitions_leave_the_rest_to_the_seeds() -> None:
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
    with pytest.raises(ParameterError, match="everywhere"):
        effects(design({("0", "0"): [1]}), [A, B], "y")


def test_one_part_is_the_whole() -> None:
    points = full_factorial([PM], [1])
    assert Shard().of(points) == points
