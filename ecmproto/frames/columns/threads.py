"""Work shared by two threads."""

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
    from concurrent.futures import ThreadPoolExecutor  # with it comes logging, as long as a small capture

    return ThreadPoolExecutor(threads)


def together(works: Sequence[Callable[[], _Result]], pool: ThreadPoolExecutor | None) -> list[_Result]:
    """Return the results of ``works``: the first is computed here, the others by ``pool``."""
    if pool is None:
        return [work() for work in works]
    others = [pool.submit(work) for work in works[1:]]
    results = [work() for work in works[:1]]
    return results + [other.result() for other in others]


def in_order(works: Iterable[Callable[[], _Result]], threads: int) -> Iterator[_Result]:
    """Yield the results of ``works`` in order; ``threads`` threads compute some of them ahead.

    The caller's thread is one of them: it draws from ``works`` one by one, and runs one itself instead of
    waiting.
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
    """A task that a thread is going to run, is running, or has run."""

    def __init__(self, work: Callable[[], _Result], future: Future[_Result]) -> None:
        self.work, self.future = work, future

    def run_here(self) -> bool:
        """Run the task unless a thread has started it; return whether it was run."""
        if not self.future.cancel():
            return False
        self.future = type(self.future)()
        try:
            self.future.set_result(self.work())
        except Exception as error:  # raised when its result is due
            self.future.set_exception(error)
        return True


def _first(pending: deque[_Pending[_Result]]) -> _Result:
    """Take the first task and return its result; others are run while a thread runs it."""
    while not pending[0].future.done() and any(each.run_here() for each in pending):
        pass
    return pending.popleft().future.result()


def some_ahead(
    works: Sequence[Callable[[], _Result]], pool: ThreadPoolExecutor | None, many: int
) -> Iterator[_Result]:
    """Return the results of ``works`` in order, computed ``many`` ahead by ``pool``, or on demand."""
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
    """The position of a task among others that have to pass a point in order."""

    def __init__(self, before: Turn | None = None) -> None:
        self._before = before
        self._over = Event()

    def wait(self) -> None:
        """Wait until all earlier tasks have passed; they must not come later in a queue of threads."""
        if self._before is not None:
            self._before._over.wait()
            self._before = None

    def end(self) -> None:
        """Let the next task pass."""
        self._over.set()
