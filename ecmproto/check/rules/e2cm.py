"""Rules of E²CM: what congestion points say, that probes are answered, and that latencies may be true."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ecmproto.check.keyed import TIME, Chain, Pairs, events
from ecmproto.check.report import Report
from ecmproto.check.rule import (
    NO_TIME,
    PRIORITY_FIELDS,
    SENDER,
    Family,
    Int64,
    Judged,
    Rows,
    Rule,
    Settings,
    Shift,
    Subject,
    Where,
    congestion_point,
    mac_of_key,
)
from ecmproto.check.rules import drafts
from ecmproto.check.rules.ecm import LARGEST_QEQ
from ecmproto.formats.e2cm import PROBE_FWD, PROBE_REV
from ecmproto.mechanisms.aimd.parameters import AIMDCongestionPointParameters
from ecmproto.mechanisms.api.parameters import Parameters, duration, octets, redeclared
from ecmproto.plain_data import plain_value
from ecmproto.units import format_time

_ON = ("e2cm.cpid",)
_CPID = congestion_point("e2cm.cpid")
_BITS = ("version", "reserved")
_SECOND = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class E2CMRules(Parameters):
    """What the network of a capture is set to."""

    qeq_octets: int = octets(
        "qeq", 0, (0, LARGEST_QEQ), source="S002",
        doc="queue length that the congestion points steer to; 0: not known, any that a field can hold",
    )  # fmt: skip
    qscale: float = redeclared(AIMDCongestionPointParameters, "qscale")
    answer_ns: int = duration(
        "answer", 20 * 10**6, (1000, 100 * _SECOND), source="choice: many round trips",
        doc="how long after the first unanswered probe of a flow an answer comes at the latest",
    )  # fmt: skip
    latency_ns: int = duration(
        "latency", 20 * 10**6, (1000, _SECOND), source="choice: long for queues of 300 kB",
        doc="by how much latencies of a flow differ at most from one probe to the next",
    )  # fmt: skip


def _probe_fields(rows: Rows, parameters: E2CMRules) -> Judged:
    kind, cpid = rows["e2cm.type"], rows["e2cm.cpid"]
    forward, back = kind == PROBE_FWD, kind == PROBE_REV
    end = np.where(forward, rows["eth.dst"], rows["eth.src"]) << 16
    checks = (
        ("a probe's Qoff and Qdelta are 0", (rows["e2cm.q_off"] != 0) | (rows["e2cm.q_delta"] != 0)),
        ("a probe's CPID is its flow's destination and 0", cpid != end),
        ("a forward probe's throughput is 0", forward & (rows["e2cm.throughput"] != 0)),
    )
    wrong = np.zeros(len(rows), np.bool_)
    for _, each in checks:
        wrong |= each

    def what(row: int) -> str:
        return "; ".join(f"needed that {name}" for name, each in checks if each[row])

    return Judged(wrong, what, about=forward | back)


def _table() -> Int64:
    table = np.arange(256, dtype=np.int64) << 8
    for _ in range(8):
        table = np.where(table & 0x8000, table << 1 ^ 0x1021, table << 1) & 0xFFFF
    return table


_CRC = _table()


def flow_ids(dst: Int64, src: Int64, priority: Int64) -> Int64:
    """Return the CRC-16/CCITT-FALSE of each destination, source and priority, as E²CM's Flow ID is."""
    crc = np.full(len(dst), 0xFFFF, np.int64)
    octets_of = [address >> shift & 0xFF for address in (dst, src) for shift in range(40, -1, -8)]
    for octet in (*octets_of, priority):
        crc = (crc << 8 & 0xFFFF) ^ _CRC[(crc >> 8) ^ octet]
    return crc


