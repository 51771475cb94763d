"""A literal sender of RFC 5681, 6582, 6298 and 3042, which shares no state with the real sender.

Sequence numbers count segments of one SMSS. ``recover`` is the last sent segment, as in RFC 6582. The first
value of ``recover`` is less than the sequence number of a SYN. With the printed value, duplicate
acknowledgements would not detect the loss of segment 0.
"""

from __future__ import annotations

import math


class Sender:
    """A sender that always has data; methods return the segments that are sent."""

    def __init__(self, *, newreno: bool, window: int, initial: int, rto_ns: int, limits: tuple[int, int]):
        self.newreno, self.rwnd = newreno, window
        self.cwnd, self.ssthresh = float(initial), float(window)
        self.rto_ns, self.limits = rto_ns, limits
        self.snd_una = self.snd_nxt = 0
        self.highest_sent = -1
        self.duplicates = 0
        self.beyond_cwnd = 0
        self.in_fast_recovery = False
        self.first_partial_came = False
        self.recover = -2
        self.timer_ns: int | None = None
        self.srtt_ns: float | None = None
        self.rttvar_ns = 0.0
        self.timing: tuple[int, int] | None = None
        self.timed_out: int | None = None

    def start(self, now_ns: int) -> list[int]:
        """Send the initial window."""
        return self._what_the_window_allows(now_ns)

    def acknowledged(self, ack: int, now_ns: int) -> list[int]:
        """Process an acknowledgement of all segments before ``ack``."""
        if ack > self.snd_una:
            return self._new_data_acknowledged(ack, now_ns)
        if ack == self.snd_una and self.highest_sent >= self.snd_una:
            return self._duplicate(ack, now_ns)
        return self._what_the_window_allows(now_ns)

    def timer_expired(self, now_ns: int) -> list[int]:
        """RFC 6298, 5.4 to 5.6; RFC 5681, 3.1; and RFC 6582, 3.2 (4).

        As in Linux, ssthresh of the recovery is kept.
        """
        if self.in_fast_recovery:
            self.ssthresh = min(self.ssthresh, self._half_the_flight())
        elif self.timed_out != self.snd_una:
            self.ssthresh = self._half_the_flight()
        self.timed_out = self.snd_una
        self.cwnd = 1.0
        self.duplicates = self.beyond_cwnd = 0
        self.in_fast_recovery = False
        self.recover = self.highest_sent
        self.rto_ns = min(2 * self.rto_ns, self.limits[1])
        self.timing = None
        self.timer_ns = None
        self.snd_nxt = self.snd_una
        return self._what_the_window_allows(now_ns)

    def _new_data_acknowledged(self, ack: int, now_ns: int) -> list[int]:
        if self.timing is not None and ack > self.timing[0]:
            self._sample(now_ns - self.timing[1])
            self.timing = None
        count = ack - self.snd_una
        self.snd_una = ack
        self.snd_nxt = max(self.snd_nxt, ack)
        sent = []
        reset_timer = True
        if not self.in_fast_recovery:
            if self.cwnd < self.ssthresh:
                self.cwnd += min(count, 1)
            else:
                self.cwnd += 1 / self.cwnd
            self.cwnd = min(self.cwnd, float(self.rwnd))
            self.duplicates = self.beyond_cwnd = 0
        elif not self.newreno:
            # RFC 5681, 3.2 (6): deflate the window.
            self.cwnd = self.ssthresh
            self._out_of_fast_recovery()
        elif ack - 1 >= self.recover:
            # RFC 6582, 3.2 (3), full acknowledgements, the first way.
            flight = self.snd_nxt - self.snd_una
            self.cwnd = min(self.ssthresh, float(max(flight, 1) + 1))
            self._out_of_fast_recovery()
        else:
            # Partial acknowledgements: deflate by the acknowledged amount, and add back one SMSS.
            sent.append(self._again())
            self.cwnd = max(self.cwnd - count + 1, 1.0)
            reset_timer = not self.first_partial_came
            self.first_partial_came = True
        if self.highest_sent < self.snd_una:
            self.timer_ns = None
        elif reset_timer:
            self.timer_ns = now_ns + self.rto_ns
        return sent + self._what_the_window_allows(now_ns)

    def _duplicate(self, ack: int, now_ns: int) -> list[int]:
        self.duplicates += 1
        sent = []
        if self.in_fast_recovery:
            self.cwnd += 1
        elif self.duplicates == 3 and (not self.newreno or ack - 1 > self.recover):
            self.ssthresh = self._half_the_flight()
            self.recover = self.highest_sent
            self.in_fast_recovery = True
            self.first_partial_came = False
            sent.append(self._again())
            self.cwnd = self.ssthresh + 3
        return sent + self._what_the_window_allows(now_ns)

    def _half_the_flight(self) -> float:
        """RFC 5681, equation 4; what limited transmit sent does not count (3.2 (2))."""
        return max((self.snd_nxt - self.snd_una - self.beyond_cwnd) / 2, 2.0)

    def _out_of_fast_recovery(self) -> None:
        self.in_fast_recovery = False
        self.duplicates = self.beyond_cwnd = 0

    def _again(self) -> int:
        self.timing = None
        return self.snd_una

    def _what_the_window_allows(self, now_ns: int) -> list[int]:
        sent = []
        while True:
            flight = self.snd_nxt - self.snd_una
            is_new = self.snd_nxt > self.highest_sent
            more = min(self.duplicates, 2) if is_new and not self.in_fast_recovery else 0
            if flight >= self.rwnd or flight >= math.floor(self.cwnd) + more:
                break
            if flight >= math.floor(self.cwnd):
                self.beyond_cwnd += 1
            if is_new:
                self.highest_sent = self.snd_nxt
                if self.timing is None:
                    self.timing = (self.snd_nxt, now_ns)
            sent.append(self.snd_nxt)
            self.snd_nxt += 1
        if self.timer_ns is None and self.snd_una <= self.highest_sent:
            self.timer_ns = now_ns + self.rto_ns
        return sent

    def _sample(self, rtt_ns: int) -> None:
        """RFC 6298, 2.2 to 2.5."""
        if self.srtt_ns is None:
            self.srtt_ns, self.rttvar_ns = float(rtt_ns), rtt_ns / 2
        else:
            self.rttvar_ns = 3 / 4 * self.rttvar_ns + 1 / 4 * abs(self.srtt_ns - rtt_ns)
            self.srtt_ns = 7 / 8 * self.srtt_ns + 1 / 8 * rtt_ns
        least_ns, most_ns = self.limits
        rto_ns = math.ceil(self.srtt_ns + max(1.0, 4 * self.rttvar_ns))
        self.rto_ns = min(max(rto_ns, least_ns), most_ns)
