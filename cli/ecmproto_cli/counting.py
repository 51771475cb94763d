"""Counting all frames of captures for `stats` and `check`, in several processes if there are many frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from ecmproto_cli.capturing import DeferredInterrupt, opened
from ecmproto_cli.progress import watched

if TYPE_CHECKING:
    from ecmproto.frames.capture import CaptureReader
    from ecmproto.frames.capture.forked import ForkedCapture
    from ecmproto.frames.filter import Filter
    from ecmproto.frames.stats.accumulator import MergingTaker
    from ecmproto.wire.codec import EtherTypes

T = TypeVar("T")
Counts = TypeVar("Counts", bound="MergingTaker")


@contextmanager
def counted(
    command: str,
    new: Callable[[], Counts],
    paths: Sequence[str],
    *,
    filter: Filter | None,
    limit: int | None,
    outer: bool,
    trailer: str | None,
    ethertypes: EtherTypes,
) -> Iterator[tuple[Counts, CaptureReader | ForkedCapture, bool]]:
    """Yield a counter from ``new`` with all frames, the capture that was read, and whether reading was
    interrupted.

    ``command`` is the label of the progress bar. The other arguments are the values of options.
    """
    from ecmproto.frames.capture.forked import processes_for
    from ecmproto.frames.stats.accumulator import ForkedCounting, add_all

    processes = 1 if limit or trailer else processes_for(paths)
    counts = new()
    source: CaptureReader | ForkedCapture
    with ExitStack() as stack:
        try:
            with DeferredInterrupt() as interrupt:

                def watch(items: Iterable[T]) -> Iterator[T]:
                    for item in watched(items, source, command):
                        yield item
                        interrupt.check()

                done = False
                if processes > 1:
                    forked = ForkedCounting(
                        new, paths[0], processes=processes, filter=filter, outer=outer, ethertypes=ethertypes
                    )
                    source = forked.capture
                    done = forked.add_to(counts, watch=watch)
                if not done:
                    counts = new()
                    reader = opened(paths, inner=not outer, trailer=trailer, ethertypes=ethertypes)
                    source = stack.enter_context(reader)
                    add_all(
                        counts, source, filter=filter, limit=limit, ethertypes=ethertypes, watch=watch,
                        filtering=interrupt.at_once,
                    )  # fmt: skip
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = False
        yield counts, source, interrupted
