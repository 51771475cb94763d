"""Experiments from the tables of a scenario: which keys there are, what each means, and what comes of them.

A scenario's document is kept as it was written, in flat tables (``tcp.window`` is one key), so that a command
line can set any of its values before an experiment is made of it.
"""

from __future__ import annotations

import csv
import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any

from ecmproto.engine.config import PortRate
from ecmproto.errors import ParameterError, SpecError, shown
from ecmproto.lab.figures import (
    RESERVED,
    Dimension,
    expand_flows,
    expand_ports,
    expand_range,
    find_measurement,
    parse_figure,
    parse_value,
)
from ecmproto.lab.model import (
    TCP,
    Adapter,
    Band,
    Control,
    Experiment,
    Flow,
    Host,
    Link,
    Measure,
    Network,
    Pattern,
    Published,
    Switch,
    Thresholds,
)
from ecmproto.lab.topology import DEFAULT_BUFFER, MOST_HOSTS, parse_topology
from ecmproto.lab.values import (
    BUFFER,
    COUNT,
    FLAG,
    NAME,
    NUMBER,
    OCTETS,
    RATE,
    RATE_CHANGES,
    TEXT,
    TIME,
    WORD,
    Kind,
    choice,
    did_you_mean,
    read_value,
)
from ecmproto.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.mechanisms.api.parameters import UNITS, Parameter
from ecmproto.mechanisms.registry import MECHANISMS, find_mechanism, mechanism_names

Table = dict[str, Any]
"""A table as it was written, flat: ``{"name": "bulk", "tcp.window": 44}``."""

MOST_FLOWS = 100_000
MOST_TABLES = 10_000
_LONGEST_NS = 10**15
"""Eleven days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of a table: what kind of value it takes, and what it means.

    ``default`` is what holds without it, ``None`` where that follows from others.
    """

    kind: Kind
    doc: str
    default: Any = None
    within: tuple[float, float] | None = None
    required: bool = False


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


NAMES = Kind(
    needed='names, as "h1", "h1..h4", "h*" or a list of these', read=_listed, show=", ".join, plain=(list,)
)
ANY = Kind(needed="a value", read=str, show=str, plain=(int, float))


def _default(of: type, attribute: str) -> Any:
    return next(each.default for each in dataclasses.fields(of) if each.name == attribute)


_NS = (0, _LONGEST_NS)
_PORT_OCTETS = (1, 10**9)
_RATES = (1_000, 10**13)
_FRAME = (60, 9_216)

SCENARIO: Mapping[str, Key] = {
    "name": Key(kind=WORD, doc="what it is called", required=True),
    "title": Key(kind=TEXT, doc="what it shows, in a line", required=True),
    "source": Key(kind=TEXT, doc="the document that it is from", default=""),
    "duration": Key(kind=TIME, doc="how long it runs", required=True, within=(1_000, _LONGEST_NS)),
    "seed": Key(kind=COUNT, doc="of all that is random", default=1, within=(0, 2**63 - 1)),
    "topology": Key(kind=TEXT, doc="the network in one line, as fat-tree k=4", default=""),
    "overhead": Key(
        kind=OCTETS,
        doc="what a frame takes on a link besides its own octets",
        within=(0, 1_000),
        default=_default(Experiment, "overhead_octets"),
    ),
}

HOST: Mapping[str, Key] = {
    "name": Key(
        kind=NAMES, doc="the host, or several, as h1..h4; new ones, or ones of the topology", required=True
    ),
    "delay": Key(kind=TIME, doc="before it sees a frame that has come", within=_NS, default=0),
    "reaction_delay": Key(
        kind=TIME, doc="before its reaction point acts on a message", within=_NS, default=0
    ),
    "queue": Key(
        kind=OCTETS,
        doc="of each flow in its NIC",
        within=_PORT_OCTETS,
        default=_default(Host, "queue_octets"),
    ),
    "adapter.rate": Key(kind=RATE_CHANGES, doc="at which it empties the buffer behind its link"),
    "adapter.buffer": Key(kind=BUFFER, doc="that buffer"),
    "adapter.pause.high": Key(kind=OCTETS, doc="above which it stops the switch", within=_PORT_OCTETS),
    "adapter.pause.low": Key(kind=OCTETS, doc="at which it lets the switch go on", within=(0, 10**9)),
}

SWITCH: Mapping[str, Key] = {
    "name": Key(kind=NAMES, doc="the switch, or several, as e* of the topology, or new ones", required=True),
    "delay": Key(kind=TIME, doc="before a frame that has come is in its output queue", within=_NS, default=0),
    "buffer": Key(kind=BUFFER, doc="of each output port", default=DEFAULT_BUFFER),
    "memory": Key(kind=BUFFER, doc="that its ports share; without, as much as their buffers"),
    "partition": Key(kind=BUFFER, doc="that frames of one input may take; without, no limit of its own"),
    "pause.high": Key(
        kind=OCTETS, doc="above which it sends PAUSE or PFC, where there is flow control", within=_PORT_OCTETS
    ),
    "pause.low": Key(kind=OCTETS, doc="at which it sends XON", within=(0, 10**9)),
    "pause.on": Key(
        kind=choice("input", "output"),
        doc="whether these are of one input's frames, or of an output queue",
        default="input",
    ),
}

LINK: Mapping[str, Key] = {
    "a": Key(kind=NAMES, doc="one end, or several, as h1..h4", required=True),
    "b": Key(kind=NAMES, doc="the other end", required=True),
    "rate": Key(
        kind=RATE_CHANGES,
        doc="from a to b, and its changes, as 10G,1G@10ms,10G@90ms",
        default=PortRate(_default(Link, "rate_bps"), ()),
    ),
    "rate_back": Key(kind=RATE_CHANGES, doc="from b to a; without, as from a to b"),
    "propagation": Key(kind=TIME, doc="from a to b", within=_NS, default=_default(Link, "propagation_ns")),
    "propagation_back": Key(kind=TIME, doc="from b to a; without, as from a to b", within=_NS),
}


