"""What a campaign asks of a device that frames are sent to, and how it is asked whether it is alive."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

DEFAULT_RETRIES = 2


class Device(Protocol):
    """Something that frames are sent to; each method returns when what it does is done."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send frames, in order, each at its time."""

    def beat(self) -> str:
        """Ask for one sign of life; return "" where it came, else what did not come."""

    def settle(self) -> None:
        """Let it do whatever it does with the frames that it was sent."""

    @property
    def recovers(self) -> bool:
        """Whether `recover` does something to one that is alive too."""

    def recover(self) -> bool:
        """Bring a silent one back; return whether it is alive again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """When a device is asked: after ``every_frames`` frames or ``every_s`` seconds, whichever is given.

    It is taken for silent when ``retries`` more heartbeats after the first stay away too.
    """

    every_frames: int | None = None
    every_s: float | None = None
    retries: int = DEFAULT_RETRIES

    def due(self, frames: int, seconds: float) -> bool:
        """Return whether a heartbeat is due so many frames and so long after the last one."""
        if self.every_frames is not None and frames >= self.every_frames:
            return True
        return self.every_s is not None and seconds >= self.every_s

    def silence(self, device: Device) -> str:
        """Return "" where the device is alive, else what did not come."""
        for _ in range(self.retries):
            if not device.beat():
                return ""
        return device.beat()
