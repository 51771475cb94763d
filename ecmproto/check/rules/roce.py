"""Rules of RoCEv2 and DCQCN: what a CNP holds, when the next one comes, and that marks are answered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ecmproto.check.keyed import INTERFACE, NUMBER, TIME, Chain, CountedTimes, Pairs, events
from ecmproto.check.report import Report
from ecmproto.check.rule import (
    NO_TIME,
    Family,
    Int64,
    Judged,
    Rows,
    Rule,
    Settings,
    Shift,
    Subject,
    Where,
    value_of,
)
from ecmproto.check.rules.malformed import malformed
from ecmproto.check.rules.reactions import Closed
from ecmproto.columns import Stretches, Texts
from ecmproto.formats.infiniband import BAD, BTH, CRC_STATUS, GOOD
from ecmproto.formats.ip import CE
from ecmproto.formats.registry import FORMATS
from ecmproto.mechanisms.api.parameters import duration, redeclared
from ecmproto.mechanisms.dcqcn.parameters import DCQCNEdgeParameters
from ecmproto.stats.roce import MOST_QUEUE_PAIRS, ROCE_FIELDS, RoceCounts, network_ends
from ecmproto.stats.tally import counted_batch
from ecmproto.units import format_time

_CNP = ("infiniband.cnp.reserved",)
_BTH = ("infiniband.bth.opcode",)
_QP = "infiniband.bth.destqp"
_INTERFACES = 24
"""How many bits a queue pair has, above which a key has the interface."""
_PERCENT = 100
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class DCQCNRules(Closed):
    """What the notification points of a capture are set to."""

    interval_ns: int = redeclared(DCQCNEdgeParameters, "interval_ns")
    answer_ns: int = duration(
        "answer", 10**6, (0, 10**10), source="twenty intervals",
        doc="how long after the first CE-marked frame the capture must go on before a CNP is missed",
    )  # fmt: skip


def _qp_text(key: int) -> str:
    return f"QP 0x{key:06x}"


_QUEUE_PAIR = Subject(name="queue pair", fields=(_QP,), key=partial(value_of, _QP), text=_qp_text)


def _contents(cnps: Rows, parameters: DCQCNRules) -> Judged:
    reserved = cnps.columns["infiniband.cnp.reserved"].outermost()
    assert isinstance(reserved.values, Stretches)
    filled = np.zeros(len(cnps), np.bool_)
    filled[reserved.rows] = reserved.values.any_bits()
    becn, psn = cnps["infiniband.bth.becn"], cnps["infiniband.bth.psn"]

    def found(row: int) -> str:
        octets = "not 0" if filled[row] else "0"
        return f"BECN {becn[row]}, PSN {psn[row]}, reserved octets {octets}"

    wrong = (becn != 1) | (psn != 0) | filled
    return Judged(wrong, "it is not what a CNP is", found, "BECN 1, PSN 0, reserved octets 0")


def _unmarked(cnps: Rows, parameters: DCQCNRules) -> Judged:
    ecn = np.where(cnps.has("ip.dsfield"), cnps["ip.dsfield"], cnps["ipv6.tclass"]) & CE
    about = cnps.has("ip.dsfield") | cnps.has("ipv6.tclass")
    return Judged(ecn == CE, "the CNP itself is marked CE", about=about)


def _invariant_crc(packets: Rows, parameters: DCQCNRules) -> Judged:
    status = packets.columns[CRC_STATUS].outermost()
    assert isinstance(status.values, Texts)
    codes = np.full(len(packets), len(status.values.words), np.int64)
    codes[status.rows] = status.values.codes
    is_bad, is_good = (
        np.array([word == each for word in (*status.values.words, "")]) for each in (BAD, GOOD)
    )
    return Judged(is_bad[codes], "the invariant CRC does not hold", about=(is_bad | is_good)[codes])


class _Intervals:
    """CNPs to a queue pair, each with the one before."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._least_ns = settings.of(DCQCNRules).interval_ns * 4 // 5
        self._allowed = f"{format_time(settings.of(DCQCNRules).interval_ns)} apart, less a fifth"
        self._report = report
        self._cnps = Chain(MOST_QUEUE_PAIRS, 0)

    def add(self, rows: Rows) -> None:
        """Look at the CNPs of a batch."""
        timed = np.flatnonzero(rows.time_ns != NO_TIME)
        cnps = events(rows.number[timed], rows.time_ns[timed], rows.interface[timed])
        high = rows.interface[timed] << _INTERFACES | rows[_QP][timed]
        self._judge(self._cnps.follow(_addresses(rows)[timed], high, cnps))

    def _judge(self, cnps: Pairs) -> None:
        apart_ns = cnps.now[:, TIME] - cnps.before[:, TIME]
        now = cnps.now
        self._report.tell(
            "CNP003",
            Where(now[:, NUMBER], now[:, TIME], now[:, INTERFACE], cnps.high & (1 << _INTERFACES) - 1),
            Judged(
                apart_ns < self._least_ns,
                "it comes too soon after the one before",
                lambda row: format_time(int(apart_ns[row])),
                self._allowed,
            ),
        )

    def join(self, later: _Intervals, shift: Shift) -> None:
        """Add the CNPs of a later part."""
        self._judge(self._cnps.join(later._cnps, shift))

    def end(self, report: Report) -> None:
        """Tell nothing more."""


