"""RoCE counts by queue pair and direction: ECN marks, CNPs and their delays, gaps and repeats of PSNs, NAKs.

A row is a destination queue pair together with the source address and the destination address of its frames.
CNPs and acknowledges travel in the opposite direction of the flow and name the queue pair of the flow's
sender. If there is only one flow between two addresses, the assignment is unique. If there are several flows,
an acknowledge ties the two queue pairs together, because its PSN is a PSN that the flow has just used.
Without such a tie, a CNP or an acknowledge may belong to any of the flows.

PSNs of requests increase by one. A READ request uses one PSN for each response, for the minimum path MTU
`_MIN_MTU`. A PSN greater than the expected PSN is a gap, and a smaller PSN is a repeat. The retransmissions
after a NAK distinguish go-back-N from selective repeat (`_sent_again` and `_goes_on`). With go-back-N, the
sender repeats all packets from the PSN of the NAK on. With selective repeat, the sender repeats this packet
and perhaps a few more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture.batch import Int64
from ecmproto.frames.columns import Columns
from ecmproto.frames.stats.plain_data import plain_value
from ecmproto.frames.stats.statistics import NOT_READY, QueuePair, RoceTraffic
from ecmproto.frames.stats.tally import NO_NUMBER, NO_SLOT, CountedBatch, Distributions, Numbering, Timeline
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.wire.formats.infiniband import (
    ACKNOWLEDGE,
    ANSWERS,
    ATOMIC_ACKNOWLEDGE,
    CNP_OPCODE,
    DATAGRAM,
    NAK_CODES,
    READ_FIRST,
    READ_MIDDLE,
    READ_REQUEST,
    RELIABLE,
    UNRELIABLE,
)
from ecmproto.wire.formats.ip import CE, NOT_ECT
from ecmproto.wire.formats.text import address_text

MAX_HOSTS = 4096
"""Maximum number of addresses."""
MAX_QUEUE_PAIRS = 2048
"""Maximum number of rows. A row is a queue pair in one direction."""
MAX_IN_PAIR = 16
"""Maximum number of queue pairs in one direction that CNPs and acknowledges are compared with."""
MAX_DELAYS = 1024
"""Maximum number of rows with delays, each for a queue pair with CNPs and one with marked frames."""
MAX_STORED = 1 << 16
"""Maximum number of RoCE frames that are stored for a join with an earlier count."""

_PSNS = 1 << 24
_HALF = _PSNS >> 1
_ACKNOWLEDGED = 1 << 11
"""Maximum distance between the PSN of an acknowledge and the latest PSN of the flow."""
_MIN_MTU = 256
_RESERVED, _LAST_OPERATION = 0x15, 0x17
_RNR_NAK, _NAK = 1, 3
"""Upper bits of the AETH syndrome."""
_SEQUENCE_ERROR = 0
"""Code of a NAK for a sequence error."""
_MAX_DELAY_NS = (1 << 32) - 1
"""Maximum delay in ns. Longer delays are counted as this delay."""
_MAPPED = 0xFFFF
"""Number in front of an IPv4 address that is mapped to IPv6."""
_UNKNOWN = -1
_NO_TIME = -(1 << 63)

(
    _FRAMES, _OCTETS, _DATA, _ECT, _CE, _CNPS, _ACKS, _RNRS, _GAPS, _MISSING, _REPEATS, _GO_BACKS,
    _SELECTIVES, _UNASKED, _NAKS,
) = range(15)  # fmt: skip
_SUMS = (
    "frames", "octets", "data_frames", "ect_frames", "ce_frames", "cnps", "acknowledges",
    "receiver_not_ready", "psn_gaps", "psns_missing", "psn_repeats", "go_backs", "selective_repeats",
    "unasked_repeats",
)  # fmt: skip
"""Names of the `QueuePair` fields for these columns, in the same order."""
_CODES = (*NAK_CODES.values(), "other")
_COUNTS = _NAKS + len(_CODES)
(
    _EXPECTED, _SLACK, _RESPONSE, _FIRST_PSN, _FIRST_CE, _ALL_PENDING, _PAIR, _SLOT, _NAKED, _NAKED_LAST,
    _FROM, _AGAIN_AT, _AGAIN,
) = range(13)  # fmt: skip
"""Columns of ``live``.

