"""Tables of a scenario: their keys, the meaning of each key, and the reader that converts a file into tables.

A document is stored as written, in flat tables: ``tcp.window`` is one key. A command line can therefore set
any value before `ecmproto.control.lab.setup.build` builds an experiment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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
    LONGEST_NS,
    NAME,
    NUMBER,
    OCTETS,
    RATE,
    RATE_CHANGES,
    RATES_BPS,
    TEXT,
    TIME,
    TIMES_NS,
    WORD,
    Key,
    Kind,
    check_known,
    choice,
    key_of,
    read_value,
)
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.registry import MECHANISMS
from ecmproto.errors import SpecError, hint_on_name, shown

Table = dict[str, Any]
"""Flat table as written: ``{"name": "bulk", "tcp.window": 44}``."""

MAX_TABLES = 10_000


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


NAMES = Kind(
    needed='names, such as "h1", "h1..h4", "h*", or a list of names',
    read=_listed,
    show=", ".join,
    plain=(list,),
)
LIST = dataclasses.replace(NAMES, needed="a list of texts in quotes")
ANY = Kind(needed="a value", read=str, show=str, plain=(int, float))


_PORT_OCTETS = (1, 10**9)
_FRAME = (60, 9_216)

SCENARIO: Mapping[str, Key] = {
    "name": key_of(Experiment, "name", "name of the scenario", kind=WORD),
    "title": key_of(Experiment, "title", "subject of the scenario, in one line"),
    "source": key_of(Experiment, "source", "source document"),
    "duration": key_of(Experiment, "duration_ns", "simulated time", (1_000, LONGEST_NS)),
    "seed": Key(kind=COUNT, doc="seed of all random numbers", default=1, within=(0, 2**63 - 1)),
    "topology": Key(kind=TEXT, doc="network in one line, such as fat-tree k=4", default=""),
    "paths": key_of(
        Network,
        "paths",
        "selection among equally short paths: ecmp by a hash of flow and switch, spray frame by frame in "
        "turn, flowlet by a hash of flowlet and switch",
        kind=choice(*PATHS),
    ),
    "flowlet_gap": key_of(
        Network,
        "flowlet_gap_ns",
        "gap after which a flow may change its path (paths = flowlet)",
        needs=("paths", "flowlet"),
    ),
    "overhead": key_of(
        Experiment,
        "overhead_octets",
        "octets that each frame takes on a link in addition to its own",
        (0, 1_000),
    ),
}

HOST: Mapping[str, Key] = {
    "name": Key(
        kind=NAMES,
        doc="name of one or several hosts, such as h1..h4, new or from the topology",
        required=True,
    ),
    "delay": key_of(Host, "delay_ns", "delay from a frame's arrival to its processing"),
    "reaction_delay": key_of(
        Host, "reaction_delay_ns", "delay from a message's arrival to the reaction point's action"
    ),
    "queue": key_of(Host, "queue_octets", "capacity of each flow's queue in the NIC", _PORT_OCTETS),
    "storm": Key(
        kind=LIST,
        doc="intervals in which the host is faulty and pauses its link by PAUSE or PFC, such as "
        '["5ms..80ms"]',
    ),
    "adapter.rate": Key(kind=RATE_CHANGES, doc="rate at which the host empties its receive buffer"),
    "adapter.buffer": Key(kind=BUFFER, doc="capacity of the receive buffer"),
    "adapter.pause.high": Key(
        kind=OCTETS, doc="occupancy above which the adapter sends PAUSE to the switch", within=_PORT_OCTETS
    ),
    "adapter.pause.low": Key(
        kind=OCTETS, doc="occupancy at which the adapter lets the switch resume", within=(0, 10**9)
    ),
}

SWITCH: Mapping[str, Key] = {
    "name": Key(
        kind=NAMES, doc="name of one or several switches, new or from the topology, such as e*", required=True
    ),
    "delay": key_of(Switch, "delay_ns", "delay from a frame's arrival to its output queue"),
    "buffer": Key(kind=BUFFER, doc="capacity of each output port", default=DEFAULT_BUFFER),
    "memory": key_of(Switch, "memory", "memory that all ports share; default, the sum of the ports' buffers"),
    "partition": key_of(Switch, "partition", "capacity for frames of one input; default, no limit"),
    "pause.high": Key(
        kind=OCTETS,
        doc="occupancy above which the switch sends PAUSE or PFC, if flow control is on",
        within=_PORT_OCTETS,
    ),
    "pause.low": Key(kind=OCTETS, doc="occupancy at which the switch sends XON", within=(0, 10**9)),
    "pause.on": Key(
        kind=choice("input", "output"),
        doc="whether thresholds apply to the frames of an input or to an output queue. By default, the "
        "thresholds of an input leave room for the headroom; the thresholds of an output are two thirds "
        "and one third of the buffer",
        default="input",
    ),
    "pause.alpha": Key(
        kind=NUMBER,
        doc="dynamic thresholds: an input's XOFF is alpha times the free memory, not counting the "
        "headroom of all inputs; default, static thresholds",
        within=(1 / 128, 128),
    ),
    "pause.watchdog": Key(
        kind=TIME,
        doc="time after which the watchdog acts on a paused priority with waiting frames, until the "
        "pause ends; default, never",
        within=(1_000, LONGEST_NS),
    ),
    "pause.watchdog_action": Key(
        kind=choice("drop", "forward"),
        doc="whether the watchdog drops or forwards the frames of the paused priority",
        default="drop",
    ),
    "pause.priorities": Key(
        kind=COUNTS,
        doc="priorities for which the switch sends PFC, such as 3,4; default, all priorities that flow "
        "control pauses",
    ),
}

LINK: Mapping[str, Key] = {
    "a": Key(kind=NAMES, doc="one or several nodes at the first end, such as h1..h4", required=True),
    "b": Key(kind=NAMES, doc="one or several nodes at the second end", required=True),
    "rate": Key(
        kind=RATE_CHANGES,
        doc="rate from a to b, with changes over time, such as 10G,1G@10ms,10G@90ms",
        default=PortRate(LINK_RATE_BPS, ()),
    ),
    "rate_back": Key(kind=RATE_CHANGES, doc="rate from b to a; default, the rate from a to b"),
    "propagation": key_of(Link, "propagation_ns", "propagation delay from a to b"),
    "propagation_back": key_of(
        Link, "propagation_back_ns", "propagation delay from b to a; default, the delay from a to b"
    ),
    "loss": key_of(Link, "loss", "probability that a frame is lost, in each direction", (0, 1)),
    "down": Key(
        kind=LIST,
        doc='intervals in which the link is down, such as ["5ms..8ms"]: frames on the link are lost, and '
        "routes avoid the link",
    ),
}


FLOW: Mapping[str, Key] = {
    "name": Key(
        kind=TEXT,
        doc="name of the flow. For several flows, one name for each, such as r1..r4, "
        "or a prefix that numbers follow",
    ),
    "from": Key(kind=NAMES, doc="one or several sending hosts", required=True),
    "to": Key(kind=NAMES, doc="one or several receiving hosts, or all others", required=True),
    "match": Key(
        kind=choice("all", "one to one"),
        doc="whether each source sends to all receivers, or the n-th source to the n-th receiver",
        default="all",
    ),
    "pattern": Key(
        kind=choice(*(each.value for each in Pattern)),
        doc="traffic pattern of the source",
        required=True,
    ),
    "priority": key_of(Flow, "priority", "priority of the frames", (0, 7)),
    "frame": key_of(Flow, "frame_octets", "length of the frames", _FRAME),
    "rate": Key(kind=RATE, doc="offered rate; for on-off, the rate during the on time", within=RATES_BPS),
    "host_rate": Key(
        kind=RATE, doc="total rate of all flows from one host, instead of rate", within=RATES_BPS
    ),
    "start": key_of(Flow, "start_ns", "start time"),
    "stop": key_of(Flow, "stop_ns", "end time; default, never"),
    "random_start": key_of(
        Flow, "random_start", "whether the first frame is sent at a random time within its period"
    ),
    "on": Key(kind=TIME, doc="mean on time", within=(1, LONGEST_NS)),
    "off": Key(kind=TIME, doc="mean off time", within=TIMES_NS),
    "times": Key(
        kind=choice("constant", "exponential", "pareto"),
        doc="distribution of the on and off times",
        default="exponential",
    ),
    "shape": Key(
        kind=NUMBER,
        doc="shape of the Pareto distribution",
        within=(1.01, 100),
        default=1.5,
        needs=("times", "pareto"),
    ),
    "backlog": Key(
        kind=OCTETS,
        doc="capacity for waiting frames in the host; the source drops frames above it. Default, the "
        "capacity of the NIC queue",
        within=(1, 10**9),
    ),
    "connections": key_of(Flow, "connections", "number of concurrent TCP connections", (1, 10_000)),
    "tcp.algorithm": key_of(
        TCP, "algorithm", "congestion control of TCP", kind=choice("reno", "newreno", "cubic", "dctcp")
    ),
    "tcp.window": key_of(TCP, "window", "maximum number of segments in flight", (1, 100_000)),
    "tcp.initial_window": key_of(TCP, "initial_window", "initial window in segments", (1, 100_000)),
    "tcp.rto_min": key_of(TCP, "rto_min_ns", "minimum retransmission time-out", (1_000, 10**12)),
    "tcp.rto_max": key_of(TCP, "rto_max_ns", "maximum retransmission time-out", (1_000, 10**12)),
    "tcp.delayed_ack": key_of(TCP, "delayed_ack", "whether every second segment is acknowledged"),
    "tcp.ack": key_of(TCP, "ack_octets", "frame length of an acknowledgement", _FRAME),
    "tcp.syn": key_of(TCP, "syn", "whether each connection or transaction begins with a handshake"),
    "tcp.sack": key_of(TCP, "sack", "whether TCP uses selective acknowledgements"),
    "tcp.ecn": key_of(TCP, "ecn", "whether ports may mark segments (ECN), as always with dctcp"),
    "request": key_of(
        Flow,
        "request_octets",
        "length of the request that the receiver of the flow sends; 0: the source sends without requests",
        (0, 9_216),
    ),
    "response": key_of(Flow, "response_octets", "length of the response that the source sends", (1, 10**12)),
    "idle": key_of(Flow, "idle_ns", "mean of the exponential idle time between transactions"),
    "sizes": Key(
        kind=TEXT,
        doc="distribution of flow sizes: websearch, datamining, a CSV file, or a list such as 1kB:0.5, 1MB:1",
    ),
    "bursts": Key(kind=LIST, doc='times and sizes of bursts, such as ["0ms 100kB", "5ms 1MB"]'),
    "list": Key(
        kind=TEXT,
        doc="CSV file with a flow in each line: time, source, destination, octets. Only flows between "
        "the hosts in from and to are used",
    ),
    "octets": Key(kind=OCTETS, doc="length of each host's data in a collective", within=(1, 10**12)),
    "algorithm": Key(kind=choice("ring", "tree"), doc="path of the data in a collective", default="ring"),
    "chunks": Key(
        kind=COUNT,
        doc="number of chunks in which a tree forwards the data",
        within=(1, 10_000),
        default=1,
        needs=("algorithm", "tree"),
    ),
    "capture": Key(
        kind=TEXT,
        doc="capture file; its frames are offered at their captured times, with their captured lengths",
    ),
    "capture_source": key_of(
        Flow,
        "capture_source",
        "source MAC address of the frames to offer, such as 02:00:00:00:00:01; default, all addresses",
    ),
    "capture_outer": key_of(
        Flow, "capture_outer", "whether mirrored and tunnelled frames are offered with their outer headers"
    ),
    "group": Key(
        kind=WORD,
        doc="name of the flow's group in tables; default, the common name of several flows",
        default="",
    ),
    "hops": key_of(
        Flow, "hops", "number of congestion points on the flow's path; 0: the value of control.hops", (0, 255)
    ),
    "via": Key(kind=NAMES, doc="switches of an explicit path, in order; default, a shortest path"),
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
"""Required and optional keys of each pattern."""
_OF_PATTERNS = frozenset(key for keys in PATTERN_KEYS.values() for each in keys for key in each) | {
    "host_rate"
}

CONTROL: Mapping[str, Key] = {
    "mechanism": Key(
        kind=TEXT, doc=f"mechanism: one of {', '.join(each.name for each in MECHANISMS)}", default="none"
    ),
    "flow_control": Key(
        kind=choice("none", "pause", "pfc"),
        doc="flow control of the links, in addition to the mechanism",
        default="none",
    ),
    "in_band": key_of(Control, "in_band", "whether messages are frames that wait in queues on their path"),
    "message_priority": key_of(
        Control, "message_priority", "priority of in-band messages", (0, 7), needs=("in_band", True)
    ),
    "message_delay": key_of(
        Control,
        "message_delay_ns",
        "delay of an out-of-band message; default, the sum of the delays of links and nodes",
        needs=("in_band", False),
    ),
    "points": Key(
        kind=NAMES, doc="switches or ports (switch>peer) that have congestion points; default, all"
    ),
    "hops": key_of(Control, "hops", "number of congestion points on a flow's path", (1, 255)),
}

MEASURE: Mapping[str, Key] = {
    "from": Key(
        kind=TIME,
        doc="start of the measured time; default, 100 ms, or half of the run if the run is shorter",
        within=TIMES_NS,
    ),
    "until": key_of(Measure, "until_ns", "end of the measured time; default, the end of the run"),
    "window": key_of(Measure, "window_ns", "length of a window in time series", (1_000, LONGEST_NS)),
    "port": key_of(Measure, "port", "port for queue figures; default, the port with the longest mean queue"),
}

BAND: Mapping[str, Key] = {
    "figure": key_of(Band, "figure", "expression, such as queue.mean[50ms..90ms]"),
    "low": Key(kind=ANY, doc="lower limit, with its unit"),
    "high": Key(kind=ANY, doc="upper limit, with its unit"),
    "source": key_of(Band, "source", "source of the requirement"),
    "median_of": key_of(Band, "median_of", "number of seeds whose median is checked", (1, 1000)),
    "note": key_of(Band, "note", "remark on the band"),
}
PUBLISHED: Mapping[str, Key] = {
    "figure": key_of(Published, "figure", "expression"),
    "value": key_of(Published, "value", "value in the document"),
    "source": key_of(Published, "source", "section, table or figure of the document"),
    "note": key_of(Published, "note", "reason why the simulated value differs"),
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
"""All tables of a scenario, except ``mechanisms``, ``sources`` and ``variants``."""
LISTS = ("host", "switch", "link", "flow", "band", "published")
"""Tables that may be repeated."""
ROLES = tuple(role.value for role in Role)


@dataclass(slots=True, kw_only=True)
class Document:
    """Contents of a scenario, as written."""

    scenario: Table = field(default_factory=dict)
    host: list[Table] = field(default_factory=list)
    switch: list[Table] = field(default_factory=list)
    link: list[Table] = field(default_factory=list)
    flow: list[Table] = field(default_factory=list)
    control: Table = field(default_factory=dict)
    """Table ``control``, including the parameters of the mechanism, such as ``rp.ru``."""
    measure: Table = field(default_factory=dict)
    band: list[Table] = field(default_factory=list)
    published: list[Table] = field(default_factory=list)
    mechanisms: dict[str, Table] = field(default_factory=dict)
    """Parameters of other mechanisms, for runs that replace the scenario's mechanism."""
    sources: Table = field(default_factory=dict)
    """Source documents of values, by the paths of the values."""
    variants: dict[str, Variant] = field(default_factory=dict)
    folder: str = ""
    """Folder to which file names are relative."""
    outside: bool = True
    """Whether files may be outside the folder, and whether URLs are allowed."""

    def table(self, section: str) -> Any:
        """Return the table, or the list of tables, of a section."""
        return getattr(self, section)