def _flow_id(rows: Rows, parameters: E2CMRules) -> Judged:
    kind = rows["e2cm.type"]
    is_forward, is_back = kind == PROBE_FWD, kind == PROBE_REV
    shown = rows.have([f"{drafts.SHOWN}eth.src", f"{drafts.SHOWN}eth.dst"])
    dst = np.where(is_forward, rows["eth.dst"], rows[f"{drafts.SHOWN}eth.dst"])
    src = np.where(is_forward, rows["eth.src"], rows[f"{drafts.SHOWN}eth.src"])
    priority = np.where(
        is_forward, rows.priority,
        np.where(rows.has(f"{drafts.SHOWN}ieee8021ad.priority"), rows[f"{drafts.SHOWN}ieee8021ad.priority"],
                 rows[f"{drafts.SHOWN}vlan.priority"]),
    )  # fmt: skip
    needed, got = flow_ids(dst, src, priority), rows["e2cm.flow_id"]
    return Judged(
        got != needed, "another Flow ID than the flow's", lambda row: f"{got[row]:#06x}",
        lambda row: f"{needed[row]:#06x}", about=is_forward | (shown & ~is_back),
    )  # fmt: skip


def _flow_key(rows: Rows) -> Int64:
    return _key(rows["e2cm.cpid"], rows["e2cm.flow_id"])


def _key(cpid: Int64, flow_id: Int64) -> Int64:
    """Return the key of a flow: its destination, and its ID."""
    return cpid >> 16 << 16 | flow_id


def _flow_text(key: int) -> str:
    return f"{mac_of_key(key >> 16)} flow {key & 0xFFFF:#06x}"


FLOW = Subject(name="flow", fields=("e2cm.cpid", "e2cm.flow_id"), key=_flow_key, text=_flow_text)


class Answers:
    """Holds forward probes against the replies of their flows: E2CM008.

    Probes are few, so that this looks at one after the other.
    """

    _MOST = 1 << 14

    def __init__(self, settings: Settings, report: Report) -> None:
        self._longest_ns = settings.of(E2CMRules).answer_ns
        self._report = report
        self._flows: dict[int, _Probed] = {}
        self._replies = 0
        self._last_ns = NO_TIME

    def add(self, rows: Rows) -> None:
        """Look at the probes of a batch."""
        timed = rows.time_ns != NO_TIME
        if timed.any():
            self._last_ns = max(self._last_ns, int(rows.time_ns[timed].max()))
        kind = rows["e2cm.type"]
        probes = np.flatnonzero(timed & ((kind == PROBE_FWD) | (kind == PROBE_REV)))
        keys = _flow_key(rows)[probes]
        due: list[list[int]] = []
        for key, is_reply, *event in zip(
            keys.tolist(), (kind[probes] == PROBE_REV).tolist(), rows.number[probes].tolist(),
            rows.time_ns[probes].tolist(), rows.interface[probes].tolist(), strict=True,
        ):  # fmt: skip
            self._replies += is_reply
            flow = self._flows.get(key)
            if flow is None:
                if len(self._flows) == self._MOST:
                    continue
                flow = self._flows[key] = _Probed()
            if not is_reply:
                flow.open = flow.open or event
                continue
            if flow.first_reply_ns is None:
                # what was open before may have been so since an earlier part
                flow.head, flow.first_reply_ns = flow.open, event[1]
            elif flow.open is not None:
                due.append([*flow.open, key, event[1]])
            flow.open = None
        self._judge(self._report, due)

    def _judge(self, report: Report, due: list[list[int]]) -> None:
        """Judge probes, each the first of some, with their flows and when they were answered or given up."""
        number, time_ns, interface, key, until_ns = np.array(due, np.int64).reshape(-1, 5).T
        taken = until_ns - time_ns
        report.tell(
            "E2CM008", Where(number, time_ns, interface, key),
            Judged(taken > self._longest_ns, "no answer for", lambda row: format_time(int(taken[row])),
                   f"{format_time(self._longest_ns)} at most"),
        )  # fmt: skip

    def join(self, later: Answers, shift: Shift) -> None:
        """Go on with the flows of a later part."""
        self._replies += later._replies
        self._last_ns = max(self._last_ns, later._last_ns)
        for key, there in later._flows.items():
            here = self._flows.get(key)
            if here is None:
                if len(self._flows) == self._MOST:
                    continue
                here = self._flows[key] = _Probed()
            head, still_open = (
                None if each is None else [each[0] + shift.frames, each[1], each[2] + shift.interfaces]
                for each in (there.head, there.open)
            )
            if there.first_reply_ns is None:
                here.open = here.open or still_open
                continue
            here.open = here.open or head
            if here.first_reply_ns is None:
                here.head, here.first_reply_ns = here.open, there.first_reply_ns
            elif here.open is not None:
                self._judge(self._report, [[*here.open, key, there.first_reply_ns]])
            here.open = still_open

    def end(self, report: Report) -> None:
        """Judge what is open, where the capture has replies at all."""
        due: list[list[int]] = []
        for key, flow in self._flows.items():
            if flow.head is not None and flow.first_reply_ns is not None:
                due.append([*flow.head, key, flow.first_reply_ns])
            if self._replies and flow.open is not None and self._last_ns - flow.open[1] > self._longest_ns:
                due.append([*flow.open, key, self._last_ns])
        self._judge(report, due)


