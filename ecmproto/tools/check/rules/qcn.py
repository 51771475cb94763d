"""Rules for the contents, the destination and the interval of CNMs.

Queue lengths in a CNM are truncated to 64 octets, so every comparison allows for the truncated part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ecmproto.control.mechanisms.api.parameters import redeclared
from ecmproto.control.mechanisms.qcn.parameters import (
    SAMPLE_OCTETS,
    QCNCongestionPointParameters,
)
from ecmproto.errors import counted
from ecmproto.frames.columns.column import Stretches
from ecmproto.frames.stats.plain_data import plain_value
from ecmproto.tools.check.keyed import FirstEvents, Pairs, SeenKeys, moved, rows_where
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import (
    PRIORITY_FIELDS,
    STATION,
    Family,
    Int64,
    Judged,
    Mask,
    Rows,
    Rule,
    Settings,
    Shift,
    Subject,
    Where,
    congestion_point,
    cpid_of_key,
    mac_of_key,
)
from ecmproto.tools.check.rules import cnms, intervals, reactions
from ecmproto.tools.check.rules.drafts import IGNORED, ONLY_DATA, control_frames, zero_fields
from ecmproto.tools.check.rules.malformed import malformed
from ecmproto.units import QUEUE_UNIT_OCTETS, exact_octets, format_share

_CNM = ("cnm.cpid",)
_MIN_SAMPLE, _MIN, _MAX = 150_000, -(1 << 15), (1 << 15) - 1
_MAX_FB, _MAX_MSDU = 63, 64
_GROUP = 1 << 40
_LINK_LOCAL = 0x0180C2000000


@dataclass(frozen=True, slots=True, kw_only=True)
class QCNRules(intervals.Counted):
    """Settings of the QCN congestion points in a capture."""

    qeq_octets: int = redeclared(QCNCongestionPointParameters, "qeq_octets")
    weight: float = redeclared(QCNCongestionPointParameters, "weight")
    cnm_priority: int = redeclared(QCNCongestionPointParameters, "cnm_priority")
    sample_base_octets: int = redeclared(QCNCongestionPointParameters, "sample_base_octets")
    jitter: float = redeclared(QCNCongestionPointParameters, "jitter")


_CPID = congestion_point("cnm.cpid")


def _version(cnms: Rows, parameters: QCNRules) -> Judged:
    version, reserved, low = cnms["cnm.version"], cnms["cnm.reserved"], cnms["cnm.encap_reserved"]

    def value_text(row: int) -> str:
        return f"Version {version[row]}, ReservedV {reserved[row]}, encapsulated reserved {low[row]}"

    wrong = (version != 0) | (reserved != 0) | (low != 0)
    return Judged(wrong, "a field that must be 0 is not 0", value_text, 0)


def _priority(cnms: Rows, parameters: QCNRules) -> Judged:
    wrong = cnms.priority != parameters.cnm_priority
    return Judged(
        wrong, "the CNM has the wrong VLAN priority", cnms.priority, parameters.cnm_priority,
        about=cnms.is_tagged,
    )  # fmt: skip


def _some_feedback(cnms: Rows, parameters: QCNRules) -> Judged:
    return Judged(cnms["cnm.qntz_fb"] == 0, "the quantized feedback is out of range", 0, "1 to 63")


def _msdu_length(cnms: Rows, parameters: QCNRules) -> Judged:
    length, present = cnms["cnm.msdu_length"], np.zeros(len(cnms), np.int64)
    column = cnms.columns["cnm.msdu"].outermost()
    assert isinstance(column.values, Stretches)
    present[column.rows] = column.values.octets
    is_long, is_short = length > _MAX_MSDU, (present < length) & ~cnms.is_cut

    def what(row: int) -> str:
        limit = f"{_MAX_MSDU} octets" if is_long[row] else "the octets that follow"
        return f"the encapsulated MSDU length is greater than {limit}"

    def allowed(row: int) -> str:
        return f"0 to {_MAX_MSDU if is_long[row] else present[row]}"

    return Judged(is_long | is_short, what, length, allowed)


def _individual(cnms: Rows, parameters: QCNRules) -> Judged:
    dst = cnms["eth.dst"]
    return Judged(
        (dst & _GROUP) != 0, "the CNM is sent to a group address", lambda row: mac_of_key(int(dst[row])),
        "an individual address",
    )  # fmt: skip


def _sampled(cnms: Rows, parameters: QCNRules) -> Judged:
    column = cnms.columns["cnm.msdu"].outermost()
    values = column.values
    assert isinstance(values, Stretches)
    etype = np.full(len(cnms), -1, np.int64)
    whole = values.octets >= 2
    at = values.start[whole]
    etype[column.rows[whole]] = values.buffer[at].astype(np.int64) << 8 | values.buffer[at + 1]
    never = control_frames(cnms.ethertypes)
    local = cnms["cnm.encap_dst"] & ~0xF == _LINK_LOCAL

    def value_text(row: int) -> str:
        return never.get(int(etype[row])) or f"a frame to {mac_of_key(int(cnms['cnm.encap_dst'][row]))}"

    wrong = np.isin(etype, list(never)) | local
    return Judged(wrong, "the CNM was sent for a control frame", value_text, "a data frame")


_WEIGHTS = (2.0, *(2.0**power for power in range(-10, 11) if power != 1))


class _Reading(NamedTuple):
    """An interpretation of CNMs: as in 802.1Q, or as sent by an implementation with a mistake."""

    mistake: str = ""
    added: int = 0
    """The constant that the implementation adds to the feedback."""
    sign: int = 1
    """The sign of the offset."""
    unit: int = QUEUE_UNIT_OCTETS
    """The unit of offset and delta, in octets."""
    weights: Sequence[float] = _WEIGHTS


_AS_WRITTEN = _Reading()
_OCTETS = _Reading("offset and delta are in octets instead of units of 64 octets", unit=1)
_OTHERS = (
    _Reading("the sign of the offset is inverted", sign=-1),
    _Reading("the feedback is too high by 1", added=1), _Reading("the feedback is too low by 1", added=-1),
    _Reading(weights=[quarters / 4 for quarters in range(1, 41)]),
)  # fmt: skip
"""Interpretations to try if the CNMs do not match 802.1Q.

