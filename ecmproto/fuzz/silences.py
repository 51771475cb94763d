"""A campaign against a device: cases sent to it, heartbeats in between, and the frames that silenced it.

The cases between two heartbeats are a stretch.  Where a heartbeat stays away the frames of its stretch are
the suspects; they are narrowed down on the device itself.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path

from ecmproto.codec.frame import decode_lax
from ecmproto.formats.ethernet import Data
from ecmproto.fuzz.cases import Cases
from ecmproto.fuzz.command import Outcome
from ecmproto.fuzz.device import Device, Pulse
from ecmproto.fuzz.findings import Finding
from ecmproto.fuzz.fitting import Fitting
from ecmproto.fuzz.narrowing import DEFAULT_TRIES, Narrowing, Suspect
from ecmproto.fuzz.state import Progress, State

PART_FRAMES = 16
"""How many cases are sent between two looks at the clock."""
_REMEMBERED = 4
"""How many stretches before the suspects' own are suspected when these alone do nothing."""
_TOLD_CASES = 20
_SAVED_EVERY_S = 1.0


class SilenceCampaign:
    """Sends cases to ``device``, one stretch after another, with a heartbeat behind each by ``pulse``.

    ``folder`` holds findings and state; a campaign that is found there goes on behind the last heartbeat
    that was looked for.  ParameterError for one of another seed or corpus.  A finding is kept with ``line``,
    which shows it again; ``say`` is told what goes on.  ``octets_from`` yields the octets of the cases from
    an index on where they are made elsewhere.
    """

    def __init__(
        self,
        device: Device,
        cases: Cases,
        fitting: Fitting,
        folder: Path,
        *,
        pulse: Pulse,
        line: str,
        part_frames: int = PART_FRAMES,
        tries: int = DEFAULT_TRIES,
        octets_from: Callable[[int], Iterator[bytes]] | None = None,
        say: Callable[[str], None] = lambda sentence: None,
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
        self._state = State(folder, seed=cases.seed, corpus=cases.corpus)
        self._before: deque[range] = deque(maxlen=_REMEMBERED)
        self.lost = False
        """Whether the device did not come back, which ends the campaign."""
        self.trials = 0
        """How often suspects were sent again since the campaign was opened."""
        self.trial_frames = 0

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return self._state.progress

    @property
    def findings(self) -> dict[str, Finding]:
        """What it found, by signature."""
        return self._state.findings

    def run(
        self, going_on: Callable[[Progress], bool], *, most_cases: int | None = None
    ) -> Iterator[Finding]:
        """Send while ``going_on`` says so, ``most_cases`` more at most; yield what is new."""
        last = None if most_cases is None else self.progress.cases + most_cases
        feed = self._octets_from(self.progress.index)
        # the time until the first are made is none of a stretch
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
        """Send stretches until it is time to write down how far it has come, or one has something new."""
        end = self._clock() + _SAVED_EVERY_S
        while self._goes_on(going_on, last):
            found = self._next(feed, going_on, None if last is None else last - self.progress.cases)
            if found is not None or self._clock() >= end:
                return found
        return None

    def _made(self, index: int) -> Iterator[bytes]:
        return (case.octets for case in self._cases.starting_at(index))

    def _next(
        self, feed: Iterator[bytes], going_on: Callable[[Progress], bool], most: int | None
    ) -> Finding | None:
        """Send a stretch, and ask whether the device is alive; return what is new."""
        first = self.progress.index
        stretch = range(first, first + self._sent(feed, going_on, most))
        silence = self._pulse.silence(self._device)
        self._state.count(len(stretch), failed=bool(silence))
        if not silence:
            self._before.append(stretch)
            return None
        self._state.save()
        return self._found(silence, stretch)

    def _sent(self, feed: Iterator[bytes], going_on: Callable[[Progress], bool], most: int | None) -> int:
        """Send cases until a heartbeat is due or there is an end; return how many."""
        done, start = 0, self._clock()
        limits = [limit for limit in (most, self._pulse.every_frames) if limit is not None]
        while True:
            part = list(islice(feed, min([self._part_frames, *(limit - done for limit in limits)])))
            frames = [self._fitting.frame(octets) for octets in part]
            self._device.send([frame for frame in frames if frame is not None])
            done += len(part)
            due = self._pulse.due(done, self._clock() - start)
            if due or done == most or not going_on(self.progress):
                return done

    def _found(self, silence: str, stretch: range) -> Finding | None:
        """Narrow down what silenced the device, and keep it; return it where it is new."""
        self._say(
            f"{silence} after cases {stretch.start} to {stretch.stop - 1}: narrowing down what silenced it"
        )
        narrowing = Narrowing(self._device, self._pulse, self._fitting, tries=self._tries, known=self._known)
        suspects = self._suspects(stretch)
        earlier = [suspect for each in self._before for suspect in self._suspects(each)]
        # what was sent to a device that was brought back has no part in what silences it next
        self._before.clear()
        start = self._clock()
        try:
            narrowing.run(suspects, [*earlier, *suspects] if earlier else [])
        finally:
            # an interrupt too leaves what is known
            self.lost = narrowing.lost
            self.trials += narrowing.trials
            self.trial_frames += narrowing.frames
            finding = self._finding(silence, stretch, narrowing, self._clock() - start)
            new = not self._state.seen(finding.outcome.signature)
            if new:
                self._state.keep(finding, self._line)
        return finding if new else None

    def _known(self, octets: bytes) -> bool:
        """Whether a frame of the same layers is known to silence the device."""
        return _layers([octets]) in self.findings

    def _suspects(self, stretch: range) -> tuple[Suspect, ...]:
        """Return the frames of a stretch, made anew."""
        frames = ((index, self._fitting.fitted(self._cases[index].octets)) for index in stretch)
        return tuple(Suspect(index=index, octets=frame) for index, frame in frames if frame is not None)

    def _finding(self, silence: str, stretch: range, narrowing: Narrowing, seconds: float) -> Finding:
        span = f"cases {stretch.start} to {stretch.stop - 1} of seed {self._cases.seed}"
        lines = [f"{silence} after {span}", narrowing.told]
        suspects, signature = narrowing.least, f"after one of {span}"
        if suspects:
            signature = _layers([suspect.octets for suspect in suspects])
            told = (
                (suspect.index, self._cases[suspect.index].mutations) for suspect in suspects[:_TOLD_CASES]
            )
            lines += [f"case {index}: {', '.join(mutations)}" for index, mutations in told]
        else:
            suspects = self._suspects(stretch)
        outcome = Outcome(
            kind="silence", signature=signature, status=0, seconds=seconds, output="\n".join(lines) + "\n"
        )
        return Finding(
            frames=tuple(suspect.octets for suspect in suspects),
            outcome=outcome,
            seed=self._cases.seed,
            index=suspects[0].index if suspects else stretch.start,
        )


def _layers(frames: list[bytes]) -> str:
    """Return what tells frames from others that silence a device in another way: their layers."""
    kinds = [
        " ".join(value.prefix for value in decode_lax(octets).layers if not isinstance(value, Data))
        for octets in frames
    ]
    return f"after {kinds[0]}" if len(kinds) == 1 else f"after {len(kinds)} frames, the last {kinds[-1]}"
