"""A campaign against a device: cases are sent between heartbeats, and the frames that stop the device are
identified.

An interval consists of the cases between two heartbeats. If a heartbeat is missing, the frames of its
interval are suspects. The suspects and parts of the suspects are sent again, with a heartbeat after each
part. A silent device is restored, so every trial starts with a device that is alive.
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
    """A device that receives frames. Each method returns when its work is complete."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send frames in order, each at its scheduled time."""

    def beat(self) -> str:
        """Check for a heartbeat, and return "" or a text about the missing heartbeat."""

    def settle(self) -> None:
        """Wait until the device has processed all sent frames."""

    @property
    def recovers(self) -> bool:
        """Whether `recover` also resets a device that is alive."""

    def recover(self) -> bool:
        """Restore a silent device, and return whether the device is alive."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSchedule:
    """The interval of heartbeats: ``every_frames`` frames or ``every_s`` seconds, depending on which
    attribute is set.

    A device is silent if a heartbeat and ``retries`` more heartbeats are missing.
    """

    every_frames: int | None = None
    every_s: float | None = None
    retries: int

    def due(self, frames: int, seconds: float) -> bool:
        """Return whether a heartbeat is due after the given frames and seconds since the last heartbeat."""
        if self.every_frames is not None and frames >= self.every_frames:
            return True
        return self.every_s is not None and seconds >= self.every_s

    def silence(self, device: DeviceUnderTest) -> str:
        """Return "" if the device answers a heartbeat, or else a text about the missing heartbeat."""
        for _ in range(self.retries):
            if not device.beat():
                return ""
        return device.beat()


HEADER_OCTETS = 14
"""Minimum length of a frame that a packet socket accepts, in octets (packet(7))."""
_TYPE_AT = 12
_C_TAG = DEFAULT.c_tag.to_bytes(2, "big")


@dataclasses.dataclass(slots=True, kw_only=True)
class FrameFitter:
    """Converter of cases to frames with a length from ``shortest_octets`` to ``longest_octets`` without FCS.

    Short frames are padded with zeros, as network cards pad frames to 60 octets. The maximum length of frames
    whose first tag is a C-TAG is ``longest_tagged_octets``.
    """

    longest_octets: int
    longest_tagged_octets: int
    shortest_octets: int = MIN_OCTETS
    padded: int = 0
    """Number of cases that were too short."""
    left_out: int = 0
    """Number of cases that were too long."""

    def frame(self, octets: bytes) -> bytes | None:
        """Return the frame for a case, or ``None`` for a case that is too long, and update the counters."""
        frame = self.fitted(octets)
        self.left_out += frame is None
        self.padded += frame is not None and len(frame) > len(octets)
        return frame

    def fitted(self, octets: bytes) -> bytes | None:
        """Return the frame for a case, or ``None`` for a case that is too long."""
        tagged = octets[_TYPE_AT:HEADER_OCTETS] == _C_TAG
        if len(octets) > (self.longest_tagged_octets if tagged else self.longest_octets):
            return None
        return octets.ljust(self.shortest_octets, b"\0")


DEFAULT_TRIES = 200
ATTEMPTS = 2
"""Number of attempts before frames are considered harmless."""
SIMPLER_SECONDS = 10.0
"""Maximum seconds to simplify a frame, which needs many trials and provides little information."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A frame that was sent, with the index of its case."""

    index: int
    octets: bytes


class _LostError(Exception):
    """Error for a device that did not recover."""


