"""Sharing of work by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_Result = TypeVar("_Result")


def new_pool(threads: int = 1) -> ThreadPoolExecutor:
    """Return a pool of threads."""
    from concurrent.futures import ThreadPoolExecutor  # also imports logging, which is slow

    return ThreadPoolExecutor(threads)


def together(works: Sequence[Callable[[], _Result]], pool: ThreadPoolExecutor | None) -> list[_Result]:
    """Return the results of ``works``; the calling thread computes the first result, ``pool`` the others."""
    if pool is None:
        return [work() for work in works]
    others = [pool.submit(work) for work in works[1:]]
    results = [work() for work in works[:1]]
    return results + [other.result() for other in others]


def in_order(works: Iterable[Callable[[], _Result]], threads: int) -> Iterator[_Result]:
    """Yield the results of ``works`` in order; ``threads`` threads compute some results ahead.

    The caller's thread is one of the threads. It reads tasks from ``works`` one by one, and runs a task
    instead of waiting.
    """
    if threads == 1:
        for work in works:
            yield work()
        return
    pending: deque[_Pending[_Result]] = deque()
    with new_pool(threads - 1) as pool:
        for work in works:
            pending.append(_Pending(work, pool.submit(work)))
            while len(pending) > threads or (pending and pending[0].future.done()):
                yield _first(pending)
        while pending:
            yield _first(pending)


class _Pending(Generic[_Result]):
    """A task that is waiting for a thread, is running, or is finished."""

    def __init__(self, work: Callable[[], _Result], future: Future[_Result]) -> None:
        self.work, self.future = work, future

    def run_here(self) -> bool:
        """Run the task unless a thread has started it; return whether this call ran the task."""
        if not self.future.cancel():
            return False
        self.future = type(self.future)()
        try:
            self.future.set_result(self.work())
        except Exception as error:  # raised by result()
            self.future.set_exception(error)
        return True


def _first(pending: deque[_Pending[_Result]]) -> _Result:
    """Remove the first task and return its result.

    While another thread runs the first task, the calling thread runs pending tasks.
    """
    while not pending[0].future.done() and any(each.run_here() for each in pending):
        pass
    return pending.popleft().future.result()


def some_ahead(
    works: Sequence[Callable[[], _Result]], pool: ThreadPoolExecutor | None, many: int
) -> Iterator[_Result]:
    """Return the results of ``works`` in order.

    ``pool`` computes up to ``many`` results ahead. Without a pool, each result is computed when it is
    requested.
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
    """The turn of a task among tasks that must pass a point in order."""

    def __init__(self, before: Turn | None = None) -> None:
        self._before = before
        self._over = Event()

    def wait(self) -> None:
        """Wait until all earlier tasks have passed.

        Earlier tasks must not be queued after this task in a thread pool.
        """
        if self._before is not None:
            self._before._over.wait()
            self._before = None

    def end(self) -> None:
        """Mark this task as passed, so that the next task can pass."""
        self._over.set()
