"""The tables of a scenario: their keys, the meaning of each, and the reader of a file into them.

A document is stored as written, in flat tables (``tcp.window`` is one key), so that a command line can set
any of its values before `ecmproto.control.lab.setup.build` makes an experiment of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ecmproto.control.engine.config import PortRate
from ecmproto.control.lab.model import (
    LINK_RATE_BPS,
    PATHS,
    TCP,
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
)
from ecmproto.control.lab.setup.topology import DEFAULT_BUFFER
from ecmproto.control.lab.setup.values import (
    BUFFER,
    COUNT,
    COUNTS,
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
    check_known,
    choice,
    did_you_mean,
    read_value,
)
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.registry import MECHANISMS
from ecmproto.errors import SpecError, shown

Table = dict[str, Any]
"""A flat table as written: ``{"name": "bulk", "tcp.window": 44}``."""

MAX_TABLES = 10_000
LONGEST_NS = 10**15
"""Eleven days, in ns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of a table: its type of value, and its meaning.

    ``default`` is the value without the key, ``None`` if that follows from others.
    """

    kind: Kind
    doc: str
    default: Any = None
    within: tuple[float, float] | None = None
    required: bool = False
    owner: type | None = None
    attribute: str = ""
    """The field of ``owner``, a class of the model, that has the value as it is."""


def _of(owner: type, attribute: str, kind: Kind, doc: str, within: tuple[float, float] | None = None) -> Key:
    """Return the key of a field, with its default; one without a default is required."""
    (default,) = (each.default for each in dataclasses.fields(owner) if each.name == attribute)
    required = default is dataclasses.MISSING
    return Key(
        kind=kind, doc=doc, within=within, default=None if required else default, required=required,
        owner=owner, attribute=attribute,
    )  # fmt: skip


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


NAMES = Kind(
    needed='names, as "h1", "h1..h4", "h*" or a list of these', read=_listed, show=", ".join, plain=(list,)
)
ANY = Kind(needed="a value", read=str, show=str, plain=(int, float))


TIMES_NS = (0, LONGEST_NS)
_PORT_OCTETS = (1, 10**9)
RATES_BPS = (1_000, 10**13)
_FRAME = (60, 9_216)

SCENARIO: Mapping[str, Key] = {
    "name": _of(Experiment, "name", WORD, "name of the scenario"),
    "title": _of(Experiment, "title", TEXT, "subject of the scenario, in a line"),
    "source": _of(Experiment, "source", TEXT, "source document"),
    "duration": _of(Experiment, "duration_ns", TIME, "simulated time", (1_000, LONGEST_NS)),
    "seed": Key(kind=COUNT, doc="seed of all random numbers", default=1, within=(0, 2**63 - 1)),
    "topology": Key(kind=TEXT, doc="the network in one line, as fat-tree k=4", default=""),
    "paths": _of(
        Network,
        "paths",
        choice(*PATHS),
        "selection among paths of equal length: by a hash of flow and switch, frame by frame in turn, or by "
        "a hash of flowlet and switch",
    ),
    "flowlet_gap": _of(
        Network,
        "flowlet_gap_ns",
        TIME,
        "gap after which a flow may take another path, with flowlets",
        TIMES_NS,
    ),
    "overhead": _of(
        Experiment,
        "overhead_octets",
        OCTETS,
        "overhead of a frame on a link, besides its own octets",
        (0, 1_000),
    ),
}

HOST: Mapping[str, Key] = {
    "name": Key(
        kind=NAMES, doc="name of the host, or of several, as h1..h4; new, or in the topology", required=True
    ),
    "delay": _of(Host, "delay_ns", TIME, "delay from a frame's arrival to its processing", TIMES_NS),
    "reaction_delay": _of(
        Host,
        "reaction_delay_ns",
        TIME,
        "delay from a message's arrival to the reaction point's action",
        TIMES_NS,
    ),
    "queue": _of(Host, "queue_octets", OCTETS, "capacity of each flow's queue in the NIC", _PORT_OCTETS),
    "storm": Key(
        kind=NAMES,
        doc='times in which the host is broken and stops its link by PAUSE or PFC, as ["5ms..80ms"]',
    ),
    "adapter.rate": Key(kind=RATE_CHANGES, doc="rate at which the host empties its receive buffer"),
    "adapter.buffer": Key(kind=BUFFER, doc="capacity of the receive buffer"),
    "adapter.pause.high": Key(
        kind=OCTETS, doc="occupancy above which the adapter stops the switch", within=_PORT_OCTETS
    ),
    "adapter.pause.low": Key(kind=OCTETS, doc="occupancy at which the switch may resume", within=(0, 10**9)),
}

SWITCH: Mapping[str, Key] = {
    "name": Key(
        kind=NAMES, doc="name of the switch, or of several, as e* of the topology; or new", required=True
    ),
    "delay": _of(Switch, "delay_ns", TIME, "delay from a frame's arrival to its output queue", TIMES_NS),
    "buffer": Key(kind=BUFFER, doc="capacity of each output port", default=DEFAULT_BUFFER),
    "memory": _of(Switch, "memory", BUFFER, "memory that the ports share; default, the sum of their buffers"),
    "partition": _of(Switch, "partition", BUFFER, "capacity for frames of one input; default, no limit"),
    "pause.high": Key(
        kind=OCTETS,
        doc="occupancy above which the switch sends PAUSE or PFC, with flow control",
        within=_PORT_OCTETS,
    ),
    "pause.low": Key(kind=OCTETS, doc="occupancy at which the switch sends XON", within=(0, 10**9)),
    "pause.on": Key(
        kind=choice("input", "output"),
        doc="whether thresholds apply to one input's frames or to an output queue; by default, input "
        "thresholds "
        "leave the headroom free, and output ones are two thirds and one third of the buffer",
        default="input",
    ),
    "pause.alpha": Key(
        kind=NUMBER,
        doc="dynamic thresholds: an input's XOFF is this share of the memory that is free, without the "
        "headroom of all inputs; default, static thresholds",
        within=(1 / 128, 128),
    ),
    "pause.watchdog": Key(
        kind=TIME,
        doc="time after which a port serves a stopped priority with waiting frames nevertheless, until "
        "the stop ends; default, never",
        within=(1_000, LONGEST_NS),
    ),
    "pause.watchdog_action": Key(
        kind=choice("drop", "forward"),
        doc="whether the watchdog drops or sends the frames of a stopped priority",
        default="drop",
    ),
    "pause.priorities": Key(
        kind=COUNTS,
        doc="priorities for which the switch sends PFC, as 3,4; default, the flow control's",
    ),
}

LINK: Mapping[str, Key] = {
    "a": Key(kind=NAMES, doc="node at one end, or several, as h1..h4", required=True),
    "b": Key(kind=NAMES, doc="node at the other end, or several", required=True),
    "rate": Key(
        kind=RATE_CHANGES,
        doc="rate from a to b, and its changes, as 10G,1G@10ms,10G@90ms",
        default=PortRate(LINK_RATE_BPS, ()),
    ),
    "rate_back": Key(kind=RATE_CHANGES, doc="rate from b to a; default, as from a to b"),
    "propagation": _of(Link, "propagation_ns", TIME, "propagation delay from a to b", TIMES_NS),
    "propagation_back": _of(
        Link, "propagation_back_ns", TIME, "propagation delay from b to a; default, as from a to b", TIMES_NS
    ),
    "loss": _of(Link, "loss", NUMBER, "probability that a frame is lost, in each direction", (0, 1)),
    "down": Key(
        kind=NAMES,
        doc='times in which the link is down, as ["5ms..8ms"]: frames on it are lost, routes avoid it',
    ),
}


FLOW: Mapping[str, Key] = {
    "name": Key(kind=TEXT, doc="name; for several flows one each, as r1..r4, or a prefix of their numbers"),
    "from": Key(kind=NAMES, doc="sending host, or several", required=True),
    "to": Key(kind=NAMES, doc="receiving host, several, or all others", required=True),
    "match": Key(
        kind=choice("all", "one to one"),
        doc="whether each source sends to all receivers, or the n-th to the n-th",
        default="all",
    ),
    "pattern": Key(
        kind=choice(*(each.value for each in Pattern)),
        doc="times at which there are frames to send",
        required=True,
    ),
    "priority": _of(Flow, "priority", COUNT, "priority of the frames", (0, 7)),
    "frame": _of(Flow, "frame_octets", OCTETS, "length of the frames", _FRAME),
    "rate": Key(kind=RATE, doc="offered rate; for on-off, while it is on", within=RATES_BPS),
    "host_rate": Key(
        kind=RATE, doc="total rate of the flows from one host, instead of rate", within=RATES_BPS
    ),
    "start": _of(Flow, "start_ns", TIME, "start time", TIMES_NS),
    "stop": _of(Flow, "stop_ns", TIME, "end time; default, never", TIMES_NS),
    "random_start": _of(
        Flow, "random_start", FLAG, "whether the first frame comes at a random time of its period"
    ),
    "on": Key(kind=TIME, doc="mean time on", within=(1, LONGEST_NS)),
    "off": Key(kind=TIME, doc="mean time off", within=TIMES_NS),
    "times": Key(
        kind=choice("constant", "exponential", "pareto"),
        doc="distribution of times on and off",
        default="exponential",
    ),
    "shape": Key(kind=NUMBER, doc="shape of the Pareto distribution", within=(1.01, 100), default=1.5),
    "backlog": Key(
        kind=OCTETS,
        doc="octets of the flow that may wait in its host, beyond which the source drops frames; default, as "
        "many as the NIC's queue takes",
        within=(1, 10**9),
    ),
    "connections": _of(Flow, "connections", COUNT, "number of concurrent TCP connections", (1, 10_000)),
    "tcp.algorithm": _of(
        TCP, "algorithm", choice("reno", "newreno", "cubic", "dctcp"), "congestion control of TCP"
    ),
    "tcp.window": _of(TCP, "window", COUNT, "maximum number of segments in flight", (1, 100_000)),
    "tcp.initial_window": _of(TCP, "initial_window", COUNT, "initial window in segments", (1, 100_000)),
    "tcp.rto_min": _of(TCP, "rto_min_ns", TIME, "minimum retransmission time-out", (1_000, 10**12)),
    "tcp.rto_max": _of(TCP, "rto_max_ns", TIME, "maximum retransmission time-out", (1_000, 10**12)),
    "tcp.delayed_ack": _of(TCP, "delayed_ack", FLAG, "whether every second segment is acknowledged"),
    "tcp.ack": _of(TCP, "ack_octets", OCTETS, "length of an acknowledgement's frame", _FRAME),
    "tcp.syn": _of(TCP, "syn", FLAG, "whether each connection, or transaction, begins with a handshake"),
    "tcp.sack": _of(TCP, "sack", FLAG, "whether acknowledgements are selective"),
    "tcp.ecn": _of(TCP, "ecn", FLAG, "whether ports may mark segments (ECN), as always with dctcp"),
    "request": _of(
        Flow,
        "request_octets",
        OCTETS,
        "length of the request of `to`; 0: the source sends without requests",
        (0, 9_216),
    ),
    "response": _of(
        Flow, "response_octets", OCTETS, "length of the response, which the source sends", (1, 10**12)
    ),
    "idle": _of(Flow, "idle_ns", TIME, "mean of the exponential idle time between transactions", TIMES_NS),
    "sizes": Key(
        kind=TEXT, doc="distribution of flow sizes: websearch, datamining, a file.csv, or 1kB:0.5, 1MB:1"
    ),
    "bursts": Key(kind=NAMES, doc='bursts at times, as ["0ms 100kB", "5ms 1MB"]'),
    "list": Key(
        kind=TEXT,
        doc="file.csv of flows, a line each: time, source, destination, octets; those between the hosts of "
        "`from` and `to`",
    ),
    "octets": Key(kind=OCTETS, doc="length of each host's data in a collective", within=(1, 10**12)),
    "algorithm": Key(kind=choice("ring", "tree"), doc="path of the data in a collective", default="ring"),
    "chunks": Key(
        kind=COUNT, doc="number of parts in which a tree passes its data on", within=(1, 10_000), default=1
    ),
    "capture": Key(
        kind=TEXT, doc="capture file, whose frames are offered at their times, with their lengths"
    ),
    "capture_source": _of(
        Flow,
        "capture_source",
        TEXT,
        "source MAC address of the offered frames, as 02:00:00:00:00:01; default, all",
    ),
    "capture_outer": _of(
        Flow, "capture_outer", FLAG, "whether frames are offered in the wrappers of mirrors and tunnels"
    ),
    "group": Key(kind=WORD, doc="group in tables; default, the common name of several flows", default=""),
    "hops": _of(
        Flow,
        "hops",
        COUNT,
        "number of congestion points on the path, if flows differ; 0: control.hops",
        (0, 255),
    ),
    "via": Key(
        kind=NAMES, doc="switches of an explicit path, from the first to the last; default, a shortest path"
    ),
}

TCP_KEYS = tuple(key for key in FLOW if key.startswith("tcp."))
PATTERN_KEYS: Mapping[Pattern, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Pattern.SATURATING: ((), ()),
    Pattern.CBR: (("rate",), ("random_start", "backlog")),
    Pattern.BERNOULLI: (("rate",), ("backlog",)),
    Pattern.POISSON: (("rate",), ("backlog",)),
    Pattern.ON_OFF: (("rate", "on", "off"), ("times", "shape", "random_start", "backlog")),
    Pattern.TCP: ((), ("connections", *TCP_KEYS)),
    Pattern.TRANSACTIONS: ((), ("connections", *TCP_KEYS, "request", "response", "idle")),
    Pattern.SIZES: (("rate", "sizes"), ("connections", *TCP_KEYS)),
    Pattern.SCHEDULE: ((), ("bursts", "list")),
    Pattern.ALL_REDUCE: (("octets",), ("algorithm", "chunks")),
    Pattern.CAPTURE: (("capture",), ("capture_source", "capture_outer")),
}
"""The required and the optional keys of each pattern."""
_OF_PATTERNS = frozenset(key for keys in PATTERN_KEYS.values() for each in keys for key in each) | {
    "host_rate"
}

CONTROL: Mapping[str, Key] = {
    "mechanism": Key(
        kind=TEXT, doc=f"mechanism: one of {', '.join(each.name for each in MECHANISMS)}", default="none"
    ),
    "flow_control": Key(
        kind=choice("none", "pause", "pfc"),
        doc="flow control of links, besides the mechanism",
        default="none",
    ),
    "in_band": _of(Control, "in_band", FLAG, "whether messages are frames that queue on their path"),
    "message_priority": _of(Control, "message_priority", COUNT, "priority of messages in band", (0, 7)),
    "message_delay": _of(
        Control,
        "message_delay_ns",
        TIME,
        "delay of a message out of band; default, the delays of links and nodes",
        TIMES_NS,
    ),
    "points": Key(kind=NAMES, doc="switches, or ports as switch>peer, with congestion points; default, all"),
    "hops": _of(Control, "hops", COUNT, "number of congestion points on a flow's path", (1, 255)),
}

MEASURE: Mapping[str, Key] = {
    "from": Key(
        kind=TIME,
        doc="start of the measured time; default, 100 ms, or half of a shorter run",
        within=TIMES_NS,
    ),
    "until": _of(
        Measure, "until_ns", TIME, "end of the measured time; default, the end of the run", TIMES_NS
    ),
    "window": _of(Measure, "window_ns", TIME, "length of the windows of time series", (1_000, LONGEST_NS)),
    "port": _of(Measure, "port", TEXT, "port of queue figures; default, the fullest on average"),
}

BAND: Mapping[str, Key] = {
    "figure": _of(Band, "figure", TEXT, "expression, as queue.mean[50ms..90ms]"),
    "low": Key(kind=ANY, doc="lower limit, with its unit"),
    "high": Key(kind=ANY, doc="upper limit, with its unit"),
    "source": _of(Band, "source", TEXT, "source of the requirement"),
    "median_of": _of(Band, "median_of", COUNT, "number of seeds of which the median is checked", (1, 1000)),
    "note": _of(Band, "note", TEXT, "restriction of the band"),
}
PUBLISHED: Mapping[str, Key] = {
    "figure": _of(Published, "figure", TEXT, "expression"),
    "value": _of(Published, "value", TEXT, "value that the document prints"),
    "source": _of(Published, "source", TEXT, "place in the document"),
    "note": _of(Published, "note", TEXT, "reason for a different value here"),
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
"""The tables of a scenario, besides ``mechanisms``, ``sources`` and ``variants``."""
LISTS = ("host", "switch", "link", "flow", "band", "published")
"""The tables that may be repeated."""
ROLES = tuple(role.value for role in Role)


@dataclass(slots=True, kw_only=True)
class Document:
    """The contents of a scenario, as written."""

    scenario: Table = field(default_factory=dict)
    host: list[Table] = field(default_factory=list)
    switch: list[Table] = field(default_factory=list)
    link: list[Table] = field(default_factory=list)
    flow: list[Table] = field(default_factory=list)
    control: Table = field(default_factory=dict)
    """The table ``control``, with the parameters of the mechanism, ``rp.ru``."""
    measure: Table = field(default_factory=dict)
    band: list[Table] = field(default_factory=list)
    published: list[Table] = field(default_factory=list)
    mechanisms: dict[str, Table] = field(default_factory=dict)
    """Parameters of other mechanisms, for runs with one of them instead."""
    sources: Table = field(default_factory=dict)
    """The sources of values, by their paths."""
    variants: dict[str, Variant] = field(default_factory=dict)
    folder: str = ""
    """The folder of relative file names."""
    outside: bool = True
    """Whether files may be outside of the folder, and names be URLs."""

    def table(self, section: str) -> Any:
        """Return a table, or a list of tables, by its name."""
        return getattr(self, section)


@dataclass(slots=True, kw_only=True)
class Variant:
    """The contents of a variant of a scenario."""

    title: str
    set: Table = field(default_factory=dict)
    """Paths and values, as a command line sets them."""
    band: list[Table] = field(default_factory=list)
    published: list[Table] = field(default_factory=list)


def read_tables(tree: Mapping[str, Any]) -> Document:
    """Return the document of a TOML file; SpecError for unknown keys, and for anything but a table."""
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
            check_known(section, known, "a table of a scenario", section)
    return document


def _table(content: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(content, dict):
        raise SpecError(where=where, needed=f"a table, [{where}]", got=shown(content))
    return content


def _tables(content: Any, section: str, where: str = "") -> list[Table]:
    where = where or section
    if not isinstance(content, list):
        raise SpecError(where=where, needed=f"tables, [[{where}]]", got=shown(content))
    if len(content) > MAX_TABLES:
        raise SpecError(where=where, needed=f"at most {MAX_TABLES:,} tables", got=f"{len(content):,}")
    return [_flat(each, section, f"{where}[{number}]") for number, each in enumerate(content)]


def _variant(content: Any, where: str) -> Variant:
    fields: dict[str, Any] = {"title": ""}
    if not NAME.fullmatch(f"v{where.partition('.')[2]}"):
        raise SpecError(where=where, needed="a name of letters, digits, - and _", got=shown(where))
    for key, value in _table(content, where).items():
        path = f"{where}.{key}"
        if key == "title":
            fields[key] = read_value(TEXT, value, path)
        elif key == "set":
            fields[key] = dict(_table(value, path))
        elif key in ("band", "published"):
            fields[key] = _tables(value, key, path)
        else:
            check_known(key, ("title", "set", "band", "published"), "a key of a variant", path)
    return Variant(**fields)


def _flat(content: Any, section: str, where: str) -> Table:
    """Return a table with the keys of its inner tables joined by dots; SpecError for unknown ones."""
    keys = SECTIONS.get(section, {})
    result: Table = {}

    def add(table: Mapping[str, Any], prefix: str, depth: int) -> None:
        for name, value in table.items():
            key = prefix + name
            if isinstance(value, dict) and depth < 2:
                add(value, f"{key}.", depth + 1)
            else:
                check_key(section, key, where)
                if isinstance(value, list) and keys.get(key, _PLAIN).kind is NAMES:
                    value = ", ".join(_text_of(each, f"{where}.{key}") for each in value)
                result[key] = value

    add(_table(content, where), "", 0)
    return result


_PLAIN = Key(kind=TEXT, doc="")


def _text_of(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise SpecError(where=where, needed="texts in quotes", got=shown(value))
    return value


def check_key(section: str, key: str, where: str) -> None:
    """Raise SpecError for an unknown key of a table; parameters of mechanisms are checked later."""
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
    """Return the values of all keys of a table, with defaults for missing ones.

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


def fields_of(
    owner: type, section: str, values: Mapping[str, Any], given: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the fields of ``owner`` by the values of a table: of all its keys, or of those ``given``."""
    return {
        key.attribute: values[name]
        for name, key in SECTIONS[section].items()
        if key.owner is owner and (given is None or name in given)
    }


def applicable(table: Table) -> frozenset[str]:
    """Return the keys that apply to a flow's table, as far as its pattern is known."""
    try:
        pattern = Pattern(str(table.get("pattern", "")).strip().lower())
    except ValueError:
        return frozenset(FLOW)
    needed, others = PATTERN_KEYS[pattern]
    keys = (frozenset(FLOW) - _OF_PATTERNS) | {*needed, *others}
    return keys | {"host_rate"} if "rate" in needed else keys