@dataclasses.dataclass
class Narrowing:
    """Trials that identify the frames that silence a device. A silent device is restored before each trial.

    A frame for which ``known`` returns true is not simplified.
    """

    device: DeviceUnderTest
    pulse: HeartbeatSchedule
    fitting: FrameFitter
    tries: int = DEFAULT_TRIES
    known: Callable[[bytes], bool] = lambda octets: False
    reduced: tuple[Suspect, ...] = ()
    """The smallest set of frames that has silenced the device."""
    trials: int = 0
    frames: int = 0
    """Number of frames sent in trials."""
    again: int = 0
    """Number of final `ATTEMPTS` in which the reduced frames silenced the device."""
    lost: bool = False
    """Whether the trials ended because the device did not recover."""
    _ended: bool = False
    _fresh: bool = False
    _untouched: bool = False

    def run(self, *alternatives: Sequence[Suspect]) -> None:
        """Reduce the first of the given sequences of suspects that silences the device again."""
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
        if not self.reduced:
            return "sent again, the same frames did not silence it"
        if not self.again:
            return "it is not reproducible: all frames are stored"
        frames = counted(len(self.reduced), "frame")
        again = f"silent {self.again} of {ATTEMPTS} times again"
        return f"narrowed down to {frames} by {self.trials} trials; {again}"

    def _narrow(self, suspects: Sequence[Suspect]) -> bool:
        """Reduce ``suspects`` to `least`, and return whether the suspects silence the device."""
        if not any(self._silences(suspects) for _ in range(ATTEMPTS)):
            return False
        # earlier trials can affect the device: then every trial needs a device that was restored
        for fresh in (False, True) if self.device.recovers else (False,):
            self._fresh, self.reduced = fresh, tuple(suspects)
            fewest(suspects, self._silences, Budget(self.tries))
            if len(self.reduced) == 1 and not self.known(self.reduced[0].octets):
                self._simplify(self.reduced[0])
            # the frames alone must silence a device that was restored, if the device can be restored
            self._fresh, minimum = self.device.recovers, self.reduced
            self.again = sum(self._silences(minimum) for _ in range(ATTEMPTS))
            if self.again:
                return True
        self.reduced = tuple(suspects)
        return True

    def _silences(self, suspects: Sequence[Suspect]) -> bool:
        """Send suspects, and return whether the device is silent.

        Frames that silence the device are stored in `least`.
        """
        if self._fresh and not self._untouched:
            self._bring_back()
        silent = self._silent([each.octets for each in suspects])
        if silent:
            self.reduced = tuple(suspects)
            self._bring_back()
        return silent

    def _silent(self, frames: Sequence[bytes]) -> bool:
        self._untouched = False
        self.trials += 1
        self.frames += len(frames)
        self.device.send(frames)
        self.device.settle()
        return bool(self.pulse.silence(self.device))

    def _bring_back(self) -> None:
        if not self.device.recover():
            raise _LostError
        self._untouched = True

    def _simplify(self, suspect: Suspect) -> None:
        """Simplify the octets of a frame while the frame silences the device."""

        def silences(octets: bytes) -> bool:
            # zeros replace removed octets if a frame would be too short
            frame = self.fitting.fitted(octets)
            return frame is not None and self._silences([Suspect(index=suspect.index, octets=frame)])

        simplest(suspect.octets, silences, Budget(self.tries, seconds=SIMPLER_SECONDS))


PART_FRAMES = 16
"""Number of cases sent between two readings of the clock."""
_REMEMBERED = 4
"""Number of earlier intervals that are also suspected if the last interval alone has no effect."""
_LISTED_CASES = 20
_SAVED_EVERY_S = 1.0


