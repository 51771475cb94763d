"""A device without an interface in simulated time, whose reactions to frames are set by tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

FRAME_S = 0.001
BEAT_S = 0.5


class FakeDevice:
    """A simulated device that stops responding if ``dies`` is true for the frames since the last restart.

    The device restarts at most ``lives`` times. A restart forgets all frames, also if ``recovers`` restarts a
    running device.
    """

    def __init__(
        self,
        dies: Callable[[Sequence[bytes]], bool],
        *,
        lives: int = 1_000_000,
        recovers: bool = False,
    ) -> None:
        self._dies = dies
        self.recovers = recovers
        self.lives = lives
        self.got: list[bytes] = []
        self.sent: list[list[bytes]] = []
        """Frames sent since the last heartbeat."""
        self._fresh = True
        self.alive = True
        self.beats = 0
        self.deaf_beats = 0
        """Number of heartbeats that are lost although the device works."""
        self.now = 0.0

    def send(self, frames: Sequence[bytes]) -> None:
        if self._fresh:
            self.sent.append([])
            self._fresh = False
        self.sent[-1] += frames
        self.got += frames
        self.now += FRAME_S * len(frames)
        self.alive = self.alive and not self._dies(self.got)

    def beat(self) -> str:
        self.beats += 1
        self._fresh = True
        if self.deaf_beats:
            self.deaf_beats -= 1
            return "no answer"
        if self.alive:
            return ""
        self.now += BEAT_S
        return "no answer"

    def settle(self) -> None:
        self.now += FRAME_S

    def recover(self) -> bool:
        if self.alive:
            self.got = [] if self.recovers else self.got
            return True
        self.lives -= 1
        self.alive = self.lives > 0
        self.got = []
        return self.alive

    def clock(self) -> float:
        return self.now


def any_has(part: bytes) -> Callable[[Sequence[bytes]], bool]:
    """Return a condition that is true if a frame contains ``part``."""
    return lambda frames: any(part in octets for octets in frames)
