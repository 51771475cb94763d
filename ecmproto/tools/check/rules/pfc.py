"""Rules for PAUSE and PFC: invalid frames, expired pauses, and pause storms (lossless 3)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.api.parameters import Parameters, duration, priority_set, rate
from ecmproto.frames.stats.pauses import (
    DETECT_NS,
    LINK,
    MAX_SENDERS,
    PAUSE_FIELDS,
    RESTORE_NS,
    PauseCounts,
    storm_rule,
)
from ecmproto.frames.stats.pfc_faults import CONTROL_FIELDS, PFC_FIELDS, control_faults, pfc_faults
from ecmproto.frames.stats.statistics import PFC_FAULTS
from ecmproto.tools.check.keyed import INTERFACE, NUMBER, TIME, Chain, CountedTimes, Pairs
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import (
    NO_TIME,
    SENDER,
    Family,
    Judged,
    Rows,
    RowValue,
    Rule,
    Settings,
    Severity,
    Shift,
    SingleFrames,
    Where,
    mac_of_key,
)
from ecmproto.tools.check.rules.malformed import malformed
from ecmproto.units import NS_PER_S, QUANTUM_BITS, format_rate, format_time

_PFC = ("macc.cbfc.enbv",)
_ANY = ("macc.pause_time", "macc.cbfc.enbv")
_TIMES = tuple(f"macc.cbfc.pause_time.c{priority}" for priority in range(LINK))
_CLASSES = LINK + 1
_CLAUSE = "lossless 3; 802.1Q 36.1.3; 802.3 31D"
_OTHERS = (*range(0x0002, 0x0007), 0xFFFE)
"""MAC Control opcodes other than PAUSE and PFC: multipoint control and the extension (802.3 31A)."""
_SECOND, _MS, _US = NS_PER_S, 10**6, 10**3
_FASTEST_BPS = 1 << 62
_INDIVIDUAL = "an individual address other than 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class PFCRules(Parameters):
    """Settings of the links in a capture."""

    lossless: frozenset[int] = priority_set(
        "lossless",
        frozenset(range(8)),
        source="802.1Q 36.1.2",
        doc="lossless priorities, which PFC frames may pause",
    )
    rate_bps: int = rate(
        "rate", 10 * 10**9, (1, 10**13), source="the most common rate in captures",
        doc="link speed if the capture does not contain the link speed. A pause quantum is 512 bit times at "
        "the link speed",
    )  # fmt: skip
    late_ns: int = duration(
        "late", 50 * _US, (0, _SECOND), source="a few frames' time: the queue did not empty in between",
        doc="maximum gap between two pauses for which the second pause counts as a late renewal",
    )  # fmt: skip
    detect_ns: int = duration(
        "detect", DETECT_NS, (_MS, 100 * _SECOND), source="lossless 3",
        doc="detection time of a storm; a priority that is paused for 99 % of this time is in a storm",
    )  # fmt: skip
    restore_ns: int = duration(
        "restore", RESTORE_NS, (_MS, 100 * _SECOND), source="lossless 3",
        doc="time without a pause after which a storm ends",
    )  # fmt: skip


class _Faults(SingleFrames):
    """A check of each PFC frame for faults that a receiver may reject.

    The check covers all `PFC_FAULTS` except the last fault.
    """

    def __init__(self, settings: Settings, report: Report) -> None:
        super().__init__(settings, report)
        self._lossless = settings.of(PFCRules).lossless if settings.is_given("pfc.lossless") else None
        self._is_untold = False
        """Whether the capture has PFC frames but the lossless priorities are not set."""
        self._asks = settings.is_active("PFC004") and self._lossless is None

    def add(self, rows: Rows) -> None:
        self._is_untold |= self._asks
        result = pfc_faults(rows.batch, rows.columns, rows.interfaces, self._lossless)
        enabled = rows["macc.cbfc.enbv"]

        def stray(row: int) -> str:
            return _listed(sum(1 << at for at, name in enumerate(_TIMES) if rows[name][row]) & ~enabled[row])

        facts: dict[str, tuple[RowValue, RowValue]] = {
            "destination": (lambda row: mac_of_key(int(rows["eth.dst"][row])), "01:80:c2:00:00:01"),
            "source": (lambda row: mac_of_key(int(rows["eth.src"][row])), _INDIVIDUAL),
            "not_lossless": (lambda row: _listed(enabled[row]), _listed(_vector(self._lossless or ()))),
            "upper_octet": (lambda row: int(enabled[row]) >> LINK, 0),
            "timers": (stray, "0"),
            "length": (rows.octets, "60 octets without the FCS"),
        }
        # PFC000 reports frames with the last fault, because these frames have no fields
        for (fault, what), wrong, rule in zip(PFC_FAULTS.items(), result, FAULT_RULES, strict=False):
            if fault != "not_lossless" or self._lossless is not None:
                self._report.judge(rule.id, rows, Judged(wrong, what, *facts.get(fault, (None, None))))

    def join(self, later: _Faults, shift: Shift) -> None:
        """Add whether the later part has PFC frames. Each frame was judged alone."""
        self._is_untold |= later._is_untold

    def end(self, report: Report) -> None:
        """Add a note if PFC004 was skipped."""
        if self._is_untold:
            report.note(
                "pfc.lossless",
                "PFC004 was skipped because the lossless priorities are unknown. Set the lossless "
                "priorities, for example with --set pfc.lossless=3,4.",
            )


class _PauseFaults(SingleFrames):
    """A check of each PAUSE frame for faults that a receiver may reject (all `PAUSE_RULES`)."""

    def add(self, rows: Rows) -> None:
        faults = control_faults(rows.batch, rows.columns, rows.interfaces)
        dst, src = rows["eth.dst"], rows["eth.src"]
        texts = (
            Judged(
                faults.destination, "the PAUSE frame has the wrong destination address",
                lambda row: mac_of_key(int(dst[row])), "01:80:c2:00:00:01",
            ),
            Judged(
                faults.source, "the PAUSE frame has an invalid source address",
                lambda row: mac_of_key(int(src[row])), _INDIVIDUAL,
            ),
            Judged(faults.tagged, "the PAUSE frame has a VLAN tag"),
            Judged(faults.padding, "the padding of the PAUSE frame is not 0"),
        )  # fmt: skip
        for rule, judged in zip(PAUSE_RULES, texts, strict=True):
            self._report.judge(rule.id, rows, judged)


def _opcode(frames: Rows, parameters: PFCRules) -> Judged:
    opcode = frames["macc.opcode"]
    unknown = ~np.isin(opcode, _OTHERS)
    return Judged(unknown, "the MAC Control opcode is not assigned", lambda row: f"0x{opcode[row]:04x}")


def _vector(priorities: Collection[int]) -> int:
    return sum(1 << priority for priority in priorities)


def _listed(vector: int) -> str:
    listed = [str(each) for each in range(LINK) if int(vector) >> each & 1]
    return f"priority {', '.join(listed)}" if listed else "no priority"


_UNTIL, _QUANTA = 3, 4
"""Columns of a pause: the end time and the quanta."""


class _Renewals:
    """Pauses that expired shortly before their renewal."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._parameters = settings.of(PFCRules)
        self._report = report
        self._pauses = Chain(MAX_SENDERS * _CLASSES, 2)
        self._assumed = False

    def add(self, rows: Rows) -> None:
        """Compare each requested pause with the previous pause of the same priority."""
        speed_bps = np.array([each.speed_bps for each in rows.interfaces] or [0], np.int64)
        rate_bps = speed_bps[np.minimum(rows.interface, len(speed_bps) - 1)]
        stated = (rate_bps > 0) & (rate_bps < _FASTEST_BPS)
        self._assumed |= not stated.all()
        rate_bps = np.where(stated, rate_bps, self._parameters.rate_bps)
        enabled = np.where(rows.has("macc.pause_time"), 1 << LINK, rows["macc.cbfc.enbv"] & 0xFF)
        which, classes = np.nonzero(enabled[:, None] >> np.arange(_CLASSES) & 1)
        timed = rows.time_ns[which] != NO_TIME
        which, classes = which[timed], classes[timed]
        times = np.stack([*(rows[name] for name in _TIMES), rows["macc.pause_time"]], axis=1)
        quanta = times[which, classes]
        ns_per_quantum = QUANTUM_BITS * NS_PER_S / rate_bps[which]
        until_ns = rows.time_ns[which] + np.ceil(quanta * ns_per_quantum).astype(np.int64)
        requests = rows.events(which, until_ns, quanta)
        high = rows.interface[which] * _CLASSES + classes
        self._judge(self._report, self._pauses.follow(rows["eth.src"][which], high, requests))

    def _judge(self, report: Report, pauses: Pairs) -> None:
        went_on = (pauses.before[:, _QUANTA] > 0) & (pauses.now[:, _QUANTA] > 0)
        pauses = pauses.select(went_on)
        gap_ns = pauses.now[:, TIME] - pauses.before[:, _UNTIL]

        def what(row: int) -> str:
            each = int(pauses.high[row] % _CLASSES)
            paused = "the link" if each == LINK else f"priority {each}"
            return f"the pause of {paused} expired before the renewal"

        now = pauses.now
        report.record(
            "PFC009",
            Where(now[:, NUMBER], now[:, TIME], now[:, INTERFACE], pauses.low),
            Judged(
                (gap_ns > 0) & (gap_ns <= self._parameters.late_ns),
                what,
                lambda row: f"renewed {format_time(int(gap_ns[row]))} late",
                "a renewal in time",
            ),
        )

    def join(self, later: _Renewals, shift: Shift) -> None:
        self._assumed |= later._assumed
        self._judge(self._report, self._pauses.join(later._pauses, shift))

    def end(self, report: Report) -> None:
        """Add a note on the assumed link speed."""
        if self._assumed:
            report.note(
                "pfc.rate",
                "The capture does not contain the link speed, so the rules assume "
                f"{format_rate(self._parameters.rate_bps)} (see pfc.rate).",
            )