@dataclasses.dataclass(eq=False)
class DeviceCampaign(Campaign):
    """A campaign that sends cases to ``device`` in intervals, each followed by a heartbeat of ``pulse``.

    ``folder`` contains findings and state. A campaign in the folder is continued after its last heartbeat.
    Raises ParameterError for a folder with another seed or corpus. ``line`` is the command line that
    reproduces a finding. ``say`` is called with messages for the user. ``octets_from`` returns an iterator
    over the octets of cases from an index, if the cases are created elsewhere.
    """

    device: DeviceUnderTest
    cases: Cases
    fitting: FrameFitter
    folder: Path
    pulse: HeartbeatSchedule
    line: str
    part_frames: int = PART_FRAMES
    tries: int = DEFAULT_TRIES
    octets_from: Callable[[int], Iterator[bytes]] | None = None
    report: Callable[[str], None] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    lost: bool = False
    """Whether the campaign ended because the device did not recover."""
    trials: int = 0
    """Number of trials of suspects since the campaign was opened."""
    trial_frames: int = 0

    def __post_init__(self) -> None:
        self._state = CampaignState(self.folder, seed=self.cases.seed, corpus=self.cases.corpus)
        self._before: deque[range] = deque(maxlen=_REMEMBERED)

    def run(self, going_on: Callable[[Progress], bool], *, max_cases: int | None = None) -> Iterator[Finding]:
        """Send at most ``max_cases`` cases while ``going_on`` returns true, and yield new findings."""
        last = None if max_cases is None else self.progress.cases + max_cases
        feed = (self.octets_from or self._made)(self.progress.index)
        # the time to create the first cases is not part of an interval
        feed = chain([next(feed)], feed)
        while self._goes_on(going_on, last):
            with self._state.running():
                failures = self._for_a_while(feed, going_on, last)
            if failures is not None:
                yield failures

    def _goes_on(self, going_on: Callable[[Progress], bool], last: int | None) -> bool:
        left = last is None or self.progress.cases < last
        return left and not self.lost and going_on(self.progress)

    def _for_a_while(
        self, feed: Iterator[bytes], going_on: Callable[[Progress], bool], last: int | None
    ) -> Finding | None:
        """Send intervals until the progress should be saved or a new finding is available."""
        end = self.clock() + _SAVED_EVERY_S
        while self._goes_on(going_on, last):
            failures = self._next(feed, going_on, None if last is None else last - self.progress.cases)
            if failures is not None or self.clock() >= end:
                return failures
        return None

    def _made(self, index: int) -> Iterator[bytes]:
        return (case.octets for case in self.cases.starting_at(index))

    def _next(
        self, feed: Iterator[bytes], going_on: Callable[[Progress], bool], maximum: int | None
    ) -> Finding | None:
        """Send the cases of an interval, check the heartbeat, and return a new finding or ``None``."""
        first = self.progress.index
        interval = range(first, first + self._sent(feed, going_on, maximum))
        silence = self.pulse.silence(self.device)
        self._state.count(len(interval), failed=bool(silence))
        if not silence:
            self._before.append(interval)
            return None
        self._state.save()
        return self._new_finding(silence, interval)

    def _sent(self, feed: Iterator[bytes], going_on: Callable[[Progress], bool], maximum: int | None) -> int:
        """Send cases until a heartbeat is due or the campaign ends, and return the number of cases."""
        done, start = 0, self.clock()
        limits = [limit for limit in (maximum, self.pulse.every_frames) if limit is not None]
        while True:
            part = list(islice(feed, min([self.part_frames, *(limit - done for limit in limits)])))
            frames = [self.fitting.frame(octets) for octets in part]
            self.device.send([frame for frame in frames if frame is not None])
            done += len(part)
            due = self.pulse.due(done, self.clock() - start)
            if due or done == maximum or not going_on(self.progress):
                return done

    def _new_finding(self, silence: str, interval: range) -> Finding | None:
        """Identify and store the frames that silenced the device, and return the finding if it is new."""
        self.report(
            f"{silence} after cases {interval.start} to {interval.stop - 1}: narrowing down what silenced it"
        )
        narrowing = Narrowing(self.device, self.pulse, self.fitting, tries=self.tries, known=self._known)
        suspects = self._suspects(interval)
        earlier = [suspect for each in self._before for suspect in self._suspects(each)]
        # frames before a recovery cannot cause the next silence
        self._before.clear()
        start = self.clock()
        try:
            narrowing.run(suspects, [*earlier, *suspects] if earlier else [])
        finally:
            # the results are kept after an interrupt too
            self.lost = narrowing.lost
            self.trials += narrowing.trials
            self.trial_frames += narrowing.frames
            finding = self._finding(silence, interval, narrowing, self.clock() - start)
            new = not self._state.seen(finding.outcome.signature)
            if new:
                self._state.keep(finding, self.line)
        return finding if new else None

    def _known(self, octets: bytes) -> bool:
        """Return whether a stored finding contains a frame with the same layers."""
        return _layers([octets]) in self.findings

    def _suspects(self, interval: range) -> tuple[Suspect, ...]:
        frames = ((index, self.fitting.fitted(self.cases[index].octets)) for index in interval)
        return tuple(Suspect(index=index, octets=frame) for index, frame in frames if frame is not None)

    def _finding(self, silence: str, interval: range, narrowing: Narrowing, seconds: float) -> Finding:
        span = f"cases {interval.start} to {interval.stop - 1} of seed {self.cases.seed}"
        lines = [f"{silence} after {span}", narrowing.result_text]
        suspects, signature = narrowing.reduced, f"after one of {span}"
        if suspects:
            signature = _layers([suspect.octets for suspect in suspects])
            mutated = (
                (suspect.index, self.cases[suspect.index].mutations) for suspect in suspects[:_LISTED_CASES]
            )
            lines += [f"case {index}: {', '.join(mutations)}" for index, mutations in mutated]
        else:
            suspects = self._suspects(interval)
        text = "\n".join(lines) + "\n"
        outcome = CaseOutcome(kind="silence", signature=signature, seconds=seconds, output=text)
        return Finding(
            frames=tuple(suspect.octets for suspect in suspects),
            outcome=outcome,
            seed=self.cases.seed,
            index=suspects[0].index if suspects else interval.start,
        )


def _layers(frames: list[bytes]) -> str:
    """Return the signature of frames that silence a device, which is based on their layers."""
    types = [
        " ".join(value.prefix for value in decode_lax(octets).layers if not isinstance(value, Data))
        for octets in frames
    ]
    return f"after {types[0]}" if len(types) == 1 else f"after {len(types)} frames, the last {types[-1]}"
