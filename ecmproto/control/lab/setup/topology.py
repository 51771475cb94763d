"""Networks described by one line: ``fat-tree k=4 rate=10G``, ``dumbbell sources=4 bottleneck=1G``.

Host numbers start at 1 and do not depend on the other options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ecmproto.control.engine.config import Buffer
from ecmproto.control.lab.model import Host, Link, Network, Switch
from ecmproto.control.lab.setup.values import (
    BUFFER,
    COUNT,
    COUNTS,
    RATE,
    RATES_BPS,
    Key,
    check_known,
    fields_of,
    key_of,
    read_value,
)
from ecmproto.errors import SpecError, counted, hint_on_name, shown

MAX_HOSTS = 20_000
DEFAULT_BUFFER = Buffer(500_000, 0)
_MAX = 10**4


def _count(default: int, doc: str, minimum: int = 1) -> Key:
    return Key(kind=COUNT, default=default, doc=doc, within=(minimum, _MAX))


_COMMON: Mapping[str, Key] = {
    "rate": key_of(Link, "rate_bps", "rate of links without their own rate", RATES_BPS, kind=RATE),
    "propagation": key_of(Link, "propagation_ns", "propagation delay of every link"),
    "buffer": Key(kind=BUFFER, default=DEFAULT_BUFFER, doc="capacity of every output port of a switch"),
    "memory": key_of(
        Switch, "memory", "memory that all ports of a switch share; default, the sum of the ports' buffers"
    ),
    "partition": key_of(
        Switch, "partition", "capacity for frames of one input of a switch; default, no limit"
    ),
    "delay": key_of(Switch, "delay_ns", "delay of every switch, from arrival to output queue"),
    "host_delay": key_of(Host, "delay_ns", "delay of every host, from arrival to processing"),
    "reaction_delay": key_of(
        Host,
        "reaction_delay_ns",
        "delay of every host, from a message's arrival to the reaction point's action",
    ),
    "queue": key_of(Host, "queue_octets", "capacity of a flow's NIC queue", (1, 10**9)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Shape of a network: description, options, and the function that builds the network."""

    doc: str
    options: Mapping[str, Key]
    build: Callable[[_Builder, Mapping[str, Any]], None]

    @property
    def all_options(self) -> Mapping[str, Key]:
        """The options of this shape, followed by the options common to all shapes."""
        return {**self.options, **_COMMON}


@dataclass(frozen=True, slots=True)
class Topology:
    """Parsed topology line: a shape with the values of all options."""

    shape: str
    values: Mapping[str, Any]
    given: frozenset[str]
    """Options given in the line; all other options have their defaults."""

    def network(self) -> Network:
        """Return the network.

        Raises SpecError for a network that would be too large.
        """
        builder = _Builder(self.values)
        SHAPES[self.shape].build(builder, self.values)
        return builder.network()

    def line(self) -> str:
        """Return the topology line, without options that have their defaults."""
        options = SHAPES[self.shape].all_options
        shown_values = (
            f"{name}={_written(options[name], self.values[name])}" for name in options if name in self.given
        )
        return " ".join([self.shape, *shown_values])

    def with_option(self, name: str, value: object, where: str = "topology") -> Topology:
        """Return a copy with another value of one option.

        Raises SpecError for the same reasons as `parse_topology`.
        """
        value_read = _read(self.shape, name, value, where)
        return replace(self, values={**self.values, name: value_read}, given=self.given | {name})


def _written(option: Key, value: Any) -> str:
    return option.kind.show(value).replace(" ", "")


def parse_topology(line: str, where: str = "topology") -> Topology:
    """Return the topology for a line.

    Raises SpecError with ``where`` for an invalid line.
    """
    shape, *assignments = line.split()[:100] or [""]
    if shape not in SHAPES:
        needed = f"a shape ({', '.join(SHAPES)}) and its options, as in fat-tree k=4 rate=10G"
        hint = hint_on_name(shape, SHAPES) if shape else ""
        raise SpecError(where=where, needed=needed, got=shown(shape) if shape else "nothing", hint=hint)
    values = {name: option.default for name, option in SHAPES[shape].all_options.items()}
    given: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise SpecError(where=where, needed="name=value, such as rate=10G", got=shown(assignment))
        if name in given:
            raise SpecError(where=where, needed=f"{name} once", got="twice")
        given[name] = _read(shape, name, text, where)
    return Topology(shape, {**values, **given}, frozenset(given))


