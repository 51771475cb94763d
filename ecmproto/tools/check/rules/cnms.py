"""Rules for the addresses and the VLAN of a CNM, which depend on the sampled frame and the switch."""

from __future__ import annotations

from functools import partial

import numpy as np

from ecmproto.tools.check.keyed import FirstEvents
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import (
    Judged,
    Rows,
    Rule,
    Settings,
    Shift,
    Where,
    congestion_point,
    mac_of_key,
)
from ecmproto.tools.check.rules.drafts import GROUP, mixed

_CNM = ("cnm.cpid",)
_CPID = congestion_point("cnm.cpid")
_LOCAL_BITS, _VLAN_BITS = 16, 12


def _source(cnms: Rows, parameters: object) -> Judged:
    src = cnms["eth.src"]
    wrong = (src & GROUP != 0) | (src == 0)
    return Judged(
        wrong,
        "the source address of the CNM is invalid",
        lambda row: mac_of_key(int(src[row])),
        "an individual address other than 0",
    )


def _own_cpid(cnms: Rows, parameters: object) -> Judged:
    src, point = cnms["eth.src"], cnms["cnm.cpid"] >> _LOCAL_BITS & (1 << 48) - 1
    return Judged(
        src != point, "the CPID does not begin with the CNM's source address",
        lambda row: mac_of_key(int(point[row])), lambda row: mac_of_key(int(src[row])),
    )  # fmt: skip


class Sampled:
    """The frames that stations send, compared with the sampled frames in CNMs (QCN014 and QCN015)."""

    _MAX = 1 << 15

    def __init__(self, settings: Settings, report: Report) -> None:
        from ecmproto.frames.stats.tally import Numbering

        self._sent = Numbering(self._MAX)
        """Data frames by source with VLAN, and by destination. VLAN 0 means that the frame has no tag."""
        self._cnms = FirstEvents(self._MAX, 4)
        """CNMs by source, VLAN and destination of the sampled frame. Each entry contains the CPID."""

    def add(self, rows: Rows) -> None:
        """Record the frames that stations send, and the sampled frames in CNMs."""
        vlan = rows["vlan.id"]
        if not len(rows.columns["cnm.cpid"]):
            self._sent.numbers(rows["eth.src"] << _VLAN_BITS | vlan, rows["eth.dst"])
            return
        is_cnm = rows.has("cnm.cpid")
        data, cnms = np.flatnonzero(~is_cnm), np.flatnonzero(is_cnm & rows.has("cnm.encap_dst"))
        self._sent.numbers(rows["eth.src"][data] << _VLAN_BITS | vlan[data], rows["eth.dst"][data])
        source, to = rows["eth.dst"][cnms] << _VLAN_BITS | vlan[cnms], rows["cnm.encap_dst"][cnms]
        cpid, tagged = rows["cnm.cpid"][cnms], rows.has("vlan.id")[cnms].astype(np.int64)
        self._cnms.add(mixed(source, to), *rows.frames(cnms), source, to, cpid, tagged)

    def join(self, later: Sampled, shift: Shift) -> None:
        """Add the frames of a later part."""
        self._sent.join(later._sent, np.ones(self._MAX, np.int64))
        self._cnms.join(later._cnms, shift)

    def end(self, report: Report) -> None:
        """Report CNMs for frames that the destination of the CNM does not send."""
        if not len(self._cnms) or self._sent.left_out:
            return
        sent, sent_to = self._sent.low.astype(np.int64), self._sent.high.astype(np.int64)
        number, time_ns, interface, source, to, cpid, tagged = self._cnms.events.T
        where = Where(number, time_ns, interface, cpid)
        station, stations = source >> _VLAN_BITS, sent >> _VLAN_BITS
        report.record(
            "QCN014", where,
            Judged(
                ~np.isin(mixed(station, to), mixed(stations, sent_to)),
                "the CNM's destination sends no frame to the encapsulated destination address",
                lambda row: mac_of_key(int(to[row])), about=np.isin(station, stations),
            ),
        )  # fmt: skip

        vlan = source & (1 << _VLAN_BITS) - 1
        in_vlans = stations[sent & (1 << _VLAN_BITS) - 1 != 0]
        report.record(
            "QCN015", where,
            Judged(
                ~np.isin(source, sent), "the CNM's destination sends no frame in the CNM's VLAN", vlan,
                about=(tagged != 0) & np.isin(station, in_vlans),
            ),
        )  # fmt: skip


_FLOWS = ("eth.src", "eth.dst", "vlan.id", "cnm.cpid", "cnm.encap_dst")

_source_rule = partial(Rule, subject=_CPID, on=_CNM, fields=("eth.src",))
_sampled_rule = partial(Rule, severity="warning", subject=_CPID, optional=_FLOWS, memory=Sampled)
RULES = (
    _source_rule(
        id="QCN012",
        name="source of CNMs",
        sentence="The source address of a CNM is an individual address and not 0.",
        why="Bridges drop frames with a group source address. An invalid source address also hides which "
        "switch sent the CNM.",
        clause="802.1Q 32; wire-formats 3",
        severity="error",
        expression=_source,
    ),
    _source_rule(
        id="QCN013",
        name="CPID and source",
        sentence="The CPID in a CNM begins with the CNM's source address.",
        why=(
            "Each congestion point has a unique CPID. A CPID that begins with another switch's address may "
            "equal the CPID of another congestion point. Such a CPID also points to the wrong switch during "
            "troubleshooting."
        ),
        clause="wire-formats 3",
        severity="note",
        expression=_own_cpid,
    ),
    _sampled_rule(
        id="QCN014",
        name="encapsulated address",
        sentence="A CNM's destination sends frames to the encapsulated destination address in the CNM.",
        why=(
            "A CNM is sent to the source of the sampled frame and contains the sampled frame's destination "
            "address. If the source sends no frame to this address, the CNM describes a frame that does not "
            "exist. The rule applies to stations that send frames in the capture. The rule reports each "
            "combination of station, VLAN and encapsulated address once, at the first CNM."
        ),
        clause="802.1Q 33; wire-formats 3",
    ),
    _sampled_rule(
        id="QCN015",
        name="VLAN of CNMs",
        sentence="A CNM with a VLAN tag is in a VLAN in which the CNM's destination sends frames.",
        why=(
            "A congestion point copies the VLAN tag of the sampled frame into the CNM. A CNM in another VLAN "
            "may not reach the station. The rule applies to stations that send tagged frames in the capture. "
            "The rule reports each combination of station, VLAN and encapsulated address once, at the first "
            "CNM."
        ),
        clause="802.1Q 32; wire-formats 1.2, 3",
    ),
)