The last interpretation is not a mistake, but allows weights that are not powers of 2.
"""


class _Fit(NamedTuple):
    """The parameters that match the most CNMs of a congestion point, and the share of these CNMs."""

    reading: _Reading
    w: float = 0.0
    qeq: int = 0
    share: float = 0.0


_Estimates = dict[int, tuple[float, int] | None]
"""w and Qeq of each congestion point, or ``None`` for a point that is not judged."""


@plain_value
class _Unmatched(NamedTuple):
    """A congestion point whose CNMs match no parameters: the first CNM, and the texts of the finding."""

    row: Int64
    measured: str
    allowed: str


class FeedbackAgainstQueue:
    """A comparison of the quantized feedback of CNMs with their offset and delta (QCN003).

    If w or Qeq is not given, the rule estimates the missing values for each congestion point. The rule stores
    the first `_MAX_STORED` CNMs of the capture for this estimate. Parts of a capture that are checked
    separately have separate estimates if a part has more CNMs, unless a part uses the estimates of an earlier
    part. If the CNMs of a congestion point match no parameters, the rule reports the point once, with the
    mistake that explains the CNMs.
    """

    frames_alone = True

    _MAX_STORED = 1 << 16
    _MAX_POINTS = 256
    _ESTIMATED_FROM = 1 << 12
    _MIN_CNMS = 8
    _MIN_SHARE, _CLEAR_SHARE = 2 / 3, 0.95
    """The minimum share of matching CNMs, and the share above which no other interpretation is tried."""
    _LARGEST_FRAME = 1 << 14
    _MAX_GROWN = 0.1
    """The maximum share of CNMs whose queue grew by more than the octets of a sampling interval."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._parameters = settings.of(QCNRules)
        self._w = self._parameters.weight if settings.is_given("qcn.w") else None
        self._qeq = self._parameters.qeq_octets if settings.is_given("qcn.qeq") else None
        self._report = report
        self._stored: list[Int64] = []
        self._stored_rows = 0
        self._followed: set[int] = set()
        self._estimates: _Estimates = {}
        self._unmatched: dict[int, _Unmatched] = {}

    def add(self, cnms: Rows) -> None:
        """Keep the CNMs of a batch, and judge the CNMs when enough CNMs are kept."""
        names = ("cnm.cpid", "cnm.qntz_fb", "cnm.q_offset", "cnm.q_delta")
        seen = cnms.events(slice(None), *(cnms[name] for name in names))
        usable = (cnms["cnm.q_offset"] > _MIN) & cnms.have(("cnm.qntz_fb", "cnm.q_delta"))
        self._take(self._of_followed(rows_where(usable, seen)))

    def _of_followed(self, seen: Int64) -> Int64:
        """Return the CNMs of the first `_MAX_POINTS` congestion points."""
        cpids = seen[:, 3]
        if self._followed.issuperset(np.unique(cpids).tolist()):
            return seen
        points, first = np.unique(cpids, return_index=True)
        for point in points[np.argsort(first)].tolist():
            if len(self._followed) < self._MAX_POINTS:
                self._followed.add(point)
        return rows_where(np.isin(cpids, list(self._followed)), seen)

    def _take(self, seen: Int64) -> None:
        known = np.isin(seen[:, 3], list(self._estimates))
        self._judge(self._report, rows_where(known, seen), self._estimates)
        seen = rows_where(~known, seen)
        space = self._MAX_STORED - self._stored_rows
        self._stored.append(seen[:space])
        self._stored_rows += len(seen[:space])
        if self._stored_rows == self._MAX_STORED:
            stored = np.concatenate(self._stored)
            self._stored, self._stored_rows = [], 0
            estimates, unmatched = self._estimated(stored, self._report)
            self._estimates |= estimates
            self._unmatched |= unmatched
            self._judge(self._report, stored, self._estimates)
            self._take(seen[space:])

    def follow(self, earlier: FeedbackAgainstQueue) -> None:
        """Use the estimates of an earlier part."""
        self._followed, self._estimates = set(earlier._followed), dict(earlier._estimates)

    def join(self, later: FeedbackAgainstQueue, shift: Shift) -> None:
        """Add the kept CNMs and the estimates of a later part."""
        for part in later._stored:
            self._take(self._of_followed(moved(part, shift)))
        for cpid, estimate in later._estimates.items():
            if self._estimates.get(cpid, estimate) != estimate:
                self._report.note(
                    f"QCN003 {cpid} apart",
                    (
                        f"The estimates of qcn.w and qcn.qeq for {cpid_of_key(cpid)} differ between parts of "
                        "the capture. QCN003 checked the CNMs of each part with the estimate for this part."
                    ),
                )
            if cpid in self._followed or len(self._followed) < self._MAX_POINTS:
                self._followed.add(cpid)
                self._estimates.setdefault(cpid, estimate)
        for cpid, (row, *texts) in later._unmatched.items():
            if cpid in self._followed:
                self._unmatched.setdefault(cpid, _Unmatched(moved(row, shift), *texts))

    def end(self, report: Report) -> None:
        """Judge the kept CNMs, and report the congestion points whose CNMs match no parameters."""
        unmatched = self._unmatched
        if self._stored:
            stored = np.concatenate(self._stored)
            estimates, more = self._estimated(stored, report)
            self._judge(report, stored, self._estimates | estimates)
            unmatched = unmatched | more
        for each in unmatched.values():
            number, time_ns, interface, cpid = each.row[:, :4].T
            judged = Judged(
                np.ones(1, np.bool_), "the quantized feedback does not match offset and delta",
                each.measured, each.allowed,
            )  # fmt: skip
            report.record("QCN003", Where(number, time_ns, interface, cpid), judged)

    def _estimated(self, retained: Int64, report: Report) -> tuple[_Estimates, dict[int, _Unmatched]]:
        """Return the estimates for congestion points, and the points without matching values."""
        estimates: _Estimates = {}
        unmatched: dict[int, _Unmatched] = {}
        for cpid in np.unique(retained[:, 3]).tolist():
            if self._w is not None and self._qeq is not None:
                estimates[cpid] = self._w, self._qeq
                continue
            estimate = self._estimate(retained[retained[:, 3] == cpid], report)
            if isinstance(estimate, _Unmatched):
                unmatched[cpid], estimate = estimate, None
            estimates[cpid] = estimate
        return estimates, unmatched

    def _estimate(self, rows: Int64, report: Report) -> tuple[float, int] | _Unmatched | None:
        """Return w and Qeq of a congestion point, or ``None`` if the CNMs are too few, and add a note."""
        used, written = self._fit(rows[: self._ESTIMATED_FROM], _AS_WRITTEN)
        is_enough, is_given = used >= self._MIN_CNMS, self._w is not None or self._qeq is not None
        fit = written
        if is_enough and self._qeq is None:
            fit = self._best(rows[: self._ESTIMATED_FROM], written)
        usual, cnms = self._parameters, f"{counted(used, 'CNM')} of {cpid_of_key(int(rows[0, 3]))}"
        if fit.reading.mistake or (is_enough and not is_given and fit.share < self._MIN_SHARE):
            return self._of_point(rows, written, fit)
        if fit.share >= self._MIN_SHARE:
            text = f"QCN003 estimated qcn.w = {fit.w:g} and qcn.qeq = {exact_octets(fit.qeq)} from {cnms}."
        elif is_given:
            fit = _Fit(_AS_WRITTEN, usual.weight, usual.qeq_octets)
            text = (
                f"QCN003 could not estimate {'qcn.w' if self._w is None else 'qcn.qeq'} from {cnms}, and "
                f"used qcn.w = {usual.weight:g} and qcn.qeq = {exact_octets(usual.qeq_octets)}."
            )
        else:
            text = (
                "QCN003 was skipped because the capture has too few CNMs to estimate qcn.w and qcn.qeq: "
                f"{cnms}."
            )
        report.note(f"QCN003 {rows[0, 3]}", text)
        return (fit.w, fit.qeq) if fit.qeq else None

    def _best(self, rows: Int64, written: _Fit) -> _Fit:
        """Return the fit that matches the most CNMs, or the 802.1Q fit if no other fit is clearly better."""
        if self._grown(rows) > self._MAX_GROWN:
            octets = self._fit(rows, _OCTETS, self._MIN_SHARE)[1]
            if octets.share >= self._MIN_SHARE:
                return octets
        if written.share >= self._CLEAR_SHARE:
            return written
        needed = self._MIN_SHARE if written.share < self._MIN_SHARE else self._CLEAR_SHARE
        best = max((self._fit(rows, reading, needed)[1] for reading in _OTHERS), key=lambda each: each.share)
        return best if best.share >= needed else written

    def _grown(self, rows: Int64) -> float:
        """Return the share of CNMs whose queue grew by more than the octets of a sampling interval."""
        maximum = self._parameters.sample_base_octets * (1 + self._parameters.jitter) + self._LARGEST_FRAME
        return float((rows[:, 6] * QUEUE_UNIT_OCTETS > maximum).mean())

    def _of_point(self, rows: Int64, fit: _Fit, best: _Fit) -> _Unmatched:
        """Return the description of a congestion point whose CNMs match no parameters."""
        text = f"at most {format_share(fit.share)} of the CNMs match any values of w and Qeq"
        if best.reading is _OCTETS:
            maximum = int(rows[:, 6].max()) * QUEUE_UNIT_OCTETS
            text = f"the queue would have grown by {exact_octets(maximum)} between two samples"
        needed = f"at least {format_share(self._MIN_SHARE)}; no known mistake explains the CNMs"
        if best.reading.mistake:
            needed = (
                f"at least {format_share(self._MIN_SHARE)}; {format_share(best.share)} match if "
                f"{best.reading.mistake}, with w {best.w:g} and Qeq {exact_octets(best.qeq)}"
            )
        return _Unmatched(rows[:1], text, needed)

    def _fit(self, rows: Int64, reading: _Reading, min_share: float = 0.0) -> tuple[int, _Fit]:
        """Return the number of usable CNMs, and the fit that matches the most CNMs with an interpretation.

        Fits that match less than ``min_share`` of the CNMs may be ignored.
        """
        fb, offset, delta = rows[:, 4:].T
        whole = (fb > 0) & (fb < _MAX_FB) & (delta < _MAX) & (delta > _MIN)
        fb, offset = fb - reading.added, reading.sign * offset
        usable = whole & (fb > 0) & (fb < _MAX_FB)
        fb, offset, delta = (each[usable].astype(np.float64) for each in (fb, offset, delta))
        if len(fb) < self._MIN_CNMS:
            return len(fb), _Fit(reading)
        best: tuple[int, float, float, float] = (0, 0.0, 0.0, 0.0)
        for w in reading.weights if self._w is None else [self._w]:
            needed = max(best[0] + 1, int(min_share * len(fb)))
            if needed > len(fb):
                break
            low, high = _pushed(offset, delta, w, reading.unit)
            # the limits of the divisor Qeq·(2w + 1)
            minimum, maximum = np.maximum(low, 0) * _MAX_FB / (fb + 1), high * _MAX_FB / fb
            if self._qeq is not None:
                divisor = self._qeq * (2 * w + 1)
                count, span = int(((minimum < divisor) & (divisor <= maximum)).sum()), (divisor, divisor)
            elif _can_overlap(minimum, maximum, needed):
                count, span = _max_coverage(minimum, maximum)
            else:
                continue
            if count > best[0]:
                best = count, w, *span
        count, w, low_end, high_end = best
        factor = 2 * w + 1
        qeq = self._qeq or _roundest(
            low_end / factor, high_end / factor, QCNCongestionPointParameters().qeq_octets
        )
        return len(fb), _Fit(reading, w, qeq, count / len(fb))

    def _judge(self, report: Report, rows: Int64, estimates: _Estimates) -> None:
        for cpid in np.unique(rows[:, 3]).tolist():
            estimate = estimates.get(cpid)
            if estimate is not None:
                self._judge_point(report, rows[rows[:, 3] == cpid], *estimate)

    @staticmethod
    def _judge_point(report: Report, rows: Int64, w: float, qeq: int) -> None:
        number, time_ns, interface, cpid, fb, offset, delta = rows.T
        low, high = _pushed(offset, delta, w, QUEUE_UNIT_OCTETS)
        factor = _MAX_FB / (qeq * (2 * w + 1))
        # near an integer, rounding in the division permits both neighbouring values
        minimum = np.clip(np.floor(low * factor - 1e-6), 0, _MAX_FB).astype(np.int64)
        maximum = np.clip(np.floor(high * factor + 1e-6), 0, _MAX_FB).astype(np.int64)
        wrong = (fb < minimum) | (fb > maximum)

        def allowed(row: int) -> str:
            either = (
                f"{minimum[row]}" if minimum[row] == maximum[row] else f"{minimum[row]} to {maximum[row]}"
            )
            return (
                f"{either} for offset {offset[row]}, delta {delta[row]}, w {w:g} and Qeq {exact_octets(qeq)}"
            )

        is_whole = (delta < _MAX) & (delta > _MIN) & (offset < _MAX)
        report.record(
            "QCN003", Where(number, time_ns, interface, cpid),
            Judged(wrong, "the quantized feedback is wrong", fb, allowed, about=is_whole),
        )  # fmt: skip


