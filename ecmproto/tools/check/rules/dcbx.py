"""Rules for DCBX, which compare the lossless priorities of both ends of a link, and the frames on the link.

At each interface, the latest LLDPDU of each station counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.errors import counted
from ecmproto.frames.stats.neighbours import LLDP_FIELD, NeighbourCounts, neighbour_of
from ecmproto.frames.stats.statistics import QAZ, Neighbour, priorities_text
from ecmproto.frames.stats.tally import CountedBatch, address_octets
from ecmproto.tools.check.keyed import FrameCounts, Group
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import (
    PORT,
    PRIORITY_FIELDS,
    SENDER,
    Family,
    Judged,
    Rows,
    Rule,
    Settings,
    Shift,
    Value,
    Where,
    mac_of_key,
)
from ecmproto.tools.check.rules.malformed import malformed
from ecmproto.wire.formats.dcbx import ETSConfiguration
from ecmproto.wire.formats.infiniband import CNP_OPCODE, ROCE_ETHERTYPE, ROCE_PORT
from ecmproto.wire.formats.registry import FORMATS

_BTH, _PFC = "infiniband.bth.opcode", "macc.cbfc.enbv"
_TIMES = tuple(f"macc.cbfc.pause_time.c{priority}" for priority in range(8))
_MAX_TRAFFIC = 1 << 14
"""The maximum number of entries for RoCE frames, and for PFC frames."""
_UNTAGGED, _NO_DSCP = 8, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DCBXRules(Parameters):
    """The parameters of the DCBX rules: none, because both ends advertise their settings."""


class _Station(NamedTuple):
    """An end of a link, as described by the latest LLDPDU of the station."""

    address: int
    number: int
    time_ns: int
    neighbour: Neighbour


class _Links:
    """The ends of each link according to LLDP, and the PFC and RoCE frames on the link."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._neighbours = NeighbourCounts()
        self._pauses, self._roce = FrameCounts(_MAX_TRAFFIC), FrameCounts(_MAX_TRAFFIC)
        """PFC frames by priority, and RoCE frames other than CNPs.

        The number of a RoCE group is the priority (or `_UNTAGGED`) times 256, plus the DSCP (or `_NO_DSCP`).
        """

    def add(self, rows: Rows) -> None:
        batch = CountedBatch(batch=rows.batch, columns=rows.columns, slots=np.zeros(0, np.int64))
        self._neighbours.add(batch, rows.interfaces, rows.ethertypes)
        for priority, name in enumerate(_TIMES):
            paused = rows.has(_PFC) & (rows[_PFC] >> priority & 1 != 0) & (rows[name] > 0)
            self._pauses.add(rows, paused, priority)
        roce = rows.has(_BTH) & (rows[_BTH] != CNP_OPCODE)
        if roce.any():
            dscp = np.where(rows.has("ip.dsfield"), rows["ip.dsfield"], rows["ipv6.tclass"]) >> 2
            routed = rows.has("ip.dsfield") | rows.has("ipv6.tclass")
            tagged = np.where(rows.is_tagged, rows.priority, _UNTAGGED)
            self._roce.add(rows, roce, tagged << 8 | np.where(routed, dscp, _NO_DSCP))

    def join(self, later: _Links, shift: Shift) -> None:
        self._neighbours.join(later._neighbours, shift.interfaces, shift.frames)
        self._pauses.join(later._pauses, shift)
        self._roce.join(later._roce, shift)

    def end(self, report: Report) -> None:
        """Report contradictions between the ends of a link, or between an end and the frames."""
        links: dict[int, list[_Station]] = {}
        for (interface, source), latest in sorted(self._neighbours.latest.items()):
            neighbour = neighbour_of(interface, address_octets(source), latest)
            links.setdefault(interface, []).append(_Station(source, latest.number, latest.time_ns, neighbour))
        for interface, stations in links.items():
            reporter = _Teller(report, interface)
            for station in stations:
                _station(reporter, station)
            if len(stations) == 2:
                _pair(reporter, *stations)
            pauses, roce = (
                [(number, seen) for at, number, seen in counts.groups() if at == interface]
                for counts in (self._pauses, self._roce)
            )
            _traffic(reporter, stations, pauses, roce)


class _Teller:
    """A function that reports findings about one link."""

    def __init__(self, report: Report, interface: int) -> None:
        self._report, self._interface = report, interface

    def __call__(
        self, rule: str, at: _Station | Group, wrong: bool, what: str, measured: Value, allowed: Value = None
    ) -> None:
        """Report a judged frame or station. A station is reported at its latest LLDPDU."""
        subject = at.address if isinstance(at, _Station) and rule in _OF_STATIONS else self._interface
        location = (at.number, at.time_ns, self._interface, subject)
        where = Where(*(np.array([each], np.int64) for each in location))
        self._report.record(rule, where, Judged(np.array([wrong]), what, measured, allowed))


