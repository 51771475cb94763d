"""PAUSE and PFC from the far end of a port's output, which the port obeys as it sends some itself.

A link does one of both (802.1Q 36.1.2): what is not obeyed is counted as ignored.  Times count at the rate of
the output.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ecmproto.capture.batch import Batch
from ecmproto.control.limiter import NEVER_NS
from ecmproto.control.pause.messages import read
from ecmproto.control.pause.parameters import PauseReactionParameters, PFCReactionParameters
from ecmproto.control.pause.reaction import PauseFrame, State, paused_ns, settings_record
from ecmproto.live.switching import Switch, obey
from ecmproto.replay.gauge import PRIORITIES
from ecmproto.table.headers import HEADER_OCTETS, TYPE_AT
from ecmproto.wire import EtherTypes

_COUNTED = ("pause_frames", "pfc_frames", "ignored_frames", "refused_frames")
_PARAMETERS: dict[str, PauseReactionParameters | PFCReactionParameters] = {
    "pause": PauseReactionParameters(),
    "pfc": PFCReactionParameters(priorities=frozenset(range(PRIORITIES))),
}
KINDS = tuple(_PARAMETERS)
"""What a port may obey."""


class Downstream:
    """What a switch's output hears; ``kind`` is one of `KINDS`."""

    def __init__(self, kind: str, switch: Switch, *, rate_bps: int, ethertypes: EtherTypes) -> None:
        self._switch = switch
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
        obey(self._switch, self._settings, frame, now_ns)

    def counters(self, now_ns: int) -> dict[str, int]:
        """Return what came, and for how long each priority was stopped."""
        counted = {f"downstream_{name}": int(getattr(self._state, name)) for name in _COUNTED}
        return counted | {
            f"stopped_ns_priority_{p}": int(paused_ns(self._state, p, now_ns)) for p in range(PRIORITIES)
        }
