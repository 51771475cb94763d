"""From the frames that were sent before a device fell silent to the least that silence it.

Suspects are sent again, and parts of them, with a heartbeat after each part; the device is brought back
whenever it is silent, so that each trial begins with one that is alive.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ecmproto.errors import counted
from ecmproto.fuzz.device import Device, Pulse
from ecmproto.fuzz.fitting import Fitting
from ecmproto.fuzz.minimisation import Budget, fewest, simplest

DEFAULT_TRIES = 200
ATTEMPTS = 2
"""How often what may silence the device is sent before it is taken not to."""
SIMPLER_SECONDS = 10.0
"""How long the octets of a frame are made simpler at most: it takes many trials, and says little more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A frame that was sent, and the case it was."""

    index: int
    octets: bytes


class _LostError(Exception):
    """The device did not come back."""


class Narrowing:
    """Trials on a device, that is brought back before each of them if it is silent.

    A frame that is ``known`` to silence it is not made simpler.
    """

    def __init__(
        self,
        device: Device,
        pulse: Pulse,
        fitting: Fitting,
        *,
        tries: int = DEFAULT_TRIES,
        known: Callable[[bytes], bool] = lambda octets: False,
    ) -> None:
        self._device = device
        self._pulse = pulse
        self._fitting = fitting
        self._tries = tries
        self._known = known
        self._ended = False
        self._fresh = self._untouched = False
        self.least: tuple[Suspect, ...] = ()
        """The fewest frames so far that silenced the device."""
        self.trials = 0
        self.frames = 0
        """How many were sent in them."""
        self.again = 0
        """How many of `ATTEMPTS` times the least silenced it again at the end."""
        self.lost = False
        """Whether the device did not come back, which ended the trials."""

    def run(self, *alternatives: Sequence[Suspect]) -> None:
        """Narrow down the first of the alternatives after which the device falls silent again."""
        try:
            self._bring_back()
            any(self._narrow(suspects) for suspects in alternatives if suspects)
        except _LostError:
            self.lost = True
        self._ended = True

    @property
    def told(self) -> str:
        """What came of it, in a few words."""
        if self.lost:
            return "the device did not come back"
        if not self._ended:
            return "interrupted while it was narrowed down"
        if not self.least:
            return "sent again, the same frames did not silence it"
        if not self.again:
            return "it does not happen every time: all frames are kept"
        frames = counted(len(self.least), "frame")
        again = f"silent {self.again} of {ATTEMPTS} times again"
        return f"narrowed down to {frames} by {self.trials} trials; {again}"

    def _narrow(self, suspects: Sequence[Suspect]) -> bool:
        """Narrow ``suspects`` down to `least`; return False where the device stays alive after them."""
        if not any(self._silences(suspects) for _ in range(ATTEMPTS)):
            return False
        # what earlier trials left in the device may matter: then each needs one that was brought back
        for fresh in (False, True) if self._device.recovers else (False,):
            self._fresh, self.least = fresh, tuple(suspects)
            fewest(suspects, self._silences, Budget(self._tries))
            if len(self.least) == 1 and not self._known(self.least[0].octets):
                self._simplify(self.least[0])
            self.again = self._confirmed(self.least)
            if self.again:
                return True
        self.least = tuple(suspects)
        return True

    def _confirmed(self, least: Sequence[Suspect]) -> int:
        """Return how often frames silence the device whatever was sent to it before."""
        self._fresh = self._device.recovers
        return sum(self._silences(least) for _ in range(ATTEMPTS))

    def _silences(self, suspects: Sequence[Suspect]) -> bool:
        """Try frames; return whether the device falls silent, and remember them then."""
        if self._fresh and not self._untouched:
            self._bring_back()
        silent = self._silent([each.octets for each in suspects])
        if silent:
            self.least = tuple(suspects)
            self._bring_back()
        return silent

    def _silent(self, frames: Sequence[bytes]) -> bool:
        self._untouched = False
        self.trials += 1
        self.frames += len(frames)
        self._device.send(frames)
        self._device.settle()
        return bool(self._pulse.silence(self._device))

    def _bring_back(self) -> None:
        if not self._device.recover():
            raise _LostError
        self._untouched = True

    def _simplify(self, suspect: Suspect) -> None:
        """Make the frame's octets simpler, as long as it silences the device."""

        def silences(octets: bytes) -> bool:
            # what is cut off comes back as zeros where a frame would be too short
            frame = self._fitting.fitted(octets)
            return frame is not None and self._silences([Suspect(index=suspect.index, octets=frame)])

        simplest(suspect.octets, silences, Budget(self._tries, seconds=SIMPLER_SECONDS))