def _read(shape: str, name: str, value: object, where: str) -> Any:
    options = SHAPES[shape].all_options
    check_known(name, options, f"an option of {shape}", f"{where}.{name}")
    option = options[name]
    result = read_value(
        option.kind, value, f"{where}.{name}", None if option.kind is COUNTS else option.within
    )
    if option.kind is COUNTS and not all(0 <= each <= _MAX for each in result):
        raise SpecError(where=f"{where}.{name}", needed=f"numbers of 0 to {_MAX}", got=shown(value))
    return result


class _Builder:
    """Network under construction, with the common options of all nodes and links."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._host, self._switch, self._link = (
            fields_of(owner, _COMMON, values) for owner in (Host, Switch, Link)
        )
        self._switch["buffer"] = values["buffer"]
        self._hosts: list[Host] = []
        self._switches: dict[str, Switch] = {}
        self._links: list[Link] = []

    def network(self) -> Network:
        return Network(
            hosts=tuple(self._hosts), switches=tuple(self._switches.values()), links=tuple(self._links)
        )

    def host(self, name: str, switch: str) -> None:
        """Attach a host to a switch."""
        if len(self._hosts) >= MAX_HOSTS:
            raise SpecError(where="topology", needed=f"at most {MAX_HOSTS:,} hosts", got="more")
        self._hosts.append(Host(name=name, **self._host))
        self.link(name, switch)

    def switch(self, name: str) -> str:
        if len(self._switches) >= MAX_HOSTS:
            raise SpecError(where="topology", needed=f"at most {MAX_HOSTS:,} switches", got="more")
        self._switches[name] = Switch(name=name, **self._switch)
        return name

    def link(self, a: str, b: str, rate_bps: int | None = None) -> None:
        if len(self._links) >= 10 * MAX_HOSTS:
            raise SpecError(where="topology", needed=f"at most {10 * MAX_HOSTS:,} links", got="more")
        own = {"rate_bps": rate_bps} if rate_bps else {}
        self._links.append(Link(a=a, b=b, **self._link | own))


def _star(network: _Builder, options: Mapping[str, Any]) -> None:
    network.switch("core")
    for number in range(1, options["hosts"] + 1):
        network.host(f"h{number}", "core")


def _dumbbell(network: _Builder, options: Mapping[str, Any]) -> None:
    sources = options["sources"]
    edges = sources if options["edges"] is None else options["edges"]
    if edges > sources:
        raise SpecError(
            where="topology.edges", needed=f"at most {counted(sources, 'source')}", got=str(edges)
        )
    network.switch("left")
    network.switch("right")
    for edge in range(1, edges + 1):
        network.link(network.switch(f"e{edge}"), "left", options["uplink"])
    for number in range(sources):
        network.host(f"s{number + 1}", f"e{number * edges // sources + 1}" if edges else "left")
    network.link("left", "right", options["bottleneck"])
    for number in range(1, options["destinations"] + 1):
        network.host(f"d{number}", "right")


def _trunk(network: _Builder, options: Mapping[str, Any]) -> None:
    network.switch("core")
    switches = []
    for edge, hosts in enumerate(options["hosts"], 1):
        network.link(network.switch(f"e{edge}"), "core", options["uplink"])
        switches += [f"e{edge}"] * hosts
    for number, switch in enumerate([*switches, *["core"] * options["core"]], 1):
        network.host(f"h{number}", switch)


def _parking_lot(network: _Builder, options: Mapping[str, Any]) -> None:
    hops, long = options["hops"], options["long"]
    for number in range(1, hops + 2):
        network.switch(f"sw{number}")
    for number in range(1, hops + 1):
        network.link(f"sw{number}", f"sw{number + 1}", options["bottleneck"])
    hops_of_sources = [1] * long + [hop for hop in range(1, hops + 1) for _ in range(options["cross"])]
    for number, hop_number in enumerate(hops_of_sources, 1):
        network.link(network.switch(f"e{number}"), f"sw{hop_number}", options["uplink"])
        network.host(f"s{number}", f"e{number}")
    network.host("d0", f"sw{hops + 1}")
    for number in range(1, hops + 1):
        network.host(f"d{number}", f"sw{number + 1}")


def _clos(network: _Builder, options: Mapping[str, Any]) -> None:
    spines = [network.switch(f"spine{number}") for number in range(1, options["spines"] + 1)]
    for leaf in range(options["leaves"]):
        name = network.switch(f"leaf{leaf + 1}")
        for number in range(options["hosts"]):
            network.host(f"h{leaf * options['hosts'] + number + 1}", name)
        for spine in spines:
            network.link(name, spine, options["uplink"])


def _fat_tree(network: _Builder, options: Mapping[str, Any]) -> None:
    half, odd = divmod(options["k"], 2)
    if odd:
        raise SpecError(where="topology.k", needed="an even number of ports a switch", got=str(options["k"]))
    cores = [network.switch(f"c{number}") for number in range(1, half * half + 1)]
    for pod in range(2 * half):
        numbers = range(pod * half + 1, (pod + 1) * half + 1)
        upper = [network.switch(f"a{number}") for number in numbers]
        for index, name in enumerate(upper):
            for core in cores[index * half : (index + 1) * half]:
                network.link(name, core)
        for number in numbers:
            edge = network.switch(f"e{number}")
            for name in upper:
                network.link(edge, name)
            for host in range((number - 1) * half + 1, number * half + 1):
                network.host(f"h{host}", edge)


def _rate(doc: str) -> Key:
    return Key(kind=RATE, doc=doc, within=RATES_BPS)


SHAPES: Mapping[str, Shape] = {
    "star": Shape(
        doc="hosts h1, h2, … at one switch, core",
        options={"hosts": _count(10, "hosts")},
        build=_star,
    ),
    "dumbbell": Shape(
        doc="sources s1, s2, … at edge switches e1, e2, …, which are linked to the switch left. The "
        "bottleneck is left>right, and destinations d1, d2, … are at the switch right",
        options={
            "sources": _count(4, "sources"),
            "destinations": _count(1, "destinations"),
            "edges": Key(
                kind=COUNT, default=None, within=(0, _MAX),
                doc="number of edge switches, over which sources are distributed in order; default, one for "
                "each source",
            ),
            "bottleneck": _rate("rate of the link between left and right"),
            "uplink": _rate("rate of the links from edge switches"),
        },
        build=_dumbbell,
    ),
    "trunk": Shape(
        doc="edge switches e1, e2, …, each with hosts and a trunk to the switch core, which has hosts too",
        options={
            "hosts": Key(kind=COUNTS, default=(2, 3), doc="hosts of each edge switch"),
            "core": _count(2, "hosts of core, numbered last", 0),
            "uplink": _rate("rate of the trunks"),
        },
        build=_trunk,
    ),
    "parking-lot": Shape(
        doc="switches sw1, sw2, … in a row; the links between these switches are bottlenecks. Sources "
        "s1, s2, "
        "… have an edge switch each: first the long ones at sw1, then the cross ones at sw1, sw2, …. "
        "Destination d0 is at the last switch, d1 after the first bottleneck, and so on",
        options={
            "hops": _count(2, "bottlenecks"),
            "long": _count(4, "sources at sw1, for traffic over all bottlenecks"),
            "cross": _count(1, "sources for each bottleneck", 0),
            "bottleneck": _rate("rate of the links between the switches"),
            "uplink": _rate("rate of the links from edge switches"),
        },
        build=_parking_lot,
    ),
    "clos": Shape(
        doc="leaf switches leaf1, leaf2, …, each with hosts and a link to every spine switch spine1, "
        "spine2, …",
        options={
            "leaves": _count(4, "leaf switches"),
            "spines": _count(2, "spine switches"),
            "hosts": _count(4, "hosts of each leaf switch"),
            "uplink": _rate("rate of the links between leaves and spines"),
        },
        build=_clos,
    ),
    "fat-tree": Shape(
        doc="k³/4 hosts h1, h2, … in k pods. Each pod has k/2 edge switches e1, e2, … and k/2 aggregation "
        "switches a1, a2, …. There are k²/4 core switches c1, c2, …. All switches have k ports",
        options={"k": Key(kind=COUNT, default=4, doc="ports of a switch, an even number", within=(2, 64))},
        build=_fat_tree,
    ),
}  # fmt: skip
"""All shapes, by name."""