_NAKED and _NAKED_LAST are the first and the last PSN that a NAK requested. _FROM is the PSN at which the
retransmission after the NAK started. _AGAIN_AT is the next PSN of this retransmission, and _AGAIN is its
number of packets.
"""
_FIXED = 13

ROCE_FIELD = "infiniband.bth.opcode"
"""Column that contains a value for each RoCE frame."""
_V4 = ("ip.src", "ip.dst", "ip.dsfield")
_V6 = ("ipv6.src", "ipv6.dst", "ipv6.tclass")
_GLOBAL = ("infiniband.grh.sgid", "infiniband.grh.dgid", "infiniband.grh.tclass")
ROCE_FIELDS = (
    ROCE_FIELD, "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.aeth.syndrome",
    "infiniband.reth.dmalen", *_V4, *_V6, *_GLOBAL,
)  # fmt: skip


@plain_value
class RoceEvents(NamedTuple):
    """RoCE frames in their order."""

    row: Int64
    time_ns: Int64
    octets: Int64
    ecn: Int64
    opcode: Int64
    psn: Int64
    syndrome: Int64
    """AETH syndrome, or _UNKNOWN without an AETH."""
    read: Int64
    """Number of octets that a RETH requests."""

    def part(self, low: int, high: int) -> RoceEvents:
        """Return the frames from index ``low`` up to and excluding index ``high``."""
        return RoceEvents(*(array[low:high] for array in self))


@plain_value
class RoceState(NamedTuple):
    """The state of all rows. All arrays are int64."""

    counts: Int64
    """Sums of each row, by column."""
    live: Int64
    """PSN state and first values of each row, by column."""
    pending: Int64
    """Time of the first CE-marked frame since the last CNP. The rows are the rows that receive CNPs, and the
    columns are the slots of the opposite pair. _NO_TIME means that there is no such frame.
    """
    tied: Int64
    """Whether an acknowledge ties the row to the flow, by row and slot."""
    delay_row: Int64
    """Row of the delays, by row and slot. NO_NUMBER means that there are no delays."""
    pair_rows: Int64
    """Rows of each pair of addresses, by slot."""
    pair_count: Int64
    """Number of rows of each pair of addresses, including rows without a slot."""
    reverse: Int64
    """Number of the pair with source and destination exchanged, or NO_NUMBER without such a pair."""
    first_cnp: Int64
    """Time of the first CNP after the stored frames, by row; _NO_TIME if its delay is already counted."""
    first_since: Int64
    """Time from which the delay of ``first_cnp`` counts, by row and slot, if this count includes it."""
    delay_rows: Int64
    """Number of rows with delays."""


def _new_state() -> RoceState:
    shape = (MAX_QUEUE_PAIRS, MAX_IN_PAIR)
    live = np.full((MAX_QUEUE_PAIRS, _FIXED), _UNKNOWN, np.int64)
    live[:, (_SLACK, _ALL_PENDING)] = 0
    live[:, _FIRST_CE] = _NO_TIME
    return RoceState(
        counts=np.zeros((MAX_QUEUE_PAIRS, _COUNTS), np.int64),
        live=live,
        pending=np.full(shape, _NO_TIME, np.int64),
        tied=np.zeros(shape, np.int64),
        delay_row=np.full(shape, NO_NUMBER, np.int64),
        pair_rows=np.full(shape, NO_NUMBER, np.int64),
        pair_count=np.zeros(MAX_QUEUE_PAIRS, np.int64),
        reverse=np.full(MAX_QUEUE_PAIRS, NO_NUMBER, np.int64),
        first_cnp=np.full(MAX_QUEUE_PAIRS, _NO_TIME, np.int64),
        first_since=np.full(shape, _NO_TIME, np.int64),
        delay_rows=np.zeros(1, np.int64),
    )


@inlined
def _sent_again(live: Int64, counts: Int64, row: int, psn: int) -> None:
    """Update the retransmission state for a repeated request.

    The request may repeat a PSN that a NAK requested, continue such a retransmission, or repeat without a
    NAK.
    """
    first, last, at = live[row, _NAKED], live[row, _NAKED_LAST], live[row, _AGAIN_AT]
    mask = _PSNS - 1
    requested = first != _UNKNOWN and (psn - first) & mask <= (last - first) & mask
    ahead = (psn - at) & mask if at != _UNKNOWN else _HALF
    if requested and ahead != 0:
        # With go-back-N, the retransmission would have continued at the next PSN.
        counts[row, _SELECTIVES] += live[row, _FROM] != _UNKNOWN and ahead < _HALF
        live[row, _FROM], live[row, _AGAIN] = psn, 1
    elif ahead < _HALF:
        live[row, _AGAIN] += 1
    else:
        counts[row, _UNASKED] += 1
        live[row, _FROM] = _UNKNOWN
    live[row, _AGAIN_AT] = (psn + 1) & mask
    if requested:
        live[row, _NAKED] = _UNKNOWN if psn == last else (psn + 1) & mask


@inlined
def _goes_on(live: Int64, counts: Int64, row: int, expected: int) -> None:
    """Classify the retransmission after a NAK when a request with a new PSN arrives."""
    begun, at = live[row, _FROM], live[row, _AGAIN_AT]
    if begun != _UNKNOWN:
        outstanding = (expected - begun) & (_PSNS - 1)
        if outstanding > 1:
            all_again = at == expected and 2 * live[row, _AGAIN] > outstanding
            counts[row, _GO_BACKS if all_again else _SELECTIVES] += 1
    live[row, _FROM] = live[row, _AGAIN_AT] = _UNKNOWN


@over_batches
def take(events: RoceEvents, state: RoceState, with_first: bool, delay_row: Int64, delay_ns: Int64) -> int:
    """Count frames in their order, fill ``delay_row`` and ``delay_ns``, and return the number of delays.

    The delay of a row's first CNP depends on earlier frames. The delay is counted only if ``with_first`` is
    set.
    """
    rows, times, octets, ecns, opcodes, psns, syndromes, reads = events
    counts, live, pending, tied, delay_rows_of, pair_rows, pair_count, reverse = state[:8]
    first_cnp, first_since, delay_rows = state[8:]
    count = 0
    for i in range(len(rows)):
        row = rows[i]
        if row < 0:
            continue
        time, opcode, psn = times[i], opcodes[i], psns[i]
        operation, transport = opcode & 0x1F, opcode >> 5
        back = reverse[live[row, _PAIR]]
        others = min(pair_count[back], MAX_IN_PAIR) if back >= 0 else 0
        counts[row, _FRAMES] += 1
        counts[row, _OCTETS] += octets[i]
        counts[row, _ECT] += ecns[i] != NOT_ECT
        if opcode == CNP_OPCODE:
            is_first = not with_first and counts[row, _CNPS] == 0
            if is_first:
                first_cnp[row] = time
            # A CNP names the queue pair that must slow down, not the queue pair with the marked frames. The
            # CNP can refer to any flow in the opposite direction. The delay of each flow starts at its own
            # first mark. At the end, the ties of acknowledges decide which of these delays count.
            for index in range(others):
                flow = pair_rows[back, index]
                since = pending[row, index] if counts[row, _CNPS] > 0 else live[flow, _FIRST_CE]
                pending[row, index] = _NO_TIME
                live[flow, _ALL_PENDING] = 0
                if is_first:
                    first_since[row, index] = since
                if since == _NO_TIME or time < since or is_first:
                    continue
                if delay_rows_of[row, index] == NO_NUMBER and delay_rows[0] < MAX_DELAYS:
                    delay_rows_of[row, index] = delay_rows[0]
                    delay_rows[0] += 1
                delay_row[count] = delay_rows_of[row, index]
                delay_ns[count] = min(time - since, _MAX_DELAY_NS)
                count += 1
            counts[row, _CNPS] += 1
            continue
        if ecns[i] == CE:
            counts[row, _CE] += 1
            if time != _NO_TIME:
                if live[row, _FIRST_CE] == _NO_TIME:
                    live[row, _FIRST_CE] = time
                if live[row, _ALL_PENDING] == 0 and live[row, _SLOT] >= 0:
                    live[row, _ALL_PENDING] = 1
                    for index in range(others):
                        other = pair_rows[back, index]
                        if pending[other, live[row, _SLOT]] == _NO_TIME:
                            pending[other, live[row, _SLOT]] = time
        answers = operation in ANSWERS
        if transport in (RELIABLE, DATAGRAM) and answers:
            # A header has no source queue pair. The flow in the opposite direction is identified by the
            # acknowledged PSN, which this flow has sent recently.
            for index in range(others):
                latest = live[pair_rows[back, index], _EXPECTED] - 1
                if latest >= _UNKNOWN and (latest - psn) & (_PSNS - 1) < _ACKNOWLEDGED:
                    tied[row, index] = 1
            if syndromes[i] >= 0:
                kind, code = syndromes[i] >> 5, syndromes[i] & 0x1F
                counts[row, _RNRS] += kind == _RNR_NAK
                if kind == _NAK:
                    counts[row, _NAKS + min(code, len(_CODES) - 1)] += 1
                if kind == _NAK and code == _SEQUENCE_ERROR:
                    for index in range(others):
                        flow = pair_rows[back, index]
                        if (live[flow, _EXPECTED] - 1 - psn) & (_PSNS - 1) < _ACKNOWLEDGED:
                            live[flow, _NAKED_LAST] = psn
                            if live[flow, _NAKED] == _UNKNOWN:
                                live[flow, _NAKED] = psn
            if operation in (ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE):
                counts[row, _ACKS] += 1
                continue
        counts[row, _DATA] += 1
        if transport > UNRELIABLE or operation == _RESERVED or operation > _LAST_OPERATION:
            continue  # no consecutive PSNs
        expected = live[row, _RESPONSE if answers else _EXPECTED]
        if answers:
            goes_on = operation in (READ_FIRST, READ_MIDDLE)
            live[row, _RESPONSE] = (psn + 1) & (_PSNS - 1) if goes_on else _UNKNOWN
        elif expected == _UNKNOWN:
            live[row, _FIRST_PSN] = psn
        ahead = 0 if expected == _UNKNOWN else (psn - expected) & (_PSNS - 1)
        if ahead >= _HALF:
            counts[row, _REPEATS] += 1
            if not answers:
                _sent_again(live, counts, row, psn)
            continue
        if not answers and live[row, _AGAIN_AT] != _UNKNOWN:
            _goes_on(live, counts, row, expected)
        if ahead > (0 if answers else live[row, _SLACK]):
            counts[row, _GAPS] += 1
            counts[row, _MISSING] += ahead
        if not answers:
            live[row, _EXPECTED] = (psn + 1) & (_PSNS - 1)
            live[row, _SLACK] = 0
            if operation == READ_REQUEST:
                # Each response uses a PSN. Their number depends on the path MTU, so this distance is no gap.
                live[row, _SLACK] = min(max(0, (reads[i] - 1) // _MIN_MTU), _HALF - 1)
    return count


class RoceCounts:
    """A counter of RoCE frames."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.hosts: Numbering = Numbering(MAX_HOSTS)
        self.queue_pairs: Numbering = Numbering(MAX_QUEUE_PAIRS)
        self._pair_of: dict[tuple[int, int], int] = {}
        self._known = 0
        self._frames = 0
        self._state = _new_state()
        self._over_time = timeline.series(4)
        """Number of frames, ECN-capable frames, CE-marked frames and CNPs in each interval."""
        self._stored: list[RoceEvents] = []
        self._stored_frames = 0
        self._before: RoceState | None = None
        """State after the stored frames. ``None`` means that frames are still being stored."""
        self._delays = Distributions()
        """Delays of the stored frames."""
        self._later_delays = Distributions()

    @property
    def any(self) -> bool:
        """Whether there were RoCE frames."""
        return self._frames > 0

    def add(
        self, counted: CountedBatch, seen: Callable[[RoceEvents], None] | None = None
    ) -> tuple[Int64, Int64, Int64, Int64]:
        """Count the RoCE frames of a batch and return their source and destination addresses.

        The columns of the batch include `ROCE_FIELDS`. ``seen`` is called with the frames. Each address is
        returned as two halves (see `network_ends`).
        """
        rows = counted.columns[ROCE_FIELD].outermost().rows
        if not len(rows):
            none = np.zeros(0, np.int64)
            return none, none, none, none
        self._frames += len(rows)
        (src_low, src_high), (dst_low, dst_high), ecn = network_ends(counted, rows)
        low, high = np.stack([src_low, dst_low], 1).reshape(-1), np.stack([src_high, dst_high], 1).reshape(-1)
        hosts = self.hosts.numbers(low, high).reshape(-1, 2)
        known = (hosts != NO_NUMBER).all(axis=1)
        number = np.full(len(rows), NO_NUMBER, np.int64)
        pair = hosts[known, 0] << 32 | hosts[known, 1]
        queue_pair = counted.values("infiniband.bth.destqp", rows)
        number[known] = self.queue_pairs.numbers(pair, queue_pair[known])
        self.queue_pairs.left_out += int((~known).sum())
        self._meet()
        slots = counted.slots[rows]
        time_ns = np.where(slots == NO_SLOT, _NO_TIME, counted.batch.time_ns[rows])
        syndrome = np.full(len(rows), _UNKNOWN, np.int64)
        aeth = counted.columns["infiniband.aeth.syndrome"].outermost()
        syndrome[np.searchsorted(rows, aeth.rows)] = np.asarray(aeth.values)
        opcode = counted.values(ROCE_FIELD, rows)
        psn, read = (counted.values(name, rows) for name in ("infiniband.bth.psn", "infiniband.reth.dmalen"))
        octets = counted.batch.original[rows]
        events = RoceEvents(number, time_ns, octets, ecn, opcode, psn, syndrome, read)
        is_cnp = events.opcode == CNP_OPCODE
        marks = (True, events.ecn != NOT_ECT, (events.ecn == CE) & ~is_cnp, is_cnp)
        for row, mask in enumerate(marks):
            present = slots[(slots != NO_SLOT) & mask]
            self._over_time.values[row] += np.bincount(present, minlength=self._timeline.max_intervals)
        self._apply(events)
        if seen is not None:
            seen(events)
        return src_low, src_high, dst_low, dst_high

    def _meet(self) -> None:
        """Assign a pair of addresses and a slot to each new row."""
        state = self._state
        low = self.queue_pairs.low.tolist()
        for row in range(self._known, self.queue_pairs.count):
            source, destination = low[row] >> 32, low[row] & 0xFFFFFFFF
            pair = self._pair_of.setdefault((source, destination), len(self._pair_of))
            back = self._pair_of.get((destination, source))
            if back is not None:
                state.reverse[pair], state.reverse[back] = back, pair
            state.live[row, _PAIR] = pair
            index = int(state.pair_count[pair])
            state.pair_count[pair] += 1
            if index < MAX_IN_PAIR:
                state.pair_rows[pair, index] = row
                state.live[row, _SLOT] = index
        self._known = self.queue_pairs.count

    def _apply(self, events: RoceEvents) -> None:
        """Count frames, and store the frames up to the maximum number."""
        if self._before is None:
            first = events.part(0, MAX_STORED - self._stored_frames)
            self._take(first)
            self._stored.append(RoceEvents(*(array.copy() for array in first)))
            self._stored_frames += len(first.row)
            events = events.part(len(first.row), len(events.row))
            if self._stored_frames >= MAX_STORED:
                self._keep_no_more()
        if len(events.row):
            self._take(events)

    def _take(self, events: RoceEvents) -> None:
        cnps = int((events.opcode == CNP_OPCODE).sum())
        rows, delays = np.zeros((2, cnps * MAX_IN_PAIR), np.int64)
        with_first = self._before is None
        count = take(RoceEvents(*map(np.ascontiguousarray, events)), self._state, with_first, rows, delays)
        to = self._delays if self._before is None else self._later_delays
        to.add(rows[:count], delays[:count], int(self._state.delay_rows[0]))

    def _keep_no_more(self) -> None:
        self._before = RoceState(*(array.copy() for array in self._state))

    def join(self, later: RoceCounts) -> None:
        """Add the counts of ``later``, a counter of later frames."""
        self._frames += later._frames
        self._over_time.values += self._timeline.of(later._timeline, later._over_time.values)
        hosts = self.hosts.join(later.hosts, np.zeros(MAX_HOSTS, np.int64))
        numbers = self._join_rows(later, hosts)
        self._meet()
        for events in later._stored:
            rows = np.where(events.row == NO_NUMBER, NO_NUMBER, numbers[events.row])
            self._apply(events._replace(row=rows))
        if later._before is not None:
            if self._before is None:
                self._keep_no_more()
            self._add_rest(later, later._before, numbers)

    def _join_rows(self, later: RoceCounts, hosts: Int64) -> Int64:
        """Return the rows of this count for the rows of ``later``.

        ``hosts`` contains the numbers in this count for the addresses of ``later``.
        """
        pairs = later.queue_pairs.low.astype(np.int64)
        source, destination = hosts[pairs >> 32], hosts[pairs & 0xFFFFFFFF]
        known = (source != NO_NUMBER) & (destination != NO_NUMBER)
        numbers = np.full(later._known + 1, NO_NUMBER, np.int64)
        frames = later._state.counts[: later._known, _FRAMES]
        left_out = self.queue_pairs.left_out
        numbers[:-1][known] = self.queue_pairs.numbers(
            (source << 32 | destination)[known], later.queue_pairs.high.astype(np.int64)[known]
        )
        lost = int(frames[numbers[:-1] == NO_NUMBER].sum())
        self.queue_pairs.left_out = left_out + later.queue_pairs.left_out + lost
        return numbers

    def _add_rest(self, later: RoceCounts, before: RoceState, numbers: Int64) -> None:
        """Add the counts after the stored frames of ``later``.

        ``before`` is the state of ``later`` after the stored frames.
        """
        here, other = self._state, later._state
        delays = np.full(MAX_DELAYS, NO_NUMBER, np.int64)
        for theirs in range(later._known):
            own = int(numbers[theirs])
            if own == NO_NUMBER:
                continue
            self._add_row(own, other.live[theirs], before.live[theirs])
            self._add_first_cnp(own, theirs, later, before, numbers)
            here.counts[own] += other.counts[theirs] - before.counts[theirs]
            for index, row, slot in self._slots(theirs, later, numbers):
                here.tied[own, slot] |= other.tied[theirs, index]
                if other.counts[theirs, _CNPS] > before.counts[theirs, _CNPS]:
                    here.pending[own, slot] = other.pending[theirs, index]
                elif here.pending[own, slot] == _NO_TIME:
                    since = other.pending[theirs, index]
                    if since == _NO_TIME and not other.counts[theirs, _CNPS]:
                        since = other.live[row, _FIRST_CE]
                    here.pending[own, slot] = since
                number = int(other.delay_row[theirs, index])
                if number == NO_NUMBER:
                    continue
                if here.delay_row[own, slot] == NO_NUMBER and here.delay_rows[0] < MAX_DELAYS:
                    here.delay_row[own, slot] = here.delay_rows[0]
                    here.delay_rows[0] += 1
                delays[number] = here.delay_row[own, slot]
        here.live[:, _ALL_PENDING] = 0
        self._later_delays.join(later._later_delays, delays, int(here.delay_rows[0]))

    def _slots(self, theirs: int, later: RoceCounts, numbers: Int64) -> Iterator[tuple[int, int, int]]:
        """Yield the flows that the CNPs of row ``theirs`` may refer to.

        Each flow is a tuple of the index in ``later``, the row in ``later`` and the slot in this count.
        """
        other = later._state
        back = int(other.reverse[other.live[theirs, _PAIR]])
        for index in range(min(int(other.pair_count[back]), MAX_IN_PAIR) if back >= 0 else 0):
            row = int(other.pair_rows[back, index])
            flow = int(numbers[row])
            slot = int(self._state.live[flow, _SLOT]) if flow != NO_NUMBER else NO_NUMBER
            if slot != NO_NUMBER:
                yield index, row, slot

    def _add_first_cnp(
        self, own: int, theirs: int, later: RoceCounts, before: RoceState, numbers: Int64
    ) -> None:
        """Add the delay of the first CNP after the stored frames, which may start in earlier frames."""
        here, other = self._state, later._state
        time_ns = int(other.first_cnp[theirs])
        if time_ns == _NO_TIME:
            return
        is_first = not here.counts[own, _CNPS]
        if is_first:
            here.first_cnp[own] = time_ns
        for index, row, slot in self._slots(theirs, later, numbers):
            since_ns = int(here.live[numbers[row], _FIRST_CE] if is_first else here.pending[own, slot])
            if since_ns == _NO_TIME:
                since_ns = int(other.first_since[theirs, index])
            if is_first:
                here.first_since[own, slot] = since_ns
            else:
                self._add_delay(self._later_delays, own, slot, since_ns, time_ns)

    def _add_delay(self, to: Distributions, row: int, slot: int, since_ns: int, time_ns: int) -> None:
        """Add a delay if the delay is valid and the table has a free row."""
        state = self._state
        if since_ns == _NO_TIME or time_ns < since_ns:
            return
        if state.delay_row[row, slot] == NO_NUMBER and state.delay_rows[0] < MAX_DELAYS:
            state.delay_row[row, slot] = state.delay_rows[0]
            state.delay_rows[0] += 1
        delay = np.array([min(time_ns - since_ns, _MAX_DELAY_NS)], np.int64)
        to.add(state.delay_row[row, slot : slot + 1].copy(), delay, int(state.delay_rows[0]))

    def _add_row(self, own: int, later: Int64, before: Int64) -> None:
        """Update the PSNs and the marks of a row with the row of a later count."""
        live, counts = self._state.live, self._state.counts
        if live[own, _FIRST_CE] == _NO_TIME:
            live[own, _FIRST_CE] = later[_FIRST_CE]
        if later[_EXPECTED] != _UNKNOWN:
            if before[_EXPECTED] == _UNKNOWN and live[own, _EXPECTED] != _UNKNOWN:
                ahead = (int(later[_FIRST_PSN]) - int(live[own, _EXPECTED])) & (_PSNS - 1)
                if ahead >= _HALF:
                    counts[own, _REPEATS] += _PSNS - ahead
                elif ahead > live[own, _SLACK]:
                    counts[own, _GAPS] += 1
                    counts[own, _MISSING] += ahead
            live[own, (_EXPECTED, _SLACK)] = later[[_EXPECTED, _SLACK]]
            if live[own, _FIRST_PSN] == _UNKNOWN:
                live[own, _FIRST_PSN] = later[_FIRST_PSN]
        following = (_RESPONSE, _NAKED, _NAKED_LAST, _FROM, _AGAIN_AT, _AGAIN)
        live[own, following] = later[list(following)]

    @property
    def traffic(self) -> RoceTraffic | None:
        """RoCE traffic so far, or ``None`` without RoCE frames."""
        if not self._frames:
            return None
        state, used = self._state, self._timeline.used
        abouts = [self._about(row) for row in range(self._known)]
        delays = Distributions()
        every = np.arange(int(state.delay_rows[0]), dtype=np.int64)
        for part in (self._delays, self._later_delays):
            delays.join(part, every, int(state.delay_rows[0]))
        for row in np.flatnonzero(state.first_cnp != _NO_TIME).tolist():
            for slot in np.flatnonzero(state.first_since[row] != _NO_TIME).tolist():
                since_ns, time_ns = int(state.first_since[row, slot]), int(state.first_cnp[row])
                self._add_delay(delays, row, slot, since_ns, time_ns)
        against: dict[int, list[int]] = {}
        for row, about in enumerate(abouts):
            if about.slot != NO_NUMBER:
                against.setdefault(about.flows[0], []).append(row)
        known = [state.delay_row[row, abouts[row].slot] for rows in against.values() for row in rows]
        whole = _joined(delays, known)
        made = [
            self._row(row, abouts[row], against.get(row, []), abouts, delays) for row in range(self._known)
        ]
        pairs = len(self._pair_of)
        frames, ect, ce, cnps = (tuple(values[:used].tolist()) for values in self._over_time.values)
        return RoceTraffic(
            frames=self._frames,
            address_pairs=pairs,
            pairs_of_both_directions=int((state.reverse[:pairs] != NO_NUMBER).sum()),
            queue_pairs=tuple(sorted(made, key=lambda each: (-each.trouble, -each.frames))),
            delay_ns=whole.row(0),
            delay_quarters=whole.quarters(0),
            frames_over_time=frames,
            ect_over_time=ect,
            ce_over_time=ce,
            cnps_over_time=cnps,
        )

    def _about(self, row: int) -> _About:
        """Return the flows that the CNPs and acknowledges of a row may refer to."""
        state = self._state
        back = int(state.reverse[state.live[row, _PAIR]])
        if back == NO_NUMBER:
            return _About((), NO_NUMBER, "")
        count, slot = int(state.pair_count[back]), int(state.live[row, _SLOT])
        rows = state.pair_rows[back, : min(count, MAX_IN_PAIR)].tolist()
        tied = [
            index
            for index, flow in enumerate(rows)
            if state.tied[row, index] or (slot >= 0 and state.tied[flow, slot])
        ]
        if len(tied) == 1:
            return _About((rows[tied[0]],), tied[0], "acknowledged")
        indices = tied or [index for index, flow in enumerate(rows) if state.counts[flow, _DATA]]
        flows = tuple(rows[index] for index in indices)
        if len(indices) == 1 and count <= MAX_IN_PAIR:
            return _About(flows, indices[0], "only one")
        return _About(flows, NO_NUMBER, "one of" if flows else "")

    def _row(
        self, row: int, about: _About, against: list[int], abouts: list[_About], delays: Distributions
    ) -> QueuePair:
        """Return the statistics of a row. The CNPs and NAKs of the rows ``against`` refer to this row."""
        state, pairs = self._state, self.queue_pairs
        counts, low = state.counts[row].tolist(), int(pairs.low[row])
        first_ce_ns = int(state.live[row, _FIRST_CE])
        own = _joined(delays, [state.delay_row[other, abouts[other].slot] for other in against])
        return QueuePair(
            source=self._address(low >> 32),
            destination=self._address(low & 0xFFFFFFFF),
            queue_pair=int(pairs.high[row]),
            **dict(zip(_SUMS, counts[:_NAKS], strict=True)),
            naks={code: count for code, count in zip(_CODES, counts[_NAKS:], strict=True) if count},
            other_direction=int(state.reverse[state.live[row, _PAIR]]) != NO_NUMBER,
            about=tuple(int(pairs.high[flow]) for flow in about.flows),
            about_by=about.how,
            cnps_against=sum(int(state.counts[other, _CNPS]) for other in against),
            naks_against={
                code: count
                for code, column in zip((*_CODES, NOT_READY), (*range(_NAKS, _COUNTS), _RNRS), strict=True)
                if (count := int(state.counts[against][:, column].sum()))
            },
            delay_ns=own.row(0),
            first_ce_ns=None if first_ce_ns == _NO_TIME else first_ce_ns,
        )

    def name_of(self, row: int) -> str:
        """Return a text with the addresses and the number of a queue pair."""
        low, number = int(self.queue_pairs.low[row]), int(self.queue_pairs.high[row])
        return f"{self._address(low >> 32)} → {self._address(low & 0xFFFFFFFF)} QP {number:#x}"

    def _address(self, host: int) -> str:
        return address_of_halves(int(self.hosts.low[host]), int(self.hosts.high[host]))