class _Storms:
    """Pause storms, in which a priority is paused for nearly all of the time."""

    def __init__(self, settings: Settings, report: Report) -> None:
        parameters = settings.of(PFCRules)
        self._times = CountedTimes()
        rule = storm_rule(parameters.detect_ns, parameters.restore_ns)
        self._pauses = PauseCounts(self._times.timeline, parameters.rate_bps, rule)

    def add(self, rows: Rows) -> None:
        self._pauses.add(self._times.counted(rows), rows.interfaces)

    def join(self, later: _Storms, shift: Shift) -> None:
        self._times.join(later._times)
        self._pauses.join(later._pauses, shift.interfaces)

    def end(self, report: Report) -> None:
        """Report each storm, and count the senders without a storm as correct."""
        times = self._pauses.times(self._times.last_ns)
        if times is None:
            return
        senders = times.senders
        report.count("PFC010", _where([(NO_TIME, each.interface, each.source) for each in senders]))
        storms = times.storms
        texts = ["the link" if each.priority is None else f"priority {each.priority}" for each in storms]
        paused = [
            "and not over yet" if each.restored_ns is None else
            f"over {format_time(each.restored_ns - each.begun_ns)} later" for each in storms
        ]  # fmt: skip
        report.record(
            "PFC010",
            _where([(each.begun_ns, each.interface, each.source) for each in storms]),
            Judged(
                np.ones(len(storms), np.bool_),
                lambda row: f"{texts[row]} is in a pause storm",
                lambda row: f"paused for 99 % of {format_time(times.detect_ns)}, {paused[row]}",
            ),
        )


