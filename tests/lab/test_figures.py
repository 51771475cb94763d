import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.lab.setup.figures import (
    MEASUREMENTS,
    NUMBER,
    OCTETS,
    RATE,
    TIME,
    expand_range,
    parse_expectation,
    parse_figure,
    parse_value,
    show_value,
)
from ecmproto.errors import ParameterError, SpecError


class Measured:
    """Figures from a table; any other raises KeyError."""

    flows = {"r1": "two_hop", "r2": "two_hop", "r5": "one_hop", "SR1": ""}  # noqa: RUF012
    ports = ("SW1>SW2", "SW2>DT")

    def __init__(self, **values: float) -> None:
        self.asked: list[tuple[str, str, tuple[float, ...], int | None, int | None]] = []
        self._values = values

    def measure(
        self, name: str, subject: str, limits: tuple[float, ...], from_ns: int | None, until_ns: int | None
    ) -> float:
        self.asked.append((name, subject, limits, from_ns, until_ns))
        return self._values[subject or name.replace(".", "_")]


RATES = Measured(r1=1.5e9, r2=1.7e9, r5=3.2e9, SR1=1e9)


def test_rate_selects_flows_by_name_range_pattern_group() -> None:
    assert parse_figure("rate(r1)").evaluate(RATES) == (1.5e9,)
    assert parse_figure("rate(r1..r2, r5)").evaluate(RATES) == (1.5e9, 1.7e9, 3.2e9)
    assert parse_figure("rate(r*)").evaluate(RATES) == (1.5e9, 1.7e9, 3.2e9)
    assert parse_figure("rate(two_hop)").evaluate(RATES) == (1.5e9, 1.7e9)
    assert len(parse_figure("rate").evaluate(RATES)) == 4


def test_aggregates_accept_figures_or_flow_names() -> None:
    assert parse_figure("mean(rate(r5))/mean(rate(r1..r2))").evaluate(RATES) == (2.0,)
    assert parse_figure("ratio(one_hop, two_hop)").evaluate(RATES) == (2.0,)
    assert parse_figure("sum(r1, r2) + max(rate(r5))").evaluate(RATES) == (6.4e9,)
    assert parse_figure("median(r1, r2, r5)").evaluate(RATES) == (1.7e9,)
    (index,) = parse_figure("jain(r1..r2)").evaluate(RATES)
    assert index == pytest.approx(3.2**2 / (2 * (1.5**2 + 1.7**2)))


def test_operators_follow_precedence_and_apply_per_value() -> None:
    assert parse_figure("1 + 2 * 3 - 8 / 4").evaluate(RATES) == (5,)
    assert parse_figure("-(1 - 3) * --2").evaluate(RATES) == (4,)
    assert parse_figure("rate(r1, r2) / 1G").evaluate(RATES) == (1.5, 1.7)
    with pytest.raises(SpecError, match="equal numbers of values on both sides"):
        parse_figure("rate(r*) - rate(r1, r2)").evaluate(RATES)


def test_measurement_arguments_are_converted_to_octets_and_ns() -> None:
    run = Measured(queue_settling=5e6, **{"SW1>SW2": 1.0, "SW2>DT": 2.0, "queue_p99.9": 3.0})
    parse_figure("queue.settling(18kB..30kB, 0.5ms)[10ms..]").evaluate(run)
    parse_figure("queue.within(SW1>*, 12frames..20frames)[..1s]").evaluate(run)
    parse_figure("throughput(DT)[50ms..90ms]").evaluate(run)
    parse_figure("queue.settling(25%)").evaluate(run)
    assert run.asked == [
        ("queue.settling", "", (18_000, 30_000, 500_000), 10_000_000, None),
        ("queue.within", "SW1>SW2", (18_000, 30_000), None, 1_000_000_000),
        ("throughput", "SW2>DT", (), 50_000_000, 90_000_000),
        ("queue.settling", "", (0.25,), None, None),
    ]


def test_other_runs_are_named_by_an_at_sign() -> None:
    figure = parse_figure("latency(SR1) / latency(SR1)[1s..]@none")
    assert figure.runs == {"none"}
    assert figure.evaluate(Measured(SR1=50.0), {"none": Measured(SR1=100.0)}) == (0.5,)
    with pytest.raises(SpecError, match="@none"):
        figure.evaluate(Measured(SR1=50.0))


