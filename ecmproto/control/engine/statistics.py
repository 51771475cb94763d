"""Counts of a port and rates of flows over time, in bounded memory.

Sums over time are stored in bins of equal length. The length doubles, and neighbours are merged, as time
advances.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.gauge import bin_lengths_ns
from ecmproto.control.engine.port import DROPPED, ENQUEUED, HELD_OUT
from ecmproto.control.mechanisms.api.machine import Machine
from ecmproto.control.mechanisms.api.protocol import PAUSE_KIND, PFC_KIND, PROBE_KIND, SILENT, payload_columns
from ecmproto.units import NS_PER_S, jain_index

MAX_BINS = 512
_FIRST_SHIFT = 10
COARSE_BINS = 64
"""Number of bins stored for every flow; the second half of the time begins at the start of a bin."""


def second_half_ns(duration_ns: int) -> int:
    """Return the start of the second half of ``duration_ns``; all figures use the same start.

    The start is the first bin border in the second half, for at most ``COARSE_BINS`` bins whose length is a
    power of two. The start is at most a thirty-second of the duration after the middle.
    """
    shift = max(0, duration_ns.bit_length() - COARSE_BINS.bit_length() + 1)
    return -(-(duration_ns // 2) >> shift) << shift


class TimeBins:
    """Rows of sums over an even number of ``bins`` bins of ``bin_ns`` each; time 0 starts the first bin."""

    def __init__(self, rows: int, *, bins: int = MAX_BINS, first_shift: int = _FIRST_SHIFT) -> None:
        self.values: NDArray[np.float64] = np.zeros((rows, bins))
        self._shift = first_shift

    @property
    def bin_ns(self) -> int:
        """Return the length of a bin, in ns."""
        return 1 << self._shift

    def add(self, row: NDArray[np.int64], time_ns: NDArray[np.int64], value: NDArray[np.float64]) -> None:
        """Add each ``value`` to its ``row`` at its time; times are not negative."""
        if not len(row):
            return
        self.reach(int(time_ns.max()))
        flat = row * self.values.shape[1] + (time_ns >> self._shift)
        np.add.at(self.values.reshape(-1), flat, value)

    def reach(self, time_ns: int) -> None:
        """Double the length of the bins until the bins include ``time_ns``."""
        bins = self.values.shape[1]
        while time_ns >> self._shift >= bins:
            self.values[:, : bins // 2] = self.values[:, ::2] + self.values[:, 1::2]
            self.values[:, bins // 2 :] = 0.0
            self._shift += 1

    def grow(self, rows: int) -> None:
        """Append rows of zeros up to ``rows`` rows."""
        if rows > len(self.values):
            more = np.zeros((max(rows, 2 * len(self.values)) - len(self.values), self.values.shape[1]))
            self.values = np.concatenate([self.values, more])

    def between(self, start_ns: int, end_ns: int) -> NDArray[np.float64]:
        """Return each row's sum over the bins that start at or after ``start_ns`` and before ``end_ns``."""
        low, high = -(-start_ns >> self._shift), -(-end_ns >> self._shift)
        total: NDArray[np.float64] = self.values[:, low:high].sum(axis=1)
        return total


_LARGEST_QNTZ_FB = 63
_SHARED_NAMES = {SILENT: "sample", PAUSE_KIND: "PAUSE", PFC_KIND: "PFC", PROBE_KIND: "probe"}


class Timed(Protocol):
    """Interface for frames as columns."""

    @property
    def time_ns(self) -> NDArray[np.int64]:
        """Return the arrival times, in ns."""

    @property
    def octets(self) -> NDArray[np.int64]:
        """Return the frame lengths, in octets."""


class PortCounts:
    """Counts of a port: frames and octets that arrived or were dropped, samples and messages."""

    def __init__(self, machine: Machine) -> None:
        self.frames: int = 0
        self.octets: int = 0
        self.dropped_frames: int = 0
        self.dropped_octets: int = 0
        self.samples: int = 0
        self.unanswered: int = 0
        self.drops: TimeBins = TimeBins(1)
        """Number of dropped frames over time."""
        self.messages: Counter[str] = Counter()
        self.qntz_fb: NDArray[np.int64] = np.zeros(_LARGEST_QNTZ_FB + 1, np.int64)
        self._machine = machine
        self._no_samples = [PAUSE_KIND, PFC_KIND, PROBE_KIND, *machine.answers]

    def add_frames(self, frames: Timed, arrived: NDArray[np.bool_], dropped: NDArray[np.bool_]) -> None:
        """Count the frames selected by ``arrived`` as arrived, and by ``dropped`` as dropped."""
        lost_ns = frames.time_ns[dropped]
        self.drops.add(np.zeros(len(lost_ns), np.int64), lost_ns, np.ones(len(lost_ns)))
        self.frames += int(np.count_nonzero(arrived))
        self.octets += int(frames.octets.sum(where=arrived))
        self.dropped_frames += len(lost_ns)
        self.dropped_octets += int(frames.octets[dropped].sum())

    def add_messages(self, messages: NDArray[Any]) -> None:
        """Count messages, and samples with or without a message."""
        kind, sent = messages["kind"], messages["sent"]
        sampled = (messages["cause"] >= 0) & np.isin(kind, self._no_samples, invert=True)
        self.samples += int(sampled.sum())
        self.unanswered += int((sampled & (kind != SILENT) & (sent == 0)).sum())
        for value, count in zip(*np.unique(kind[sent == 1], return_counts=True), strict=True):
            self.messages[kind_name(self._machine, int(value))] += int(count)
        if self._machine.histogram_field and sampled.any():
            payloads = payload_columns(messages[sampled], self._machine.payloads[SILENT])
            levels = payloads[self._machine.histogram_field]
            self.qntz_fb += np.bincount(levels, minlength=_LARGEST_QNTZ_FB + 1)


