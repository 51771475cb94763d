"""Tasks run by the workers of a Dask cluster.

Dask chooses the worker of each batch, and repeats the batch on another worker if the worker dies. This module
decides the size and the number of submitted batches. A worker runs one task at a time, whatever its number of
threads.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ecmproto._version import __version__
from ecmproto.errors import ExecutorError, MissingDependencyError, ParameterError, shown
from ecmproto.executors.batches import Batches
from ecmproto.executors.protocol import Call, Results, Task, TaskResult, ignore_message
from ecmproto.executors.running import code_digest
from ecmproto.executors.work import Answer, answer, result_of, this_worker
from ecmproto.memory import keep_freed_memory

_BATCH_S = 10.0
"""Target duration of a batch in seconds."""
_AHEAD = 2
"""Number of batches per worker: a running batch and a waiting batch, so that workers never wait."""
_REFRESH_S = 1.0
"""Interval in seconds at which the list of workers is requested from the scheduler."""
_POLL_S = 0.01
_ENDING_S = 5
_NO_MESSAGES = logging.CRITICAL + 1
"""Log level above all messages."""
_PATIENCE_S = 600.0
"""Maximum time in seconds to wait for a worker."""
_REMOTE = re.compile(r"(?:tcp|tls)://(?:[^/\s:\[\]]+|\[[0-9A-Fa-f:.%\w]+\]):\d{1,5}")


_TLS = {"ca": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}


@dataclass(slots=True, kw_only=True)
class Cluster:
    """The workers of the Dask scheduler at ``address``.

    ``tcp://host:port`` is for closed networks: anyone who can reach a Dask scheduler can run any code on its
    workers. ``tls://host:port`` is for other networks. TLS files that are not given come from Dask's
    configuration (``distributed.comm.tls``). ``notify`` is called with messages about workers that are late
    or died. Raises ParameterError for an address of another form.
    """

    address: str
    tls: Mapping[str, str] = field(default_factory=dict)
    """The paths of the files for ``tls://``: ``ca``, ``cert`` and ``key``."""
    notify: Callable[[str], None] = field(default=ignore_message, repr=False)
    workers: int = field(default=0, init=False)
    _resources: ExitStack | None = field(default=None, init=False, repr=False)
    _connected: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not _REMOTE.fullmatch(self.address):
            needed = "tcp://HOST:PORT or tls://HOST:PORT of a scheduler, or local:N for N processes"
            raise ParameterError(name="scheduler", needed=needed, got=shown(self.address))

    def run(self, tasks: Iterable[Task], call: Call, *, expected: int = 0) -> Results:
        """Yield the result of each task when the task is done, in any order. See `Executor.run`."""
        batches = Batches(tasks, target_s=_BATCH_S, expected=expected)
        with self._client() as client:
            run = _Run(self, client, call, batches)
            try:
                yield from run.results()
            finally:
                run.end()

    def __enter__(self) -> Cluster:
        """Stay connected for the next run."""
        self._resources = ExitStack()
        return self

    def __exit__(self, *_: object) -> None:
        resources, self._resources, self._connected = self._resources, None, None
        if resources is not None:
            resources.close()

    @contextmanager
    def _client(self) -> Generator[Any, None, None]:
        if self._resources is None:
            with self._connection() as client:
                yield client
            return
        if self._connected is None:
            self._connected = self._resources.enter_context(self._connection())
        yield self._connected

    @contextmanager
    def _connection(self) -> Generator[Any, None, None]:
        distributed = _dask()
        security = self._security(distributed)
        with _quiet():
            try:
                client = distributed.Client(self.address, security=security, set_as_default=False)
            except Exception as error:  # assertions too, as where a scheduler talks TLS
                got = str(error).partition("\n")[0] or type(error).__name__
                raise self._error("a scheduler that answers", got) from None
            try:
                yield client
            finally:
                with suppress(Exception):  # a scheduler that is gone
                    client.close(timeout=_ENDING_S)

    def _security(self, distributed: Any) -> Any:
        if not self.address.startswith("tls:"):
            if self.tls:
                raise self._error("tls:// with a certificate", "tcp://")
            return distributed.Security()
        named = {_TLS[name]: path for name, path in self.tls.items()}
        security = distributed.Security(require_encryption=True, **named)
        for name, setting in _TLS.items():
            path = getattr(security, setting)
            if path is None or ("\n" not in path and not os.path.isfile(path)):
                needed = f"a file for --tls {name}=, or in Dask's configuration (distributed.comm.tls)"
                raise self._error(needed, "none" if path is None else f"{path}, which is not a file")
        return security

    def _error(self, needed: str, got: str, remedy: str = "") -> ExecutorError:
        return ExecutorError(where=self.address, needed=needed, got=got, remedy=remedy)


def _dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        name = error.name or "distributed"
        raise MissingDependencyError(package=name, extra="cluster", purpose="a Dask cluster") from None


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Suppress Dask's log messages. Important messages are reported by this module or raised as errors."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "tornado")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(_NO_MESSAGES)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


