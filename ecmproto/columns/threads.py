"""Work that is shared by two threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import TypeVar

_Result = TypeVar("_Result")


def together(works: Sequence[Callable[[], _Result]], pool: ThreadPoolExecutor | None) -> list[_Result]:
    """Return the results of ``works``: the first is done here, the others by ``pool``."""
    if pool is None:
        return [work() for work in works]
    others = [pool.submit(work) for work in works[1:]]
    results = [work() for work in works[:1]]
    return results + [other.result() for other in others]


def in_order(works: Iterable[Callable[[], _Result]], threads: int) -> Iterator[_Result]:
    """Yield the results of ``works`` in order; ``threads`` threads do some of them ahead.

    One thread is the caller's own.  ``works`` are asked for by the caller, one after the other.
    """
    if threads == 1:
        for work in works:
            yield work()
        return
    pending: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for work in works:
            pending.append(pool.submit(work))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def some_ahead(
    works: Sequence[Callable[[], _Result]], pool: ThreadPoolExecutor | None, many: int
) -> Iterator[_Result]:
    """Return the results of ``works`` in order; ``pool`` keeps ``many`` ahead of who takes them, from now on.

    Without a pool each is done when it is taken.
    """
    if pool is None or len(works) < 2:
        return (work() for work in works)
    begun = deque(pool.submit(work) for work in works[:many])

    def results() -> Iterator[_Result]:
        for work in works[many:]:
            done = begun.popleft().result()
            begun.append(pool.submit(work))
            yield done
        while begun:
            yield begun.popleft().result()

    return results()


class Turn:
    """The place of a task among others, which pass a point in the order in which they were given turns."""

    def __init__(self, before: Turn | None = None) -> None:
        self._before = before
        self._over = Event()

    def wait(self) -> None:
        """Wait until all tasks before this one have passed; none may be behind it in a queue of threads."""
        if self._before is not None:
            self._before._over.wait()
            self._before = None

    def end(self) -> None:
        """Let the next one pass."""
        self._over.set()