def address_of_halves(low: int, high: int) -> str:
    """Return the text of an address from its lower and upper 64 bits, in the format of `network_ends`."""
    if high == 0 and low >> 32 == _MAPPED:
        return address_text((low & 0xFFFFFFFF).to_bytes(4))
    return address_text((high << 64 | low).to_bytes(16))


class _About(NamedTuple):
    """The flows that the CNPs and acknowledges of a queue pair may refer to."""

    flows: tuple[int, ...]
    slot: int
    """Slot of the flow in the pair of addresses, or NO_NUMBER unless there is exactly one flow."""
    how: str


def of_sample(traffic: RoceTraffic) -> RoceTraffic:
    """Return the traffic of a sample without the values that need all frames."""
    unknown: dict[str, Any] = dict.fromkeys((*_SUMS[_GAPS:_NAKS], "delay_ns"))
    pairs = [dataclasses.replace(each, **unknown) for each in traffic.queue_pairs]
    pairs.sort(key=lambda each: (-each.trouble, -each.frames))
    return dataclasses.replace(traffic, queue_pairs=tuple(pairs), delay_ns=None, delay_quarters=())


def _joined(delays: Distributions, rows: list[int]) -> Distributions:
    """Return the union of several rows of delays as a single row."""
    to = np.full(MAX_DELAYS, NO_NUMBER, np.int64)
    to[[row for row in rows if row != NO_NUMBER]] = 0
    joined = Distributions()
    joined.join(delays, to, 1)
    return joined