def _where(positions: list[tuple[int, int, bytes | None]]) -> Where:
    """Return a place without a frame for each time, interface and address."""
    table = np.array(
        [(0, time, interface, int.from_bytes(source or b"", "big")) for time, interface, source in positions],
        np.int64,
    ).reshape(-1, 4)
    return Where(*table.T)


def _fault_rules(
    kind: str, elsewhere: str, *others: tuple[str, str, str, Severity], **attributes: Any
) -> tuple[Rule, ...]:
    """Return the three common rules for faults of PFC or PAUSE frames, and a rule for each of ``others``.

    ``elsewhere`` is the effect of another destination address.
    """
    texts: tuple[tuple[str, str, str, Severity], ...] = (
        (
            "destination address", f"The destination address of a {kind} frame is 01-80-C2-00-00-01.",
            elsewhere, "error",
        ),
        (
            "source address", f"The source address of a {kind} frame is an individual address and not 0.",
            f"A receiver may reject a {kind} frame with an invalid source address. An invalid source address "
            f"also hides which port sent the {kind} frame.",
            "error",
        ),
        (
            "no VLAN tag", f"A {kind} frame has no VLAN tag.",
            f"{kind} frames stay on one link and need no VLAN tag. Receivers do not recognize a {kind} frame "
            "with a VLAN tag.",
            "error",
        ),
        *others,
    )  # fmt: skip
    return tuple(
        Rule(
            id=f"{kind}{number:03}",
            name=name,
            sentence=sentence,
            why=why,
            severity=severity,
            subject=SENDER,
            fields=("eth.dst",),
            parameters=("lossless",) if name == "lossless priorities" else (),
            **attributes,
        )
        for number, (name, sentence, why, severity) in enumerate(texts, 1)
    )


