"""Batches over and over, with times that go on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ecmproto.capture.batch import Batch

_KEPT_OCTETS = 64 << 20
_TILED_FRAMES = 4096


def repeated(source: Callable[[], Iterable[Batch]], *, frames: int | None = None) -> Iterator[Batch]:
    """Yield the batches of ``source()``, again and again, until ``frames`` were yielded (None: without end).

    Each time round its times go on, its first frame behind its last at the mean distance of its frames.
    What is small is asked for once and kept.  Ends where ``source()`` gives no frame.
    """
    pass_ = _Pass(source)
    yielded = 0
    while pass_.begin():
        for batch in pass_.batches():
            if frames is not None and yielded + len(batch) >= frames:
                yield batch.select(range(frames - yielded))
                return
            yielded += len(batch)
            yield batch


class _Pass:
    """One time round after the other."""

    def __init__(self, source: Callable[[], Iterable[Batch]]) -> None:
        self._source = source
        self._kept: list[Batch] | None = []
        self._rounds = 0
        self._frames = 0
        self._first_ns = self._last_ns = 0
        self._shift_ns = 0

    def begin(self) -> bool:
        """Prepare the next time round; False when there is nothing to repeat."""
        if not self._rounds:
            return True
        if not self._frames:
            return False
        self._shift_ns += self._period_ns
        if self._kept is not None and self._rounds == 1 and self._frames < _TILED_FRAMES:
            self._kept = [self._tiled(self._kept, _TILED_FRAMES // self._frames)]
        return True

    @property
    def _period_ns(self) -> int:
        span = self._last_ns - self._first_ns
        return span + (span // (self._frames - 1) if self._frames > 1 else 0)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of this time round."""
        again = self._rounds > 0
        self._rounds += 1
        self._frames = 0
        for batch in self._kept if again and self._kept is not None else self._source():
            if len(batch):
                if not again:
                    self._keep(batch)
                self._note(batch)
                yield dataclasses.replace(batch, time_ns=batch.time_ns + self._shift_ns)

    def _keep(self, batch: Batch) -> None:
        if self._kept is not None:
            self._kept.append(batch)
            if sum(len(each.buffer) for each in self._kept) > _KEPT_OCTETS:
                self._kept = None

    def _note(self, batch: Batch) -> None:
        if not self._frames:
            self._first_ns = self._last_ns = int(batch.time_ns[0])
        self._frames += len(batch)
        self._last_ns = max(self._last_ns, int(batch.time_ns.max()))

    def _tiled(self, batches: list[Batch], times: int) -> Batch:
        """Return ``times`` rounds in one batch, so that a few frames take no more time each than many."""
        buffer = (
            np.concatenate([batch.buffer for batch in batches]) if len(batches) > 1 else batches[0].buffer
        )
        starts = np.cumsum([0, *(len(batch.buffer) for batch in batches[:-1])])
        offset = np.concatenate([each.offset + start for each, start in zip(batches, starts, strict=True)])
        shifts = np.repeat(np.arange(times, dtype=np.int64) * self._period_ns, self._frames)

        def joined(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.tile(np.concatenate([getattr(batch, name) for batch in batches]), times)

        captured = joined("captured")
        return Batch(
            buffer=buffer, offset=np.tile(offset, times), captured=captured, original=joined("original"),
            time_ns=joined("time_ns") + shifts, interface=joined("interface"),
            record_offset=np.tile(offset, times), record_length=captured, picked=joined("numbers"),
        )  # fmt: skip