def _pushed(offset: Any, delta: Any, w: float, unit: int) -> tuple[Any, Any]:
    """Return the lower and the upper limit of −Fb in octets, which allow for truncated fields."""
    middle = unit * (w * delta - offset)
    hidden = (unit - 1) * (1 + w)
    return middle - hidden, middle + hidden


def _can_overlap(minimum: Any, maximum: Any, count: int) -> bool:
    """Return whether ``count`` intervals might overlap. This is faster than `_max_coverage`."""
    # ``count`` intervals begin at or before the number, and ``count`` intervals end after the number
    starts, ends = np.partition(minimum, count - 1), np.partition(maximum, -count)
    return bool(starts[count - 1] < ends[-count])


def _max_coverage(minimum: Any, maximum: Any) -> tuple[int, tuple[float, float]]:
    """Return the maximum number of overlapping intervals, and the range where this number is reached."""
    whole = minimum < maximum
    starts, ends = np.sort(minimum[whole]), np.sort(maximum[whole])
    if not len(starts):
        return 0, (0.0, 0.0)
    # after each start: the number of started intervals minus the number of ended intervals
    covered = np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, "right")
    position = int(covered.argmax())
    start = float(starts[position])
    return int(covered[position]), (start, float(ends[np.searchsorted(ends, start, "right")]))