# On workers -----------------------------------------------------------------------------------------------

_one_at_a_time = threading.Lock()
_keep_memory = functools.cache(keep_freed_memory)


def run_batch(tasks: Sequence[Task], call: Call, code: str) -> list[Answer]:
    """Return the answers to tasks. Raises ExecutorError if the worker's code differs."""
    if code_digest() != code:
        needed = "the same ecmproto as this command's"
        got = f"{__version__}, code {code_digest()} instead of {code}"
        raise ExecutorError(where=f"worker {this_worker()}", needed=needed, got=got)
    _keep_memory()
    with _one_at_a_time:
        return [answer(call, task) for task in tasks]


# On the caller's side -------------------------------------------------------------------------------------


class _Run:
    """A bounded number of batches submitted to a scheduler."""

    def __init__(self, cluster: Cluster, client: Any, call: Call, batches: Batches) -> None:
        self._cluster = cluster
        self._client = client
        self._call = call
        self._batches = batches
        self._tasks: dict[Any, list[Task]] = {}
        """Tasks of each future."""
        self._done = _dask().as_completed(loop=client.loop)
        self._workers: set[str] = set()
        self._refreshed_s = 0.0
        self._seen_s = time.monotonic()
        self._is_reported = False

    def results(self) -> Iterator[TaskResult]:
        """Yield results until there are no more tasks."""
        while True:
            self._refresh()
            self._submit()
            if not self._tasks:
                return
            if self._done.has_ready():
                yield from self._results_of(next(self._done))
            else:
                time.sleep(_POLL_S)

    def _refresh(self) -> None:
        """Request the list of workers from the scheduler at intervals."""
        now_s = time.monotonic()
        if now_s < self._refreshed_s + _REFRESH_S:
            return
        self._refreshed_s = now_s
        try:
            workers = set(self._client.nthreads()) if self._client.status == "running" else None
        except Exception as error:
            raise self._scheduler_lost(f"{type(error).__name__}: {error}") from None
        if workers is None:
            raise self._scheduler_lost("none any more")
        for name in sorted(self._workers - workers):
            self._cluster.notify(f"worker {name} died, or was stopped; its tasks are run again")
        self._workers = workers
        self._cluster.workers = len(workers)
        if workers:
            self._seen_s = now_s
            self._is_reported = False
        elif now_s > self._seen_s + _PATIENCE_S:
            raise self._cluster._error("a worker", f"none for {_PATIENCE_S / 60:.0f} minutes")
        elif not self._is_reported and now_s > self._seen_s + _REFRESH_S:
            self._is_reported = True
            self._cluster.notify(f"{self._cluster.address} has no worker: waiting for one")

    def _scheduler_lost(self, got: str) -> ExecutorError:
        remedy = "the same command does what is missing, once there is a scheduler"
        return self._cluster._error("the scheduler until the work is done", got, remedy)

    def _submit(self) -> None:
        """Submit batches until each worker has a running and a waiting batch. A suspected task runs alone."""
        while len(self._tasks) < _AHEAD * max(1, len(self._workers)):
            if self._batches.suspected:
                tasks = [] if self._tasks else [self._batches.next_suspected()]
            else:
                tasks = self._batches.next(_AHEAD * len(self._workers))
            if not tasks:
                return
            futures = self._client.map(run_batch, [tasks], call=self._call, code=code_digest(), pure=False)
            self._tasks.update(dict.fromkeys(futures, tasks))
            self._done.update(futures)

    def _results_of(self, future: Any) -> Iterator[TaskResult]:
        """Yield the results of a batch that is done."""
        try:
            answered = future.result()
        except ExecutorError:
            raise
        except ImportError as error:
            raise self._cluster._error(f"workers with ecmproto {__version__}", str(error)) from None
        except (Exception, CancelledError) as error:
            yield from self._failed(self._tasks.pop(future), error)
            return
        tasks = self._tasks.pop(future)
        results = [result_of(*each) for each in zip(tasks, answered, strict=True)]
        for result in results:
            self._batches.measure(result)
        self._submit()  # the caller takes time with results
        yield from results

    def _failed(self, tasks: Sequence[Task], error: BaseException) -> Iterator[TaskResult]:
        """Handle a batch that Dask could not complete."""
        if self._client.status != "running":
            raise self._scheduler_lost("none any more") from None
        name = type(error).__name__
        if name == "CommClosedError":  # before the client has noticed
            raise self._scheduler_lost(f"{name}: {error}") from None
        if name == "KilledWorker":
            why = f"{error.args[2] + 1} workers lost"
            yield from self._batches.killed(tasks, why, self._cluster.address)
        elif "Cancelled" in name:  # by somebody else
            self._batches.put_back(tasks)
        else:
            raise self._cluster._error("a cluster that runs tasks", f"{name}: {error}") from None

    def end(self) -> None:
        """Cancel all unfinished tasks."""
        self._done.clear()
        with suppress(Exception):
            self._client.cancel(list(self._tasks))