_OF_STATIONS = ("DCB003", "DCB004")


def _station(reporter: _Teller, station: _Station) -> None:
    neighbour = station.neighbour
    for bandwidths, what in (
        (neighbour.bandwidths, "the sum of the bandwidth shares is wrong"),
        (neighbour.recommended_bandwidths, "the sum of the recommended bandwidth shares is wrong"),
    ):
        if bandwidths is not None and (len(neighbour.strict) < 8 or any(bandwidths)):
            reporter("DCB003", station, sum(bandwidths) != 100, what, f"{sum(bandwidths)} %", "100 %")
    if neighbour.pfc_enabled is not None and neighbour.traffic_classes is not None:
        both = sorted({*neighbour.pfc_enabled} & {*neighbour.strict})
        what = "PFC is enabled for a priority in a strict-priority traffic class"
        reporter("DCB004", station, bool(both), what, priorities_text(both))


def _pair(reporter: _Teller, one: _Station, other: _Station) -> None:
    """Compare the two ends of a link."""
    latest = max(one, other, key=lambda each: each.number)
    here, peer = one.neighbour, other.neighbour
    if here.dialects and peer.dialects:
        what = "the ends use different DCBX versions"
        wrong = {*here.dialects}.isdisjoint(peer.dialects) and QAZ in here.dialects + peer.dialects
        reporter("DCB007", latest, wrong, what, _both(one, other, lambda each: each.dialects_text))
    masks = here.pfc_enabled, peer.pfc_enabled
    if any(masks):
        what = "PFC is enabled at one end, but the other end has no PFC TLV"
        reporter("DCB006", latest, None in masks, what, _both(one, other, lambda each: each.pfc_text))
    if None in masks:
        return
    measured = _both(one, other, lambda each: each.pfc_text)
    reporter(
        "DCB001",
        latest,
        masks[0] != masks[1],
        "PFC is enabled for different priorities at the two ends",
        measured,
    )
    if here.pfc_willing == peer.pfc_willing:
        ends = "both ends are willing" if here.pfc_willing else "neither end is willing"
        reporter(
            "DCB002",
            latest,
            masks[0] != masks[1],
            f"{ends}, but PFC is enabled for different priorities",
            measured,
        )


def _both(one: _Station, other: _Station, text: Callable[[Neighbour], str | None]) -> str:
    return ", ".join(f"{mac_of_key(each.address)}: {text(each.neighbour) or 'none'}" for each in (one, other))


def _traffic(
    reporter: _Teller,
    stations: list[_Station],
    pauses: Iterable[tuple[int, Group]],
    roce: Iterable[tuple[int, Group]],
) -> None:
    """Compare the PFC and RoCE frames on a link with the settings of the ends."""
    masks = [each.neighbour.pfc_enabled for each in stations if each.neighbour.pfc_enabled is not None]
    enabled = sorted({priority for mask in masks for priority in mask})
    allowed = f"only priorities with PFC ({priorities_text(enabled)})"
    if masks:
        for priority, seen in pauses:
            what = f"no end of the link enables PFC for the paused priority {priority}"
            reporter("DCB008", seen, priority not in enabled, what, _frames(seen), allowed)
    for number, seen in roce:
        priority, dscp = divmod(number, 256)
        entries = ((each, _assigned(each.neighbour, dscp)) for each in stations)
        assigned = [(each, *entry) for each, entry in entries if entry is not None]
        if assigned and priority != _UNTAGGED:
            against = [each for each in assigned if priority not in each[2]]
            station, by, priorities = (against or assigned)[0]
            what = f"RoCE has priority {priority}, but {mac_of_key(station.address)} assigns another to {by}"
            reporter(
                "DCB005", seen, bool(against), what, _frames(seen), f"priority {priorities_text(priorities)}"
            )
        known = (priority,) if priority != _UNTAGGED else next((each[2] for each in assigned), ())
        if masks and known:
            what = f"no end of the link enables PFC for priority {priorities_text(known)} of RoCE"
            reporter("DCB009", seen, {*known}.isdisjoint(enabled), what, _frames(seen), allowed)


def _frames(seen: Group) -> str:
    return f"{counted(seen.frames, 'frame')} in total"


def _assigned(neighbour: Neighbour, dscp: int) -> tuple[str, tuple[int, ...]] | None:
    """Return the application entry of an end for RoCE frames with a DSCP, and the assigned priorities."""
    selectors = {("dscp", dscp), *((name, ROCE_PORT) for name in ("udp port", "port"))}
    if dscp == _NO_DSCP:
        selectors = {("ethertype", ROCE_ETHERTYPE)}
    entries = [each for each in neighbour.applications if (each.selector, each.protocol) in selectors]
    # an entry for a DSCP has precedence over an entry for a port
    entries.sort(key=lambda each: each.selector != "dscp")
    return (f"{entries[0].selector} {entries[0].protocol}", entries[0].priorities) if entries else None