@dataclass(slots=True, kw_only=True)
class Variant:
    """Contents of a variant of a scenario."""

    title: str
    set: Table = field(default_factory=dict)
    """Paths and values, in the form used on a command line."""
    band: list[Table] = field(default_factory=list)
    published: list[Table] = field(default_factory=list)


def read_tables(tree: Mapping[str, Any]) -> Document:
    """Return the document of a TOML file.

    Raises SpecError for an unknown key, and for a section that is not a table.
    """
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
    """Return a table in which keys of inner tables are joined by dots.

    Raises SpecError for an unknown key.
    """
    keys = SECTIONS.get(section, {})
    result: Table = {}

    def add(table: Mapping[str, Any], prefix: str, depth: int) -> None:
        for name, value in table.items():
            key = prefix + name
            if isinstance(value, dict) and depth < 2:
                add(value, f"{key}.", depth + 1)
            else:
                check_key(section, key, where)
                if isinstance(value, list) and keys.get(key, _PLAIN).kind in (NAMES, LIST):
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
    """Raise SpecError for an unknown key of a table; mechanism parameters are checked later."""
    if section in ("control", "parameters") and key.partition(".")[0] in ROLES and "." in key:
        return
    if section == "parameters":
        raise SpecError(where=f"{where}.{key}", needed="cp, rp or edge, with parameters", got=shown(key))
    if key not in SECTIONS[section]:
        written = f"[[{section}]]" if section in LISTS else f"[{section}]"
        known = [*SECTIONS[section], *(ROLES if section == "control" else ())]
        hint = hint_on_name(key, known)
        raise SpecError(where=f"{where}.{key}", needed=f"a key of {written}", got=shown(key), hint=hint)


def values_of(table: Table, section: str, where: str) -> dict[str, Any]:
    """Return the values of all keys of a table, with defaults for missing keys.

    Raises SpecError with the path of the first value that is missing, invalid or without effect.
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
    values = {name: given.get(name, key.default) for name, key in keys.items()}
    for name, (other, value) in ((each, keys[each].needs or (each, given[each])) for each in given):
        if values[other] != value:
            show = keys[other].kind.show
            raise SpecError(
                where=f"{where}.{name}", needed=f"{other}={show(value)} with it", got=show(values[other])
            )
    return values


def applicable(table: Table) -> frozenset[str]:
    """Return the keys that apply to a flow's table; an invalid pattern allows all keys."""
    try:
        pattern = Pattern(str(table.get("pattern", "")).strip().lower())
    except ValueError:
        return frozenset(FLOW)
    needed, others = PATTERN_KEYS[pattern]
    keys = (frozenset(FLOW) - _OF_PATTERNS) | {*needed, *others}
    return keys | {"host_rate"} if "rate" in needed else keys
