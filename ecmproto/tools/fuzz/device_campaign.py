"""A campaign against a device: cases with heartbeats between; those that silence it are narrowed down.

An interval is the cases between two heartbeats.  If a heartbeat is missing, the frames of its interval are
suspects.  They, and parts of them, are sent again, with a heartbeat after each part; the device is brought
back whenever it is silent, so that each trial begins with a device that is alive.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from ecmproto.errors import counted
from ecmproto.tools.fuzz.cases import Cases
from ecmproto.tools.fuzz.command import CaseOutcome
from ecmproto.tools.fuzz.findings import Campaign, CampaignState, Finding, Progress
from ecmproto.tools.fuzz.minimisation import Budget, fewest, simplest
from ecmproto.wire.codec.frame import MIN_OCTETS, decode_lax
from ecmproto.wire.formats.ethernet import Data
from ecmproto.wire.formats.ethertypes import DEFAULT


class DeviceUnderTest(Protocol):
    """A device that frames are sent to; each method returns when its work is done."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send frames, in order, each at its time."""

    def beat(self) -> str:
        """Check one heartbeat; return "" if it succeeded, else a text for the missing one."""

    def settle(self) -> None:
        """Wait until it has handled the frames that it was sent."""

    @property
    def recovers(self) -> bool:
        """Whether `recover` resets a device that is alive too."""

    def recover(self) -> bool:
        """Bring a silent device back; return whether it is alive again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSchedule:
    """The time of heartbeats: after ``every_frames`` frames or ``every_s`` seconds, whichever is given.

    A device counts as silent when ``retries`` more heartbeats after the first are missing too.
    """

    every_frames: int | None = None
    every_s: float | None = None
    retries: int

    def due(self, frames: int, seconds: float) -> bool:
        """Return whether a heartbeat is due after these frames and seconds since the last one."""
        if self.every_frames is not None and frames >= self.every_frames:
            return True
        return self.every_s is not None and seconds >= self.every_s

    def silence(self, device: DeviceUnderTest) -> str:
        """Return "" if the device answers a heartbeat, else a text for the missing one."""
        for _ in range(self.retries):
            if not device.beat():
                return ""
        return device.beat()


HEADER_OCTETS = 14
"""The minimum length of a frame that a packet socket accepts (packet(7))."""
_TYPE_AT = 12
_C_TAG = DEFAULT.c_tag.to_bytes(2, "big")


@dataclasses.dataclass(slots=True, kw_only=True)
class FrameFitter:
    """Makes frames of cases: from ``shortest_octets`` to ``longest_octets``, both without FCS.

    Short ones are padded with zeros, as network cards pad them to 60 octets.  Frames whose first tag is a
    C-TAG may be ``longest_tagged_octets`` long.
    """

    longest_octets: int
    longest_tagged_octets: int
    shortest_octets: int = MIN_OCTETS
    padded: int = 0
    """Cases that were too short."""
    left_out: int = 0
    """Cases that were too long."""

    def frame(self, octets: bytes) -> bytes | None:
        """Return the frame for a case, counted; None for one that is too long."""
        frame = self.fitted(octets)
        self.left_out += frame is None
        self.padded += frame is not None and len(frame) > len(octets)
        return frame

    def fitted(self, octets: bytes) -> bytes | None:
        """Return the frame for a case; None for one that is too long."""
        tagged = octets[_TYPE_AT:HEADER_OCTETS] == _C_TAG
        if len(octets) > (self.longest_tagged_octets if tagged else self.longest_octets):
            return None
        return octets.ljust(self.shortest_octets, b"\0")


DEFAULT_TRIES = 200
ATTEMPTS = 2
"""Attempts before frames count as harmless."""
SIMPLER_SECONDS = 10.0
"""The maximum time to simplify the octets of a frame: it takes many trials for little information."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A frame that was sent, and its case."""

    index: int
    octets: bytes


class _LostError(Exception):
    """The device did not come back."""