_FIELDS = (LLDP_FIELD, _BTH, _PFC)
_OPTIONAL = (*PRIORITY_FIELDS, *_TIMES, *_FIELDS, "eth.src", "ip.dsfield", "ipv6.tclass")
_CLAUSE = "802.1Q D.2, 38"


_of_link = partial(Rule, clause=_CLAUSE, subject=PORT, on=_FIELDS, optional=_OPTIONAL, memory=_Links)

RULES = (
    malformed(
        "DCB", "A DCBX TLV",
        tuple(each.prefix for each in FORMATS if each.__module__ == ETSConfiguration.__module__),
        clause=_CLAUSE,
    ),
    _of_link(
        id="DCB001",
        name="PFC masks differ",
        sentence="PFC is enabled for the same priorities at both ends of a link.",
        why="If only one end enables PFC for a priority, the priority is lossless in at most one direction. "
        "The rule needs LLDP from two stations on an interface. The rule compares the latest LLDPDUs of both "
        "stations.",
        severity="error",
    ),
    _of_link(
        id="DCB002",
        name="persistent PFC mismatch",
        sentence="If both ends of a link are willing, or both are unwilling, PFC is enabled for the same "
        "priorities.",
        why="A willing end adopts the priorities of an unwilling end. Two unwilling ends keep their "
        "settings, so a difference remains. Of two willing ends, the end with the lower MAC address "
        "determines the priorities. A difference then means that the other end does not adopt these "
        "priorities. The rule needs LLDP from two stations on an interface.",
        severity="warning",
    ),
    _of_link(
        id="DCB003",
        name="bandwidths not 100 %",
        sentence="The bandwidth shares of all traffic classes, or of all CEE priority groups, add up to 100 "
        "%.",
        why=(
            "A neighbour may reject a TLV with any other sum. The link then shares the bandwidth in an "
            "unintended way. The rule ignores TLVs in which all traffic classes are strict-priority classes "
            "without a bandwidth share."
        ),
        severity="error",
        subject=SENDER,
    ),
    _of_link(
        id="DCB004",
        name="lossless and strict",
        sentence="A priority with PFC is not in a strict-priority traffic class.",
        why=(
            "A switch serves strict-priority traffic classes first. During congestion, a lossless "
            "strict-priority class can use the whole link and starve all other classes. The rule needs the "
            "PFC TLV and the ETS TLV of a station."
        ),
        severity="warning",
        subject=SENDER,
    ),
    _of_link(
        id="DCB005",
        name="RoCE in the wrong priority",
        sentence="RoCE frames have the priority that the DCBX application entry for RoCE specifies.",
        why=(
            "A host that ignores the neighbour's application entries sends RoCE in an unprotected priority, "
            "or in the priority of another application. The rule uses the application entries for the DSCP "
            "of the frames, for UDP port 4791, and for the EtherType of RoCEv1. An entry for the DSCP takes "
            "precedence over an entry for the UDP port. The rule ignores untagged frames and CNPs."
        ),
        severity="warning",
    ),
    _of_link(
        id="DCB006",
        name="PFC at only one end",
        sentence="If one end of a link enables PFC, the other end also advertises a PFC TLV.",
        why=(
            "An end without a PFC TLV does not support PFC, or does not advertise PFC. Frames from this end "
            "are dropped instead of paused. The rule needs LLDP from two stations on an interface."
        ),
        severity="error",
    ),
    _of_link(
        id="DCB007",
        name="different DCBX versions",
        sentence="Both ends of a link use the same version of DCBX.",
        why=(
            "An end that uses IEEE 802.1Qaz ignores the TLVs of the CEE and CIN versions, and vice versa. "
            "The ends therefore do not exchange any settings. The rule needs DCBX TLVs from two stations on "
            "an interface."
        ),
        severity="error",
    ),
    _of_link(
        id="DCB008",
        name="PFC for a disabled priority",
        sentence="PFC frames pause only priorities for which an end of the link enables PFC.",
        why=(
            "A finding means that the sender uses other priorities than the sender advertises, or that the "
            "PFC frames come from another link. The rule needs a PFC TLV on the interface. The rule ignores "
            "PFC frames that resume a priority."
        ),
        severity="warning",
    ),
    _of_link(
        id="DCB009",
        name="RoCE unprotected",
        sentence="RoCE frames have a priority for which an end of the link enables PFC.",
        why=(
            "Without PFC, a full queue drops RoCE frames. With go-back-N, each lost frame causes the "
            "retransmission of a whole window. The rule needs a PFC TLV on the interface. For untagged "
            "frames, the rule uses the priority in the application entry for RoCE. The rule ignores untagged "
            "frames without an application entry, and CNPs."
        ),
        severity="warning",
    ),
)  # fmt: skip

FAMILY = Family(name="dcbx", title="DCBX", parameters=DCBXRules, rules=RULES)
