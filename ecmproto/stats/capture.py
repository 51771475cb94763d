"""Statistics of a whole capture, in bounded memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import BinaryIO

from ecmproto.capture import Batch, CaptureReader, open_capture
from ecmproto.filter import Filter, compile_filter
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.stats.accumulator import DEFAULT_SPEED_BPS, Accumulator
from ecmproto.stats.statistics import Statistics


def capture_stats(
    source: str | os.PathLike[str] | BinaryIO | CaptureReader,
    *,
    filter: Filter | str | None = None,
    interval_ns: int | None = None,
    speed_bps: int = DEFAULT_SPEED_BPS,
    ethertypes: EtherTypes = DEFAULT,
    limit: int | None = None,
    threads: int = 2,
) -> Statistics:
    """Return the statistics of a capture: a path, ``-``, a file object, or a reader, read to its end.

    ``filter`` selects frames, ``limit`` is how many are read, ``threads`` 1 keeps to the calling thread; the
    others are as for `Accumulator`.  What kept the capture from being read to its end is in ``problem``.
    Raises CaptureError for what is no capture, FilterError and ParameterError for arguments.
    """
    wanted = compile_filter(filter) if isinstance(filter, str) else filter
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(1)) if threads > 1 else None
        counts = Accumulator(interval_ns=interval_ns, speed_bps=speed_bps, ethertypes=ethertypes, pool=pool)
        reader = source if isinstance(source, CaptureReader) else stack.enter_context(open_capture(source))
        add_all(counts, reader, filter=wanted, limit=limit, ethertypes=ethertypes, pool=pool)
        return counts.result(interfaces=reader.interfaces, problem=reader.problem)


def add_all(
    counts: Accumulator,
    reader: CaptureReader,
    *,
    filter: Filter | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
    pool: ThreadPoolExecutor | None = None,
    watch: Callable[[Iterable[Batch]], Iterable[Batch]] = iter,
    filtering: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Add what a reader gives, up to ``limit`` frames.

    ``watch`` sees the batches go by, ``filtering`` is entered while the filter looks at one, ``pool`` helps.
    """
    for batch in watch(_up_to(reader, limit)):
        mask = None
        if filter is not None:
            from ecmproto.columns.selection import selected

            with filtering():
                mask = selected(batch, filter, interfaces=reader.interfaces, ethertypes=ethertypes, pool=pool)
        counts.add(batch, interfaces=reader.interfaces, selected=mask)


def _up_to(reader: CaptureReader, limit: int | None) -> Iterator[Batch]:
    left = limit
    for batch in reader:
        if left is None:
            yield batch
            continue
        yield batch if len(batch) <= left else batch.select(range(left))
        left -= len(batch)
        if left <= 0:
            return
