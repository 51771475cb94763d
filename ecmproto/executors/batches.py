"""Tasks in batches of some seconds of work, and tasks again whose worker has died."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from ecmproto.executors.protocol import KILLED, KILLS, Failure, Task, TaskResult

_MOST = 100_000
"""Tasks in a batch."""
_GROWTH = 4
"""How much larger than all that was measured a batch may be."""
_LEAST = 0.02
"""How short a batch may be at the end, as a part of the time it should take."""
_FORGETTING = 0.98
"""How much of the times measured is kept with each new one."""


class Batches:
    """Hands out tasks in batches that take about ``target_s``, as long as tasks of their size took so far.

    At the end batches become smaller, so that workers end together; ``expected`` is how many tasks there
    are, 0 if that is not known.
    """

    def __init__(self, tasks: Iterable[Task], *, target_s: float, expected: int = 0) -> None:
        self._tasks = iter(tasks)
        self._target_s = target_s
        self._left = expected
        self._elapsed_s = self._size = self._counted = 0.0
        self._measured = 0
        self._again: deque[Task] = deque()
        self._kills: dict[str, int] = {}
        self._ready: deque[Task] = deque()

    def measure(self, result: TaskResult) -> None:
        """Take the time of a task, unless it was the first of its worker, which compiles."""
        if not result.was_warm:
            return
        self._elapsed_s = self._elapsed_s * _FORGETTING + result.elapsed_s
        self._size = self._size * _FORGETTING + result.task.size
        self._counted = self._counted * _FORGETTING + 1
        self._measured += 1

    def next(self, workers: int) -> list[Task]:
        """Return the tasks of a batch for one of ``workers``; none if there are no more."""
        batch: list[Task] = []
        size = 0.0
        room = self._room()
        share = (
            max(self._left // (2 * max(1, workers)), self._tasks_in(_LEAST * room)) if self._left else _MOST
        )
        most = min(_MOST, _GROWTH * self._measured, share)
        while not batch or (len(batch) < most and size < room):
            task = self._draw()
            if task is None:
                break
            if batch and size + task.size > 2 * room:
                self._ready.appendleft(task)
                break
            batch.append(task)
            size += task.size
        self._left = max(0, self._left - len(batch))
        return batch

    def _room(self) -> float:
        """Return the size of tasks that take as long as a batch should."""
        if not self._elapsed_s:
            return self._size if self._measured else 0.0
        return self._target_s * self._size / self._elapsed_s

    def _tasks_in(self, size: float) -> int:
        """Return how many tasks are of that size together, as large as those measured."""
        return int(size * self._counted / self._size) if self._size else 0

    def _draw(self) -> Task | None:
        return self._ready.popleft() if self._ready else next(self._tasks, None)

    # Workers that died --------------------------------------------------------------------------------

    @property
    def suspected(self) -> bool:
        """Whether there are tasks that were running when a worker died: they are to be run alone."""
        return bool(self._again)

    def next_suspected(self) -> Task:
        """Return the next of them."""
        return self._again.popleft()

    def killed(self, running: Sequence[Task], why: str, worker: str) -> list[TaskResult]:
        """Take tasks that ran when a worker died of ``why``, a signal say; return those that are set aside.

        The others are to be run again, alone.
        """
        results = []
        for task in running:
            kills = self._kills[task.key] = self._kills.get(task.key, 0) + 1
            if kills < KILLS:
                self._again.append(task)
            else:
                sentence = f"its worker died, {kills} times: {why}; it is set aside"
                failure = Failure(kind=KILLED, error=why, sentence=sentence)
                results.append(TaskResult(task=task, row={}, failure=failure, worker=worker))
        return results

    def put_back(self, tasks: Sequence[Task]) -> None:
        """Take tasks that had not been begun."""
        self._ready.extendleft(reversed(tasks))
        self._left += len(tasks) if self._left else 0