FAULT_RULES = _fault_rules(
    "PFC",
    "A receiver ignores a PFC frame with any other destination address, so the traffic is not paused.",
    (
        "lossless priorities", "PFC frames pause only lossless priorities.",
        "If a lossy priority is paused, the traffic stops instead of being dropped. Often, the two ends of "
        "the link number the priorities differently. The rule needs --set pfc.lossless.",
        "warning",
    ),
    (
        "class-enable vector", "The upper octet of the class-enable vector in a PFC frame is 0.",
        "Receivers ignore the upper octet. A sender that sets the upper octet probably writes the vector in "
        "the wrong byte order.",
        "error",
    ),
    (
        "times of disabled priorities",
        "In a PFC frame, the pause time of a priority that is not enabled is 0.",
        "Receivers ignore the pause time of a priority that is not enabled. A sender that sets such a pause "
        "time may have enabled the wrong priority.",
        "warning",
    ),
    (
        "padding", "The octets after the pause times of a PFC frame are 0.",
        "Padding with other values is usually old data from a reused transmit buffer.",
        "note",
    ),
    (
        "length", "A PFC frame is 64 octets long, including the FCS.",
        "Receivers reject shorter PFC frames. A longer PFC frame contains unusual padding.",
        "warning",
    ),
    clause=_CLAUSE, on=_PFC, optional=PFC_FIELDS, memory=_Faults,
)  # fmt: skip
"""The rules for `PFC_FAULTS` except the last fault, in the same order."""

PAUSE_RULES = _fault_rules(
    "PAUSE",
    "A bridge forwards a PAUSE frame with any other destination address. The frame may then pause the wrong "
    "station.",
    (
        "padding", "The octets after the pause time of a PAUSE frame are 0.",
        "Padding with other values is usually old data from a reused transmit buffer. The frame may also be "
        "a PFC frame with the opcode of PAUSE.",
        "note",
    ),
    clause="802.3 31B; wire-formats 8", on=("macc.pause_time",), optional=CONTROL_FIELDS, memory=_PauseFaults,
)  # fmt: skip

_pause_rule = partial(Rule, subject=SENDER, on=_ANY, fields=("eth.src",))
RULES = (
    malformed(
        "PFC",
        "A PAUSE, PFC or other MAC Control frame",
        ("macc", "pause", "pfc"),
        right=_ANY,
        clause="802.3 31, 31B, 31D; wire-formats 8",
    ),
    *FAULT_RULES,
    _pause_rule(
        id="PFC009",
        name="renewed too late",
        sentence="A sender renews a pause before the pause time expires.",
        why=(
            "When the pause time expires, the other end sends at full rate into a full buffer. Frames of a "
            "lossless priority are then lost. Senders usually renew a pause after half of the pause time. If "
            "the gap between two pauses is longer than pfc.late, the second pause counts as a new pause."
        ),
        clause=_CLAUSE,
        severity="warning",
        optional=_TIMES,
        parameters=("late", "rate"),
        memory=_Renewals,
    ),
    _pause_rule(
        id="PFC010",
        name="storm",
        sentence="No priority is paused for 99 % of the detection time or longer.",
        why=(
            "A host or switch that pauses the link partner almost all of the time is probably stuck. The "
            "paused traffic fills the buffers of all upstream switches. Set the detection time with --set "
            "pfc.detect (default 200 ms). The command `ecmproto stats` prints the pause history of each "
            "port."
        ),
        clause="lossless 3",
        severity="error",
        optional=PAUSE_FIELDS,
        parameters=("detect", "restore", "rate"),
        memory=_Storms,
    ),
    *PAUSE_RULES,
    Rule(
        id="MACC001",
        name="opcode of MAC Control",
        sentence="The opcode of a MAC Control frame is assigned in IEEE 802.3.",
        why=(
            "Receivers drop MAC Control frames with an unassigned opcode. With a wrong opcode, a PAUSE frame "
            "(0x0001) or a PFC frame (0x0101) pauses nothing. The opcodes of multipoint control (0x0002 to "
            "0x0006) and of the extension (0xFFFE) are also valid."
        ),
        clause="802.3 31.4.1.3, 31A; wire-formats 8",
        severity="warning",
        subject=SENDER,
        on=("macc.body",),
        fields=("macc.opcode",),
        expression=_opcode,
    ),
)

FAMILY = Family(name="pfc", title="PAUSE and PFC", parameters=PFCRules, rules=RULES)
