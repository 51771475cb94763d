"""Rules for congestion notification domains: CN-TAGs stay inside their domain (802.1Q 30 to 33).

Each end of a link uses LLDP to announce its CNPVs, and the priorities for which the end accepts CN-TAGs. An
announcement at any time counts, because both ends start as not ready.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ecmproto.control.mechanisms.api.parameters import Parameters, priority_set
from ecmproto.errors import counted
from ecmproto.tools.check.keyed import INTERFACE, FirstEvents, FrameCounts, moved
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
    Where,
    mac_of_key,
)
from ecmproto.tools.check.rules.drafts import mixed
from ecmproto.tools.check.rules.malformed import malformed

_CNTAG = ("cntag.flow_id",)
_TAGS_AND_LLDP = (*_CNTAG, "lldp.tlv.type")
_CNM = "cnm.cpid"
"""The field of a CNM. A CNM has a copy of the flow's CN-TAG, but may have another priority."""
_CNPV, _READY = "lldp.ieee.802_1qau.cnpv", "lldp.ieee.802_1qau.ready"
_INNER = "ieee8021ah.isid"
"""The field of a frame in a provider backbone. Such a frame has an outer and an inner CN-TAG."""
_MAX_SENT = 1 << 15
_MAX_LINKS = 1024
"""The maximum number of pairs of interface and priority, and of pairs of interface and LLDP speaker."""

_CNPVS = "A congestion notification priority value (CNPV) is a priority that uses congestion notification."


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRules(Parameters):
    """Settings of a congestion notification domain."""

    cnpv: frozenset[int] = priority_set(
        "cnpv", frozenset(range(8)), source="802.1Q 30; wire-formats 9",
        doc="congestion notification priority values (CNPVs): the priorities in which frames may have a "
        "CN-TAG",
    )  # fmt: skip


def _priority(frames: Rows, parameters: DomainRules) -> Judged:
    priority, tagged = frames.priority, frames.is_tagged
    inside = np.isin(np.arange(8), list(parameters.cnpv))[priority]
    allowed = ", ".join(str(each) for each in sorted(parameters.cnpv)) or "none"

    def what(row: int) -> str:
        frame = "frame" if tagged[row] else "frame without a VLAN tag"
        return f"a {frame} has a CN-TAG, but its priority is not a CNPV"

    return Judged(~inside, what, priority, allowed, about=~frames.has(_CNM))


def _two_tags(frames: Rows, parameters: DomainRules) -> Judged:
    tags = np.bincount(frames.columns[_CNTAG[0]].rows, minlength=len(frames))
    return Judged(tags > 1, "the frame has more than one CN-TAG", tags, 1, about=~frames.has(_INNER))


def _all_cnpvs(frames: Rows, parameters: DomainRules) -> Judged:
    return Judged(frames[_CNPV] == 0xFF, "all eight priorities are CNPVs")


def _ready(frames: Rows, parameters: DomainRules) -> Judged:
    cnpv, ready = frames[_CNPV], frames[_READY]
    return Judged(
        ready & ~cnpv != 0, "the ready priorities are not all CNPVs",
        lambda row: _priorities(int(ready[row])), lambda row: f"only CNPVs ({_priorities(int(cnpv[row]))})",
    )  # fmt: skip


def _priorities(vector: int) -> str:
    return ", ".join(str(each) for each in range(8) if vector >> each & 1) or "none"


