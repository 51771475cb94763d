"""Scenarios: experiments in TOML, with variants, overrides from a command line, and the source of each value.

::

    [scenario]
    name = "two-into-one"
    title = "Two hosts of 10 Gb/s into a link of 10 Gb/s"
    duration = "200ms"
    topology = "dumbbell sources=2"          # or tables [[host]], [[switch]], [[link]], or both

    [[flow]]
    name = "bulk"
    from = "s1..s2"
    to = "d1"
    pattern = "saturating"

    [control]
    mechanism = "qcn"
    rp.ai_rate = "10Mb/s"

    [measure]
    port = "left>right"

    [[band]]
    figure = "queue.mean"
    high = "60kB"

    [variants.slow]
    set = { "topology.bottleneck" = "1G" }

`lab.setup.keys` lists all keys. `load_scenario` reads a scenario of this package by name, or a file. Unknown
contents are errors, and every error names the path of the wrong value.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import IO, Any

from ecmproto.control.lab.model import BASELINES, Experiment
from ecmproto.control.lab.setup import build
from ecmproto.control.lab.setup.captured import capture_document, is_capture
from ecmproto.control.lab.setup.keys import (
    CONTROL,
    LISTS,
    ROLES,
    SCENARIO,
    SECTIONS,
    SWITCH,
    Document,
    Table,
    Variant,
    applicable,
    check_key,
    read_tables,
    values_of,
)
from ecmproto.control.lab.setup.thresholds import Input, default_thresholds
from ecmproto.control.lab.setup.topology import SHAPES, parse_topology
from ecmproto.control.lab.setup.values import NAME, OCTETS, check_known, read_value
from ecmproto.control.mechanisms.api.parameters import UNITS, Parameter
from ecmproto.control.mechanisms.lossless import FLOW_CONTROLS
from ecmproto.errors import SpecError, did_you_mean, escaped, hint_on_name, shown

BY_DEFAULT, BY_SCENARIO, BY_COMMAND_LINE = "default", "scenario", "command line"
"""Origin of a value; the origin of a variant's value is ``variant NAME``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Value of an experiment, with path, source and origin."""

    path: str
    value: str
    """Value as text, with its unit."""
    source: str
    """Document from which the value is taken; empty for a value without a document."""
    set_by: str
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Scenario, with the changes of a variant and of a command line."""

    document: Document
    origins: Mapping[str, str] = field(default_factory=dict)
    """Origins of all values that differ from the file, by path."""
    variant: str = ""
    """Name of the variant; empty for the scenario itself."""

    @property
    def name(self) -> str:
        """The scenario's name, with the variant: ``bcn-symmetric:1g``."""
        name = str(self.document.scenario["name"])
        return f"{name}:{self.variant}" if self.variant else name

    @property
    def seed(self) -> int:
        """The seed of all random numbers."""
        seed: int = values_of(self.document.scenario, "scenario", "scenario")["seed"]
        return seed

    @property
    def variants(self) -> Mapping[str, str]:
        """The names of the scenario's variants, each with its title."""
        return {name: variant.title for name, variant in self.document.variants.items()}

    def experiment(self) -> Experiment:
        """Return the experiment.

        Raises SpecError with the path of the wrong value.
        """
        return build.build(self.document)

    def with_variant(self, name: str) -> Scenario:
        """Return a variant of the scenario.

        A variant has its own bands and published figures, because the scenario's bands apply only to the
        scenario. Raises SpecError for an unknown name.
        """
        if not name:
            return self
        known = self.document.variants
        where = str(self.document.scenario.get("name", "scenario"))
        check_known(name, known, "one of the scenario's", f"{where}: variant", "" if known else "it has none")
        variant = known[name]
        document = copy.copy(self.document)
        changed = replace(self, document=document, variant=name)
        for path, value in variant.set.items():
            try:
                changed = changed.with_value(path, value, by=f"variant {name}")
            except SpecError as error:
                where = f"variants.{name}.set: {error.where}"
                raise SpecError(where=where, needed=error.needed, got=error.got, hint=error.hint) from None
        # Another mechanism has removed the scenario's bands, but the variant's bands remain.
        changed.document.band, changed.document.published = variant.band, variant.published
        if variant.title:
            changed.document.scenario = changed.document.scenario | {"title": variant.title}
        return changed

    def with_value(self, path: str, value: object, *, by: str = BY_COMMAND_LINE) -> Scenario:
        """Return a copy with another value at ``path``: ``flow.rate``, ``link[0].rate``, ``control.rp.ru``.

        ``flow[bulk].rate`` applies to the flows called bulk. ``flow.rate`` applies to all flows that have a
        rate. ``topology.k`` is an option of the topology line. Keys of [scenario] and parameters (``rp.ru``,
        ``qeq``) need no section name. Raises SpecError for an unknown path.
        """
        edit = _Edit(copy.deepcopy(self.document))
        paths = edit.set(path, value)
        origins = {**self.origins, **dict.fromkeys(paths, by)}
        if paths == ["control.mechanism"]:  # the new mechanism has other parameters
            origins = {each: who for each, who in origins.items() if not _PARAMETER.match(each)}
        return replace(self, document=edit.document, origins=origins)

    def with_mechanism(self, name: str, parameters: Iterable[str] = ()) -> Scenario:
        """Return a copy with another mechanism, the values of ``[mechanisms.NAME]``, and given parameters."""
        changed = self.with_value("control.mechanism", name)
        return apply(changed, [f"control.{each}" for each in parameters])

    def explain(self) -> list[Row]:
        """Return every value of the experiment with unit, source and origin."""
        return list(_rows(self))

    def toml(self) -> str:
        """Return the scenario as TOML, including all changes."""
        return write_toml(self.document)


