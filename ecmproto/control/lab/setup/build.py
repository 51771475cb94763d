"""Builder of experiments from the tables of a scenario (`ecmproto.control.lab.setup.keys`)."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any

from ecmproto.control.lab.model import (
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
    connected,
    directions,
)
from ecmproto.control.lab.setup.collectives import collective
from ecmproto.control.lab.setup.figures import (
    RESERVED,
    Dimension,
    check_borders,
    expand_flows,
    expand_ports,
    expand_range,
    find_measurement,
    parse_figure,
    parse_value,
)
from ecmproto.control.lab.setup.keys import (
    BAND,
    CONTROL,
    FLOW,
    HOST,
    LINK,
    MEASURE,
    NAMES,
    PATTERN_KEYS,
    PUBLISHED,
    ROLES,
    SCENARIO,
    SECTIONS,
    SWITCH,
    TCP_KEYS,
    Document,
    Table,
    applicable,
    values_of,
)
from ecmproto.control.lab.setup.thresholds import thresholds_of_output
from ecmproto.control.lab.setup.topology import MAX_HOSTS, parse_topology
from ecmproto.control.lab.setup.values import (
    NAME,
    NUMBER,
    OCTETS,
    RATE,
    RATES_BPS,
    TIME,
    TIMES_NS,
    WORD,
    check_known,
    fields_of,
    read_value,
)
from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import UNITS, Parameter, Parameters
from ecmproto.control.mechanisms.registry import find_mechanism, mechanism_names
from ecmproto.errors import ParameterError, SpecError, hint_on_name, shown
from ecmproto.paths import path_below

MAX_FLOWS = 100_000


def build(document: Document) -> Experiment:
    """Return the experiment of a document.

    Raises SpecError with the path of the wrong value.
    """
    head = values_of(document.scenario, "scenario", "scenario")
    network = network_of(document)
    flows = _flows(document, network)
    mechanism = mechanism_of(document)
    measure = _measure(document, head["duration"], network)
    experiment = Experiment(
        **fields_of(Experiment, SCENARIO, head),
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
            bands=bands_of(document.band, experiment, runs),
            published=published_of(document.published, experiment, runs),
        ),
    )


def network_of(document: Document) -> Network:
    """Return the network of the topology line, with the changes and additions of the tables.

    Raises SpecError with the path of the wrong value.
    """
    head = values_of(document.scenario, "scenario", "scenario")
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
        raise SpecError(where="switch", needed="names that no other host has", got=shown(name))
    links = {(link.a, link.b): link for link in base.links}
    for number, table in enumerate(document.link):
        _add_links(links, table, f"link[{number}]", {**hosts, **switches})
    if not hosts:
        raise SpecError(
            where="scenario.topology", needed="a topology line, or tables [[host]]", got="neither"
        )
    network = Network(
        hosts=tuple(hosts.values()),
        switches=tuple(switches.values()),
        links=tuple(links.values()),
        **fields_of(Network, SCENARIO, head),
    )
    ends = Counter(end for link in network.links for end in (link.a, link.b))
    for host in hosts:
        if ends[host] != 1:
            raise SpecError(where="link", needed=f"one link of host {host}", got=str(ends[host]))
    return network


def _nodes(patterns: Sequence[str], known: Mapping[str, Any], where: str) -> list[str]:
    """Return the nodes that match the patterns; a pattern is a range, a wildcard pattern, or a new name."""
    names: dict[str, None] = {}
    for pattern in patterns:
        if "*" in pattern or "?" in pattern:
            matches = [name for name in known if fnmatchcase(name, pattern)]
            if not matches:
                raise SpecError(where=where, needed="a pattern that matches nodes", got=shown(pattern))
        else:
            matches = _range(pattern, where)
        names.update(dict.fromkeys(matches))
    for name in names:
        if not NAME.fullmatch(name):
            raise SpecError(where=where, needed=WORD.needed, got=shown(name))
    if len({*known, *names}) > MAX_HOSTS:
        raise SpecError(where=where, needed=f"at most {MAX_HOSTS:,} nodes", got="more")
    return list(names)


def _range(pattern: str, where: str) -> list[str]:
    try:
        return expand_range(pattern)
    except SpecError as error:
        raise SpecError(where=where, needed=error.needed, got=error.got) from None


def _host(name: str, known: Host | None, table: Table, values: Mapping[str, Any], where: str) -> Host:
    host = replace(known or Host(name=name), **fields_of(Host, HOST, values, table))
    if "storm" in table:
        host = replace(host, storms=_spans(values["storm"], f"{where}.storm"))
    if not any(key.startswith("adapter.") for key in table):
        return host
    return replace(host, adapter=_adapter(host.adapter, table, values, f"{where}.adapter"))


def _adapter(known: Adapter | None, table: Table, values: Mapping[str, Any], where: str) -> Adapter:
    """Return an egress adapter; a value missing in the table keeps its previous value."""
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
    switch = replace(switch, **fields_of(Switch, SWITCH, values, table))
    if "buffer" in table:
        switch = replace(switch, buffer=values["buffer"])
    alpha, priorities = values["pause.alpha"], values["pause.priorities"]
    if priorities is not None:
        if not all(0 <= each <= 7 for each in priorities):
            got = ",".join(map(str, priorities))
            raise SpecError(where=f"{where}.pause.priorities", needed="priorities, 0 to 7", got=got)
        switch = replace(switch, lossless=frozenset(priorities))
    if "pause.watchdog" in table:
        forwards = values["pause.watchdog_action"] == "forward"
        switch = replace(switch, watchdog_ns=values["pause.watchdog"], watchdog_forwards=forwards)
    elif "pause.watchdog_action" in table:
        needed = SWITCH["pause.watchdog"].kind.needed
        raise SpecError(where=f"{where}.pause.watchdog", needed=needed, got="nothing")
    if alpha is not None:
        if switch.memory is None:
            raise SpecError(
                where=f"{where}.memory", needed="a memory, which pause.alpha shares", got="nothing"
            )
        for key in ("pause.high", "pause.low", "pause.on"):
            if key in table:
                needed = "no such key with pause.alpha, from which thresholds follow"
                raise SpecError(where=f"{where}.{key}", needed=needed, got=shown(str(table[key])))
        return replace(switch, alpha=alpha, buffer=values["buffer"] if "buffer" in table else switch.memory)
    pause = _thresholds(values, f"{where}.pause", "pause", values["pause.on"] == "output")
    if pause is None and values["pause.on"] == "output":
        pause = thresholds_of_output(switch.buffer.octets)
    return replace(switch, pause=pause) if pause else switch


def _add_links(
    links: dict[tuple[str, str], Link], table: Table, where: str, nodes: Mapping[str, Host | Switch]
) -> None:
    """Change the links of a table, or add missing links."""
    values = values_of(table, "link", where)
    a_names, b_names = (_known(values[end], nodes, "a host or a switch", f"{where}.{end}") for end in "ab")
    if len(links) + len(a_names) * len(b_names) > 10 * MAX_HOSTS:
        raise SpecError(where=where, needed=f"at most {10 * MAX_HOSTS:,} links", got="more")
    for a in a_names:
        for b in b_names:
            if a == b:
                raise SpecError(where=f"{where}.b", needed="a node other than a", got=shown(b))
            ends = (b, a) if (b, a) in links else (a, b)
            link = links.get(ends) or Link(a=a, b=b)
            if ends == (b, a):
                link = _turned(link)
            link = _changed(link, table, values, where)
            links[ends] = _turned(link) if ends == (b, a) else link


def _known(patterns: Sequence[str], nodes: Mapping[str, Any], needed: str, where: str) -> list[str]:
    """Return the nodes that match the patterns, all of which exist."""
    if not patterns:
        raise SpecError(where=where, needed=NAMES.needed, got="nothing")
    names = _nodes(patterns, nodes, where)
    for name in names:
        check_known(name, nodes, needed, where)
    return names


def _turned(link: Link) -> Link:
    """Return the link with its two ends exchanged."""
    forth, back = directions(link)
    same = back.rate_bps == forth.rate_bps and not (forth.rate_changes or back.rate_changes)
    return replace(
        link,
        a=link.b,
        b=link.a,
        rate_bps=back.rate_bps,
        rate_back_bps=None if same else forth.rate_bps,
        propagation_ns=back.propagation_ns,
        propagation_back_ns=None if back.propagation_ns == forth.propagation_ns else forth.propagation_ns,
        rate_changes=back.rate_changes,
        rate_changes_back=forth.rate_changes,
    )


def _check_rate(rate_bps: int, where: str) -> None:
    minimum, maximum = RATES_BPS
    if not minimum <= rate_bps <= maximum:
        needed = f"{RATE.show(minimum)} to {RATE.show(maximum)}"
        raise SpecError(where=where, needed=needed, got=RATE.show(rate_bps))


def _changed(link: Link, table: Table, values: Mapping[str, Any], where: str) -> Link:
    changes = fields_of(Link, LINK, values, table)
    for key, rate, rate_changes in (
        ("rate", "rate_bps", "rate_changes"),
        ("rate_back", "rate_back_bps", "rate_changes_back"),
    ):
        if key in table:
            _check_rate(values[key].rate_bps, f"{where}.{key}")
            changes[rate], changes[rate_changes] = values[key].rate_bps, values[key].changes
    if "rate" in table and values["rate"].changes and "rate_back" not in table and link.rate_back_bps is None:
        changes["rate_back_bps"] = link.rate_bps  # changes apply to one direction only
    if "down" in table:
        changes["down"] = _spans(values["down"], f"{where}.down")
    return replace(link, **changes)


def _spans(parts: Sequence[str], where: str) -> tuple[tuple[int, int], ...]:
    spans: list[tuple[int, int]] = []
    for part in parts:
        begin, dots, end = part.partition("..")
        if not dots:
            raise SpecError(where=where, needed="a range of times, such as 5ms..8ms", got=shown(part))
        span = read_value(TIME, begin, where, TIMES_NS), read_value(TIME, end, where, TIMES_NS)
        if not (spans[-1][1] if spans else -1) < span[0] < span[1]:
            raise SpecError(where=where, needed="rising times", got=shown(part))
        spans.append(span)
    return tuple(spans)


def _flows(document: Document, network: Network) -> tuple[Flow, ...]:
    """Return the flows of all tables.

    Raises SpecError for duplicate names and for unreachable hosts.
    """
    if not document.flow:
        raise SpecError(where="flow", needed="at least one table [[flow]]", got="none")
    hosts = [host.name for host in network.hosts]
    pieces = _pieces(network)
    result: dict[str, Flow] = {}
    for number, table in enumerate(document.flow):
        where = f"flow[{number}]"
        for flow in _flows_of(table, where, hosts, document):
            if flow.name in result:
                raise SpecError(
                    where=f"{where}.name", needed="a name that no other flow has", got=shown(flow.name)
                )
            if pieces[flow.source] != pieces[flow.destination]:
                got = f"no path from {flow.source} to {flow.destination}"
                raise SpecError(where=f"{where}.to", needed="reachable hosts", got=got)
            if len(result) >= MAX_FLOWS:
                raise SpecError(where=where, needed=f"at most {MAX_FLOWS:,} flows", got="more")
            result[flow.name] = flow
    groups = {flow.group for flow in result.values() if flow.group}
    if clash := groups & result.keys() - {name for name, flow in result.items() if flow.group == name}:
        raise SpecError(where="flow", needed="group names that no flow has", got=shown(min(clash)))
    return tuple(result.values())


def _pieces(network: Network) -> dict[str, int]:
    """Return, for each node, the number of a node that represents all nodes that can reach this node."""
    names = [*(host.name for host in network.hosts), *(switch.name for switch in network.switches)]
    number = {name: index for index, name in enumerate(names)}
    lowest = connected(len(number), [(number[link.a], number[link.b]) for link in network.links])
    return dict(zip(number, lowest, strict=True))


def _flows_of(table: Table, where: str, hosts: Sequence[str], document: Document) -> list[Flow]:
    """Return the flows of one table."""
    values = values_of(table, "flow", where)
    pattern = Pattern(values["pattern"])
    keys = applicable(table)
    for key in table:
        if key not in keys:
            raise SpecError(
                where=f"{where}.{key}", needed=f"no such key with pattern {pattern.value}", got=shown(key)
            )
    for key in PATTERN_KEYS[pattern][0]:
        if key not in table and not (key == "rate" and "host_rate" in table):
            raise SpecError(
                where=f"{where}.{key}", needed=f"{FLOW[key].kind.needed}: {FLOW[key].doc}", got="nothing"
            )
    if "rate" in table and "host_rate" in table:
        raise SpecError(where=f"{where}.host_rate", needed="either rate or host_rate", got="both")
    if values["stop"] is not None and values["stop"] <= values["start"]:
        raise SpecError(
            where=f"{where}.stop",
            needed=f"later than start, {TIME.show(values['start'])}",
            got=TIME.show(values["stop"]),
        )
    if pattern is Pattern.SCHEDULE and ("bursts" in table) == ("list" in table):
        needed = f"either bursts or list, {FLOW['list'].doc}"
        got = "both" if "list" in table else "neither"
        raise SpecError(where=f"{where}.bursts", needed=needed, got=got)
    tcp = None
    if "connections" in keys and (pattern is not Pattern.SIZES or any(key in table for key in TCP_KEYS)):
        tcp = _tcp(values, where)
    pairs = _pairs(values, where, hosts)
    bursts: list[tuple[tuple[int, int], ...]] = []
    if values["list"]:
        listed = _listed(_file(values["list"], f"{where}.list", document), f"{where}.list", set(pairs))
        pairs, bursts = list(listed), [tuple(each) for each in listed.values()]
    steps = collective(pairs, values, where) if pattern is Pattern.ALL_REDUCE else None
    if steps is not None:
        pairs, bursts = [each.pair for each in steps], [each.bursts for each in steps]
        pattern = Pattern.SCHEDULE
    names = _names(values["name"], pairs, where)
    share = Counter(source for source, _ in pairs)
    shape = {"constant": -1.0, "exponential": 0.0, "pareto": values["shape"]}[values["times"]]
    several = values["name"] if values["name"] and len(pairs) > 1 and NAME.fullmatch(values["name"]) else ""
    base = Flow(
        name="",
        source="",
        destination="",
        pattern=pattern,
        on_ns=values["on"] or 0,
        off_ns=values["off"] or 0,
        shape=shape if pattern is Pattern.ON_OFF else 0.0,
        backlog_octets=values["backlog"] or 0,
        tcp=tcp,
        sizes=_sizes(values["sizes"], f"{where}.sizes", document) if values["sizes"] else (),
        bursts=_bursts(values["bursts"] or (), f"{where}.bursts"),
        capture=_file(values["capture"], f"{where}.capture", document) if values["capture"] else "",
        group=values["group"] or several,
        via=values["via"] or (),
        **fields_of(Flow, FLOW, values),
    )
    return [
        replace(
            base,
            name=name,
            source=source,
            destination=destination,
            rate_bps=values["rate"] or (values["host_rate"] or 0) // share[source],
            bursts=bursts[number] if bursts else base.bursts,
            after=tuple(names[each] for each in steps[number].after) if steps else (),
            lead=steps[number].lead if steps else 0,
        )
        for number, (name, (source, destination)) in enumerate(zip(names, pairs, strict=True))
    ]


_MAX_BURSTS = 1_000_000
_SIZES_OCTETS = (1, 10**12)


def _size(text: str, where: str) -> int:
    """Return a number of octets in a CSV file; a number without a unit is valid too."""
    size: int = read_value(OCTETS, f"{text}B" if text.strip().isdigit() else text, where, _SIZES_OCTETS)
    return size


def _listed(
    path: str, where: str, pairs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Return the bursts in a file of flows, by source and destination; only flows between ``pairs`` count."""
    result: dict[tuple[str, str], list[tuple[int, int]]] = {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row or row[0].startswith(("#", "time")):
                    continue
                if len(row) != 4 or number > _MAX_BURSTS:
                    needed = f"up to {_MAX_BURSTS:,} lines of time, source, destination, octets"
                    raise SpecError(
                        where=f"{where} line {number}", needed=needed, got=shown(",".join(row)[:60])
                    )
                time, source, destination, octets = (each.strip() for each in row)
                if (source, destination) in pairs:
                    at = f"{where} line {number}"
                    burst = read_value(TIME, time, at, TIMES_NS), _size(octets, at)
                    result.setdefault((source, destination), []).append(burst)
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(where=where, needed="a readable file", got=str(error)) from None
    if not result:
        raise SpecError(where=where, needed="flows between hosts of from and to", got="none")
    return result


def _tcp(values: Mapping[str, Any], where: str) -> TCP:
    if values["tcp.rto_min"] > values["tcp.rto_max"]:
        needed = f"at most rto_max, {TIME.show(values['tcp.rto_max'])}"
        raise SpecError(where=f"{where}.tcp.rto_min", needed=needed, got=TIME.show(values["tcp.rto_min"]))
    return TCP(**fields_of(TCP, FLOW, values))


def _pairs(values: Mapping[str, Any], where: str, hosts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the source and the destination for each flow of a table."""
    known = dict.fromkeys(hosts)
    sources = _known(values["from"], known, "a host", f"{where}.from")
    everywhere = values["to"] in (("all others",), ("all",))
    destinations = list(hosts) if everywhere else _known(values["to"], known, "a host", f"{where}.to")
    if values["match"] == "one to one":
        if len(sources) != len(destinations):
            needed = f"{len(sources)} hosts, one for each source"
            raise SpecError(where=f"{where}.to", needed=needed, got=str(len(destinations)))
        pairs = list(zip(sources, destinations, strict=True))
    else:
        if len(sources) * len(destinations) > 2 * MAX_FLOWS:
            raise SpecError(where=where, needed=f"at most {MAX_FLOWS:,} flows", got="more")
        pairs = [(source, destination) for source in sources for destination in destinations]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    if not pairs:
        raise SpecError(where=f"{where}.to", needed="a host other than the source", got="the source alone")
    return pairs


def _names(name: str | None, pairs: Sequence[tuple[str, str]], where: str) -> list[str]:
    """Return the names of the flows of a table."""
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
            needed = WORD.needed + (", other than a figure's" if NAME.fullmatch(each) else "")
            raise SpecError(where=f"{where}.name", needed=needed, got=shown(each))
    return names


def size_distributions() -> list[str]:
    """Return the names of the flow-size distributions in this package."""
    folder = resources.files("ecmproto.control.lab") / "sizes"
    return sorted(each.name.removesuffix(".csv") for each in folder.iterdir() if each.name.endswith(".csv"))


_MAX_SIZES = 10_000
_MAX_SIZES_CHARACTERS = 1 << 20


def _file(name: str, where: str, document: Document) -> str:
    """Return the path of a file that a scenario names.

    Raises SpecError for a file outside the scenario's folder.
    """
    if document.outside:
        return name if "://" in name else os.path.join(document.folder, name)
    hint = "--outside allows other files, and URLs"
    if "://" in name:
        raise SpecError(where=where, needed="a file below the folder", got=shown(name), hint=hint)
    try:
        return str(path_below(Path(document.folder), name, where))
    except SpecError as error:
        raise SpecError(where=error.where, needed=error.needed, got=error.got, hint=hint) from None


def _sizes_file(path: str, where: str) -> str:
    """Return the text of a file with sizes and shares."""
    try:
        with open(path, encoding="utf-8") as file:
            content = file.read(_MAX_SIZES_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise SpecError(where=where, needed="a readable file", got=str(error)) from None
    if len(content) > _MAX_SIZES_CHARACTERS:
        needed = f"a file of at most {_MAX_SIZES_CHARACTERS:,} characters"
        raise SpecError(where=where, needed=needed, got="a longer file")
    return content


def _sizes(text: str, where: str, document: Document) -> tuple[tuple[int, float], ...]:
    """Return a flow-size distribution: from this package, from a file of octets and shares, or from pairs."""
    if NAME.fullmatch(text):
        check_known(text, size_distributions(), "a distribution of flow sizes", where)
        content = (resources.files("ecmproto.control.lab") / "sizes" / f"{text}.csv").read_text()
    elif text.endswith(".csv"):
        content = _sizes_file(_file(text, where, document), where)
    else:
        content = "\n".join(part.replace(":", ",") for part in text.split(","))
    pairs: list[tuple[int, float]] = []
    lines = (line for line in content.splitlines() if line.strip() and not line.startswith(("#", "octets")))
    for row in csv.reader(lines):
        if len(row) != 2 or len(pairs) >= _MAX_SIZES:
            raise SpecError(
                where=where,
                needed="lines with a size and a share, such as 10kB,0.5",
                got=shown(",".join(row)[:60]),
            )
        octets, share = _size(row[0], where), read_value(NUMBER, row[1], where, (0, 1))
        if pairs and (octets < pairs[-1][0] or share < pairs[-1][1]):
            raise SpecError(where=where, needed="rising sizes and shares", got=shown(",".join(row)))
        pairs.append((octets, share))
    if not pairs or pairs[-1][1] != 1:
        raise SpecError(where=where, needed="shares rising to 1", got=str(pairs[-1][1]) if pairs else "none")
    return tuple(pairs)


def _bursts(parts: Sequence[str], where: str) -> tuple[tuple[int, int], ...]:
    bursts: list[tuple[int, int]] = []
    for part in parts:
        time, _, size = part.partition(" ")
        burst = read_value(TIME, time, where, TIMES_NS), read_value(OCTETS, size, where, _SIZES_OCTETS)
        if bursts and burst[0] < bursts[-1][0]:
            raise SpecError(where=where, needed="bursts in the order of their times", got=shown(part))
        bursts.append(burst)
    return tuple(bursts)


def mechanism_of(document: Document) -> Mechanism:
    """Return the mechanism of a document.

    Raises SpecError for an unknown mechanism.
    """
    name = values_of(_only(document.control, "control"), "control", "control")["mechanism"]
    return _mechanism(name, "control.mechanism")


def _mechanism(name: str, where: str) -> Mechanism:
    try:
        return find_mechanism(name)
    except ParameterError:
        hint = hint_on_name(name, mechanism_names())
        raise SpecError(where=where, needed="a mechanism", got=shown(name), hint=hint) from None


def _only(table: Table, section: str) -> Table:
    """Return a table without mechanism parameters."""
    return {key: value for key, value in table.items() if key in SECTIONS[section]}


def parameters_of(table: Table) -> Table:
    """Return the mechanism parameters in a table."""
    return {key: value for key, value in table.items() if key.partition(".")[0] in ROLES and "." in key}


_MESSAGE_PRIORITIES = {
    "message_priority", "keep_priority", "cnm_priority", "report_priority", "cnp_priority", "reply_priority",
    "return_priority",
}  # fmt: skip
"""Ignored parameters of message frames; messages use the priority ``control.message_priority`` instead."""


def described(mechanism: Mechanism) -> dict[str, Parameter]:
    """Return the parameters of a mechanism that apply in the laboratory, by path, such as ``rp.ru``."""
    return {
        f"{role.value}.{parameter.name}": parameter
        for role, part in mechanism.roles.items()
        for parameter in acting(part)
    }


def acting(part: type[Parameters] | Parameters) -> list[Parameter]:
    """Return the parameters of a role that apply in the laboratory."""
    return [each for each in part.describe() if each.attribute not in _MESSAGE_PRIORITIES]


def priority_hint(key: str) -> str:
    """Return the hint for a parameter that sets the priority of message frames, or an empty text."""
    known = key.rpartition(".")[2] in _MESSAGE_PRIORITIES
    return "messages in band use control.message_priority" if known else ""


def assignments_of(mechanism: Mechanism, table: Table, where: str) -> tuple[str, ...]:
    """Return the assignments in a table of parameters, such as ``rp.ru=4Mb/s``.

    Raises SpecError for an invalid parameter or value.
    """
    known = described(mechanism)
    attributes = {f"{path.partition('.')[0]}.{each.attribute}": path for path, each in known.items()}
    assignments = []
    for key, value in table.items():
        path = attributes.get(key, key)
        if path not in known:
            hint = priority_hint(key) or ("" if known else f"{mechanism.name} has none")
            check_known(key, known, f"a parameter of {mechanism.name}", f"{where}.{key}", hint)
        if not isinstance(value, (str, int, float)):
            needed = UNITS[known[path].unit].needed
            raise SpecError(where=f"{where}.{key}", needed=needed, got=shown(value))
        text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
        if known[path].unit == "octets" and text.strip().endswith(("frame", "frames")):
            text = OCTETS.show(read_value(OCTETS, text, f"{where}.{key}")).replace(" ", "")
        assignments.append(f"{path}={text}")
    set_paths = [each.partition("=")[0] for each in assignments]
    try:
        parsed = mechanism.parse(assignments)
    except ParameterError as error:
        paths = [path for path in (*set_paths, *known) if path.partition(".")[2] == error.name]
        path = paths[0] if paths else error.name
        raise SpecError(where=f"{where}.{path}", needed=error.needed, got=error.got) from None
    if "cp.w" in set_paths:
        _refuse_idle_weight(parsed, where)
    return tuple(assignments)


def _refuse_idle_weight(parsed: Mapping[Role, Parameters], where: str) -> None:
    """Raise SpecError if a congestion point's w differs from the senders' w and has no effect."""
    point, sender = parsed.get(Role.CONGESTION_POINT), parsed.get(Role.REACTION_POINT)
    # Only E²CM has congestion points that send increases without a weight for Qdelta.
    weight = getattr(point, "weight", None) if getattr(point, "increase_signals", False) else None
    if weight is not None and weight != getattr(sender, "weight", weight):
        needed = "rp.w, or cp.increase_signals=no with it, since cp.w alone has no effect"
        raise SpecError(where=f"{where}.cp.w", needed=needed, got=f"{weight:g}")


def _control(document: Document, mechanism: Mechanism, network: Network) -> Control:
    values = values_of(_only(document.control, "control"), "control", "control")
    for name, table in document.mechanisms.items():
        where = f"mechanisms.{name}"
        assignments_of(_mechanism(name, where), table, where)
    if values["flow_control"] != "none" and mechanism.name in ("pause", "pfc"):
        needed = f"none, since the mechanism is {mechanism.name} already"
        raise SpecError(where="control.flow_control", needed=needed, got=shown(values["flow_control"]))
    points = values["points"] or ()
    known = [*(switch.name for switch in network.switches), *ports_of(network)]
    for point in points:
        check_known(point, known, "a switch, or a port as switch>peer", "control.points")
    return Control(
        mechanism=mechanism.name,
        parameters=assignments_of(mechanism, parameters_of(document.control), "control"),
        flow_control=None if values["flow_control"] == "none" else values["flow_control"],
        points=tuple(points),
        **fields_of(Control, CONTROL, values),
    )


def ports_of(network: Network) -> list[str]:
    """Return the names of all ports, such as ``node>peer`` and ``host>adapter``."""
    links = [port for link in network.links for port in (f"{link.a}>{link.b}", f"{link.b}>{link.a}")]
    return links + [f"{host.name}>adapter" for host in network.hosts if host.adapter]


_MEASURE_FROM_NS = 100_000_000


def _measure(document: Document, duration_ns: int, network: Network) -> Measure:
    values = values_of(document.measure, "measure", "measure")
    begin_ns, end_ns = values["from"], values["until"]
    if begin_ns is None:
        begin_ns = _MEASURE_FROM_NS if duration_ns > _MEASURE_FROM_NS else duration_ns // 2
        begin_ns -= begin_ns % values["window"]
    if begin_ns >= duration_ns:
        needed = f"before the end, {TIME.show(duration_ns)}"
        hint = f"a shorter run needs measure.from={TIME.show(duration_ns // 2)} or so"
        raise SpecError(where="measure.from", needed=needed, got=TIME.show(begin_ns), hint=hint)
    if end_ns is not None and not begin_ns < end_ns <= duration_ns:
        needed = f"{TIME.show(begin_ns)} to {TIME.show(duration_ns)}"
        hint = f"a shorter run needs measure.until={TIME.show(duration_ns)}" if end_ns > duration_ns else ""
        raise SpecError(where="measure.until", needed=needed, got=TIME.show(end_ns), hint=hint)
    check_borders([begin_ns], values["window"], duration_ns, "measure.from")
    check_borders([end_ns or 0], values["window"], duration_ns, "measure.until")
    if values["port"]:
        check_known(values["port"], ports_of(network), "a port, as switch>peer", "measure.port")
    return Measure(from_ns=begin_ns, **fields_of(Measure, MEASURE, values))


def bands_of(tables: Sequence[Table], experiment: Experiment, runs: Collection[str]) -> tuple[Band, ...]:
    """Return the bands in tables.

    Raises SpecError for figures that the experiment does not have.
    """
    bands = []
    for number, table in enumerate(tables):
        path = f"band[{number}]"
        values = values_of(table, "band", path)
        dimension = _checked_figure(values["figure"], f"{path}.figure", experiment, runs)
        limits: dict[str, Any] = {}
        for name in ("low", "high"):
            if name in table:
                try:
                    limits[name] = parse_value(values[name], dimension)
                except ParameterError as error:
                    got = shown(table[name])
                    raise SpecError(where=f"{path}.{name}", needed=error.needed, got=got) from None
        if not limits:
            raise SpecError(where=path, needed="low, high, or both", got="neither")
        if limits.get("low", 0) > limits.get("high", limits.get("low", 0)):
            raise SpecError(where=f"{path}.high", needed="at least low", got=shown(table["high"]))
        bands.append(Band(**limits, **fields_of(Band, BAND, values)))
    return tuple(bands)


def published_of(
    tables: Sequence[Table], experiment: Experiment, runs: Collection[str]
) -> tuple[Published, ...]:
    """Return the published figures in tables.

    Raises SpecError for figures that the experiment does not have.
    """
    result = []
    for number, table in enumerate(tables):
        path = f"published[{number}]"
        values = values_of(table, "published", path)
        _checked_figure(values["figure"], f"{path}.figure", experiment, runs)
        result.append(Published(**fields_of(Published, PUBLISHED, values)))
    return tuple(result)


def _checked_figure(text: str, where: str, experiment: Experiment, runs: Collection[str]) -> Dimension:
    """Return the unit of a figure after a check that its flows, ports and other runs exist."""
    try:
        figure = parse_figure(text)
        check_borders(figure.times_ns, experiment.measure.window_ns, experiment.duration_ns)
        flows = {flow.name: flow.group for flow in experiment.flows}
        ports = ports_of(experiment.network)
        for name, subjects in figure.readings:
            measurement = find_measurement(name)
            if measurement is not None and measurement.of == "flow":
                expand_flows(subjects, flows)
            elif subjects:
                expand_ports(subjects, ports)
    except SpecError as error:
        suffix = "" if error.where == "figure" else f" ({error.where})"
        raise SpecError(where=where + suffix, needed=error.needed, got=error.got, hint=error.hint) from None
    for run in figure.runs:
        check_known(run, runs, "a variant or a mechanism after @", where)
    return figure.dimension
