"""Where a thread renders: its buffer and its vocabulary, kept from share to share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.columns.text.paths import Marked
from ecmproto.columns.text.program import Programs
from ecmproto.columns.text.rendering import render
from ecmproto.columns.text.vocabulary import Vocabulary

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_ROOM_OCTETS = 4 << 20
_MOST_OCTETS = 16 << 20
"""No more room than that is held, unless a single frame needs more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A batch to render."""

    marked: Marked
    program: Int32
    """Of each frame; −1 − k stands for text k of ``singles``."""
    record: Int64
    """A row for each `RecordNumber`, in it the number of each frame."""
    singles: Octets
    single_bounds: Int64
    longest_error: int
    """Octets of the longest of ``singles`` that says what is malformed."""
    programs: Programs
    functions: Sequence[Callable[..., str]]
    shapes: Sequence[tuple[int, ...]]


class Desk:
    """Room for the text of a share; given to one thread at a time."""

    def __init__(self) -> None:
        self._out = np.empty(_ROOM_OCTETS, np.uint8)
        self._vocabulary = Vocabulary()

    def texts(self, job: Job, begin: int, end: int) -> list[memoryview]:
        """Return the text of rows ``begin`` to ``end`` in pieces, valid until this is called again."""
        programs, marked, words = job.programs, job.marked, self._vocabulary
        frames = marked.found.frames
        codes = words.codes(
            begin, end, job.program, programs, job.functions, job.shapes, job.record, frames.buffer,
            marked.marks, marked.mark_at,
        )  # fmt: skip
        used = np.zeros(2, np.int64)
        texts: list[memoryview] = []
        at = begin
        while at < end:
            before = at
            at = render(
                at, end, job.program, programs.bounds, programs.operations, programs.numbers,
                programs.literals, programs.room, codes[at - begin :], words.octets, words.bounds,
                max(words.longest, job.longest_error), job.record, frames.buffer, marked.marks,
                marked.mark_at, job.singles, job.single_bounds, self._out, used,
            )  # fmt: skip
            if at > before:
                texts.append(self._out[: used[0]].data)
            if at < end:
                # the old buffer stays with the text in it
                self._out = np.empty(max(min(2 * len(self._out), _MOST_OCTETS), int(used[1])), np.uint8)
        return texts