def apply(scenario: Scenario, assignments: Iterable[str]) -> Scenario:
    """Return the scenario with assigned values, such as ``flow.rate=5G``.

    Raises SpecError for an invalid assignment.
    """
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        if not equals:
            raise SpecError(where=shown(assignment), needed="path=value, such as flow.rate=5G", got="no =")
        scenario = scenario.with_value(path.strip(), value.strip())
    return scenario


def explain(scenario: Scenario) -> list[Row]:
    """Return every value of a scenario's experiment with unit, source and origin."""
    return scenario.explain()


def scenario_names() -> list[str]:
    """Return the names of the scenarios in this package."""
    names = (each.name for each in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def _folder() -> Any:
    return resources.files("ecmproto.control.lab") / "scenarios"


def load_scenario(name: str, *, outside: bool = False) -> Scenario:
    """Return a scenario: one of `scenario_names`, or a file, optionally with ``:VARIANT``.

    Files that the scenario names must be below its own folder. ``outside`` allows any file, and URLs. A
    capture becomes a scenario with one port to which all sources of the capture send (`capture_scenario`).

    Raises SpecError for an unknown name (with the most similar name), an unreadable file, and any error in
    the file.
    """
    path, colon, variant = name.rpartition(":")
    if not colon or not NAME.fullmatch(f"v{variant}"):
        path, variant = name, ""
    if path in scenario_names():
        with (_folder() / f"{path}.toml").open("rb") as stream:
            return read_scenario(stream, f"{path}.toml").with_variant(variant)
    if is_capture(path):
        return capture_scenario(path).with_variant(variant)
    if not (path.endswith(".toml") or "/" in path):
        needed = "a scenario's name, or a file: its name ends in .toml or .pcap, or it contains a /"
        hint = did_you_mean(path, scenario_names())
        if NAME.fullmatch(path) and Path(f"{path}.toml").is_file():
            hint = f"there is a file {path}.toml"
        raise SpecError(where="scenario", needed=needed, got=shown(name), hint=hint)
    try:
        with open(path, "rb") as stream:
            folder = os.path.dirname(path) or "."
            scenario = read_scenario(stream, path, folder=folder, outside=outside)
            return scenario.with_variant(variant)
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or str(error)
        raise SpecError(where=path, needed="a readable file", got=got) from None


def capture_scenario(path: str, *, rate: str = "10G", buffer: str = "500kB", outer: bool = False) -> Scenario:
    """Return a scenario with one port of ``rate`` and the traffic of all sources in a capture.

    The scenario has the same network as a closed-loop `replay.session.replay`. Raises CaptureError for an
    unreadable file.
    """
    scenario = Scenario(document=capture_document(path, rate=rate, buffer=buffer, outer=outer))
    scenario.experiment()
    return scenario


def read_scenario(
    stream: IO[bytes], name: str = "scenario", *, folder: str = ".", outside: bool = False
) -> Scenario:
    """Return the scenario in TOML, after a complete check that includes all variants.

    File names are relative to ``folder``. Only ``outside`` allows files outside the folder, and URLs. Raises
    the same errors as `load_scenario`.
    """
    # This module imports numpy, which lists of names do not need.
    from ecmproto.documents import read_document

    document = read_tables(read_document(stream, name))
    document.folder, document.outside = folder, outside
    scenario = Scenario(document=document)
    scenario.experiment()
    for variant in scenario.variants:
        scenario.with_variant(variant).experiment()
    paths = [row.path for row in scenario.explain()]
    paths += [
        f"mechanisms.{name}.{key}" for name, keys in scenario.document.mechanisms.items() for key in keys
    ]
    known = {*paths, *map(_generic, paths)}
    for path in scenario.document.sources:
        check_known(path, known, "the path of a value", f"sources.{path}")
    return scenario


_PATH = re.compile(r"([A-Za-z_]+)(?:\[([^\]]{1,100})\])?(?:\.(.{1,100}))?")
_PARAMETER = re.compile(rf"control\.(?:{'|'.join(ROLES)})\.")
_CLOSED = ("band", "published", "sources", "variants", "mechanisms")


class _Edit:
    """Document during the change of a value."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def set(self, path: str, value: object) -> list[str]:
        """Set the value and return the changed paths, in the form used by `explain`."""
        match = _PATH.fullmatch(path)
        if match is None:
            raise SpecError(
                where=path, needed="a path such as flow[0].rate or control.rp.ru", got=shown(path)
            )
        section, which, key = match[1], match[2], match[3] or ""
        if which is not None and section not in LISTS:
            raise SpecError(
                where=path, needed=f"{section} without [ ], since there is only one", got=shown(path)
            )
        if section in _CLOSED:
            raise SpecError(where=path, needed="a value of the experiment", got=f"one of {section}")
        if section in LISTS:
            return self._in_list(section, which, key, value, path)
        if section == "topology" and key:
            line = self.document.scenario.get("topology")
            if not isinstance(line, str) or not line:
                raise SpecError(where=path, needed="a scenario with a topology line", got="tables alone")
            changed = parse_topology(line, "topology").with_option(key, value, "topology")
            self.document.scenario["topology"] = changed.line()
            return [path]
        if section in ("control", *ROLES) or (section not in SECTIONS and section not in SCENARIO):
            return self._control(path.removeprefix("control."), value, path)
        if section == "measure":
            check_key("measure", key, "measure")
            self.document.measure[key] = value
            return [path]
        key = key if section == "scenario" else path
        check_key("scenario", key, "scenario")
        self.document.scenario[key] = value
        return [f"scenario.{key}"]

    def _control(self, key: str, value: object, path: str) -> list[str]:
        if key == "mechanism":
            return self._mechanism(value)
        if key in CONTROL:
            self.document.control[key] = value
            return [f"control.{key}"]
        mechanism = build.mechanism_of(self.document)
        known = build.described(mechanism)
        names = [each for each, parameter in known.items() if key in _spellings(each, parameter)]
        if not names:
            spellings = [name for each in known for name in (each, each.partition(".")[2])]
            section = did_you_mean(path.partition(".")[0].partition("[")[0], SECTIONS)
            others = [*spellings, *CONTROL, *SCENARIO]
            hint = build.priority_hint(key) or section or did_you_mean(key, others)
            raise SpecError(
                where=path,
                needed=f"a value of the scenario, or a parameter of {mechanism.name}",
                got=shown(key),
                hint=hint,
            )
        for name in names:
            for spelling in _spellings(name, known[name]):
                self.document.control.pop(spelling, None)
            self.document.control[name] = value
        return [f"control.{name}" for name in names]

    def _mechanism(self, value: object) -> list[str]:
        """Replace the mechanism, and drop the parameters and sources of the previous mechanism.

        A baseline runs without the flow control that the scenario adds to its own mechanism.
        """
        document = self.document
        beneath = document.control.pop("flow_control", None) if str(value) in BASELINES else None
        if value == document.control.get("mechanism") and beneath is None:
            return ["control.mechanism"]
        document.control["mechanism"] = value
        build.mechanism_of(document)
        for key in build.parameters_of(document.control):
            del document.control[key]
        parameters = document.mechanisms.get(str(value), {})
        document.control.update(parameters)
        document.band, document.published = [], []
        return ["control.mechanism"]

    def _in_list(self, section: str, which: str | None, key: str, value: object, path: str) -> list[str]:
        check_key(section, key, section if which is None else f"{section}[{which}]")
        tables: list[Table] = self.document.table(section)
        chosen = tables if which is None else self._chosen(section, which, path)
        if section == "flow" and which is None:
            chosen = [table for table in tables if key in applicable(table)]
        if not chosen:
            needed = f"a scenario with a table [[{section}]] that has it"
            raise SpecError(where=path, needed=needed, got="none")
        for table in chosen:
            table[key] = value
            if section == "flow" and key in ("rate", "host_rate"):
                table.pop("host_rate" if key == "rate" else "rate", None)
        return [
            f"{label}.{key}"
            for label, table in _labelled(section, tables)
            if any(table is each for each in chosen)
        ]

    def _chosen(self, section: str, which: str, path: str) -> list[Table]:
        """Return the table with a number or name; a node or link of the topology line gets a new table."""
        tables: list[Table] = self.document.table(section)
        if which.isdecimal():
            if int(which) >= len(tables):
                raise SpecError(where=path, needed=f"a number below {len(tables)}", got=which)
            return [tables[int(which)]]
        labels = dict(_labelled(section, tables))
        table = labels.get(f"{section}[{which}]")
        if table is not None:
            return [table]
        if section == "flow":
            named = [label[5:-1] for label in labels if not label[5:-1].isdecimal()]
            numbered = f"flow[0] to flow[{len(tables) - 1}], in their order"
            raise SpecError(
                where=path,
                needed="a flow's name or number",
                got=shown(which),
                hint=hint_on_name(which, named) if named else numbered,
            )
        if section == "link":
            a, arrow, b = which.partition(">")
            if not arrow:
                raise SpecError(
                    where=path, needed="a link's number, or its ends, such as left>right", got=shown(which)
                )
            tables.append({"a": a, "b": b})
        else:
            check_known(which, self._nodes(section), f"a {section} of the network", path)
            tables.append({"name": which})
        return [tables[-1]]

    def _nodes(self, section: str) -> list[str]:
        """Return the names of the network's hosts or switches."""
        network = build.network_of(self.document)
        return [node.name for node in (network.hosts if section == "host" else network.switches)]


def _spellings(path: str, parameter: Parameter) -> tuple[str, str, str, str]:
    role = path.partition(".")[0]
    return path, f"{role}.{parameter.attribute}", parameter.name, parameter.attribute


def _labelled(section: str, tables: Sequence[Table]) -> Iterator[tuple[str, Table]]:
    """Yield tables with their labels in paths: ``flow[bulk]``, ``link[a>b]``, or the table's number."""
    labels = set()
    for number, table in enumerate(tables):
        label = f"{table.get('a')}>{table.get('b')}" if section == "link" else str(table.get("name", number))
        if label in labels or not label or len(label) > 80 or "]" in label:
            label = str(number)
        labels.add(label)
        yield f"{section}[{label}]", table


def _generic(path: str) -> str:
    """Return a path without the table's label: ``flow.rate``."""
    return re.sub(r"\[[^\]]*\]", "", path)


def _rows(scenario: Scenario) -> Iterator[Row]:
    document = scenario.document
    yield from _of_scenario(scenario)
    for section in ("host", "switch", "link", "flow"):
        for label, table in _labelled(section, document.table(section)):
            names = applicable(table) if section == "flow" else table.keys()
            yield from _of_table(scenario, section, label, table, names)
    yield from _of_inputs(scenario)
    yield from _of_control(scenario)
    yield from _of_table(scenario, "measure", "measure", document.measure, SECTIONS["measure"].keys())


def _of_table(scenario: Scenario, section: str, label: str, table: Table, names: Set[str]) -> Iterator[Row]:
    """Yield the values of a table whose keys are in ``names``, with defaults for missing values."""
    for name, key in SECTIONS[section].items():
        if name in names and (name in table or key.default not in (None, "")):
            value = read_value(key.kind, table[name], f"{label}.{name}") if name in table else key.default
            yield _row(scenario, f"{label}.{name}", key.kind.show(value), name in table, key.doc)


def _row(scenario: Scenario, path: str, value: str, given: bool, doc: str, source: str = "") -> Row:
    set_by = scenario.origins.get(path, BY_SCENARIO if given else BY_DEFAULT)
    if set_by == BY_SCENARIO:
        sources = scenario.document.sources
        written = path
        if _PARAMETER.match(path) and "control.mechanism" in scenario.origins:
            written = path.replace("control", f"mechanisms.{scenario.document.control['mechanism']}", 1)
        source = sources.get(written) or sources.get(_generic(written)) or ""
    elif set_by != BY_DEFAULT:
        source = ""
    return Row(path=path, value=value, source=source, set_by=set_by, doc=doc)


def _of_scenario(scenario: Scenario) -> Iterator[Row]:
    head = scenario.document.scenario
    names = SCENARIO.keys() - {"title", "source", "topology"}
    yield from _of_table(scenario, "scenario", "scenario", head, names)
    if not head.get("topology"):
        return
    topology = parse_topology(head["topology"])
    yield _row(scenario, "topology", topology.shape, True, SHAPES[topology.shape].doc)
    for name, option in SHAPES[topology.shape].all_options.items():
        if topology.values[name] is not None:
            value = option.kind.show(topology.values[name])
            yield _row(scenario, f"topology.{name}", value, name in topology.given, option.doc)


_THRESHOLDS = {"cp.high", "cp.low", "cp.pause_on"}
"""Parameters of flow control whose defaults depend on the switch."""


def _of_inputs(scenario: Scenario) -> Iterator[Row]:
    """Yield the switches' default flow-control thresholds; equal switches share a row."""
    experiment = scenario.experiment()
    control = experiment.control
    if not {control.mechanism, control.flow_control} & set(FLOW_CONTROLS):
        return
    own = control.parameters if control.mechanism in FLOW_CONTROLS else ()
    if {each.partition("=")[0] for each in own if each != "cp.pause_on=input"} & _THRESHOLDS:
        return
    alike: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    inputs = default_thresholds(experiment).items()
    for switch in experiment.network.switches:
        if switch.pause is None:
            rows = _threshold_rows([entry for (_, end), entry in inputs if end == switch.name])
            alike.setdefault(rows, []).append(switch.name)
    for rows, names in alike.items():
        label = ", ".join(names) if len(names) < 4 else f"{names[0]}, {names[1]}, … {names[-1]}"
        for name, value, source in rows:
            yield _row(scenario, f"switch[{label}].{name}", value, False, SWITCH[name].doc, source)


def _threshold_rows(inputs: Sequence[Input]) -> tuple[tuple[str, str, str], ...]:
    """Return keys, values and reasons for the thresholds of a switch's inputs."""
    capacity = _from_to([each.capacity_octets for each in inputs])
    needed = _from_to([each.headroom_octets for each in inputs])
    high = _from_to([each.thresholds.high_octets for each in inputs])
    low = _from_to([each.thresholds.low_octets for each in inputs])
    alpha = inputs[0].thresholds.alpha
    if alpha:
        reason = f"{alpha:g} of {capacity} shared memory while it is free; headroom {needed} an input"
        return (("pause.high", high, reason), ("pause.low", low, "two frames below high"))
    return (
        ("pause.high", high, f"capacity {capacity} minus headroom {needed}"),
        ("pause.low", low, "half of high"),
        ("pause.on", "input", ""),
    )


def _from_to(octets: Sequence[int]) -> str:
    minimum, maximum = OCTETS.show(min(octets)), OCTETS.show(max(octets))
    return minimum if minimum == maximum else f"{minimum} to {maximum}"


def _of_control(scenario: Scenario) -> Iterator[Row]:
    control = scenario.document.control
    yield from _of_table(scenario, "control", "control", control, CONTROL.keys())
    mechanism = build.mechanism_of(scenario.document)
    assignments = build.assignments_of(mechanism, build.parameters_of(control), "control")
    given = {each.partition("=")[0] for each in assignments}
    for role, parameters in mechanism.parse(assignments).items():
        texts = parameters.as_text()
        for parameter in build.acting(parameters):
            path = f"{role.value}.{parameter.name}"
            if mechanism.name in FLOW_CONTROLS and path in _THRESHOLDS - given:
                continue
            value = UNITS[parameter.unit].format(getattr(parameters, parameter.attribute))
            doc, source = parameter.doc, parameter.source
            yield _row(
                scenario, f"control.{path}", value or texts[parameter.name], path in given, doc, source
            )


def write_toml(document: Document) -> str:
    """Return a document as TOML; reading this text returns an equal document."""
    parts = [_section("scenario", document.scenario)]
    for section in ("host", "switch", "link", "flow"):
        parts += [_section(section, table, many=True) for table in document.table(section)]
    parts += [_section("control", document.control), _section("measure", document.measure)]
    parts += [_section(f"mechanisms.{name}", table) for name, table in document.mechanisms.items()]
    for section in ("band", "published"):
        parts += [_section(section, table, many=True) for table in document.table(section)]
    for name, variant in document.variants.items():
        parts += _variant_parts(name, variant)
    if document.sources:
        lines = (f"{_text(path)} = {_text(text)}\n" for path, text in document.sources.items())
        parts.append("[sources]\n" + "".join(lines))
    return "\n".join(part for part in parts if part)


def _section(name: str, table: Table, *, many: bool = False) -> str:
    if not table and not many:
        return ""
    head = f"[[{name}]]" if many else f"[{name}]"
    return f"{head}\n" + "".join(f"{key} = {_text(value)}\n" for key, value in table.items())


def _variant_parts(name: str, variant: Variant) -> list[str]:
    lines = f"title = {_text(variant.title)}\n" if variant.title else ""
    values = ", ".join(f"{_text(path)} = {_text(value)}" for path, value in variant.set.items())
    lines += f"set = {{ {values} }}\n" if values else ""
    own = [(key, table) for key in ("band", "published") for table in getattr(variant, key)]
    tables = [_section(f"variants.{name}.{key}", table, many=True) for key, table in own]
    return [f"[variants.{name}]\n{lines}", *tables]


def _text(value: object) -> str:
    """Return a value as TOML; text, integers and booleans have the same form as in JSON."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return escaped(json.dumps(value, ensure_ascii=False))


_TEMPLATE = """\
# A scenario for `ecmproto lab run`.  Values in comments are the defaults.

[scenario]
name = "my-network"
title = "Some hosts into one"
duration = "200ms"
# seed = 1                       # of all random numbers

# The network in one line:
#   star hosts=10, dumbbell sources=4 bottleneck=1G, trunk hosts=2,3 core=2,
#   parking-lot hops=2 long=4 cross=1, clos leaves=4 spines=2 hosts=8 uplink=40G, fat-tree k=4
# Each takes rate, propagation, buffer (300kB or 100frames), memory, partition, delay, host_delay,
# reaction_delay, queue.
topology = "{topology}"

# Tables change the network of the topology line, or add to it:
# [[link]]
# a = "{first}"
# b = "{second}"
# rate = "10G,1G@50ms,10G@150ms" # its rate, and its changes over time

[[flow]]
name = "bulk"                    # several flows are bulk1, bulk2, …, and the group bulk
from = "{sources}"{gap_1}# or "h*", or ["h1", "h3"]
to = "{destination}"{gap_2}# or "all others"
pattern = "saturating"           # cbr, bernoulli, poisson, on-off, tcp, transactions, sizes, schedule,
#                                  capture
# rate = "5G"                    # for patterns that have a rate
# start = "10ms"

# [[flow]]
# name = "web"
# from = "{sources}"
# to = "{destination}"
# pattern = "sizes"
# sizes = "websearch"            # or datamining, or a file of octets and shares
# rate = "1G"

[control]
mechanism = "{mechanism}"
# flow_control = "pfc"           # or pause: besides the mechanism
in_band = true                   # messages are frames that queue on their path
{parameters}
[measure]
from = "100ms"
port = "{port}"

# Requirements; `ecmproto lab run` exits with 1 if one does not hold.
# [[band]]
# figure = "queue.p99"
# high = "200kB"
"""


def template(mechanism: str = "qcn", topology: str | None = None) -> str:
    """Return a commented scenario for a mechanism and a topology line; this scenario can be loaded unchanged.

    Raises SpecError for an invalid mechanism or topology.
    """
    line = topology or "dumbbell sources=4 rate=10G buffer=300kB"
    sources, destination, port = _template_flow(line)
    factory = build.mechanism_of(Document(control={"mechanism": mechanism}))
    lines = []
    for role, parameters in factory.roles.items():
        known = build.acting(parameters)
        if not known:
            continue
        lines.append(f"\n[control.{role.value}]\n")
        for parameter in known:
            default = parameter.default
            text = "" if default is None else UNITS[parameter.unit].format(default)
            by_switch = factory.name in FLOW_CONTROLS and f"{role.value}.{parameter.name}" in _THRESHOLDS
            value = (
                "…"
                if default is None or by_switch
                else _text(default if parameter.unit in ("count", "flag", "ratio") else text)
            )
            lines.append(f"# {parameter.name} = {value}  # {parameter.doc}\n")
    return _TEMPLATE.format(
        mechanism=factory.name,
        parameters="".join(lines),
        topology=parse_topology(line).line(),
        sources=sources,
        gap_1=" " * max(1, 24 - len(sources)),
        gap_2=" " * max(1, 26 - len(destination)),
        destination=destination,
        port=port,
        first=port.partition(">")[0],
        second=port.partition(">")[2],
    )


def _template_flow(line: str) -> tuple[str, str, str]:
    """Return the sending hosts of a topology, the receiving host, and the port that the traffic shares."""
    network = parse_topology(line).network()
    hosts = [host.name for host in network.hosts]
    last = next((host for host in ("d0", "d1") if host in hosts), hosts[-1])
    others = [host for host in hosts if host != last and host[0] == hosts[0][0]][:4]
    if not others:
        raise SpecError(where="topology", needed="two hosts or more", got=shown(line))
    ends = next((link.a, link.b) for link in network.links if last in (link.a, link.b))
    own_port = f"{ends[0] if ends[1] == last else ends[1]}>{last}"
    bottlenecks = {"dumbbell": "left>right", "parking-lot": "sw1>sw2"}
    sources = others[0] if len(others) == 1 else f"{others[0]}..{others[-1]}"
    return sources, last, bottlenecks.get(line.split()[0], own_port)