def _of_tcp(kind: Kind, attribute: str, doc: str, within: tuple[float, float] | None = None) -> Key:
    return Key(kind=kind, doc=doc, within=within, default=_default(TCP, attribute))


FLOW: Mapping[str, Key] = {
    "name": Key(
        kind=TEXT, doc="its name; of several flows one each, as r1..r4, or what their numbers stand behind"
    ),
    "from": Key(kind=NAMES, doc="the host, or the hosts, that send", required=True),
    "to": Key(kind=NAMES, doc="where to: hosts, or all others", required=True),
    "match": Key(
        kind=choice("all", "one to one"),
        doc="whether each host sends to all of these, or the first to the first",
        default="all",
    ),
    "pattern": Key(
        kind=choice(*(each.value for each in Pattern)), doc="when there are frames to send", required=True
    ),
    "priority": Key(kind=COUNT, doc="of its frames", within=(0, 7), default=0),
    "frame": Key(
        kind=OCTETS, doc="length of its frames", within=_FRAME, default=_default(Flow, "frame_octets")
    ),
    "rate": Key(kind=RATE, doc="that it offers; of on-off, while it is on", within=_RATES),
    "host_rate": Key(
        kind=RATE, doc="instead of rate: of all its flows from one host together", within=_RATES
    ),
    "start": Key(kind=TIME, doc="when it begins", within=_NS, default=0),
    "stop": Key(kind=TIME, doc="when it ends; without, never", within=_NS),
    "random_start": Key(
        kind=FLAG, doc="whether the first frame comes at a random moment of its period", default=False
    ),
    "on": Key(kind=TIME, doc="mean time on", within=(1, _LONGEST_NS)),
    "off": Key(kind=TIME, doc="mean time off", within=_NS),
    "times": Key(
        kind=choice("constant", "exponential", "pareto"),
        doc="how times on and off are distributed",
        default="exponential",
    ),
    "shape": Key(kind=NUMBER, doc="of the Pareto distribution", within=(1.01, 100), default=1.5),
    "connections": Key(kind=COUNT, doc="TCP connections side by side", within=(1, 10_000), default=1),
    "tcp.algorithm": _of_tcp(choice("reno", "newreno", "cubic"), "algorithm", "its congestion control"),
    "tcp.window": _of_tcp(COUNT, "window", "the most segments that are ever under way", (1, 100_000)),
    "tcp.initial_window": _of_tcp(COUNT, "initial_window", "segments that it begins with", (1, 100_000)),
    "tcp.rto_min": _of_tcp(TIME, "rto_min_ns", "the shortest retransmission time-out", (1_000, 10**12)),
    "tcp.rto_max": _of_tcp(TIME, "rto_max_ns", "the longest one", (1_000, 10**12)),
    "tcp.delayed_ack": _of_tcp(FLAG, "delayed_ack", "whether every second segment is acknowledged"),
    "tcp.ack": _of_tcp(OCTETS, "ack_octets", "length of an acknowledgement's frame", _FRAME),
    "tcp.syn": _of_tcp(FLAG, "syn", "whether each connection, or transaction, begins with a handshake"),
    "request": Key(
        kind=OCTETS,
        doc="what `to` asks with; 0: the source sends without being asked",
        within=(0, 9_216),
        default=_default(Flow, "request_octets"),
    ),
    "response": Key(
        kind=OCTETS,
        doc="what the source sends in a transaction",
        within=(1, 10**12),
        default=_default(Flow, "response_octets"),
    ),
    "idle": Key(
        kind=TIME, doc="mean of the exponential idle time between transactions", within=_NS, default=0
    ),
    "sizes": Key(
        kind=TEXT, doc="the distribution of flow sizes: websearch, datamining, a file.csv, or 1kB:0.5, 1MB:1"
    ),
    "bursts": Key(kind=NAMES, doc='bursts at times, as ["0ms 100kB", "5ms 1MB"]'),
    "group": Key(kind=WORD, doc="what it counts with in tables; of several flows their name", default=""),
    "hops": Key(
        kind=COUNT,
        doc="congestion points on its path, where flows differ; 0: as control.hops says",
        within=(0, 255),
        default=0,
    ),
}

_TCP = tuple(key for key in FLOW if key.startswith("tcp."))
_PATTERNS: Mapping[Pattern, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Pattern.SATURATING: ((), ()),
    Pattern.CBR: (("rate",), ("random_start",)),
    Pattern.BERNOULLI: (("rate",), ()),
    Pattern.POISSON: (("rate",), ()),
    Pattern.ON_OFF: (("rate", "on", "off"), ("times", "shape", "random_start")),
    Pattern.TCP: ((), ("connections", *_TCP)),
    Pattern.TRANSACTIONS: ((), ("connections", *_TCP, "request", "response", "idle")),
    Pattern.SIZES: (("rate", "sizes"), ("connections", *_TCP)),
    Pattern.SCHEDULE: (("bursts",), ()),
}
"""The keys that each pattern needs, and those that it can have besides."""
_OF_PATTERNS = frozenset(key for keys in _PATTERNS.values() for each in keys for key in each) | {"host_rate"}

CONTROL: Mapping[str, Key] = {
    "mechanism": Key(kind=TEXT, doc=f"one of {', '.join(each.name for each in MECHANISMS)}", default="none"),
    "flow_control": Key(
        kind=choice("none", "pause", "pfc"),
        doc="flow control of links, beneath the mechanism",
        default="none",
    ),
    "in_band": Key(kind=FLAG, doc="whether messages are frames that queue on their way", default=False),
    "message_priority": Key(
        kind=COUNT, doc="of messages in band", within=(0, 7), default=_default(Control, "message_priority")
    ),
    "message_delay": Key(
        kind=TIME, doc="how long a message out of band takes; without, as long as links and nodes", within=_NS
    ),
    "points": Key(kind=NAMES, doc="switches, or ports as switch>peer, with congestion points; without, all"),
    "hops": Key(kind=COUNT, doc="congestion points on a flow's path", within=(1, 255), default=1),
}