class Narrowing:
    """Trials on a device, which is brought back before each of them if it is silent.

    A frame that is ``known`` to silence it is not simplified.
    """

    def __init__(
        self,
        device: DeviceUnderTest,
        pulse: HeartbeatSchedule,
        fitting: FrameFitter,
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
        self.trials: int = 0
        self.frames: int = 0
        """Frames sent in trials."""
        self.again: int = 0
        """The number of `ATTEMPTS` in which the reduced frames silenced it again at the end."""
        self.lost: bool = False
        """Whether the device did not recover, which ended the trials."""

    def run(self, *alternatives: Sequence[Suspect]) -> None:
        """Narrow down the first of the alternatives after which the device falls silent again."""
        try:
            self._bring_back()
            any(self._narrow(suspects) for suspects in alternatives if suspects)
        except _LostError:
            self.lost = True
        self._ended = True

    @property
    def result_text(self) -> str:
        """The result as text."""
        if self.lost:
            return "the device did not recover"
        if not self._ended:
            return "interrupted while it was narrowed down"
        if not self.least:
            return "sent again, the same frames did not silence it"
        if not self.again:
            return "it is not reproducible: all frames are stored"
        frames = counted(len(self.least), "frame")
        again = f"silent {self.again} of {ATTEMPTS} times again"
        return f"narrowed down to {frames} by {self.trials} trials; {again}"

    def _narrow(self, suspects: Sequence[Suspect]) -> bool:
        """Narrow ``suspects`` down to `least`; return False if the device stays alive after them."""
        if not any(self._silences(suspects) for _ in range(ATTEMPTS)):
            return False
        # effects of earlier trials on the device may matter: then each needs one that was brought back
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

    def _confirmed(self, minimum: Sequence[Suspect]) -> int:
        """Return the number of times that frames silence the device, independent of earlier frames."""
        self._fresh = self._device.recovers
        return sum(self._silences(minimum) for _ in range(ATTEMPTS))

    def _silences(self, suspects: Sequence[Suspect]) -> bool:
        """Try frames; return whether the device falls silent, and store them then."""
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
        """Simplify the frame's octets, as long as it silences the device."""

        def silences(octets: bytes) -> bool:
            # removed octets are replaced by zeros where a frame would be too short
            frame = self._fitting.fitted(octets)
            return frame is not None and self._silences([Suspect(index=suspect.index, octets=frame)])

        simplest(suspect.octets, silences, Budget(self._tries, seconds=SIMPLER_SECONDS))


PART_FRAMES = 16
"""Cases sent between two readings of the clock."""
_REMEMBERED = 4
"""Earlier intervals that are suspected too when the last one alone has no effect."""
_LISTED_CASES = 20
_SAVED_EVERY_S = 1.0


class DeviceCampaign(Campaign):
    """A campaign that sends cases to ``device`` in intervals, each followed by a heartbeat (``pulse``).

    ``folder`` contains findings and state; a campaign found there continues after the last heartbeat.
    ParameterError for one of another seed or corpus.  A finding is stored with ``line``, which reproduces it;
    ``say`` is called with messages.  ``octets_from`` yields the octets of the cases from an index on if they
    are made elsewhere.
    """

    def __init__(
        self,
        device: DeviceUnderTest,
        cases: Cases,
        fitting: FrameFitter,
        folder: Path,
        *,
        pulse: HeartbeatSchedule,
        line: str,
        part_frames: int = PART_FRAMES,
        tries: int = DEFAULT_TRIES,
        octets_from: Callable[[int], Iterator[bytes]] | None = None,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._cases = cases
        self._fitting = fitting
        self._pulse = pulse
        self._line = line
        self._part_frames = part_frames
        self._tries = tries
        self._octets_from = octets_from or self._made
        self._say = say
        self._clock = clock
        self._state = CampaignState(folder, seed=cases.seed, corpus=cases.corpus)
        self._before: deque[range] = deque(maxlen=_REMEMBERED)
        self.lost: bool = False
        """Whether the device did not recover, which ends the campaign."""
        self.trials: int = 0
        """Trials of suspects since the campaign was opened."""
        self.trial_frames: int = 0

    def run(self, going_on: Callable[[Progress], bool], *, max_cases: int | None = None) -> Iterator[Finding]:
        """Send while ``going_on`` returns true, at most ``max_cases`` more; yield new findings."""
        last = None if max_cases is None else self.progress.cases + max_cases
        feed = self._octets_from(self.progress.index)
        # the time until the first are made is no part of an interval
        feed = chain([next(feed)], feed)
        while self._goes_on(going_on, last):
            with self._state.running():
                found = self._for_a_while(feed, going_on, last)
            if found is not None:
                yield found

    def _goes_on(self, going_on: Callable[[Progress], bool], last: int | None) -> bool:
        left = last is None or self.progress.cases < last
        return left and not self.lost and going_on(self.progress)

    def _for_a_while(
        self, feed: Iterator[bytes], going_on: Callable[[Progress], bool], last: int | None
    ) -> Finding | None:
        """Send intervals until it is time to save the progress, or one has a new finding."""
        end = self._clock() + _SAVED_EVERY_S
        while self._goes_on(going_on, last):
            found = self._next(feed, going_on, None if last is None else last - self.progress.cases)
            if found is not None or self._clock() >= end:
                return found
        return None

    def _made(self, index: int) -> Iterator[bytes]:
        return (case.octets for case in self._cases.starting_at(index))

    def _next(
        self, feed: Iterator[bytes], going_on: Callable[[Progress], bool], maximum: int | None
    ) -> Finding | None:
        """Send an interval, then a heartbeat; return a new finding."""
        first = self.progress.index
        interval = range(first, first + self._sent(feed, going_on, maximum))
        silence = self._pulse.silence(self._device)
        self._state.count(len(interval), failed=bool(silence))
        if not silence:
            self._before.append(interval)
            return None
        self._state.save()
        return self._new_finding(silence, interval)

    def _sent(self, feed: Iterator[bytes], going_on: Callable[[Progress], bool], maximum: int | None) -> int:
        """Send cases until a heartbeat is due or the campaign ends; return their number."""
        done, start = 0, self._clock()
        limits = [limit for limit in (maximum, self._pulse.every_frames) if limit is not None]
        while True:
            part = list(islice(feed, min([self._part_frames, *(limit - done for limit in limits)])))
            frames = [self._fitting.frame(octets) for octets in part]
            self._device.send([frame for frame in frames if frame is not None])
            done += len(part)
            due = self._pulse.due(done, self._clock() - start)
            if due or done == maximum or not going_on(self.progress):
                return done

    def _new_finding(self, silence: str, interval: range) -> Finding | None:
        """Narrow down and store the frames that silenced the device; return the finding if it is new."""
        self._say(
            f"{silence} after cases {interval.start} to {interval.stop - 1}: narrowing down what silenced it"
        )
        narrowing = Narrowing(self._device, self._pulse, self._fitting, tries=self._tries, known=self._known)
        suspects = self._suspects(interval)
        earlier = [suspect for each in self._before for suspect in self._suspects(each)]
        # frames sent before a recovery have no part in the next silence
        self._before.clear()
        start = self._clock()
        try:
            narrowing.run(suspects, [*earlier, *suspects] if earlier else [])
        finally:
            # an interrupt too keeps the results so far
            self.lost = narrowing.lost
            self.trials += narrowing.trials
            self.trial_frames += narrowing.frames
            finding = self._finding(silence, interval, narrowing, self._clock() - start)
            new = not self._state.seen(finding.outcome.signature)
            if new:
                self._state.keep(finding, self._line)
        return finding if new else None

    def _known(self, octets: bytes) -> bool:
        """Return whether a frame of the same layers is known to silence the device."""
        return _layers([octets]) in self.findings

    def _suspects(self, interval: range) -> tuple[Suspect, ...]:
        """Return the frames of an interval, made anew."""
        frames = ((index, self._fitting.fitted(self._cases[index].octets)) for index in interval)
        return tuple(Suspect(index=index, octets=frame) for index, frame in frames if frame is not None)

    def _finding(self, silence: str, interval: range, narrowing: Narrowing, seconds: float) -> Finding:
        span = f"cases {interval.start} to {interval.stop - 1} of seed {self._cases.seed}"
        lines = [f"{silence} after {span}", narrowing.result_text]
        suspects, signature = narrowing.least, f"after one of {span}"
        if suspects:
            signature = _layers([suspect.octets for suspect in suspects])
            mutated = (
                (suspect.index, self._cases[suspect.index].mutations) for suspect in suspects[:_LISTED_CASES]
            )
            lines += [f"case {index}: {', '.join(mutations)}" for index, mutations in mutated]
        else:
            suspects = self._suspects(interval)
        outcome = CaseOutcome(
            kind="silence", signature=signature, status=0, seconds=seconds, output="\n".join(lines) + "\n"
        )
        return Finding(
            frames=tuple(suspect.octets for suspect in suspects),
            outcome=outcome,
            seed=self._cases.seed,
            index=suspects[0].index if suspects else interval.start,
        )


def _layers(frames: list[bytes]) -> str:
    """Return the signature of frames that silence a device: their layers."""
    kinds = [
        " ".join(value.prefix for value in decode_lax(octets).layers if not isinstance(value, Data))
        for octets in frames
    ]
    return f"after {kinds[0]}" if len(kinds) == 1 else f"after {len(kinds)} frames, the last {kinds[-1]}"