def _roundest(low: float, high: float, usual: int) -> int:
    """Return ``usual`` if it is in the range, or the number in the range with the fewest digits."""
    if low <= usual <= high:
        return usual
    step = 10 ** int(np.log10(max(high, 1)))
    while step > 1:
        for part in (step, step // 2):
            rounded = int(high // part * part)
            if part and rounded >= max(low, 1):
                return rounded
        step //= 10
    return max(1, int(high))


class Flows:
    """The destinations and flows of CNMs, compared with the senders in the capture (QCN008, QCN009)."""

    _MAX = 1 << 16

    def __init__(self, settings: Settings, report: Report) -> None:
        self._sent = SeenKeys(self._MAX)
        """Pairs of source and flow. Flow 0 means that the frame has no CN-TAG."""
        self._edges = SeenKeys(self._MAX)
        """Backbone edge bridges. Flows from an edge bridge belong to other stations."""
        self._reported = FirstEvents(self._MAX, 2)
        """The first CNM for each pair of station and flow."""

    def add(self, rows: Rows) -> None:
        """Record the senders with their flows, and the flows in CNMs."""
        source, flow = rows["eth.src"], rows["cntag.flow_id"]
        is_cnm = rows.has("cnm.cpid")
        has_cnms = len(rows.columns["cnm.cpid"]) > 0
        data = np.flatnonzero(~is_cnm) if has_cnms else slice(None)
        self._sent.add(source[data] << 16 | flow[data])
        if len(rows.columns["ieee8021ah.csrc"]):
            backbone = np.flatnonzero(rows.has("ieee8021ah.csrc"))
            self._edges.add(source[backbone])
            self._sent.add(rows["ieee8021ah.csrc"][backbone] << 16 | flow[backbone])
        if has_cnms:
            cnms = np.flatnonzero(is_cnm)
            station = rows["eth.dst"][cnms]
            self._reported.add(station << 16 | flow[cnms], *rows.frames(cnms), station, flow[cnms])

    def join(self, later: Flows, shift: Shift) -> None:
        """Add the flows of a later part."""
        self._edges.join(later._edges)
        self._sent.join(later._sent)
        self._reported.join(later._reported, shift)

    def end(self, report: Report) -> None:
        """Report CNMs for stations or flows without frames in the capture."""
        if not len(self._reported):
            return
        number, time_ns, interface, station, flow = self._reported.events.T
        if self._sent.is_full:
            report.note(
                "QCN008",
                f"QCN008 and QCN009 were skipped because the capture has more than {self._MAX:,} flows.",
            )
            return
        where = Where(number, time_ns, interface, station)
        is_source = np.isin(station, np.unique(self._sent.keys >> 16))
        if is_source.any():
            report.record(
                "QCN008", where, Judged(~is_source, "the CNM's destination sends no frame in the capture")
            )

        def what(row: int) -> str:
            flow_text = (flow[row] and f"with flow ID {flow[row]}") or "without a CN-TAG"
            return f"the CNM's destination sends no frame {flow_text}"

        wrong = ~self._sent.has(self._reported.keys)
        report.record("QCN009", where, Judged(wrong, what, about=is_source & ~self._edges.has(station)))


class SamplingIntervals(intervals.Intervals):
    """A comparison of the octets between two CNMs of a congestion point with the sampling table (QCN010)."""

    RULE, PREFIX, PARAMETERS = "QCN010", "cnm", QCNRules
    SHOWS, PRIORITIES = "cnm.encap_prio", ("cnm.encap_prio",)
    FIELDS, BY = ("qntz_fb", "q_offset"), "the feedback in the previous CNM"

    def needed(self, pairs: Pairs) -> Int64:
        """Return the table entry for the feedback in the previous CNM, reduced by the jitter."""
        parameters = self._parameters
        table = np.array(SAMPLE_OCTETS, np.int64) * parameters.sample_base_octets // _MIN_SAMPLE
        needed: Int64 = (table[pairs.before[:, 5] // 8] * (1 - parameters.jitter)).astype(np.int64)
        return needed

    def grown(self, pairs: Pairs) -> Int64:
        """Return the change of the offset between the two CNMs of each pair, in octets."""
        return (pairs.before[:, 6] - pairs.now[:, 6]) * QUEUE_UNIT_OCTETS


_STRONG_FB = 32
"""The feedback that reduces the rate by a quarter."""


def _flow_key(rows: Rows) -> Int64:
    return rows["eth.dst"] << 16 | rows["cntag.flow_id"]


def _flow_text(key: int) -> str:
    return f"{mac_of_key(key >> 16)} flow {key & 0xFFFF}"


_FLOW = Subject(name="flow", fields=("eth.dst", "cntag.flow_id"), key=_flow_key, text=_flow_text)


class Reactions(reactions.Reactions):
    """A comparison of the octets that flows send before and after strong CNMs (QCN011)."""

    RULE, MESSAGE, MIN, PARAMETERS = "QCN011", "cnm.qntz_fb", 10, QCNRules

    def strong(self, rows: Rows) -> Mask:
        """Return a mask of the CNMs that reduce the rate by at least a quarter."""
        strong: Mask = rows["cnm.qntz_fb"] >= _STRONG_FB
        return strong

    def flows_and_subjects(self, rows: Rows) -> tuple[Int64, Int64]:
        """Return the destination and flow of each CNM as the flow and as the subject."""
        flow = _flow_key(rows)
        return flow, flow

    def sent(self, rows: Rows, at: Int64) -> Int64:
        """Return the source and flow of the data frames in the given rows."""
        return rows["eth.src"][at] << 16 | rows["cntag.flow_id"][at]


_FLOWS = ("eth.src", "cntag.flow_id", "cnm.cpid", "eth.dst", "ieee8021ah.csrc")

_cnm_rule = partial(Rule, subject=_CPID, on=_CNM)
_flow_rule = partial(Rule, subject=STATION, optional=_FLOWS, memory=Flows)
RULES = (
    malformed("QCN", "A CNM", ("cnm",), right=_CNM, other="cnm.cpid", clause="802.1Q 33; wire-formats 3"),
    _cnm_rule(
        id="QCN001",
        name="version and reserved bits",
        sentence=zero_fields("a CNM", has_q=False),
        why=IGNORED,
        clause="802.1Q 33; wire-formats 3",
        severity="error",
        fields=("cnm.version", "cnm.reserved", "cnm.encap_reserved"),
        expression=_version,
    ),
    _cnm_rule(
        id="QCN002",
        name="priority of CNMs",
        sentence="A CNM with a VLAN tag has the configured CNM priority (default 6).",
        why="A CNM in a congested priority waits in the same queue as congested data. Set the configured CNM "
        "priority with --set qcn.cnm_priority.",
        clause="802.1Q 32; wire-formats 1.2",
        severity="warning",
        optional=PRIORITY_FIELDS,
        parameters=("cnm_priority",),
        expression=_priority,
    ),
    _cnm_rule(
        id="QCN003",
        name="feedback against queue",
        sentence="The quantized feedback of a CNM matches the queue offset and the queue delta in the CNM.",
        why=(
            "The quantized feedback is (w·delta − offset)·63 ÷ (Qeq·(2w + 1)), rounded down and limited to "
            "63. The rule allows for the rounding of offset and delta to units of 64 octets. Set w and Qeq "
            "with --set qcn.w and --set qcn.qeq. If w or Qeq is not set, the rule estimates the missing "
            "value for each congestion point. A note reports the estimate. If only one value is missing and "
            "the estimate fails, the rule uses the default of the missing value. If both values are missing, "
            "the rule needs at least 8 CNMs from the congestion point. If no values of w and Qeq match two "
            "thirds of these CNMs, the rule reports the congestion point once, at its first CNM. The rule "
            "also tests for known mistakes, and a finding names the mistake that explains the CNMs. The "
            "known mistakes are an inverted sign of the offset, offset and delta in octets, and feedback "
            "that is too high or too low by 1. Offset and delta are probably in octets if the queue grows by "
            "more than one sampling interval between two samples (see qcn.sample_base). A finding means that "
            "the congestion point calculates the feedback incorrectly, or that its parameters have changed."
        ),
        clause="802.1Q 30, 32; S001; algorithms 3",
        severity="error",
        fields=("cnm.qntz_fb", "cnm.q_offset", "cnm.q_delta"),
        parameters=("qeq", "w", "sample_base", "jitter"),
        memory=FeedbackAgainstQueue,
    ),
    _cnm_rule(
        id="QCN004",
        name="feedback above 0",
        sentence="The quantized feedback of a CNM is from 1 to 63.",
        why="A congestion point sends a CNM only if the quantized feedback is greater than 0. A reaction "
        "point ignores a CNM with quantized feedback 0.",
        clause="802.1Q 32; algorithms 3",
        severity="warning",
        fields=("cnm.qntz_fb",),
        expression=_some_feedback,
    ),
    _cnm_rule(
        id="QCN005",
        name="MSDU length",
        sentence="The encapsulated MSDU length of a CNM is at most 64 and at most the number of octets that "
        "follow.",
        why="A station discards a CNM with a wrong MSDU length, so the reaction point never receives the "
        "feedback.",
        clause="802.1Q 33; wire-formats 3",
        severity="error",
        fields=("cnm.msdu_length",),
        optional=("cnm.msdu",),
        expression=_msdu_length,
    ),
    _cnm_rule(
        id="QCN006",
        name="individual destination",
        sentence="The destination of a CNM is an individual address.",
        why="A CNM is sent to the source address of the sampled frame. A source address is never a group "
        "address.",
        clause="802.1Q 32; wire-formats 1.2, 3",
        severity="error",
        fields=("eth.dst",),
        expression=_individual,
    ),
    _cnm_rule(
        id="QCN007",
        name="sampled frame",
        sentence="A congestion point sends a CNM only for a data frame.",
        why=ONLY_DATA,
        clause="802.1Q 32; wire-formats 1.2",
        severity="error",
        fields=("cnm.encap_dst",),
        optional=("cnm.msdu",),
        expression=_sampled,
    ),
    _flow_rule(
        id="QCN008",
        name="destination of CNMs",
        sentence="The destination of a CNM is a station that sends data frames.",
        why=(
            "A CNM to a station that sends no data slows no flow down. The rule needs a capture with frames "
            "from at least one station to which CNMs are sent. The rule reports each station and flow once, "
            "at the first CNM."
        ),
        clause="802.1Q 32; wire-formats 3",
        severity="warning",
    ),
    _flow_rule(
        id="QCN009",
        name="flow of the CN-TAG",
        sentence="The flow ID in a CNM is a flow ID that the CNM's destination uses.",
        why=(
            "The reaction point uses the flow ID in the CN-TAG to find the rate limiter. A CNM with an "
            "unknown flow ID has no effect. A CNM without a CN-TAG, or with flow ID 0, refers to all frames "
            "without a CN-TAG. The rule applies to stations that send frames in the capture."
        ),
        clause="802.1Q 32, 33; wire-formats 2, 3",
        severity="error",
    ),
    Rule(
        id="QCN010",
        name="sampling interval",
        sentence="Between two CNMs, a congestion point receives at least the octets of one sampling "
        "interval.",
        why="The sampling interval depends on the feedback in the previous CNM. The default interval is 150 "
        "kB for the weakest feedback and 18.5 kB for the strongest feedback. The congestion point multiplies "
        "each interval by a random number from 0.85 to 1.15. A congestion point with shorter intervals "
        f"reduces the rates too far. {intervals.COUNTED} {intervals.condition('qcn')}",
        clause="802.1Q 32; S001; algorithms 3",
        severity="warning",
        subject=_CPID,
        optional=(*_CNM, "cnm.encap_prio", "cnm.qntz_fb", "cnm.q_offset", *PRIORITY_FIELDS),
        parameters=("sample_base", "jitter", "has_all", "enough"),
        memory=SamplingIntervals,
    ),
    Rule(
        id="QCN011",
        name="reaction",
        sentence="A source slows a flow down when the source receives strong CNMs.",
        why="A CNM is strong if the quantized feedback is 32 or more. Feedback 32 reduces the rate by a "
        "quarter, and feedback 63 reduces the rate by half. A finding means that the source has no reaction "
        "point, or that the reaction point does not find the rate limiter. "
        f"{reactions.comparison('each strong CNM', Reactions.MIN, 'qcn')}",
        clause="802.1Q 30, 32; S001; algorithms 3",
        severity="warning",
        subject=_FLOW,
        optional=reactions.FIELDS,
        parameters=("closed",),
        memory=Reactions,
    ),
    *cnms.RULES,
)

FAMILY = Family(name="qcn", title="QCN", parameters=QCNRules, rules=RULES)