def _addresses(rows: Rows) -> Int64:
    """Return a number for the addresses of each frame, one of 2^64: the same for the same two."""
    taken = counted_batch(rows.batch, rows.columns, np.zeros(0, np.int64), np.zeros(len(rows), np.bool_))
    which = rows.columns[_BTH[0]].outermost().rows
    source, destination, _ = network_ends(taken, which)
    mixed = np.zeros(len(rows), np.uint64)
    for half, factor in zip((*source, *destination), _MIX, strict=True):
        part = (half.view(np.uint64) + mixed[which]) * factor
        mixed[which] = part ^ part >> np.uint64(29)
    return mixed.view(np.int64)


class _Answers:
    """Flows with marks, and the CNPs that go against them."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._answer_ns = settings.of(DCQCNRules).answer_ns
        self._closed = settings.of(DCQCNRules).closed
        self._times = CountedTimes()
        self._counts = RoceCounts(self._times.timeline)

    def add(self, rows: Rows) -> None:
        """Count the RoCE frames of a batch."""
        self._counts.add(self._times.counted(rows))

    def join(self, later: _Answers, shift: Shift) -> None:
        """Add the frames of a later part."""
        self._times.join(later._times)
        self._counts.join(later._counts)

    def end(self, report: Report) -> None:
        """Tell of flows with marks that nobody answered, though the way back is in the capture."""
        traffic = self._counts.traffic
        if traffic is None:
            return
        answered = {(each.destination, each.source) for each in traffic.queue_pairs if each.cnps}
        if not answered and not self._closed:
            return
        marked = [
            each
            for each in traffic.queue_pairs
            if each.first_ce_ns is not None
            and each.other_direction
            and self._times.last_ns - each.first_ce_ns >= self._answer_ns
        ]
        table = np.array([(0, each.first_ce_ns, 0, each.queue_pair) for each in marked], np.int64)
        report.tell(
            "CNP004",
            Where(*table.reshape(-1, 4).T),
            Judged(
                np.array([(each.source, each.destination) not in answered for each in marked], np.bool_),
                lambda row: f"no CNP goes from {marked[row].destination} to {marked[row].source}",
                lambda row: f"{marked[row].ce_frames:,} CE-marked frames",
                "a CNP",
            ),
        )


_CLAUSE = "lossless 1 (IBTA vol. 1, annex A17)"

RULES = (
    malformed(
        "ROCE", "a RoCE packet", tuple(each.prefix for each in FORMATS if each.__module__ == BTH.__module__),
        clause=_CLAUSE,
    ),
    Rule(
        id="CNP001",
        name="contents of a CNP",
        sentence="A CNP has BECN 1, PSN 0 and 16 reserved octets of 0.",
        why="A network card that looks at BECN does not slow down for it.",
        clause=_CLAUSE,
        severity="error",
        subject=_QUEUE_PAIR,
        on=_CNP,
        fields=_CNP,
        optional=("infiniband.bth.becn", "infiniband.bth.psn"),
        expression=_contents,
    ),
    Rule(
        id="CNP002",
        name="CNPs that are marked",
        sentence="A CNP is not CE-marked itself.",
        why="It came through a congested queue, behind the frames that it is to slow down: CNPs belong "
        "into a priority of their own, and are not of an ECN-capable transport.",
        clause=_CLAUSE,
        severity="warning",
        subject=_QUEUE_PAIR,
        on=_CNP,
        optional=("ip.dsfield", "ipv6.tclass"),
        expression=_unmarked,
    ),
    Rule(
        id="CNP003",
        name="CNPs too often",
        sentence="To one queue pair at most one CNP goes in an interval, 50 µs unless configured.",
        why="Each cuts the sender's rate: more of them cut it deeper than the algorithm means to. Some "
        "network cards keep a shorter interval (dcqcn.interval). A fifth less is let through for "
        "queues on the way.",
        clause="lossless 2; Zhu et al., SIGCOMM 2015 (N)",
        severity="warning",
        subject=_QUEUE_PAIR,
        on=_CNP,
        optional=(*_BTH, "ip.src", "ip.dst", "ip.dsfield", "ipv6.src", "ipv6.dst", "ipv6.tclass",
                  "infiniband.grh.sgid", "infiniband.grh.dgid", "infiniband.grh.tclass"),
        parameters=("interval",),
        memory=_Intervals,
    ),
    Rule(
        id="CNP004",
        name="marks without a CNP",
        sentence="A queue pair whose frames are CE-marked is answered by CNPs.",
        why="The receiver does not notify, or CNPs are lost or dropped on the way: the sender goes on at "
        "full rate, and PFC has to stop it. Judged where the capture has frames of the way back and "
        "goes on for dcqcn.answer after the first mark, and has CNPs of other addresses (an open loop "
        "has none), or with --param dcqcn.closed=yes; between two addresses any CNP counts.",
        clause="lossless 2",
        severity="warning",
        subject=_QUEUE_PAIR,
        on=_BTH,
        optional=ROCE_FIELDS,
        parameters=("answer", "closed"),
        memory=_Answers,
    ),
    Rule(
        id="ROCE001",
        name="invariant CRC",
        sentence="The invariant CRC of a RoCE packet holds.",
        why="Some device changed what it must not change, and did not say so in the Ethernet FCS: "
        "receivers drop the packet. Packets that are cut are not judged.",
        clause="lossless 1",
        severity="error",
        subject=_QUEUE_PAIR,
        on=_BTH,
        optional=(CRC_STATUS,),
        expression=_invariant_crc,
    ),
)  # fmt: skip

FAMILY = Family(name="dcqcn", title="RoCEv2 and DCQCN", parameters=DCQCNRules, rules=RULES)