def test_expectations_compare_every_value_and_reject_nan() -> None:
    held, values = parse_expectation("queue.p99 < 40kB").check(Measured(queue_p99=39_999))
    assert (held, *values) == (True, (39_999,), (40_000,))
    assert not parse_expectation("queue.p99 < 40kB").check(Measured(queue_p99=40_000))[0]
    assert parse_expectation("0.9G <= rate(r1..r2) <= 1.7G").check(RATES)[0]
    assert not parse_expectation("0.9G <= rate(r1..r2) < 1.7G").check(RATES)[0]
    assert parse_expectation("drops == 0").check(Measured(drops=0))[0]
    assert parse_expectation("queue.min >= 0").check(Measured(queue_min=0))[0]
    for comparison in ("<", ">=", "!="):
        assert not parse_expectation(f"latency(SR1) {comparison} 5ms").check(Measured(SR1=math.nan))[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("queue.p99 < 40", "expected a size, as 40kB, got '40'"),
        ("throughput > 40kB", "expected a rate, as 5G, got '40kB'"),
        ("queue.mean + 3ms < 1kB", "expected a size, as 40kB, on both sides of +, got '3ms'"),
        ("qeue.mean < 1kB", "character 1: expected a figure, got 'qeue.mean' (did you mean 'queue.mean'?)"),
        ("queue.mean", "expected a comparison"),
        ("queue.mean < ", "expected a figure, such as queue.mean, or a number, got the end"),
        ("queue.mean < 1kB 2", "character 18: expected the end"),
        ("queue.mean < 1parsec", "expected a number with a unit"),
        ("queue.within < 1", "expected queue.within(18kB..30kB), got no limits"),
        ("queue.within(25%) < 1", "expected queue.within(18kB..30kB), got others"),
        ("queue.mean(1kB) < 1kB", "expected queue.mean without limits, got others"),
        ("queue.settling(25%, DT) < 1ms", "expected limits after the names, got 'DT'"),
        ("control.frames(DT) < 1", "covers the whole network"),
        ("queue.mean[50ms] < 1kB", "expected a time range such as"),
        ("queue.mean[5..9ms] < 1kB", "expected a number with its unit"),
        ("queue.mean[9ms..5ms] < 1kB", "ends after it begins"),
        ("mean(queue.mean, throughput) < 1", "expected figures of one unit in mean(…)"),
        ("ratio(a) < 1", "expected two figures"),
        ("drops@ < 1", "after @"),
        ("(" * 100 + "1", "at most 50 nested brackets"),
        ("1 +" * 2000, "at most 2000 characters"),
        ("+".join("1" * 999), "at most 200 operators"),
        ("-" * 1000 + "1", "at most 200 operators"),
        ("9" * 400, "expected the end, or one of + - * /"),
        ("2 ** 9", "character 1: expected a figure, such as"),
        ("1 + (2, 3)", "expected a figure, such as queue.mean, or a number, got '(2, 3)'"),
        ("mean(*rate)", "expected a figure, such as queue.mean, or a number, got '*rate)'"),
        ("drops(1)(2)", "expected drops without limits"),
        ("drops if drops", "expected the end"),
        ("1) + (2", "character 2: expected the end"),
        ("(drops", "expected ')', got the end"),
        ("__import__('os')", "expected a figure, got '__import__'"),
    ],
)
def test_errors_say_where_what_and_the_nearest(text: str, told: str) -> None:
    with pytest.raises(SpecError) as raised:
        parse_expectation(text)
    assert told in str(raised.value)


def test_unknown_flows_and_ports_are_told_with_nearest() -> None:
    with pytest.raises(SpecError, match=r"got SR2 \(did you mean 'SR1'\?\)"):
        parse_figure("tps(SR2)").evaluate(RATES)
    with pytest.raises(SpecError, match=r"expected a port, got SW3>DT \(did you mean 'SW2>DT'\?\)"):
        parse_figure("queue.mean(SW3>DT)").evaluate(RATES)


def test_values_are_read_and_shown_with_their_unit() -> None:
    assert parse_value("16 frames", OCTETS) == 24_000
    assert parse_value("2.35 Gb/s", RATE) == 2.35e9
    assert parse_value("59.11us", TIME) == 59_110
    assert parse_value("95%", NUMBER) == 0.95
    assert parse_value("0", TIME) == 0
    for text, dimension in (("5", RATE), ("5kB", RATE), ("", NUMBER), ("rate", RATE)):
        with pytest.raises(ParameterError):
            parse_value(text, dimension)
    assert show_value(math.inf, TIME) == "never"
    assert show_value(24_000, OCTETS) == "24 kB"
    assert parse_figure("tps(SR1)").show(math.nan) == "–"


def test_ranges_of_names_count_from_less_to_more() -> None:
    assert expand_range("h1..h3") == ["h1", "h2", "h3"]
    assert expand_range("h08..10") == ["h08", "h09", "h10"]
    assert expand_range("a..b") == ["a..b"]
    with pytest.raises(SpecError, match="a rising range such as"):
        expand_range("h3..h1")


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement_is_read(name: str) -> None:
    forms = MEASUREMENTS[name].limits
    for text in [f"{name}({form.shape})" for form in forms] or [name]:
        figure = parse_figure(text)
        assert figure.dimension == MEASUREMENTS[name].dimension
        assert figure.readings == ((name, ()),)


@given(st.text(alphabet="queue.mean(r1..,r2)[5ms]<>=@+-*/%k B9\n", max_size=40))
def test_no_text_gives_anything_but_figure_or_error(text: str) -> None:
    with contextlib.suppress(SpecError):
        parse_expectation(text)
