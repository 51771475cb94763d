"""How many frames of which kind at which times: what a line, a specification or a document comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.linux.schedule import BitRate
from ecmproto.craft.sweep import Plan, Sweep
from ecmproto.errors import SpecError

UNASKED_FRAMES = 100_000_000
"""More frames than this are built only when their number is asked for."""

MAX_TIME_NS = (1 << 63) - 1
_IN_TIME = "times of less than 2^63 ns"


class WireRate(NamedTuple):
    """Frames one behind the other on a wire of this rate, with FCS, preamble and gap."""

    rate_bps: int


Spacing: TypeAlias = "Fraction | WireRate"
"""How far frames are apart: so many ns from one to the next, exactly, or as a wire of a rate takes them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Some frames in order: a matrix with a frame a row, a list of frames, or a batch of them.

    The rest is what their records say: ``time_ns`` is None for times that follow from the frames before,
    ``original`` each frame's length on the wire where it differs from what is there, ``interface`` one for
    all or one each; ``linktype`` is the frames', ``comments`` are for a chunk of one frame.
    """

    frames: NDArray[np.uint8] | list[bytes] | Batch
    time_ns: NDArray[np.int64] | None
    original: NDArray[np.int64] | None = None
    interface: int | NDArray[np.int64] = 0
    linktype: int = 1
    comments: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.frames)

    def times(self) -> NDArray[np.int64]:
        """Return each frame's time; 0 where it follows from frames that nobody knows yet."""
        return np.zeros(len(self), np.int64) if self.time_ns is None else self.time_ns

    def batch(self, *, first: int = 0) -> Batch:
        """Return the frames with what their records say; ``first`` is the number of the first one, from 0."""
        if isinstance(self.frames, Batch):
            captured = self.frames.captured
            return dataclasses.replace(
                self.frames,
                time_ns=self.times(),
                original=captured if self.original is None else self.original,
                interface=np.broadcast_to(np.asarray(self.interface, np.int64), len(self)),
                first=first,
            )
        said: dict[str, Any] = {
            "time_ns": self.times(),
            "original": self.original,
            "interface": self.interface,
        }
        if isinstance(self.frames, list):
            return Batch.from_frames(self.frames, first=first, **said)
        return Batch.from_matrix(self.frames, first=first, **said)

    def octets(self) -> Iterator[bytes]:
        """Yield each frame's octets."""
        if not isinstance(self.frames, np.ndarray):
            yield from self.frames if isinstance(self.frames, list) else self.frames.frames()
            return
        length = self.frames.shape[1]
        joined = self.frames.tobytes()
        for start in range(0, length * len(self.frames), length):
            yield joined[start : start + length]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recipe:
    """One kind of frame, swept or not.

    ``count`` frames are built (None: every combination once); a sweep starts over or ends early to make
    that many.  ``spacing`` says how far they are apart; ``time_ns`` is the first one's time, None for
    what follows from the frames before.  ``where`` is the recipe's place in its specification.
    """

    plan: Plan
    count: int | None = None
    spacing: Spacing | None = None
    time_ns: int | None = None
    comments: tuple[str, ...] = ()
    where: str = "sweep"


def chunks(
    recipes: Iterable[Recipe | Chunk], *, start_ns: int = 0, spacing: Spacing = Fraction(0)
) -> Iterator[Chunk]:
    """Yield the frames of every recipe in order; ready-made chunks pass through.

    Those that have no times get them as recipes do.

    ``spacing`` is for recipes without one of their own.  SpecError for a sweep of more than
    ``UNASKED_FRAMES`` without a count, and for times that no capture can hold.
    """
    clock = _Clock(Fraction(start_ns), spacing)
    for item in recipes:
        if isinstance(item, Chunk):
            if item.time_ns is None:
                clock.check(len(item), "frames")
                item = dataclasses.replace(item, time_ns=clock.times(item))
            yield item
            continue
        start = clock.now if item.time_ns is None else Fraction(item.time_ns)
        own = _Clock(start, spacing if item.spacing is None else item.spacing)
        count = count_of(item)
        own.check(count, item.where)
        for frames in Sweep(item.plan).chunks(count):
            times = own.times(Chunk(frames=frames, time_ns=None))
            yield from _labelled(frames, times, item.comments)
        clock = _Clock(own.now, spacing)


class _Clock:
    """Gives frames their times, of one spacing from a first time on."""

    def __init__(self, first: Fraction, spacing: Spacing) -> None:
        self._first = first
        self._spacing = spacing
        self._frames = 0
        self._wire = BitRate(spacing.rate_bps) if isinstance(spacing, WireRate) else None

    @property
    def now(self) -> Fraction:
        """The time of the next frame."""
        if isinstance(self._spacing, Fraction):
            return self._first + self._spacing * self._frames
        assert self._wire is not None
        return self._first + self._wire.end_ns

    def times(self, chunk: Chunk) -> NDArray[np.int64]:
        """Return the times of the next frames, in whole ns."""
        if isinstance(self._spacing, Fraction):
            times = _times(self.now, self._spacing, len(chunk))
            self._frames += len(chunk)
            return times
        assert self._wire is not None
        due = self._wire.due(chunk.batch())
        if self.now > MAX_TIME_NS:
            raise SpecError(where="rate", needed=_IN_TIME, got=f"{float(self.now):g} ns")
        return int(self._first) + due

    def check(self, count: int, where: str) -> None:
        """Raise SpecError if so many frames more would come later than any time that a capture holds."""
        if isinstance(self._spacing, Fraction) and self.now + self._spacing * count > MAX_TIME_NS:
            got = f"{count:,} frames {float(self._spacing):g} ns apart"
            raise SpecError(where=where, needed=_IN_TIME, got=got)


def _labelled(
    frames: NDArray[np.uint8] | list[bytes], times: NDArray[np.int64], comments: tuple[str, ...]
) -> Iterator[Chunk]:
    if not comments:
        yield Chunk(frames=frames, time_ns=times)
        return
    for row in range(len(frames)):
        yield Chunk(frames=frames[row : row + 1], time_ns=times[row : row + 1], comments=comments)


def count_of(recipe: Recipe) -> int:
    """Return how many frames a recipe makes; SpecError with the arithmetic when nobody asked for so many."""
    if recipe.count is not None:
        return recipe.count
    total = recipe.plan.combinations
    if total > UNASKED_FRAMES:
        counts = [f"{axis.count:,}" for axis in recipe.plan.axes]
        product = f"{' × '.join(counts)} = " if len(counts) > 1 else ""
        raise SpecError(
            where=recipe.where,
            needed=f"at most {UNASKED_FRAMES:,} frames, or a count",
            got=f"{product}{total:,} frames",
            hint="a count of N builds the first N of them",
        )
    return total


def _times(first: Fraction, interval: Fraction, count: int) -> NDArray[np.int64]:
    """Return ⌊first + i·interval⌋ for i from 0 on, exactly."""
    denominator = interval.denominator * first.denominator
    start, step = int(first * denominator), int(interval * denominator)
    if start + step * count > MAX_TIME_NS:
        return np.array([(start + step * i) // denominator for i in range(count)], dtype=np.int64)
    result: NDArray[np.int64] = (start + step * np.arange(count, dtype=np.int64)) // denominator
    return result
