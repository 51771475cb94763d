"""Writes ``docs/scenarios.md`` from the declarations of all scenario keys: ``make docs``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ecmproto.control.lab.setup.figures import MEASUREMENTS
from ecmproto.control.lab.setup.keys import LISTS, SECTIONS
from ecmproto.control.lab.setup.scenario import load_scenario, scenario_names
from ecmproto.control.lab.setup.topology import SHAPES
from ecmproto.control.lab.setup.values import Key

PATH = Path(__file__).with_name("scenarios.md")

HEADING = """\
# Scenario reference

<!-- From the declarations in ecmproto/control/lab/, by `make references`. -->

This page lists all keys of a scenario; the [laboratory](lab.md) explains how to use them. A value with
a unit is a string (`"10G"`, `"33kB"`, `"15ms"`, `"16frames"` of 1500 octets). A value without a unit is a
number, `true` or `false`. A zero needs no unit.
"""


def text() -> str:
    """Return the reference as Markdown."""
    return "\n".join([HEADING, *_parts()])


def _parts() -> Iterator[str]:
    yield "## Bundled scenarios\n"
    yield _table(("scenario", "title", "variants", "source"), map(_scenario, scenario_names()))
    for section, keys in SECTIONS.items():
        yield f"## {f'[[{section}]]' if section in LISTS else f'[{section}]'}\n"
        yield _table(("key", "default", "value", "meaning"), (_key(*each) for each in keys.items()))
        if section == "control":
            yield (
                "The parameters of the mechanism are keys of this table too, such as `cp.qeq`, `rp.ru` and\n"
                "`edge.strip`; [parameters.md](parameters.md) lists the parameters. `[mechanisms.NAME]`\n"
                "contains the parameters of a mechanism that replaces the scenario's own.\n"
            )
    yield "## The topology line\n"
    for name, shape in SHAPES.items():
        yield f"`{name}`: {shape.doc}.\n"
        yield _table(("option", "default", "meaning"), (_option(*each) for each in shape.options.items()))
    yield "All topologies also have these options:\n"
    common = {name: each for name, each in SHAPES["star"].all_options.items() if name != "hosts"}
    yield _table(("option", "default", "meaning"), (_option(*each) for each in common.items()))
    yield "## Figures\n"
    yield _table(("figure", "subject", "meaning"), map(_figure, MEASUREMENTS))


def _scenario(name: str) -> Sequence[str]:
    scenario = load_scenario(name)
    experiment = scenario.experiment()
    return (
        f"`{name}`",
        experiment.title,
        ", ".join(f"`{each}`" for each in scenario.variants),
        experiment.source,
    )


def _key(name: str, key: Key) -> Sequence[str]:
    default = "" if key.default in (None, "") else key.kind.show(key.default)
    return f"`{name}`", "required" if key.required else default, key.kind.needed, key.doc


def _option(name: str, option: Key) -> Sequence[str]:
    return f"`{name}`", "" if option.default is None else option.kind.show(option.default), option.doc


def _figure(name: str) -> Sequence[str]:
    measurement = MEASUREMENTS[name]
    forms = [f"{name}({limits.shape})" for limits in measurement.limits] or [name]
    return " or ".join(f"`{form}`" for form in forms), measurement.of, measurement.doc


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    print(f"{PATH.name}: {len(scenario_names())} scenarios")