class _Tags:
    """The links with CN-TAGs, and the LLDP announcements of both ends."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._tags = FrameCounts(_MAX_LINKS)
        """Frames with a CN-TAG by interface and priority."""
        self._speakers: dict[tuple[int, int], tuple[int, int]] = {}
        """CNPVs and ready priorities of each LLDP speaker, by interface and address."""

    def add(self, rows: Rows) -> None:
        self._tags.add(rows, rows.has(_CNTAG[0]) & ~rows.has(_CNM), rows.priority)
        for at in np.flatnonzero(rows.has("lldp.tlv.type")).tolist():
            vectors = (int(rows[_CNPV][at]), int(rows[_READY][at]))
            self._speak((int(rows.interface[at]), int(rows["eth.src"][at])), vectors)

    def _speak(self, who: tuple[int, int], vectors: tuple[int, int]) -> None:
        if who in self._speakers or len(self._speakers) < _MAX_LINKS:
            cnpv, ready = self._speakers.get(who, (0, 0))
            self._speakers[who] = (cnpv | vectors[0], ready | vectors[1])

    def join(self, later: _Tags, shift: Shift) -> None:
        self._tags.join(later._tags, shift)
        for (interface, address), vectors in later._speakers.items():
            self._speak((interface + shift.interfaces, address), vectors)

    def end(self, report: Report) -> None:
        """Report CN-TAGs on links with an end that does not support CN-TAGs in this priority."""
        for interface, priority, (number, time_ns, frames) in self._tags.groups():
            speakers = [
                (address, vectors)
                for (where, address), vectors in self._speakers.items()
                if where == interface
            ]
            for rule, vector, lacks in (
                ("DOM002", 0, "a CNPV"),
                ("DOM003", 1, "ready"),
            ):
                about = [
                    (address, vectors)
                    for address, vectors in speakers
                    if not vector or vectors[0] >> priority & 1
                ]
                without = [address for address, vectors in about if not vectors[vector] >> priority & 1]
                if about:
                    what = f"priority {priority} of CN-TAGs is not {lacks} at {_listed(without)}"
                    one = np.array([number], np.int64)
                    report.record(
                        rule,
                        Where(one, np.array([time_ns]), np.array([interface]), np.array([interface])),
                        Judged(np.array([bool(without)]), what, counted(frames, "frame") + " in total"),
                    )


def _listed(addresses: list[int]) -> str:
    return ", ".join(mac_of_key(each) for each in addresses)


class _Edges:
    """The stations outside the domain according to LLDP, and the priorities of their frames (DOM006)."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._sent = FirstEvents(_MAX_SENT, 2)
        """Tagged frames by source, priority and interface. Each entry contains source and priority."""
        self._speakers: dict[tuple[int, int], int] = {}
        """The CNPVs of each speaker, by interface and address."""

    def add(self, rows: Rows) -> None:
        """Record LLDP announcements.

        With several interfaces, also record the priorities of each station's frames.
        """
        if len(rows.columns["lldp.tlv.type"]):
            for at in np.flatnonzero(rows.has("lldp.tlv.type")).tolist():
                self._speak((int(rows.interface[at]), int(rows["eth.src"][at])), int(rows[_CNPV][at]))
        if len(rows.interfaces) > 1:
            tagged = np.flatnonzero(rows.is_tagged)
            source, priority = rows["eth.src"][tagged], rows.priority[tagged]
            key = mixed(source << 3 | priority, rows.interface[tagged])
            self._sent.add(key, *rows.frames(tagged), source, priority)

    def _speak(self, who: tuple[int, int], cnpv: int) -> None:
        if who in self._speakers or len(self._speakers) < _MAX_LINKS:
            self._speakers[who] = self._speakers.get(who, 0) | cnpv

    def join(self, later: _Edges, shift: Shift) -> None:
        events = moved(later._sent.events, shift)
        self._sent.add(mixed(events[:, 3] << 3 | events[:, 4], events[:, INTERFACE]), *events.T)
        for (interface, address), cnpv in later._speakers.items():
            self._speak((interface + shift.interfaces, address), cnpv)

    def end(self, report: Report) -> None:
        """Report frames from stations outside the domain that have a CNPV after the edge of the domain."""
        foreign: dict[int, int] = {}
        """For each station, the CNPVs of other stations on the link that are not CNPVs of the station."""
        for (link, address), own in self._speakers.items():
            for (where, other), cnpv in self._speakers.items():
                if where == link and other != address:
                    foreign[address] = foreign.get(address, 0) | cnpv & ~own
        table = [
            event
            for event in self._sent.events.tolist()
            if foreign.get(event[3]) and (event[INTERFACE], event[3]) not in self._speakers
        ]
        number, time_ns, interface, source, priority = np.array(table, np.int64).reshape(-1, 5).T
        cnpvs = np.array([foreign[each] for each in source.tolist()], np.int64)
        report.record(
            "DOM006", Where(number, time_ns, interface, source),
            Judged(
                cnpvs >> priority & 1 != 0, "a frame from outside the domain has a CNPV after the edge",
                priority, lambda row: f"a priority other than {_priorities(int(cnpvs[row]))}",
            ),
        )  # fmt: skip