def kind_name(machine: Machine, kind: int) -> str:
    """Return the name of a message type."""
    return machine.kinds.get(kind) or _SHARED_NAMES.get(kind) or f"kind {kind}"


FLOWS_SHOWN = 64
"""Number of flows with separate rates over time, in order of arrival; one more row has all other flows."""

FLOWS_COUNTED = 65_536
"""Number of flows included in the fairness, in order of arrival; each flow needs about 1.5 kB of memory."""

OTHERS = FLOWS_SHOWN
OTHERS_LABEL = "others"
_OTHERS_NUMBER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRates:
    """Counts of a flow: octets without FCS, and rates in bit/s over the bins of its series."""

    number: int
    """Number of the flow in samples; −1 for all other flows together."""
    label: str
    offered_octets: int
    """Octets of the flow in the capture."""
    passed_octets: int
    """Octets that the port accepted, including tags."""
    dropped_octets: int
    held_out_octets: int
    """Octets that did not fit into the station's queue."""
    second_half_bps: float
    """Rate of passed frames in the second half of the time (`second_half_ns`)."""
    offered_bps: NDArray[np.float64]
    """Rate offered by the capture."""
    sent_bps: NDArray[np.float64]
    """Rate at the port's input."""
    passed_bps: NDArray[np.float64]
    limit_bps: NDArray[np.float64]
    """Mean rate of the limiters that the frames passed; NaN without a limiter."""
    rtt_average_ns: NDArray[np.float64]
    """Mean of the limiters' average round-trip times, in ns; NaN without a limiter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """Fairness among flows that offered traffic in the second half, computed over the second half."""

    index: float
    """Jain's index of the passed rates; 1 if all rates are equal, or if there are no flows."""
    flows: int
    """Number of flows with a frame that arrived in the second half or waited at its start."""


_OFFERED, _SENT, _PASSED, _LIMIT_SUM, _LIMITED, _RTT_SUM, _TIMED = range(7)
_SERIES = 7
_PASSED_OCTETS, _ARRIVED, _ENDED = range(3)
"""Columns of every flow: octets passed, frames arrived, and frames sent on or lost."""
_EACH = 3
_NO_FLOW = 0
"""Row of frames without a flow or beyond ``FLOWS_COUNTED``; flows follow in order of arrival."""
_FIRST_FLOWS = 64