@plain_value
@dataclass(slots=True)
class _Probed:
    """A flow: the first probe that waits for a reply, and the first that did before any reply came."""

    open: list[int] | None = None
    head: list[int] | None = None
    first_reply_ns: int | None = None


class Latencies:
    """Holds the time in a probe against that of the one before: E2CM009."""

    _MOST = 1 << 13

    def __init__(self, settings: Settings, report: Report) -> None:
        self._most_ns = settings.of(E2CMRules).latency_ns
        self._report = report
        self._chain = Chain(self._MOST, 3)

    def add(self, rows: Rows) -> None:
        """Follow the probes of each flow, each way and on each interface."""
        kind = rows["e2cm.type"]
        probes = np.flatnonzero((rows.time_ns != NO_TIME) & ((kind == PROBE_FWD) | (kind == PROBE_REV)))
        key, is_reply = _flow_key(rows)[probes], (kind[probes] == PROBE_REV).astype(np.int64)
        seen = events(
            rows.number[probes], rows.time_ns[probes], rows.interface[probes], rows["e2cm.latency"][probes],
            is_reply, key,
        )  # fmt: skip
        self._take(self._chain.follow(drafts.mixed(key, is_reply), rows.interface[probes], seen))

    def _take(self, pairs: Pairs) -> None:
        before, now = pairs.before, pairs.now
        told, is_reply = now[:, 3], now[:, 4] != 0
        # a forward probe has its source's clock, a reply the latency: both modulo 2^32
        passed = np.where(is_reply, 0, now[:, TIME] - before[:, TIME])
        change = (told - before[:, 3] - passed + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
        number, time_ns, interface = now[:, :3].T

        def what(row: int) -> str:
            return "the latency jumps" if is_reply[row] else "the source's clock jumps"

        self._report.tell(
            "E2CM009", Where(number, time_ns, interface, now[:, 5]),
            Judged(np.abs(change) > self._most_ns, what, lambda row: format_time(abs(int(change[row]))),
                   f"{format_time(self._most_ns)} at most"),
        )  # fmt: skip

    def join(self, later: Latencies, shift: Shift) -> None:
        """Go on with the flows of a later part."""
        self._take(self._chain.join(later._chain, shift))

    def end(self, report: Report) -> None:
        """Tell nothing more."""


RULES = (
    Rule(
        id="E2CM001",
        name="version and reserved bits",
        sentence="An E²CM frame's Version and reserved bits are 0.",
        why="Receivers ignore them, so nothing else tells of a sender that writes something there.",
        clause="S002; wire-formats 1.1, 6",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=tuple(f"e2cm.{name}" for name in _BITS),
        expression=partial(drafts.reserved_bits, "e2cm", _BITS),
    ),
    Rule(
        id="E2CM002",
        name="to the source",
        sentence="An E²CM message of a congestion point goes to the source of the frame that it shows.",
        why="Another station has no limiter for the flow, and a group is no source.",
        clause="S002; wire-formats 1.2",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("eth.dst", "e2cm.type", f"{drafts.SHOWN}eth.src"),
        expression=partial(drafts.to_source, "e2cm"),
    ),
    Rule(
        id="E2CM003",
        name="what is sampled",
        sentence="An E²CM message is never caused by a CNM, a message, MAC Control or a link-local frame.",
        why="Feedback on feedback slows nothing down and adds to the congestion that it reports.",
        clause="S002; wire-formats 1.2",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("e2cm.type", *drafts.SAMPLED_FIELDS),
        optional=(f"{drafts.SHOWN}vlan.etype",),
        expression=partial(drafts.sampled_frame, "e2cm"),
    ),
    Rule(
        id="E2CM004",
        name="saturation",
        sentence="Qoff is at most Qeq, Qdelta at most twice that, and the Q bit says that Qdelta is.",
        why="Both are clamped before they are scaled. With --param e2cm.qeq the limits are exact; "
        "without, they are those of the fields, and a Q bit whose Qdelta is less than twice the "
        "offset is found all the same.",
        clause="S002; algorithms 1, 4",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("e2cm.type", "e2cm.q_off", "e2cm.q_delta", "e2cm.q"),
        parameters=("qeq", "qscale"),
        expression=partial(drafts.within_limits, "e2cm"),
    ),
    Rule(
        id="E2CM005",
        name="suppression",
        sentence="A Qoff below 0 is told only to flows whose CM-Tag has this congestion point's CPID.",
        why="Where the queue is short there is nothing to tell to a source that is not limited, or "
        "limited for another congestion point. Judged where the message shows enough of the sampled "
        "frame for its tag to be seen.",
        clause="S002; algorithms 1, 4",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("e2cm.type", "e2cm.q_off", f"{drafts.SHOWN}eth.type"),
        optional=("e2cm.payload", f"{drafts.SHOWN}cmtag.cpid"),
        expression=partial(drafts.suppressed, "e2cm"),
    ),
    Rule(
        id="E2CM006",
        name="fields of probes",
        sentence="A probe names its flow's destination as CPID, no queue, and on its way forward no "
        "throughput.",
        why="The source finds the flow of a reply by the CPID's address and the Flow ID.",
        clause="S002; wire-formats 6",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("e2cm.type", "e2cm.q_off", "e2cm.q_delta", "e2cm.throughput", "eth.dst", "eth.src"),
        expression=_probe_fields,
    ),
    Rule(
        id="E2CM007",
        name="association",
        sentence="An E²CM CM-Tag's CPID is that of a congestion point that told the flow's source before.",
        why="A limiter is associated with the congestion point whose message made it or last slowed it "
        "down; probes never touch that. Judged for flows that the capture shows without this tag "
        "first, of stations that get messages in it.",
        clause="S002; algorithms 1, 4",
        severity="error",
        subject=SENDER,
        on=(),
        optional=drafts.ASSOCIATION_FIELDS,
        memory=drafts.Associations,
    ),
    Rule(
        id="E2CM008",
        name="probes are answered",
        sentence="A flow's probes are answered by its destination.",
        why="Without replies the source slows down by the congestion points alone, and shares unfairly. A "
        "single lost probe is none; a finding stands at the first probe behind which no reply came "
        "for too long. Judged where the capture has replies of any flow.",
        clause="S002; algorithms 4",
        severity="warning",
        subject=FLOW,
        on=_ON,
        fields=("e2cm.type", "e2cm.flow_id"),
        parameters=("answer",),
        memory=Answers,
    ),
    Rule(
        id="E2CM009",
        name="latencies are plausible",
        sentence="Latencies, and clocks in forward probes, go on as time does from one probe to the next.",
        why="Clocks of two stations need not agree, but what a clock says goes on with time, and a "
        "latency changes by what queues hold. A jump is a clock that was set, or a unit that was "
        "mistaken.",
        clause="S002; wire-formats 6; algorithms 4",
        severity="warning",
        subject=FLOW,
        on=_ON,
        fields=("e2cm.type", "e2cm.flow_id", "e2cm.latency"),
        parameters=("latency",),
        memory=Latencies,
    ),
    Rule(
        id="E2CM010",
        name="Flow ID",
        sentence="A Flow ID is the CRC of the flow's destination, source and priority.",
        why="Source and destination reckon it apart: with another hash replies are of no flow. Judged for "
        "forward probes, and for messages by the frame that they show.",
        clause="S002; wire-formats 6",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("e2cm.type", "e2cm.flow_id", "eth.dst", "eth.src"),
        optional=(
            *PRIORITY_FIELDS,
            f"{drafts.SHOWN}eth.src",
            f"{drafts.SHOWN}eth.dst",
            f"{drafts.SHOWN}vlan.priority",
            f"{drafts.SHOWN}ieee8021ad.priority",
        ),
        expression=_flow_id,
    ),
)

FAMILY = Family(name="e2cm", title="E²CM", parameters=E2CMRules, rules=RULES)
