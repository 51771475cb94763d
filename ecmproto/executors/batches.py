"""Batches of tasks with a target duration, and retries of tasks whose worker died."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from ecmproto.executors.protocol import KILLED, KILLS, Failure, Task, TaskResult

_MAX_TASKS = 100_000
_GROWTH = 4
"""Maximum ratio of a batch's size to the total size of the tasks measured so far."""
_MIN_SHARE = 0.02
"""Minimum duration of a final batch, as a fraction of the target duration."""
_DECAY = 0.98
"""Factor that reduces the weight of earlier measurements with each new one."""


class Batches:
    """Dispenser of tasks in batches of about ``target_s`` seconds, estimated by size from earlier tasks.

    Final batches are smaller, so that all workers end at about the same time. ``expected`` is the number of
    tasks, or 0 if the number is unknown.
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
        """Record the time of a task, except a worker's first task, which compiles code."""
        if not result.was_warm:
            return
        self._elapsed_s = self._elapsed_s * _DECAY + result.elapsed_s
        self._size = self._size * _DECAY + result.task.size
        self._counted = self._counted * _DECAY + 1
        self._measured += 1

    def next(self, workers: int) -> list[Task]:
        """Return the tasks of the next batch for one of ``workers`` workers; an empty list at the end."""
        batch: list[Task] = []
        size = 0.0
        target = self._target_size()
        share = _MAX_TASKS
        if self._left:
            share = max(self._left // (2 * max(1, workers)), self._tasks_in(_MIN_SHARE * target))
        limit = min(_MAX_TASKS, _GROWTH * self._measured, share)
        while not batch or (len(batch) < limit and size < target):
            task = self._ready.popleft() if self._ready else next(self._tasks, None)
            if task is None:
                break
            if batch and size + task.size > 2 * target:
                self._ready.appendleft(task)
                break
            batch.append(task)
            size += task.size
        self._left = max(0, self._left - len(batch))
        return batch

    def _target_size(self) -> float:
        """Return the total size of tasks that run for the target duration."""
        if not self._elapsed_s:
            return self._size if self._measured else 0.0
        return self._target_s * self._size / self._elapsed_s

    def _tasks_in(self, size: float) -> int:
        """Return the number of average tasks whose total is ``size``."""
        return int(size * self._counted / self._size) if self._size else 0

    # Workers that died --------------------------------------------------------------------------------

    @property
    def suspected(self) -> bool:
        """Whether tasks were running when a worker died and must now run alone."""
        return bool(self._again)

    def next_suspected(self) -> Task:
        """Return the next suspected task."""
        return self._again.popleft()

    def killed(self, running: Sequence[Task], why: str, worker: str) -> list[TaskResult]:
        """Register the tasks that were running when a worker died.

        Return the results of tasks that are given up.
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
        """Put back tasks that were not started."""
        self._ready.extendleft(reversed(tasks))
        self._left += len(tasks) if self._left else 0