MEASURE: Mapping[str, Key] = {
    "from": Key(
        kind=TIME,
        doc="when measuring begins; without, at 100 ms, or half-way where it is over by then",
        within=_NS,
    ),
    "until": Key(kind=TIME, doc="when it ends; without, with the run", within=_NS),
    "window": Key(
        kind=TIME,
        doc="what series over time are cut into",
        within=(1_000, _LONGEST_NS),
        default=_default(Measure, "window_ns"),
    ),
    "port": Key(kind=TEXT, doc="that queue figures are about; without, the fullest on average", default=""),
}

BAND: Mapping[str, Key] = {
    "figure": Key(kind=TEXT, doc="an expression, as queue.mean[50ms..90ms]", required=True),
    "low": Key(kind=ANY, doc="what it must not be below, with its unit"),
    "high": Key(kind=ANY, doc="what it must not be above"),
    "source": Key(kind=TEXT, doc="who says so", default=""),
    "median_of": Key(kind=COUNT, doc="of so many seeds the median is meant", within=(1, 1000), default=1),
    "note": Key(kind=TEXT, doc="what restricts it", default=""),
}
PUBLISHED: Mapping[str, Key] = {
    "figure": Key(kind=TEXT, doc="an expression", required=True),
    "value": Key(kind=TEXT, doc="what the document prints", required=True),
    "source": Key(kind=TEXT, doc="where", default=""),
}

SECTIONS: Mapping[str, Mapping[str, Key]] = {
    "scenario": SCENARIO,
    "host": HOST,
    "switch": SWITCH,
    "link": LINK,
    "flow": FLOW,
    "control": CONTROL,
    "measure": MEASURE,
    "band": BAND,
    "published": PUBLISHED,
}
"""The tables of a scenario; besides these ``mechanisms``, ``sources`` and ``variants``."""
LISTS = ("host", "switch", "link", "flow", "band", "published")
"""Those that there may be several of."""
ROLES = tuple(role.value for role in Role)


@dataclass(slots=True, kw_only=True)
class Document:
    """What a scenario says, as it was written."""

    scenario: Table = field(default_factory=dict)
    host: list[Table] = field(default_factory=list)
    switch: list[Table] = field(default_factory=list)
    link: list[Table] = field(default_factory=list)
    flow: list[Table] = field(default_factory=list)
    control: Table = field(default_factory=dict)
    """With the parameters of the mechanism, ``rp.ru``."""
    measure: Table = field(default_factory=dict)
    band: list[Table] = field(default_factory=list)
    published: list[Table] = field(default_factory=list)
    mechanisms: dict[str, Table] = field(default_factory=dict)
    """Parameters of other mechanisms, for where they take the place of the scenario's own."""
    sources: Table = field(default_factory=dict)
    """Where values are from, by their paths."""
    variants: dict[str, Variant] = field(default_factory=dict)

    def table(self, section: str) -> Any:
        """Return a table, or a list of tables, by its name."""
        return getattr(self, section)


@dataclass(slots=True, kw_only=True)
class Variant:
    """What a variant of a scenario has of its own."""

    title: str
    set: Table = field(default_factory=dict)
    """Paths and values, as a command line sets them."""
    band: list[Table] = field(default_factory=list)
    published: list[Table] = field(default_factory=list)


def read_tables(tree: Mapping[str, Any]) -> Document:
    """Return the document that a TOML file holds; SpecError for unknown keys, and for what is no table."""
    document = Document()
    for section, content in tree.items():
        if section in LISTS:
            setattr(document, section, _tables(content, section))
        elif section in SECTIONS:
            setattr(document, section, _flat(content, section, section))
        elif section == "mechanisms":
            document.mechanisms = {
                name: _flat(each, "parameters", f"mechanisms.{name}")
                for name, each in _table(content, section).items()
            }
        elif section == "sources":
            document.sources = {
                path: read_value(TEXT, text, f"sources.{path}")
                for path, text in _table(content, section).items()
            }
        elif section == "variants":
            document.variants = {
                name: _variant(each, f"variants.{name}") for name, each in _table(content, section).items()
            }
        else:
            known = (*SECTIONS, "mechanisms", "sources", "variants")
            hint = did_you_mean(section, known)
            raise SpecError(where=section, needed="a table of a scenario", got=shown(section), hint=hint)
    return document