def network_ends(
    counted: CountedBatch, rows: NDArray[np.int32]
) -> tuple[tuple[Int64, Int64], tuple[Int64, Int64], Int64]:
    """Return the source addresses, the destination addresses and the ECN fields of RoCE frames.

    Each address is two numbers: the lower and the upper 64 bits. IPv4 addresses are mapped to IPv6.
    """
    halves = np.zeros((2, 2, len(rows)), np.int64)
    ecn = np.zeros(len(rows), np.int64)
    for source, destination, service in (_V4, _V6, _GLOBAL):
        column = counted.columns[service].outermost()
        if np.array_equal(column.rows, rows):
            marks = np.asarray(column.values).astype(np.int64) & 3
            return _halves(counted.columns, source, rows), _halves(counted.columns, destination, rows), marks
        present = np.isin(rows, column.rows)
        if not present.any():
            continue
        chosen = rows[present]
        ecn[present] = counted.values(service, chosen) & 3
        for end, name in enumerate((source, destination)):
            halves[end, 0, present], halves[end, 1, present] = _halves(counted.columns, name, chosen)
    return (halves[0, 0], halves[0, 1]), (halves[1, 0], halves[1, 1]), ecn


def _halves(columns: Columns, name: str, rows: NDArray[np.int32]) -> tuple[Int64, Int64]:
    """Return the lower and the upper 64 bits of addresses. IPv4 addresses are mapped to IPv6."""
    column = columns[name].outermost()
    octets = np.asarray(column.values)
    if not np.array_equal(column.rows, rows):
        octets = octets[np.searchsorted(column.rows, rows)]
    if octets.shape[1] == 4:
        low = np.ascontiguousarray(octets).view(">u4").reshape(-1).astype(np.int64)
        return low | _MAPPED << 32, np.zeros(len(rows), np.int64)
    halves = np.ascontiguousarray(octets).view(">i8").astype(np.int64)
    return halves[:, 1], halves[:, 0]