_link_rule = partial(
    Rule, clause="802.1Q 32, 33.5; wire-formats 9", subject=PORT, on=_TAGS_AND_LLDP,
    optional=(*PRIORITY_FIELDS, _CNPV, _READY, _CNM, "eth.src"), memory=_Tags,
)  # fmt: skip
RULES = (
    malformed(
        "DOM",
        "A CN-TAG or LLDP Congestion Notification TLV",
        ("cntag", "lldpcn"),
        clause="802.1Q 33, 33.5; wire-formats 2, 9",
    ),
    Rule(
        id="DOM001",
        name="priority of CN-TAGs",
        sentence="The priority of a frame with a CN-TAG is a congestion notification priority value (CNPV).",
        why=(
            "A reaction point adds CN-TAGs only to rate-limited flows, which always use a CNPV. Bridges in "
            "the domain do not remove CN-TAGs from frames with other priorities. A frame without a VLAN tag "
            "counts as priority 0. All priorities are CNPVs by default. Set the CNPVs with --set "
            "domain.cnpv. The rule ignores CNMs."
        ),
        clause="802.1Q 30; wire-formats 2, 9",
        severity="error",
        subject=SENDER,
        # the same fields as in the rules below, so that frames are selected only once
        on=_TAGS_AND_LLDP,
        fields=_CNTAG,
        optional=(*PRIORITY_FIELDS, _CNM),
        parameters=("cnpv",),
        expression=_priority,
    ),
    _link_rule(
        id="DOM002",
        name="CN-TAG outside the domain",
        sentence="A link carries CN-TAGs only in priorities that are CNPVs at both ends of the link.",
        why=(
            f"{_CNPVS} A station that does not support CN-TAGs drops frames with a CN-TAG, or interprets "
            "these frames as another protocol. The port that sends such a frame should be an edge port, "
            "which removes CN-TAGs. The rule needs LLDP from at least one end of the link. An end without "
            "the LLDP Congestion Notification TLV has no CNPVs."
        ),
        severity="error",
    ),
    _link_rule(
        id="DOM003",
        name="CN-TAG to an unready end",
        sentence="A link carries CN-TAGs only in priorities for which both ends of the link advertise "
        "readiness.",
        why=(
            "An end that is not ready removes CN-TAGs, or has not configured its queues yet. The neighbour "
            "must not send CN-TAGs before the end is ready. The rule needs LLDP from an end that advertises "
            f"the priority as a CNPV. {_CNPVS}"
        ),
        severity="warning",
    ),
    Rule(
        id="DOM004",
        name="all priorities are CNPVs",
        sentence="At least one of the eight priorities is not a CNPV.",
        why=(
            f"{_CNPVS} An edge port moves frames from outside the domain to a priority that is not a CNPV. "
            "If all priorities are CNPVs, these frames fill the queues of congestion-controlled flows."
        ),
        clause="802.1Q 30; wire-formats 9",
        severity="error",
        subject=SENDER,
        on=(_CNPV,),
        fields=(_CNPV,),
        expression=_all_cnpvs,
    ),
    Rule(
        id="DOM005",
        name="ready without CNPV",
        sentence="A station advertises readiness for CN-TAGs only in priorities that are CNPVs.",
        why=(
            f"{_CNPVS} The neighbour sends no CN-TAGs in a priority that is not a CNPV. Either the CNPV "
            "indicator or the Ready indicator of the priority is therefore wrong."
        ),
        clause="802.1Q 33.5; wire-formats 9",
        severity="warning",
        subject=SENDER,
        on=(_CNPV,),
        fields=(_CNPV, _READY),
        expression=_ready,
    ),
    Rule(
        id="DOM006",
        name="not remapped at the edge",
        sentence="An edge port moves frames from outside the domain to a priority that is not a CNPV.",
        why=(
            f"{_CNPVS} In a CNPV, frames from outside the domain would fill the queues of "
            "congestion-controlled flows. The rule needs a capture from at least two interfaces. A sender is "
            "outside the domain if the sender's neighbour advertises the CNPV by LLDP, but the sender does "
            "not. The rule checks the sender's tagged frames on interfaces without LLDP from the sender, "
            "because these frames have passed the edge."
        ),
        clause="802.1Q 32; wire-formats 9",
        severity="warning",
        subject=SENDER,
        optional=(*PRIORITY_FIELDS, "lldp.tlv.type", _CNPV, "eth.src"),
        memory=_Edges,
    ),
    Rule(
        id="DOM007",
        name="two CN-TAGs",
        sentence="A frame has at most one CN-TAG.",
        why=(
            "A device removes only one CN-TAG. An end station then interprets the second CN-TAG as an "
            "unknown EtherType and drops the frame. The rule ignores frames with an I-TAG, which may contain "
            "a CN-TAG in the backbone header and another CN-TAG in the customer frame."
        ),
        clause="802.1Q 33; wire-formats 1.2, 2",
        severity="error",
        subject=SENDER,
        on=_TAGS_AND_LLDP,
        fields=_CNTAG,
        optional=(_INNER,),
        expression=_two_tags,
    ),
)

FAMILY = Family(name="domain", title="Congestion notification domains", parameters=DomainRules, rules=RULES)
