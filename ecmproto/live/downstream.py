"""PAUSE and PFC from the far end of a port's output, which the port obeys as it sends some itself.

A link does one of both (802.1Q 36.1.2): what is not obeyed is counted as ignored.  Times count at the rate of
the output.  Neither standard bounds for how long a link partner may stop a port; a watchdog does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ecmproto.batch.headers import HEADER_OCTETS, TYPE_AT
from ecmproto.capture.batch import Batch
from ecmproto.codec import EtherTypes
from ecmproto.engine.gauge import PRIORITIES
from ecmproto.live.switching import Switch, obey
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.pause.messages import read
from ecmproto.mechanisms.pause.parameters import PauseReactionParameters, PFCReactionParameters
from ecmproto.mechanisms.pause.reaction import PauseFrame, State, paused_ns, settings_record
from ecmproto.units import format_time

_COUNTED = ("pause_frames", "pfc_frames", "ignored_frames", "refused_frames")
_PARAMETERS: dict[str, PauseReactionParameters | PFCReactionParameters] = {
    "pause": PauseReactionParameters(),
    "pfc": PFCReactionParameters(priorities=frozenset(range(PRIORITIES))),
}
KINDS = tuple(_PARAMETERS)
"""What a port may obey."""


class _Watchdog:
    """Bounds for how long one stop after the other keeps a priority from starting frames: ``limit_ns``.

    A priority that was stopped for so long without a break starts frames again, and what would stop it is
    ignored until nothing has tried to for as long.
    """

    def __init__(self, limit_ns: int, state: State) -> None:
        self.limit_ns = limit_ns
        self.trips = 0
        self.ignored = 0
        self._state = state
        self._stopped_ns = [0] * PRIORITIES
        """Since when each priority is stopped, where it is."""
        self._bounded = self._tripped = 0
        """Masks of priorities: stopped up to the limit, and let go by it."""
        self._heard_ns = [0] * PRIORITIES

    def expire(self, now_ns: int) -> None:
        """Let go of the priorities whose limit has come."""
        for priority in range(PRIORITIES):
            bit = 1 << priority
            if self._bounded & ~self._tripped & bit and self._state.until_ns[priority] <= now_ns:
                self._tripped |= bit
                self.trips += 1

    def admitted(self, frame: PauseFrame, now_ns: int) -> int:
        """Return the mask of the times in ``frame`` that are to be obeyed."""
        self.expire(now_ns)
        mask = frame.enable_vector
        for priority, quanta in enumerate(frame.times_quanta):
            bit = 1 << priority
            if not mask & bit:
                continue
            over = quanta == 0 or now_ns - self._heard_ns[priority] >= self.limit_ns
            if self._tripped & bit and not over:
                self.ignored += 1
                self._heard_ns[priority] = now_ns
                mask &= ~bit
                continue
            if self._state.until_ns[priority] <= now_ns:
                self._stopped_ns[priority] = now_ns
            self._bounded &= ~bit
            self._tripped &= ~bit
        return mask

    def bound(self, mask: int, now_ns: int) -> None:
        """Bound the stops of the priorities in ``mask``, which a frame has just begun or prolonged."""
        until_ns = self._state.until_ns
        for priority in range(PRIORITIES):
            limit_ns = self._stopped_ns[priority] + self.limit_ns
            if mask >> priority & 1 and until_ns[priority] > now_ns:
                self._heard_ns[priority] = now_ns
                if until_ns[priority] >= limit_ns:
                    until_ns[priority] = limit_ns
                    self._bounded |= 1 << priority


class Downstream:
    """What a switch's output hears; ``kind`` is one of `KINDS`.

    No priority is stopped for longer than ``watchdog_ns`` without a break; None: for as long as it is said.
    """

    def __init__(
        self,
        kind: str,
        switch: Switch,
        *,
        rate_bps: int,
        ethertypes: EtherTypes,
        watchdog_ns: int | None = None,
    ) -> None:
        self._switch = switch
        self._watchdog = _Watchdog(watchdog_ns, switch.pauses) if watchdog_ns is not None else None
        self._settings = settings_record(_PARAMETERS[kind], rate_bps=rate_bps)
        self._ethertypes = ethertypes

    @property
    def _state(self) -> State:
        return self._switch.pauses

    @property
    def resumes_ns(self) -> int:
        """When the next priority resumes, NEVER_NS while none is stopped."""
        mask = int(self._switch.port.line.stopped_mask)
        until_ns = self._state.until_ns
        return min((int(until_ns[p]) for p in range(PRIORITIES) if mask >> p & 1), default=NEVER_NS)

    def heard(self, batch: Batch) -> Iterator[PauseFrame]:
        """Yield what the MAC Control frames say of those that came to the output."""
        long = np.flatnonzero(batch.captured >= HEADER_OCTETS)
        at = batch.offset[long] + TYPE_AT
        high, low = self._ethertypes.mac_control.to_bytes(2)
        for position in long[(batch.buffer[at] == high) & (batch.buffer[at + 1] == low)].tolist():
            yield read(batch.frame(position), ethertypes=self._ethertypes)

    def obey(self, frame: PauseFrame, now_ns: int) -> None:
        """Do what a frame says; all that was due by ``now_ns`` has happened."""
        dog, refused = self._watchdog, frame.kind != self._settings.kind or not frame.enable_vector
        if dog is None or refused:
            obey(self._switch, self._settings, frame, now_ns)
            return
        mask = dog.admitted(frame, now_ns)
        if mask:
            obey(self._switch, self._settings, frame._replace(enable_vector=mask), now_ns)
            dog.bound(mask, now_ns)

    def warnings(self) -> tuple[str, ...]:
        """Return what a person should know."""
        dog = self._watchdog
        if dog is None or not dog.trips:
            return ()
        limit = format_time(dog.limit_ns)
        return (f"the watchdog let a priority go that the output's far end had stopped for {limit}",)

    def counters(self, now_ns: int) -> dict[str, int]:
        """Return what came, and for how long each priority was stopped."""
        counted = {f"downstream_{name}": int(getattr(self._state, name)) for name in _COUNTED}
        if self._watchdog is not None:
            self._watchdog.expire(now_ns)
            counted["watchdog_trips"] = self._watchdog.trips
            counted["watchdog_ignored_times"] = self._watchdog.ignored
        return counted | {
            f"stopped_ns_priority_{p}": int(paused_ns(self._state, p, now_ns)) for p in range(PRIORITIES)
        }