class FlowSeries:
    """Sums by flow, updated with each batch."""

    def __init__(self) -> None:
        self._bins = TimeBins((FLOWS_SHOWN + 1) * _SERIES)
        self._all = TimeBins((1 + _FIRST_FLOWS) * _EACH, bins=COARSE_BINS, first_shift=0)
        self._totals = np.zeros((FLOWS_SHOWN + 1, 4), np.int64)
        self._row_of: dict[int, int] = {}

    @property
    def bin_ns(self) -> int:
        """Return the length of a bin, in ns."""
        return self._bins.bin_ns

    def offered(self, flow: NDArray[np.int64], time_ns: NDArray[np.int64], octets: NDArray[np.int64]) -> None:
        """Count frames of the capture; ``flow`` is the flow number, or −1 without a flow."""
        own = self._rows(flow)
        row = _shown(own)
        self._add(row, _OFFERED, time_ns, octets)
        self._total(row, 0, octets)
        self._all.add(own * _EACH + _ARRIVED, time_ns, np.ones(len(own)))

    def passed(
        self,
        flow: NDArray[np.int64],
        time_ns: NDArray[np.int64],
        octets: NDArray[np.int64],
        disposition: NDArray[np.uint8],
        limit_bps: NDArray[np.float64] | None = None,
        rtt_average_ns: NDArray[np.float64] | None = None,
    ) -> None:
        """Count frames of ``flow`` by their dispositions, together with the limiters that the frames passed.

        A rate of 0 means that there was no limiter. A negative average round-trip time is unknown.
        """
        own = self._rows(flow)
        row = _shown(own)
        for column, what in enumerate((ENQUEUED, DROPPED, HELD_OUT), 1):
            chosen = disposition == what
            self._total(row[chosen], column, octets[chosen])
        sent, through = (disposition == ENQUEUED) | (disposition == DROPPED), disposition == ENQUEUED
        ended = sent | (disposition == HELD_OUT)
        self._all.add(own[ended] * _EACH + _ENDED, time_ns[ended], np.ones(int(ended.sum())))
        self._all.add(own[through] * _EACH + _PASSED_OCTETS, time_ns[through], octets[through] * 1.0)
        self._add(row[sent], _SENT, time_ns[sent], octets[sent])
        self._add(row[through], _PASSED, time_ns[through], octets[through])
        if limit_bps is not None:
            limited = through & (limit_bps > 0)
            self._add(row[limited], _LIMIT_SUM, time_ns[limited], limit_bps[limited])
            self._add(row[limited], _LIMITED, time_ns[limited], np.ones(int(limited.sum())))
        if rtt_average_ns is not None:
            timed = through & (rtt_average_ns >= 0)
            if timed.any():
                self._add(row[timed], _RTT_SUM, time_ns[timed], rtt_average_ns[timed])
                self._add(row[timed], _TIMED, time_ns[timed], np.ones(int(timed.sum())))

    def _rows(self, flow: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each flow among all flows."""
        flows, first, inverse = np.unique(flow, return_index=True, return_inverse=True)
        rows = np.full(len(flows), _NO_FLOW)
        for index in np.argsort(first).tolist():
            number = int(flows[index])
            if number >= 0 and (number in self._row_of or len(self._row_of) < FLOWS_COUNTED):
                rows[index] = self._row_of.setdefault(number, 1 + len(self._row_of))
        self._all.grow((1 + len(self._row_of)) * _EACH)
        result: NDArray[np.int64] = rows[inverse]
        return result

    def _add(
        self, row: NDArray[np.int64], kind: int, time_ns: NDArray[np.int64], value: NDArray[Any]
    ) -> None:
        self._bins.add(row * _SERIES + kind, time_ns, value.astype(np.float64))

    def _total(self, row: NDArray[np.int64], column: int, octets: NDArray[np.int64]) -> None:
        counted = np.bincount(row, octets, minlength=FLOWS_SHOWN + 1)
        self._totals[:, column] += counted.astype(np.int64)

    def rates(self, labels: dict[int, str], duration_ns: int) -> tuple[FlowRates, ...]:
        """Return every flow with a frame, in order of arrival, followed by all other flows together."""
        shown = list(self._row_of.items())[:FLOWS_SHOWN]
        rows = [(number, own - 1) for number, own in shown] + [(_OTHERS_NUMBER, OTHERS)]
        named = {_OTHERS_NUMBER: OTHERS_LABEL, **labels}
        bins = max(1, min(MAX_BINS, -(-duration_ns // self.bin_ns)))
        passed = self._second_half(duration_ns)[:, _PASSED_OCTETS]
        own, others = passed[1 : 1 + len(shown)], passed[_NO_FLOW] + passed[1 + len(shown) :].sum()
        second_half_bps = np.append(own, others) * (8.0 * NS_PER_S)
        second_half_bps /= max(1, duration_ns - second_half_ns(duration_ns))
        return tuple(
            self._flow(number, named.get(number, f"flow {number}"), row, bins, duration_ns, bps)
            for (number, row), bps in zip(rows, second_half_bps.tolist(), strict=True)
            if self._totals[row].any()
        )

    def fairness(self, duration_ns: int) -> Fairness:
        """Return the fairness among flows that offered traffic in the second half."""
        late, early = self._second_half(duration_ns)[1:], self._first_half(duration_ns)[1:]
        asks = (late[:, _ARRIVED] > 0) | (early[:, _ARRIVED] > early[:, _ENDED])
        return Fairness(index=jain_index(late[asks, _PASSED_OCTETS]), flows=int(asks.sum()))

    def _first_half(self, duration_ns: int) -> NDArray[np.float64]:
        return self._all.between(0, second_half_ns(duration_ns)).reshape(-1, _EACH)

    def _second_half(self, duration_ns: int) -> NDArray[np.float64]:
        return self._all.between(second_half_ns(duration_ns), duration_ns).reshape(-1, _EACH)

    def _flow(
        self, number: int, label: str, row: int, bins: int, duration_ns: int, second_half_bps: float
    ) -> FlowRates:
        values = self._bins.values[row * _SERIES : (row + 1) * _SERIES]
        offered, sent, passed, limits, limited, rtts, timed = values[:, :bins]
        to_bps = 8.0 * NS_PER_S / bin_lengths_ns(bins, self.bin_ns, duration_ns)
        totals = self._totals[row].tolist()
        return FlowRates(
            number=number,
            label=label,
            offered_octets=totals[0],
            passed_octets=totals[1],
            dropped_octets=totals[2],
            held_out_octets=totals[3],
            second_half_bps=second_half_bps,
            offered_bps=offered * to_bps,
            sent_bps=sent * to_bps,
            passed_bps=passed * to_bps,
            limit_bps=np.divide(limits, limited, out=np.full(bins, np.nan), where=limited > 0),
            rtt_average_ns=np.divide(rtts, timed, out=np.full(bins, np.nan), where=timed > 0),
        )


def _shown(own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for rows among all flows, the corresponding rows of rates over time."""
    shown: NDArray[np.int64] = np.where((own > _NO_FLOW) & (own <= FLOWS_SHOWN), own - 1, OTHERS)
    return shown
