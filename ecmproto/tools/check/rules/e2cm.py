"""Rules for the contents of E²CM messages, the replies to probes, and plausible latencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ecmproto.control.mechanisms.aimd.parameters import AIMDCongestionPointParameters
from ecmproto.control.mechanisms.api.parameters import Parameters, duration, redeclared
from ecmproto.frames.stats.plain_data import plain_value
from ecmproto.tools.check.keyed import TIME, Chain, Pairs
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import (
    NO_TIME,
    PRIORITY_FIELDS,
    Family,
    Int64,
    Judged,
    Rows,
    Settings,
    Shift,
    Subject,
    Where,
    mac_of_key,
)
from ecmproto.tools.check.rules import drafts
from ecmproto.tools.check.rules.drafts import SHOWN
from ecmproto.tools.check.rules.malformed import malformed
from ecmproto.units import format_time
from ecmproto.wire.formats.e2cm import PROBE_FWD, PROBE_REV

_E2CM = drafts.Draft(prefix="e2cm", message="an E²CM message", source="S002; wire-formats 1.2")
_AS_ECM = "S002; algorithms 1, 4"
_SECOND = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class E2CMRules(Parameters):
    """Settings of the E²CM network in a capture."""

    qeq_octets: int = drafts.qeq("S002")
    qscale: float = redeclared(AIMDCongestionPointParameters, "qscale")
    answer_ns: int = duration(
        "answer", 20 * 10**6, (1000, 100 * _SECOND), source="choice: many round trips",
        doc="maximum time from the first unanswered probe of a flow to the next reply",
    )  # fmt: skip
    latency_ns: int = duration(
        "latency", 20 * 10**6, (1000, _SECOND), source="choice: long for queues of 300 kB",
        doc="maximum change of the latency between two consecutive probes of a flow",
    )  # fmt: skip


def _probe_fields(rows: Rows, parameters: E2CMRules) -> Judged:
    kind, cpid = rows["e2cm.type"], rows["e2cm.cpid"]
    forward, back = kind == PROBE_FWD, kind == PROBE_REV
    end = np.where(forward, rows["eth.dst"], rows["eth.src"]) << 16
    checks = (
        ("the Qoff or Qdelta of the probe is not 0", (rows["e2cm.q_off"] != 0) | (rows["e2cm.q_delta"] != 0)),
        ("the CPID of the probe is not the flow's destination address followed by 0", cpid != end),
        ("the throughput in the forward probe is not 0", forward & (rows["e2cm.throughput"] != 0)),
    )

    def what(row: int) -> str:
        return "; ".join(name for name, each in checks if each[row])

    return Judged(np.any([each for _, each in checks], axis=0), what, about=forward | back)


def _table() -> Int64:
    table = np.arange(256, dtype=np.int64) << 8
    for _ in range(8):
        table = np.where(table & 0x8000, table << 1 ^ 0x1021, table << 1) & 0xFFFF
    return table


_CRC = _table()


def flow_ids(dst: Int64, src: Int64, priority: Int64) -> Int64:
    """Return the E²CM Flow IDs, which are the CRC-16/CCITT-FALSE of destination, source and priority."""
    crc = np.full(len(dst), 0xFFFF, np.int64)
    octets_of = [address >> shift & 0xFF for address in (dst, src) for shift in range(40, -1, -8)]
    for octet in (*octets_of, priority):
        crc = (crc << 8 & 0xFFFF) ^ _CRC[(crc >> 8) ^ octet]
    return crc


def _flow_id(rows: Rows, parameters: E2CMRules) -> Judged:
    kind = rows["e2cm.type"]
    is_forward, is_back = kind == PROBE_FWD, kind == PROBE_REV
    shown = rows.have([f"{SHOWN}eth.src", f"{SHOWN}eth.dst"])
    dst = np.where(is_forward, rows["eth.dst"], rows[f"{SHOWN}eth.dst"])
    src = np.where(is_forward, rows["eth.src"], rows[f"{SHOWN}eth.src"])
    priority = np.where(
        is_forward, rows.priority,
        np.where(rows.has(f"{SHOWN}ieee8021ad.priority"), rows[f"{SHOWN}ieee8021ad.priority"],
                 rows[f"{SHOWN}vlan.priority"]),
    )  # fmt: skip
    needed, got = flow_ids(dst, src, priority), rows["e2cm.flow_id"]
    return Judged(
        got != needed, "the Flow ID is wrong", lambda row: f"{got[row]:#06x}",
        lambda row: f"{needed[row]:#06x}", about=is_forward | (shown & ~is_back),
    )  # fmt: skip


def _flow_key(rows: Rows) -> Int64:
    return rows["e2cm.cpid"] >> 16 << 16 | rows["e2cm.flow_id"]


def _flow_text(key: int) -> str:
    return f"{mac_of_key(key >> 16)} flow {key & 0xFFFF:#06x}"


FLOW = Subject(name="flow", fields=("e2cm.cpid", "e2cm.flow_id"), key=_flow_key, text=_flow_text)


class Answers:
    """The forward probes of each flow, compared with the replies (E2CM008).

    This class processes each probe in Python, because a capture has few probes.
    """

    _MAX = 1 << 14

    def __init__(self, settings: Settings, report: Report) -> None:
        self._longest_ns = settings.of(E2CMRules).answer_ns
        self._report = report
        self._flows: dict[int, _Probed] = {}
        self._replies = 0
        self._last_ns = NO_TIME

    def add(self, rows: Rows) -> None:
        """Process the probes of a batch."""
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
                if len(self._flows) == self._MAX:
                    continue
                flow = self._flows[key] = _Probed()
            if not is_reply:
                flow.open = flow.open or event
                continue
            if flow.first_reply_ns is None:
                # the open probe may have an earlier probe without a reply in an earlier part
                flow.head, flow.first_reply_ns = flow.open, event[1]
            elif flow.open is not None:
                due.append([*flow.open, key, event[1]])
            flow.open = None
        self._judge(self._report, due)

    def _judge(self, report: Report, due: list[list[int]]) -> None:
        """Judge probes.

        Each entry contains the first probe without a reply, the flow, and the time of the reply or of the
        capture's end.
        """
        number, time_ns, interface, key, until_ns = np.array(due, np.int64).reshape(-1, 5).T
        elapsed_ns = until_ns - time_ns
        report.record(
            "E2CM008", Where(number, time_ns, interface, key),
            Judged(elapsed_ns > self._longest_ns, "no reply to the probe in time",
                   lambda row: format_time(int(elapsed_ns[row])), f"{format_time(self._longest_ns)} at most"),
        )  # fmt: skip

    def join(self, later: Answers, shift: Shift) -> None:
        """Add the flows of a later part."""
        self._replies += later._replies
        self._last_ns = max(self._last_ns, later._last_ns)
        for key, other in later._flows.items():
            here = self._flows.get(key)
            if here is None:
                if len(self._flows) == self._MAX:
                    continue
                here = self._flows[key] = _Probed()
            head, still_open = (
                None if each is None else [each[0] + shift.frames, each[1], each[2] + shift.interfaces]
                for each in (other.head, other.open)
            )
            if other.first_reply_ns is None:
                here.open = here.open or still_open
                continue
            here.open = here.open or head
            if here.first_reply_ns is None:
                here.head, here.first_reply_ns = here.open, other.first_reply_ns
            elif here.open is not None:
                self._judge(self._report, [[*here.open, key, other.first_reply_ns]])
            here.open = still_open

    def end(self, report: Report) -> None:
        """Judge the pending probes, if the capture contains replies."""
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
    """The probes of a flow.

    ``open`` is the oldest probe without a reply. ``head`` is the oldest probe before the first reply.
    """

    open: list[int] | None = None
    head: list[int] | None = None
    first_reply_ns: int | None = None


class Latencies:
    """A comparison of the time in each probe with the time in the previous probe (E2CM009)."""

    _MAX = 1 << 13

    def __init__(self, settings: Settings, report: Report) -> None:
        self._limit_ns = settings.of(E2CMRules).latency_ns
        self._report = report
        self._chain = Chain(self._MAX, 3)

    def add(self, rows: Rows) -> None:
        """Compare each probe with the previous probe of the flow, in the same direction and interface."""
        kind = rows["e2cm.type"]
        probes = np.flatnonzero((rows.time_ns != NO_TIME) & ((kind == PROBE_FWD) | (kind == PROBE_REV)))
        key, is_reply = _flow_key(rows)[probes], (kind[probes] == PROBE_REV).astype(np.int64)
        seen = rows.events(probes, rows["e2cm.latency"][probes], is_reply, key)
        self._take(self._chain.follow(drafts.mixed(key, is_reply), rows.interface[probes], seen))

    def _take(self, pairs: Pairs) -> None:
        before, now = pairs.before, pairs.now
        value_ns, is_reply = now[:, 3], now[:, 4] != 0
        # a forward probe contains the source's clock, and a reply contains the latency, both modulo 2^32
        passed = np.where(is_reply, 0, now[:, TIME] - before[:, TIME])
        change = (value_ns - before[:, 3] - passed + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
        number, time_ns, interface = now[:, :3].T

        def what(row: int) -> str:
            jumping = "latency" if is_reply[row] else "source's clock"
            return f"the {jumping} jumps between two probes"

        self._report.record(
            "E2CM009", Where(number, time_ns, interface, now[:, 5]),
            Judged(np.abs(change) > self._limit_ns, what, lambda row: format_time(abs(int(change[row]))),
                   f"{format_time(self._limit_ns)} at most"),
        )  # fmt: skip

    def join(self, later: Latencies, shift: Shift) -> None:
        """Add the flows of a later part."""
        self._take(self._chain.join(later._chain, shift))

    def end(self, report: Report) -> None:
        """Do nothing."""


RULES = (
    malformed("E2CM", "An E²CM message", ("e2cm",), right=("e2cm.cpid",), clause="S002; wire-formats 6"),
    _E2CM.reserved_bits(("version", "reserved"), clause="S002; wire-formats 1.1, 6"),
    _E2CM.to_source(),
    _E2CM.sampled_frame(),
    _E2CM.within_limits(clause=_AS_ECM),
    _E2CM.suppressed(clause=_AS_ECM),
    _E2CM.rule(
        6,
        name="fields of probes",
        sentence="A probe has the flow's destination address in the CPID, and 0 in all unused fields.",
        why="The local identifier in the CPID of a probe is 0. Qoff and Qdelta are 0 in all probes, and the "
        "throughput is 0 in forward probes. When a source receives a reply, the source finds the flow by the "
        "address in the CPID and by the Flow ID.",
        clause="S002; wire-formats 6",
        fields=("e2cm.type", "e2cm.q_off", "e2cm.q_delta", "e2cm.throughput", "eth.dst", "eth.src"),
        expression=_probe_fields,
    ),
    _E2CM.association(7, "an E²CM CM-Tag", clause=_AS_ECM),
    _E2CM.rule(
        8,
        name="probes are answered",
        sentence="The destination of a flow answers the flow's probes.",
        why=(
            "Without replies, only the congestion points control the source, and the bandwidth shares of the "
            "flows become unfair. The rule measures the time from the first unanswered probe of a flow to "
            "the next reply. If the time exceeds e2cm.answer, the rule reports the probe. A single lost "
            "probe is therefore not a finding. The rule needs at least one reply in the capture."
        ),
        clause="S002; algorithms 4",
        severity="warning",
        subject=FLOW,
        fields=("e2cm.type", "e2cm.flow_id"),
        parameters=("answer",),
        memory=Answers,
    ),
    _E2CM.rule(
        9,
        name="latencies are plausible",
        sentence="The timestamps and latencies in a flow's probes change only gradually.",
        why=(
            "The timestamp in a forward probe advances with the source's clock. The latency in a reply "
            "changes only with the lengths of the queues. The rule reports a jump of more than e2cm.latency "
            "from one probe to the next probe. A jump means that a clock was set, or that a unit is wrong. "
            "The clocks of two stations may differ."
        ),
        clause="S002; wire-formats 6; algorithms 4",
        severity="warning",
        subject=FLOW,
        fields=("e2cm.type", "e2cm.flow_id", "e2cm.latency"),
        parameters=("latency",),
        memory=Latencies,
    ),
    _E2CM.rule(
        10,
        name="Flow ID",
        sentence="The Flow ID of an E²CM message is the CRC-16 of the flow's destination, source and "
        "priority.",
        why=(
            "The source and the destination of a flow each calculate the Flow ID. If the two results differ, "
            "the source finds no flow for a reply. The rule checks forward probes, and messages that contain "
            "the addresses of the sampled frame."
        ),
        clause="S002; wire-formats 6",
        fields=("e2cm.type", "e2cm.flow_id", "eth.dst", "eth.src"),
        optional=(
            *PRIORITY_FIELDS,
            f"{SHOWN}eth.src",
            f"{SHOWN}eth.dst",
            f"{SHOWN}vlan.priority",
            f"{SHOWN}ieee8021ad.priority",
        ),
        expression=_flow_id,
    ),
)

FAMILY = Family(name="e2cm", title="E²CM", parameters=E2CMRules, rules=RULES)
