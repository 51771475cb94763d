"""What a program is fed: captures of several spoilt frames, captures that are spoilt themselves, or both.

>>> feed = Feed(frames=Cases(frames, seed=7), captures=OctetCases(captures, CAPTURE_MUTATORS, seed=7))
>>> feed.trial(index=0, number=0, frames=64).write(path)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ecmproto.errors import ParameterError
from ecmproto.fuzz.findings import write_capture
from ecmproto.fuzz.judgement import CaseSource


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a program is run on once."""

    items: tuple[bytes, ...]
    """Frames; of a capture as it is, its octets."""
    index: int
    """Of the first case."""
    whole: bool = False
    """Whether it is a capture as it is."""

    @property
    def file(self) -> str:
        """The name of the file that a finding keeps it in."""
        return "case.capture" if self.whole else "case.pcap"

    def part(self, rows: Sequence[int]) -> Trial:
        """Return some of its items, in their order."""
        first = rows[0] if rows else 0
        return dataclasses.replace(
            self, items=tuple(self.items[row] for row in rows), index=self.index + first
        )

    def changed(self, row: int, octets: bytes) -> Trial:
        """Return it with other octets in one place."""
        return dataclasses.replace(self, items=(*self.items[:row], octets, *self.items[row + 1 :]))

    def filled(self, octets: bytes) -> Trial:
        """Return it with these octets in every place."""
        return dataclasses.replace(self, items=(octets,) * len(self.items))

    def write(self, path: Path) -> None:
        """Write the file that a program gets."""
        if self.whole:
            path.write_bytes(b"".join(self.items))
        else:
            write_capture(path, self.items)


class Feed:
    """All trials of a seed.  With frames and captures it is now the turn of one, now of the other.

    ParameterError for neither, and for two of different seeds.
    """

    def __init__(self, *, frames: CaseSource | None = None, captures: CaseSource | None = None) -> None:
        sources = [source for source in (frames, captures) if source is not None]
        if not sources:
            raise ParameterError(name="feed", needed="frames, captures or both", got="neither")
        if sources[0].seed != sources[-1].seed:
            raise ParameterError(
                name="captures", needed=f"seed {sources[0].seed}, as frames have", got=str(sources[-1].seed)
            )
        self.seed = sources[0].seed
        self.corpus = "+".join(source.corpus for source in sources)
        """Tells what it is made from from others."""
        self._frames = frames
        self._captures = captures

    def trial(self, *, index: int, number: int, frames: int) -> Trial:
        """Return trial ``number``, whose first case is ``index``: so many frames, or one capture."""
        if self._frames is None or (self._captures is not None and number % 2):
            assert self._captures is not None
            case = next(self._captures.starting_at(index))
            return Trial(items=(case.octets,), index=index, whole=True)
        cases = islice(self._frames.starting_at(index), frames)
        return Trial(items=tuple(case.octets for case in cases), index=index)
