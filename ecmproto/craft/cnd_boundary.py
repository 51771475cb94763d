"""A check of the boundary of a congestion notification domain: what a port does in each defence mode.

LLDP Congestion Notification TLVs announce the sender as a neighbour that has no CNPV, has them, is ready;
behind each come data frames of every priority and an untagged one, with and without CN-TAG.  What the port
has to do with each is what the edge of `ecmproto.mechanisms.qcn` does (wire-formats 9; 802.1Q 33.5).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ecmproto.codec.frame import decode_lax, encode
from ecmproto.craft.builders import build
from ecmproto.craft.quantities import time_text
from ecmproto.craft.sequence import SCHEMA, Parameter, Sequence, Step, Values, interval_ns_of, number_of
from ecmproto.errors import ParameterError, shown
from ecmproto.formats.cn import CNTag
from ecmproto.formats.ethertypes import EtherTypes
from ecmproto.formats.lldp import CongestionNotificationTLV
from ecmproto.mechanisms.qcn.edge import Edge, PortRules, defence_modes, port_rules, receive, transmit
from ecmproto.mechanisms.qcn.edge_parameters import (
    AUTOMATIC,
    AUTOMATIC_ALTERNATE,
    PRIORITIES,
    DefenceMode,
    EdgeParameters,
)
from ecmproto.record import new_record
from ecmproto.units import parse_time

MODES = {
    "automatic": AUTOMATIC, "disabled": DefenceMode.DISABLED, "interior": DefenceMode.INTERIOR,
    "interiorReady": DefenceMode.INTERIOR_READY, "edge": DefenceMode.EDGE,
}  # fmt: skip
"""What a port may be set to, as the MIB calls it."""
_NAMES = {mode: name for name, mode in MODES.items()}
_ALL = (1 << PRIORITIES) - 1
_LONGEST_SETTLING_NS = 86_400 * 10**9
_DATA_OCTETS = 32
"""Enough that a frame does not need padding when it loses its tags."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """What is under test and how it is talked to."""

    parameters: EdgeParameters
    ethertypes: EtherTypes
    vlan: int
    addresses: str
    """Of data frames, as words of a line."""
    lldp_source: str
    interval_ns: int
    settle_ns: int


def _steps(values: Values, ethertypes: EtherTypes) -> Iterator[Step]:
    check = _check(values, ethertypes)
    cnpv = sum(1 << priority for priority in check.parameters.cnpv)
    number, time_ns = 1, 0
    # Ready without CNPV says nothing, others' CNPVs are not this port's, and what was announced can be undone
    for said in ((0, 0), (cnpv, 0), (cnpv, cnpv), (0, cnpv), (_ALL, _ALL), (0, 0)):
        neighbour = CongestionNotificationTLV(cnpv=said[0], ready=said[1])
        modes = defence_modes(check.parameters, neighbour)
        yield _announcement(check, neighbour, modes, number, time_ns)
        number += 1
        time_ns += check.settle_ns
        rules = port_rules(check.parameters, modes)
        for priority in (None, *range(PRIORITIES)):
            for tagged in (False, True):
                yield _data(check, rules, priority, tagged, number, time_ns)
                number += 1
                time_ns += check.interval_ns


def _announcement(
    check: _Check,
    neighbour: CongestionNotificationTLV,
    modes: tuple[DefenceMode, ...],
    number: int,
    time_ns: int,
) -> Step:
    """Return the step that tells the port what its neighbour has."""
    line = f"{check.lldp_source}lldpcn cnpv={neighbour.cnpv:#04x} ready={neighbour.ready:#04x}"
    named = {f"{priority}": _NAMES[mode] for priority, mode in enumerate(modes)}
    told = ", ".join(f"priority {p} {_NAMES[modes[p]]}" for p in sorted(check.parameters.cnpv))
    comment = (
        f"neighbour announces CNPV {neighbour.cnpv:#04x}, Ready {neighbour.ready:#04x}: not forwarded; "
        f"the port's mode from now on: {told}"
    )
    expected = {"kind": "lldp", "cnpv": neighbour.cnpv, "ready": neighbour.ready, "modes": named}
    return _step(line, comment, number, time_ns, expected)


def _data(
    check: _Check, rules: PortRules, priority: int | None, tagged: bool, number: int, time_ns: int
) -> Step:
    """Return the step of a data frame; its number is its flow id and stands in its payload."""
    vlan = "" if priority is None else f"vlan id={check.vlan} priority={priority} "
    tag = f"cntag flow_id={number} " if tagged else ""
    data = number.to_bytes(4, "big").hex().ljust(2 * _DATA_OCTETS, "0")
    line = f"{check.addresses}{vlan}{tag}ip udp data data={data}"
    octets = encode(build(line, ethertypes=check.ethertypes))
    received, becomes = receive(new_record(Edge), rules, octets, ethertypes=check.ethertypes)
    counted = priority or 0
    transmitted = transmit(new_record(Edge), rules, octets, counted, ethertypes=check.ethertypes)
    mode = rules.modes[counted]
    expected = {
        "kind": "data",
        "priority": priority,
        "cn_tag": tagged,
        "mode": _NAMES[mode],
        "received": {"priority": becomes} | _outcome(check, received),
        "transmitted": {"priority": counted} | _outcome(check, transmitted),
    }
    named = "untagged, as priority 0" if priority is None else f"priority {priority}"
    role = f"CNPV, {_NAMES[mode]}" if counted in check.parameters.cnpv else "no CNPV"
    remapped = "unchanged" if becomes == counted else f"priority {becomes}"
    changed = "unchanged" if transmitted == octets else "CN-TAG stripped"
    comment = (
        f"{named} ({role}), {'CN-TAG' if tagged else 'no CN-TAG'}: "
        f"received by the port: {remapped}; transmitted by the port: {changed}"
    )
    return _step(line, comment, number, time_ns, expected)


def _outcome(check: _Check, octets: bytes) -> dict[str, Any]:
    frame = decode_lax(octets, ethertypes=check.ethertypes)
    return {"cn_tag": CNTag in frame, "octets": octets.hex()}


def _step(line: str, comment: str, number: int, time_ns: int, expected: Mapping[str, Any]) -> Step:
    return Step(
        item={"frame": line, "time": time_text(time_ns), "comment": comment},
        expected={"schema": SCHEMA, "frame": number, "time_ns": time_ns, **expected},
    )


def _check(values: Values, ethertypes: EtherTypes) -> _Check:
    if values["mode"] not in MODES:
        raise ParameterError(name="mode", needed=f"one of {', '.join(MODES)}", got=shown(values["mode"]))
    given = values["alternate"]
    addresses = [f"{name}={values[name]}" for name in ("dst", "src") if values[name]]
    settle_ns = parse_time(values["settle"])
    if settle_ns > _LONGEST_SETTLING_NS:
        raise ParameterError(name="settle", needed="at most a day", got=shown(values["settle"]))
    return _Check(
        parameters=EdgeParameters(
            cnpv=frozenset(number_of(each.strip(), "cnpv", 7) for each in values["cnpv"].split(",")),
            mode=MODES[values["mode"]],
            alternate_priority=number_of(given, "alternate", 7) if given else AUTOMATIC_ALTERNATE,
        ),
        ethertypes=ethertypes,
        vlan=number_of(values["vlan"], "vlan", 4095),
        addresses=f"eth {' '.join(addresses)} " if addresses else "",
        lldp_source=f"eth src={values['neighbour']} " if values["neighbour"] else "",
        interval_ns=interval_ns_of(values["rate"]),
        settle_ns=settle_ns,
    )


CND_BOUNDARY = Sequence(
    name="cnd-boundary",
    doc="LLDP announcements, and frames of all priorities with and without CN-TAG behind each",
    parameters={
        "cnpv": Parameter(default="3", doc="CNPVs of the port under test, such as 3,4"),
        "mode": Parameter(default="automatic", doc=f"its defence mode, one of {', '.join(MODES)}"),
        "alternate": Parameter(
            default="", doc="its alternate priority (none given: next lower, else higher)"
        ),
        "vlan": Parameter(default="1", doc="VLAN id of tagged data frames"),
        "dst": Parameter(default="", doc="destination of data frames (none given: a default)"),
        "src": Parameter(default="", doc="source of data frames (none given: a default)"),
        "neighbour": Parameter(default="", doc="source of LLDP frames (none given: a default)"),
        "rate": Parameter(default="100pps", doc="data frames a second"),
        "settle": Parameter(default="2s", doc="time that the port has to take in an announcement"),
    },
    make=_steps,
    expects=True,
)