def _table(content: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(content, dict):
        raise SpecError(where=where, needed=f"a table, [{where}]", got=shown(content))
    return content


def _tables(content: Any, section: str, where: str = "") -> list[Table]:
    where = where or section
    if not isinstance(content, list):
        raise SpecError(where=where, needed=f"tables, [[{where}]]", got=shown(content))
    if len(content) > MOST_TABLES:
        raise SpecError(where=where, needed=f"at most {MOST_TABLES:,} tables", got=f"{len(content):,}")
    return [_flat(each, section, f"{where}[{number}]") for number, each in enumerate(content)]


def _variant(content: Any, where: str) -> Variant:
    found: dict[str, Any] = {"title": ""}
    if not NAME.fullmatch(f"v{where.partition('.')[2]}"):
        raise SpecError(where=where, needed="a name of letters, digits, - and _", got=shown(where))
    for key, value in _table(content, where).items():
        path = f"{where}.{key}"
        if key == "title":
            found[key] = read_value(TEXT, value, path)
        elif key == "set":
            found[key] = dict(_table(value, path))
        elif key in ("band", "published"):
            found[key] = _tables(value, key, path)
        else:
            hint = did_you_mean(key, ("title", "set", "band", "published"))
            raise SpecError(where=path, needed="a key of a variant", got=shown(key), hint=hint)
    return Variant(**found)


def _flat(content: Any, section: str, where: str) -> Table:
    """Return a table with the keys of its inner tables joined by dots; SpecError for unknown ones."""
    keys = SECTIONS.get(section, {})
    found: Table = {}

    def add(table: Mapping[str, Any], prefix: str, depth: int) -> None:
        for name, value in table.items():
            key = prefix + name
            if isinstance(value, dict) and depth < 2:
                add(value, f"{key}.", depth + 1)
            else:
                check_key(section, key, where)
                if isinstance(value, list) and keys.get(key, _PLAIN).kind is NAMES:
                    value = ", ".join(_text_of(each, f"{where}.{key}") for each in value)
                found[key] = value

    add(_table(content, where), "", 0)
    return found


_PLAIN = Key(kind=TEXT, doc="")


def _text_of(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise SpecError(where=where, needed="texts in quotes", got=shown(value))
    return value


def check_key(section: str, key: str, where: str) -> None:
    """Raise SpecError for a key that a table does not have; parameters of mechanisms are looked at later."""
    if section in ("control", "parameters") and key.partition(".")[0] in ROLES and "." in key:
        return
    if section == "parameters":
        raise SpecError(where=f"{where}.{key}", needed="cp, rp or edge, with parameters", got=shown(key))
    if key not in SECTIONS[section]:
        written = f"[[{section}]]" if section in LISTS else f"[{section}]"
        known = [*SECTIONS[section], *(ROLES if section == "control" else ())]
        hint = did_you_mean(key, known)
        raise SpecError(where=f"{where}.{key}", needed=f"a key of {written}", got=shown(key), hint=hint)


def values_of(table: Table, section: str, where: str) -> dict[str, Any]:
    """Return the values of all keys of a table, those that it lacks at their defaults.

    SpecError with the path of the first that is missing or wrong.
    """
    keys = SECTIONS[section]
    given = {
        name: read_value(key.kind, table[name], f"{where}.{name}", key.within)
        for name, key in keys.items()
        if name in table
    }
    for name, key in keys.items():
        if key.required and name not in given:
            raise SpecError(where=f"{where}.{name}", needed=f"{key.kind.needed}: {key.doc}", got="nothing")
    return {name: given.get(name, key.default) for name, key in keys.items()}


def build(document: Document) -> Experiment:
    """Return the experiment of a document; SpecError with the path of what is wrong."""
    head = values_of(document.scenario, "scenario", "scenario")
    network = _network(document, head)
    flows = _flows(document, network)
    mechanism = mechanism_of(document)
    measure = _measure(document, head["duration"], network)
    experiment = Experiment(
        name=head["name"],
        title=head["title"],
        source=head["source"],
        duration_ns=head["duration"],
        overhead_octets=head["overhead"],
        network=network,
        flows=flows,
        control=_control(document, mechanism, network),
        measure=measure,
    )
    runs = {*document.variants, *mechanism_names()}
    return replace(
        experiment,
        measure=replace(
            measure,
            bands=bands_of(document.band, "band", experiment, runs),
            published=published_of(document.published, "published", experiment, runs),
        ),
    )


def _network(document: Document, head: Mapping[str, Any]) -> Network:
    """Return the network: that of the topology line, with what tables change or add."""
    line = head["topology"]
    base = parse_topology(line, "topology").network() if line else Network(hosts=(), switches=(), links=())
    hosts = {host.name: host for host in base.hosts}
    switches = {switch.name: switch for switch in base.switches}
    for number, table in enumerate(document.host):
        where = f"host[{number}]"
        values = values_of(table, "host", where)
        for name in _nodes(values["name"], hosts, f"{where}.name"):
            hosts[name] = _host(name, hosts.get(name), table, values, where)
    for number, table in enumerate(document.switch):
        where = f"switch[{number}]"
        values = values_of(table, "switch", where)
        for name in _nodes(values["name"], switches, f"{where}.name"):
            switches[name] = _switch(name, switches.get(name), table, values, where)
    if twice := hosts.keys() & switches.keys():
        name = min(twice)
        raise SpecError(where="switch", needed="names that no host has", got=shown(name))
    links = {(link.a, link.b): link for link in base.links}
    for number, table in enumerate(document.link):
        _add_links(links, table, f"link[{number}]", {**hosts, **switches})
    if not hosts:
        raise SpecError(
            where="scenario.topology", needed="a topology line, or tables [[host]]", got="neither"
        )
    network = Network(
        hosts=tuple(hosts.values()), switches=tuple(switches.values()), links=tuple(links.values())
    )
    ends = Counter(end for link in network.links for end in (link.a, link.b))
    for host in hosts:
        if ends[host] != 1:
            raise SpecError(where="link", needed=f"one link of host {host}", got=str(ends[host]))
    return network


def _nodes(patterns: Sequence[str], known: Mapping[str, Any], where: str) -> list[str]:
    """Return the nodes that patterns name: ranges, patterns of known ones, or new names."""
    names: dict[str, None] = {}
    for pattern in patterns:
        if "*" in pattern or "?" in pattern:
            found = [name for name in known if fnmatchcase(name, pattern)]
            if not found:
                raise SpecError(where=where, needed="a pattern of nodes that there are", got=shown(pattern))
        else:
            found = _range(pattern, where)
        names.update(dict.fromkeys(found))
    for name in names:
        if not NAME.fullmatch(name):
            raise SpecError(where=where, needed=WORD.needed, got=shown(name))
    if len({*known, *names}) > MOST_HOSTS:
        raise SpecError(where=where, needed=f"at most {MOST_HOSTS:,} nodes", got="more")
    return list(names)


def _range(pattern: str, where: str) -> list[str]:
    try:
        return expand_range(pattern)
    except SpecError as error:
        raise SpecError(where=where, needed=error.needed, got=error.got) from None


def _host(name: str, known: Host | None, table: Table, values: Mapping[str, Any], where: str) -> Host:
    host = known or Host(name=name)
    changes = {"delay": "delay_ns", "reaction_delay": "reaction_delay_ns", "queue": "queue_octets"}
    host = replace(host, **{changes[key]: values[key] for key in changes if key in table})
    if not any(key.startswith("adapter.") for key in table):
        return host
    return replace(host, adapter=_adapter(host.adapter, table, values, f"{where}.adapter"))


def _adapter(known: Adapter | None, table: Table, values: Mapping[str, Any], where: str) -> Adapter:
    """Return an egress adapter: what a table lacks is as it was."""
    changes: dict[str, Any] = {}
    if "adapter.rate" in table:
        rate = values["adapter.rate"]
        _check_rate(rate.rate_bps, f"{where}.rate")
        changes |= {"rate_bps": rate.rate_bps, "rate_changes": rate.changes}
    if "adapter.buffer" in table:
        changes["buffer"] = values["adapter.buffer"]
    if pause := _thresholds(values, f"{where}.pause", "adapter.pause"):
        changes["pause"] = pause
    if known is not None:
        return replace(known, **changes)
    for name, attribute in (("rate", "rate_bps"), ("buffer", "buffer")):
        if attribute not in changes:
            key = HOST[f"adapter.{name}"]
            raise SpecError(where=f"{where}.{name}", needed=f"{key.kind.needed}: {key.doc}", got="nothing")
    return Adapter(**changes)


def _thresholds(
    values: Mapping[str, Any], where: str, prefix: str, on_output: bool = False
) -> Thresholds | None:
    high, low = values[f"{prefix}.high"], values[f"{prefix}.low"]
    if high is None and low is None:
        return None
    if high is None or low is None:
        lacking = "high" if high is None else "low"
        raise SpecError(where=f"{where}.{lacking}", needed=OCTETS.needed, got="nothing")
    if low > high:
        needed = f"at most high, {OCTETS.show(high)}"
        raise SpecError(where=f"{where}.low", needed=needed, got=OCTETS.show(low))
    return Thresholds(high_octets=high, low_octets=low, on_output=on_output)


def _switch(name: str, known: Switch | None, table: Table, values: Mapping[str, Any], where: str) -> Switch:
    switch = known or Switch(name=name, buffer=values["buffer"])
    changes = {"delay": "delay_ns", "buffer": "buffer", "memory": "memory", "partition": "partition"}
    switch = replace(switch, **{changes[key]: values[key] for key in changes if key in table})
    pause = _thresholds(values, f"{where}.pause", "pause", values["pause.on"] == "output")
    if pause is None and "pause.on" in table:
        raise SpecError(where=f"{where}.pause.high", needed=OCTETS.needed, got="nothing")
    return replace(switch, pause=pause) if pause else switch


def _add_links(
    links: dict[tuple[str, str], Link], table: Table, where: str, nodes: Mapping[str, Host | Switch]
) -> None:
    """Change the links that a table is about, or add them."""
    values = values_of(table, "link", where)
    a_names, b_names = (_ends(values[end], nodes, f"{where}.{end}") for end in ("a", "b"))
    if len(links) + len(a_names) * len(b_names) > 10 * MOST_HOSTS:
        raise SpecError(where=where, needed=f"at most {10 * MOST_HOSTS:,} links", got="more")
    for a in a_names:
        for b in b_names:
            if a == b:
                raise SpecError(where=f"{where}.b", needed="another node than a", got=shown(b))
            place = (b, a) if (b, a) in links else (a, b)
            link = links.get(place) or Link(a=a, b=b)
            if place == (b, a):
                link = _turned(link)
            link = _changed(link, table, values, where)
            links[place] = _turned(link) if place == (b, a) else link


def _ends(patterns: Sequence[str], nodes: Mapping[str, Host | Switch], where: str) -> list[str]:
    names = _nodes(patterns, nodes, where)
    for name in names:
        if name not in nodes:
            raise SpecError(
                where=where, needed="a host or a switch", got=shown(name), hint=did_you_mean(name, nodes)
            )
    return names


def _turned(link: Link) -> Link:
    """Return the same link, seen from its other end."""
    back_bps = link.rate_bps if link.rate_back_bps is None else link.rate_back_bps
    back_ns = link.propagation_ns if link.propagation_back_ns is None else link.propagation_back_ns
    same = back_bps == link.rate_bps and not (link.rate_changes or link.rate_changes_back)
    return Link(
        a=link.b,
        b=link.a,
        rate_bps=back_bps,
        rate_back_bps=None if same else link.rate_bps,
        propagation_ns=back_ns,
        propagation_back_ns=None if back_ns == link.propagation_ns else link.propagation_ns,
        rate_changes=link.rate_changes_back,
        rate_changes_back=link.rate_changes,
    )


def _check_rate(rate_bps: int, where: str) -> None:
    least, most = _RATES
    if not least <= rate_bps <= most:
        needed = f"{RATE.show(least)} to {RATE.show(most)}"
        raise SpecError(where=where, needed=needed, got=RATE.show(rate_bps))


def _changed(link: Link, table: Table, values: Mapping[str, Any], where: str) -> Link:
    changes: dict[str, Any] = {}
    for key, rate, rate_changes in (
        ("rate", "rate_bps", "rate_changes"),
        ("rate_back", "rate_back_bps", "rate_changes_back"),
    ):
        if key in table:
            _check_rate(values[key].rate_bps, f"{where}.{key}")
            changes[rate], changes[rate_changes] = values[key].rate_bps, values[key].changes
    if "rate" in table and values["rate"].changes and "rate_back" not in table and link.rate_back_bps is None:
        changes["rate_back_bps"] = link.rate_bps  # changes are of one direction alone
    for key, attribute in (("propagation", "propagation_ns"), ("propagation_back", "propagation_back_ns")):
        if key in table:
            changes[attribute] = values[key]
    return replace(link, **changes)


def _flows(document: Document, network: Network) -> tuple[Flow, ...]:
    """Return the flows of all tables; SpecError for names that are taken, and for hosts out of reach."""
    if not document.flow:
        raise SpecError(where="flow", needed="at least one table [[flow]]", got="none")
    hosts = [host.name for host in network.hosts]
    pieces = _pieces(network)
    found: dict[str, Flow] = {}
    for number, table in enumerate(document.flow):
        where = f"flow[{number}]"
        for flow in _flows_of(table, where, hosts):
            if flow.name in found:
                raise SpecError(
                    where=f"{where}.name", needed="a name that no other flow has", got=shown(flow.name)
                )
            if pieces[flow.source] != pieces[flow.destination]:
                got = f"no way from {flow.source} to {flow.destination}"
                raise SpecError(where=f"{where}.to", needed="hosts that can be reached", got=got)
            if len(found) >= MOST_FLOWS:
                raise SpecError(where=where, needed=f"at most {MOST_FLOWS:,} flows", got="more")
            found[flow.name] = flow
    groups = {flow.group for flow in found.values() if flow.group}
    if clash := groups & found.keys() - {name for name, flow in found.items() if flow.group == name}:
        raise SpecError(where="flow", needed="groups that are called as no flow is", got=shown(min(clash)))
    return tuple(found.values())


def _pieces(network: Network) -> dict[str, str]:
    """Return for each node one that stands for all that can be reached from it."""
    parent = {node: node for node in [*(h.name for h in network.hosts), *(s.name for s in network.switches)]}

    def top(node: str) -> str:
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    for link in network.links:
        parent[top(link.a)] = top(link.b)
    return {node: top(node) for node in parent}


def applicable(table: Table) -> frozenset[str]:
    """Return the keys that mean something in a flow's table, as far as its pattern is known."""
    try:
        pattern = Pattern(str(table.get("pattern", "")).strip().lower())
    except ValueError:
        return frozenset(FLOW)
    needed, others = _PATTERNS[pattern]
    keys = (frozenset(FLOW) - _OF_PATTERNS) | {*needed, *others}
    return keys | {"host_rate"} if "rate" in needed else keys


def _flows_of(table: Table, where: str, hosts: Sequence[str]) -> list[Flow]:
    """Return the flows of one table."""
    values = values_of(table, "flow", where)
    pattern = Pattern(values["pattern"])
    keys = applicable(table)
    for key in table:
        if key not in keys:
            raise SpecError(
                where=f"{where}.{key}", needed=f"no such key with pattern {pattern.value}", got=shown(key)
            )
    for key in _PATTERNS[pattern][0]:
        if key not in table and not (key == "rate" and "host_rate" in table):
            raise SpecError(
                where=f"{where}.{key}", needed=f"{FLOW[key].kind.needed}: {FLOW[key].doc}", got="nothing"
            )
    if "rate" in table and "host_rate" in table:
        raise SpecError(where=f"{where}.host_rate", needed="either rate or host_rate", got="both")
    if "shape" in table and values["times"] != "pareto":
        raise SpecError(
            where=f"{where}.shape", needed='times = "pareto", which alone has a shape', got=values["times"]
        )
    if values["stop"] is not None and values["stop"] <= values["start"]:
        raise SpecError(
            where=f"{where}.stop",
            needed=f"later than start, {TIME.show(values['start'])}",
            got=TIME.show(values["stop"]),
        )
    tcp = None
    if "connections" in keys and (pattern is not Pattern.SIZES or any(key in table for key in _TCP)):
        tcp = _tcp(values, where)
    pairs = _pairs(values, where, hosts)
    names = _names(values["name"], pairs, where)
    share = Counter(source for source, _ in pairs)
    shape = {"constant": -1.0, "exponential": 0.0, "pareto": values["shape"]}[values["times"]]
    several = values["name"] if values["name"] and len(pairs) > 1 and NAME.fullmatch(values["name"]) else ""
    base = Flow(
        name="",
        source="",
        destination="",
        pattern=pattern,
        priority=values["priority"],
        frame_octets=values["frame"],
        start_ns=values["start"],
        stop_ns=values["stop"],
        random_start=values["random_start"],
        on_ns=values["on"] or 0,
        off_ns=values["off"] or 0,
        shape=shape if pattern is Pattern.ON_OFF else 0.0,
        connections=values["connections"],
        tcp=tcp,
        request_octets=values["request"],
        response_octets=values["response"],
        idle_ns=values["idle"],
        sizes=_sizes(values["sizes"], f"{where}.sizes") if values["sizes"] else (),
        bursts=_bursts(values["bursts"] or (), f"{where}.bursts"),
        group=values["group"] or several,
        hops=values["hops"],
    )
    return [
        replace(
            base,
            name=name,
            source=source,
            destination=destination,
            rate_bps=values["rate"] or (values["host_rate"] or 0) // share[source],
        )
        for name, (source, destination) in zip(names, pairs, strict=True)
    ]


def _tcp(values: Mapping[str, Any], where: str) -> TCP:
    if values["tcp.rto_min"] > values["tcp.rto_max"]:
        needed = f"at most rto_max, {TIME.show(values['tcp.rto_max'])}"
        raise SpecError(where=f"{where}.tcp.rto_min", needed=needed, got=TIME.show(values["tcp.rto_min"]))
    return TCP(
        algorithm=values["tcp.algorithm"],
        window=values["tcp.window"],
        initial_window=values["tcp.initial_window"],
        rto_min_ns=values["tcp.rto_min"],
        rto_max_ns=values["tcp.rto_max"],
        delayed_ack=values["tcp.delayed_ack"],
        ack_octets=values["tcp.ack"],
        syn=values["tcp.syn"],
    )


def _pairs(values: Mapping[str, Any], where: str, hosts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the source and the destination of each flow of a table."""
    sources = _hosts(values["from"], hosts, f"{where}.from")
    everywhere = values["to"] in (("all others",), ("all",))
    destinations = list(hosts) if everywhere else _hosts(values["to"], hosts, f"{where}.to")
    if values["match"] == "one to one":
        if len(sources) != len(destinations):
            needed = f"as many as there are sources, {len(sources)}"
            raise SpecError(where=f"{where}.to", needed=needed, got=str(len(destinations)))
        pairs = list(zip(sources, destinations, strict=True))
    else:
        if len(sources) * len(destinations) > 2 * MOST_FLOWS:
            raise SpecError(where=where, needed=f"at most {MOST_FLOWS:,} flows", got="more")
        pairs = [(source, destination) for source in sources for destination in destinations]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    if not pairs:
        raise SpecError(where=f"{where}.to", needed="another host than the source", got="the source alone")
    return pairs


def _hosts(patterns: Sequence[str], hosts: Sequence[str], where: str) -> list[str]:
    known = dict.fromkeys(hosts)
    if not patterns:
        raise SpecError(where=where, needed=NAMES.needed, got="nothing")
    names = _nodes(patterns, known, where)
    for name in names:
        if name not in known:
            raise SpecError(where=where, needed="a host", got=shown(name), hint=did_you_mean(name, known))
    return names


def _names(name: str | None, pairs: Sequence[tuple[str, str]], where: str) -> list[str]:
    """Return the names of a table's flows."""
    if not name:
        return [f"{source}>{destination}" for source, destination in pairs]
    names = _range(name, f"{where}.name")
    if len(names) == 1 and len(pairs) > 1:
        names = [f"{name}{number}" for number in range(1, len(pairs) + 1)]
    if len(names) != len(pairs):
        raise SpecError(
            where=f"{where}.name", needed=f"one name, or {len(pairs)}, one for each flow", got=shown(name)
        )
    for each in names:
        if not NAME.fullmatch(each) or each in RESERVED or find_measurement(each):
            needed = WORD.needed + (", and that is no figure's" if NAME.fullmatch(each) else "")
            raise SpecError(where=f"{where}.name", needed=needed, got=shown(each))
    return names


def size_distributions() -> list[str]:
    """Return the names of the flow-size distributions that come with this package."""
    folder = resources.files("ecmproto.lab") / "sizes"
    return sorted(each.name.removesuffix(".csv") for each in folder.iterdir() if each.name.endswith(".csv"))


_MOST_SIZES = 10_000


def _sizes(text: str, where: str) -> tuple[tuple[int, float], ...]:
    """Return a distribution: one that comes with the package, a file of octets and shares, or pairs."""
    if NAME.fullmatch(text):
        if text not in size_distributions():
            hint = did_you_mean(text, size_distributions())
            raise SpecError(where=where, needed="a distribution of flow sizes", got=shown(text), hint=hint)
        content = (resources.files("ecmproto.lab") / "sizes" / f"{text}.csv").read_text()
    elif text.endswith(".csv"):
        try:
            content = Path(text).read_text()
        except (OSError, ValueError) as error:
            raise SpecError(where=where, needed="a file that can be read", got=str(error)) from None
    else:
        content = "\n".join(part.replace(":", ",") for part in text.split(","))
    pairs: list[tuple[int, float]] = []
    lines = (line for line in content.splitlines() if line.strip() and not line.startswith(("#", "octets")))
    for row in csv.reader(lines):
        if len(row) != 2 or len(pairs) >= _MOST_SIZES:
            raise SpecError(
                where=where, needed="lines of a size and a share, as 10kB,0.5", got=shown(",".join(row)[:60])
            )
        octets = read_value(
            OCTETS, row[0] if not row[0].strip().isdigit() else f"{row[0]}B", where, (1, 10**12)
        )
        share = read_value(NUMBER, row[1], where, (0, 1))
        if pairs and (octets < pairs[-1][0] or share < pairs[-1][1]):
            raise SpecError(where=where, needed="sizes and shares that rise", got=shown(",".join(row)))
        pairs.append((octets, share))
    if not pairs or pairs[-1][1] != 1:
        raise SpecError(
            where=where, needed="shares that rise to 1", got=str(pairs[-1][1]) if pairs else "none"
        )
    return tuple(pairs)


def _bursts(parts: Sequence[str], where: str) -> tuple[tuple[int, int], ...]:
    bursts: list[tuple[int, int]] = []
    for part in parts:
        time, _, size = part.partition(" ")
        burst = read_value(TIME, time, where, _NS), read_value(OCTETS, size, where, (1, 10**12))
        if bursts and burst[0] < bursts[-1][0]:
            raise SpecError(where=where, needed="bursts in the order of their times", got=shown(part))
        bursts.append(burst)
    return tuple(bursts)


def mechanism_of(document: Document) -> Mechanism:
    """Return the mechanism of a document; SpecError for an unknown one."""
    name = values_of(_only(document.control, "control"), "control", "control")["mechanism"]
    try:
        return find_mechanism(name)
    except ParameterError as error:
        hint = did_you_mean(name, mechanism_names())
        where = "control.mechanism"
        raise SpecError(where=where, needed=error.needed, got=shown(name), hint=hint) from None


def _only(table: Table, section: str) -> Table:
    """Return a table without the parameters of mechanisms in it."""
    return {key: value for key, value in table.items() if key in SECTIONS[section]}


def parameters_of(table: Table) -> Table:
    """Return the parameters of mechanisms in a table."""
    return {key: value for key, value in table.items() if key.partition(".")[0] in ROLES and "." in key}


def described(mechanism: Mechanism) -> dict[str, Parameter]:
    """Return a mechanism's parameters by their paths, ``rp.ru``."""
    return {
        f"{role.value}.{parameter.name}": parameter
        for role, part in mechanism.roles.items()
        for parameter in part.describe()
    }


def assignments_of(mechanism: Mechanism, table: Table, where: str) -> tuple[str, ...]:
    """Return assignments, ``rp.ru=4Mb/s``, of a table of parameters; SpecError for wrong ones."""
    known = described(mechanism)
    attributes = {f"{path.partition('.')[0]}.{each.attribute}": path for path, each in known.items()}
    found = []
    for key, value in table.items():
        path = attributes.get(key, key)
        if path not in known:
            hint = did_you_mean(key, known) if known else f"{mechanism.name} has none"
            raise SpecError(
                where=f"{where}.{key}", needed=f"a parameter of {mechanism.name}", got=shown(key), hint=hint
            )
        if not isinstance(value, (str, int, float)):
            needed = UNITS[known[path].unit].needed
            raise SpecError(where=f"{where}.{key}", needed=needed, got=shown(value))
        text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
        if known[path].unit == "octets":
            text = _in_octets(text, f"{where}.{key}")
        found.append(f"{path}={text}")
    try:
        mechanism.parse(found)
    except ParameterError as error:
        set_paths = [each.partition("=")[0] for each in found]
        paths = [path for path in (*set_paths, *known) if path.partition(".")[2] == error.name]
        path = paths[0] if paths else error.name
        raise SpecError(where=f"{where}.{path}", needed=error.needed, got=error.got) from None
    return tuple(found)


def _in_octets(text: str, where: str) -> str:
    """Return a size given in frames as octets; others as they are, for the mechanism to judge."""
    if not text.strip().endswith(("frame", "frames")):
        return text
    return OCTETS.show(read_value(OCTETS, text, where)).replace(" ", "")


def _control(document: Document, mechanism: Mechanism, network: Network) -> Control:
    values = values_of(_only(document.control, "control"), "control", "control")
    for name, table in document.mechanisms.items():
        try:
            other = find_mechanism(name)
        except ParameterError as error:
            hint = did_you_mean(name, mechanism_names())
            raise SpecError(
                where=f"mechanisms.{name}", needed=error.needed, got=shown(name), hint=hint
            ) from None
        assignments_of(other, table, f"mechanisms.{name}")
    if values["flow_control"] != "none" and mechanism.name in ("pause", "pfc"):
        needed = f"none: the mechanism is {mechanism.name} already"
        raise SpecError(where="control.flow_control", needed=needed, got=shown(values["flow_control"]))
    points = values["points"] or ()
    known = [switch.name for switch in network.switches]
    for point in points:
        if point not in known and point not in ports_of(network):
            hint = did_you_mean(point, [*known, *ports_of(network)])
            raise SpecError(
                where="control.points",
                needed="a switch, or a port as switch>peer",
                got=shown(point),
                hint=hint,
            )
    return Control(
        mechanism=mechanism.name,
        parameters=assignments_of(mechanism, parameters_of(document.control), "control"),
        flow_control=None if values["flow_control"] == "none" else values["flow_control"],
        in_band=values["in_band"],
        message_priority=values["message_priority"],
        message_delay_ns=values["message_delay"],
        points=tuple(points),
        hops=values["hops"],
    )


def ports_of(network: Network) -> list[str]:
    """Return the names of all ports, ``node>peer`` and ``host>adapter``."""
    links = [port for link in network.links for port in (f"{link.a}>{link.b}", f"{link.b}>{link.a}")]
    return links + [f"{host.name}>adapter" for host in network.hosts if host.adapter]


_MEASURE_FROM_NS = 100_000_000


def _measure(document: Document, duration_ns: int, network: Network) -> Measure:
    values = values_of(document.measure, "measure", "measure")
    begin_ns, end_ns = values["from"], values["until"]
    if begin_ns is None:
        begin_ns = _MEASURE_FROM_NS if duration_ns > _MEASURE_FROM_NS else duration_ns // 2
    if begin_ns >= duration_ns:
        needed = f"before the end, {TIME.show(duration_ns)}"
        raise SpecError(where="measure.from", needed=needed, got=TIME.show(begin_ns))
    if end_ns is not None and not begin_ns < end_ns <= duration_ns:
        needed = f"{TIME.show(begin_ns)} to {TIME.show(duration_ns)}"
        raise SpecError(where="measure.until", needed=needed, got=TIME.show(end_ns))
    ports = ports_of(network)
    if values["port"] and values["port"] not in ports:
        hint = did_you_mean(values["port"], ports)
        raise SpecError(
            where="measure.port", needed="a port, as switch>peer", got=shown(values["port"]), hint=hint
        )
    return Measure(from_ns=begin_ns, until_ns=end_ns, window_ns=values["window"], port=values["port"])


def bands_of(
    tables: Sequence[Table], where: str, experiment: Experiment, runs: Iterable[str]
) -> tuple[Band, ...]:
    """Return the bands of tables; SpecError for figures that this experiment does not have."""
    bands = []
    for number, table in enumerate(tables):
        place = f"{where}[{number}]"
        values = values_of(table, "band", place)
        dimension = _checked_figure(values["figure"], f"{place}.figure", experiment, runs)
        limits: dict[str, float] = {}
        for name in ("low", "high"):
            if name in table:
                try:
                    limits[name] = parse_value(values[name], dimension)
                except ParameterError as error:
                    got = shown(table[name])
                    raise SpecError(where=f"{place}.{name}", needed=error.needed, got=got) from None
        if not limits:
            raise SpecError(where=place, needed="low, high, or both", got="neither")
        if limits.get("low", 0) > limits.get("high", limits.get("low", 0)):
            raise SpecError(where=f"{place}.high", needed="at least low", got=shown(table["high"]))
        bands.append(
            Band(
                figure=values["figure"],
                low=limits.get("low"),
                high=limits.get("high"),
                source=values["source"],
                median_of=values["median_of"],
                note=values["note"],
            )
        )
    return tuple(bands)


def published_of(
    tables: Sequence[Table], where: str, experiment: Experiment, runs: Iterable[str]
) -> tuple[Published, ...]:
    """Return the published figures of tables; SpecError as `bands_of`."""
    found = []
    for number, table in enumerate(tables):
        place = f"{where}[{number}]"
        values = values_of(table, "published", place)
        _checked_figure(values["figure"], f"{place}.figure", experiment, runs)
        found.append(Published(figure=values["figure"], value=values["value"], source=values["source"]))
    return tuple(found)


def _checked_figure(text: str, where: str, experiment: Experiment, runs: Iterable[str]) -> Dimension:
    """Return the unit of a figure whose flows, ports and other runs there are."""
    try:
        figure = parse_figure(text)
        flows = {flow.name: flow.group for flow in experiment.flows}
        ports = ports_of(experiment.network)
        for name, subjects in figure.readings:
            measurement = find_measurement(name)
            if measurement is not None and measurement.of == "flow":
                expand_flows(subjects, flows)
            elif subjects:
                expand_ports(subjects, ports)
    except SpecError as error:
        place = "" if error.where == "figure" else f" ({error.where})"
        raise SpecError(where=where + place, needed=error.needed, got=error.got, hint=error.hint) from None
    for run in figure.runs:
        if run not in runs:
            hint = did_you_mean(run, runs)
            raise SpecError(
                where=where, needed="a variant or a mechanism behind @", got=shown(run), hint=hint
            )
    return figure.dimension
