"""Frames on their way to stdout: one by one at first, column by column once a capture proves large.

Both ways give the same text.  The second starts with loading kernels, for which it takes as long as for some
ten thousand frames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeAlias

from ecmproto_cli.output import Stdout
from ecmproto_cli.progress import told_when_compiling

if TYPE_CHECKING:
    from ecmproto.capture import Batch, CaptureReader, Sink
    from ecmproto.codec import EtherTypes
    from ecmproto.dissect import Form, Record
    from ecmproto.filter import Filter
    from ecmproto_cli.capturing import HeldInterrupt, StoppingInterrupt

    Held: TypeAlias = HeldInterrupt | StoppingInterrupt

FIRST_FRAMES = 1024
"""In the first batches; few enough that they are shown soon, and that a progress bar moves."""
_LARGE_FRAMES = 1 << 16
_MANY_FRAMES = 8192
"""From how many frames to come, or that came, a capture is large."""
_FULL_FRAMES = 64
"""What a slow pipe brings is less at a time, and not worth a kernel."""
_COMMENTED = ("tree", "json", "ndjson")
_THREADS = 2


class Output:
    """Shows frames in a form on stdout, or in a file; with no form nowhere.  Counts what it is given."""

    def __init__(
        self,
        form: Form | None,
        reader: CaptureReader,
        ethertypes: EtherTypes,
        kind: str,
        filter: Filter | None,
        limit: int | None,
        *,
        sink: Sink | None = None,
    ) -> None:
        from ecmproto.dissect.form import Listing

        self._form = form
        self._reader = reader
        self._ethertypes = ethertypes
        self._commented = kind in _COMMENTED
        self.tells_blocks = kind == "json"
        """Whether it tells which interfaces were described before the first frame."""
        self._filter = filter
        self._stdout = Stdout("" if sink is None and kind in ("line", "tree") else "utf-8", sink)
        self._begun = False
        self._limit = limit
        self._listing = form if isinstance(form, Listing) and form.columnar else None
        self._large = False
        self._pool: ThreadPoolExecutor | None = None
        self.frames = 0
        """Frames read, those that the filter left out too."""
        self.selected = 0
        self.unknown: Counter[int] = Counter()
        """Frames by the link types that nothing can be said of."""

    def batch(self, batch: Batch, held: Held) -> Batch:
        """Show the frames of a batch that the filter selects, and return them.

        An interrupt that ``held`` holds back comes through where a frame has been shown whole.
        """
        self.frames += len(batch)
        self._count_unknown(batch)
        if self._form is not None:
            self._begin(self._form)
        elif self._filter is None:
            self.selected += len(batch)
            return batch
        kept = self._columns(batch, held) if self._is_large(batch) else self._one_by_one(batch, held)
        self.selected += len(kept)
        return kept

    def _is_large(self, batch: Batch) -> bool:
        """Whether a batch is to go column by column; larger batches come once one is."""
        by_columns = self._form is None or self._listing is not None
        if by_columns and not self._large and self._many():
            self._large = True
            self._reader.batch_frames = _LARGE_FRAMES
        return self._large and len(batch) >= _FULL_FRAMES

    def _many(self) -> bool:
        """Whether a capture proves large: by how much of a file is left, or by what came through a pipe."""
        if self._limit is not None and self._limit - self.frames < _MANY_FRAMES:
            return False
        if self._reader.size_octets is None:
            return self.frames >= _MANY_FRAMES
        read = self._reader.octets_read
        return (self._reader.size_octets - read) * self.frames >= _MANY_FRAMES * read

    def _columns(self, batch: Batch, held: Held) -> Batch:
        first = self._pool is None
        self._pool = self._pool or ThreadPoolExecutor(_THREADS)
        reader, ethertypes = self._reader, self._ethertypes
        mask = None
        with told_when_compiling() if first else nullcontext():
            if self._filter is not None:
                from ecmproto.columns.selection import selected

                with held.at_once():
                    mask = selected(batch, self._filter, interfaces=reader.interfaces, ethertypes=ethertypes)
            if self._listing is not None:
                texts = self._listing.batch(
                    batch, reader.interfaces, ethertypes=ethertypes, shown=mask, pool=self._pool
                )
                for text in texts:
                    self._stdout.write_octets(text)
                    held.check()
        return batch if mask is None else batch.select(mask)

    def _one_by_one(self, batch: Batch, held: Held) -> Batch:
        selected = [index for index, record in enumerate(self._records(batch)) if self._show(record, held)]
        self._stdout.flush()
        return batch if len(selected) == len(batch) else batch.select(selected)

    def _records(self, batch: Batch) -> Iterator[Record]:
        from ecmproto.dissect import records

        interfaces, ethertypes = self._reader.interfaces, self._ethertypes
        return records(batch, interfaces, ethertypes=ethertypes, commented=self._commented)

    def _show(self, record: Record, held: Held) -> bool:
        """Show a frame if the filter selects it; return whether it does."""
        selected = self._filter is None or self._filter.matches(record)
        if self._form is not None and selected:
            self._stdout.write(self._form.record(record))
        elif self._form is not None:
            self._form.passed(record)
        held.check()
        return selected

    def end(self) -> None:
        """Show what stands behind the last frame, so that an interrupted output is whole too."""
        if self._form is not None:
            self._begin(self._form)
            self._stdout.write(self._form.end(self._reader))
            self._stdout.flush()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _begin(self, form: Form) -> None:
        if not self._begun:
            self._begun = True
            self._stdout.write(form.begin(self._reader))

    def _count_unknown(self, batch: Batch) -> None:
        from ecmproto.dissect.linktype import KNOWN

        odd = {each.index: each.linktype for each in self._reader.interfaces if each.linktype not in KNOWN}
        for index, linktype in odd.items():
            count = int((batch.interface == index).sum())
            if count:
                self.unknown[linktype] += count
