"""A device at the end of an interface: frames leave by a schedule, heartbeats say whether it is alive."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from ecmproto.capture import Batch
from ecmproto.capture.linux.interface import interface_facts
from ecmproto.capture.linux.sender import Transmission
from ecmproto.errors import InterfaceError
from ecmproto.fuzz.heartbeats import Check, Heartbeat, run_command

_AGAIN_S = 0.1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long is waited, in seconds: for a heartbeat, before one when suspects are tried, for a recovery."""

    beat_s: float
    settle_s: float
    recover_s: float


class WiredDevice:
    """A `Device` that ``transmission`` sends to.

    It is alive while all ``heartbeats`` come.  ``recovery`` is a command for the shell that brings it back,
    "" where it comes back by itself.  ``check`` is called often, ``say`` gets what a person ought to know.
    """

    def __init__(
        self,
        transmission: Transmission,
        interface: str,
        heartbeats: Sequence[Heartbeat],
        *,
        patience: Patience,
        recovery: str = "",
        check: Check = lambda: None,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._transmission = transmission
        self._interface = interface
        self._heartbeats = tuple(heartbeats)
        self._patience = patience
        self._recovery = recovery
        self._check = check
        self._say = say
        self.beats = 0
        """How many heartbeats came."""
        self.missed = 0
        """How many did not."""
        self._unreachable = False

    def send(self, frames: Sequence[bytes]) -> None:
        """Send frames by the schedule; InterfaceError where that cannot be.

        A device that takes the link down is one to find: then what is left of the frames is not sent.
        """
        if self._unreachable or not frames:
            return
        try:
            self._transmission.run([Batch.from_frames(frames)])
        except InterfaceError:
            if not self._heartbeats or interface_facts(self._interface).running:
                raise
            self._unreachable = True

    def beat(self) -> str:
        """Ask for all heartbeats; return the first that does not come.  Time for it is none for frames."""
        if not self._heartbeats:
            return ""
        self._transmission.rest()
        self._unreachable = False
        for heartbeat in self._heartbeats:
            missing = heartbeat.beat(self._patience.beat_s)
            if missing:
                self.missed += 1
                return missing
        self.beats += 1
        return ""

    def settle(self) -> None:
        """Wait, where it is going to be asked."""
        if not self._heartbeats:
            return
        self._transmission.rest()
        self._wait(self._patience.settle_s)

    @property
    def recovers(self) -> bool:
        """Whether there is a command that brings it back, from whatever state."""
        return bool(self._recovery)

    def recover(self) -> bool:
        """Run the command that brings the device back, and wait for a heartbeat."""
        self._transmission.rest()
        until = time.monotonic() + self._patience.recover_s
        if self._recovery:
            failed = run_command(self._recovery, self._patience.recover_s, self._check)
            if failed:
                self._say(f"recovery: {failed}")
        while True:
            if not self.beat():
                return True
            if time.monotonic() >= until:
                return False
            self._wait(_AGAIN_S)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._check()
            time.sleep(min(left, _AGAIN_S))
