"""Tasks run by the workers of a Dask cluster.

What Dask is asked for is little: to bring octets to a worker that is named, and those back that come of them.
Which worker gets which tasks, how many at a time, and what becomes of those whose worker dies is decided
here, as for `ecmproto.executors.processes`.  A worker runs one task at a time, whatever threads it has.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import logging
import os
import queue
import re
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ecmproto._version import __version__
from ecmproto.errors import ExecutorError, MissingDependencyError, ParameterError, shown
from ecmproto.executors.batches import Batches
from ecmproto.executors.protocol import Call, Results, Task, TaskResult, say_nothing
from ecmproto.executors.rows import framed, unframed
from ecmproto.executors.running import code_digest
from ecmproto.executors.work import answers, keep_freed_memory, request_of, result_of

_BATCH_S = 10.0
"""Work that a worker is given at a time."""
_AHEAD = 2
"""The batches of a worker: one that it runs, and the next, so that it waits for nobody."""
_LOOK_S = 2.0
"""How often the scheduler is asked for its workers; it tells of most changes itself."""
_FETCH_S = 10.0
"""How long a worker that has a batch done may take to send it."""
_ENDING_S = 5
_NOTHING = logging.CRITICAL + 1
"""The level of messages that are logged: none."""
_PATIENCE_S = 600.0
"""How long one waits for a first worker, or for another one."""
_REMOTE = re.compile(r"(?:tcp|tls)://(?:[^/\s:\[\]]+|\[[0-9A-Fa-f:.%\w]+\]):\d{1,5}")


@dataclass(slots=True, kw_only=True)
class Cluster:
    """The workers of the scheduler at ``address``.

    ``tcp://host:port`` is for closed networks: whoever reaches a scheduler of Dask's may run what he likes
    on its workers.  ``tls://host:port`` is for others; files that are not given are those of Dask's own
    configuration (``distributed.comm.tls``).  ``tell`` is called with a sentence on workers that come late
    or die.  ParameterError for an address of none of these forms.
    """

    address: str
    ca_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    tell: Callable[[str], None] = field(default=say_nothing, repr=False)
    workers: int = field(default=0, init=False)
    """How many workers there are now."""
    _kept: ExitStack | None = field(default=None, init=False, repr=False)
    _connected: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not _REMOTE.fullmatch(self.address):
            needed = "tcp://HOST:PORT or tls://HOST:PORT of a scheduler, or local:N for N processes"
            raise ParameterError(name="scheduler", needed=needed, got=shown(self.address))

    def run(self, tasks: Iterable[Task], call: Call, *, expected: int = 0) -> Results:
        """Yield the result of each task as it is done, in any order; `Executor.run`."""
        batches = Batches(tasks, target_s=_BATCH_S, expected=expected)
        with self._client() as client:
            run = _Run(self, client, call, batches)
            try:
                yield from run.results()
            finally:
                run.end()

    def __enter__(self) -> Cluster:
        """Stay connected for the next run."""
        self._kept = ExitStack()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kept, self._kept, self._connected = self._kept, None, None
        if kept is not None:
            kept.close()

    @contextmanager
    def _client(self) -> Generator[Any, None, None]:
        if self._kept is None:
            with self._connection() as client:
                yield client
            return
        if self._connected is None:
            self._connected = self._kept.enter_context(self._connection())
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
        given = {"tls_ca_file": self.ca_file, "tls_client_cert": self.certificate, "tls_client_key": self.key}
        named = {name: path for name, path in given.items() if path is not None}
        if not self.address.startswith("tls:"):
            if named:
                raise self._error("tls:// where a certificate is given", "tcp://")
            return distributed.Security()
        security = distributed.Security(require_encryption=True, **named)
        for option, path in {
            "--tls-ca-file": security.tls_ca_file,
            "--tls-cert": security.tls_client_cert,
            "--tls-key": security.tls_client_key,
        }.items():
            if path is None or ("\n" not in path and not os.path.isfile(path)):
                needed = f"a file for {option}, or in Dask's configuration (distributed.comm.tls)"
                raise self._error(needed, "none" if path is None else f"{path}, which is none")
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
    """Have Dask log nothing: what matters of it is told, or an error."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "tornado")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(_NOTHING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


# On workers -----------------------------------------------------------------------------------------------

_one_at_a_time = threading.Lock()
_kept_memory = functools.cache(keep_freed_memory)


def run_request(request: bytes, code: str) -> bytes:
    """Return the answers to a request, one behind the other; ExecutorError where the code is another."""
    if code_digest() != code:
        needed = "workers with the same ecmproto as this command"
        got = f"{__version__}, code {code_digest()} instead of {code}"
        raise ExecutorError(where="a worker", needed=needed, got=got)
    _kept_memory()
    with _one_at_a_time:
        return framed(answers(request))


# Here -----------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Flight:
    """A batch on its way to a worker and back."""

    worker: str
    tasks: list[Task]
    future: Any = None


@dataclass(frozen=True, slots=True)
class _Gone:
    """A worker that left the cluster, or was lost."""

    worker: str
    is_no_loss: bool


class _Run:
    """Batches on their way to workers and back."""

    def __init__(self, cluster: Cluster, client: Any, call: Call, batches: Batches) -> None:
        self._cluster = cluster
        self._client = client
        self._call = call
        self._batches = batches
        self._flights: dict[str, list[_Flight]] = {}
        """The batches of each worker, the first of which it runs."""
        self._events: queue.SimpleQueue[_Flight | _Gone | None] = queue.SimpleQueue()
        self._missing: set[str] = set()
        """Workers that were not there when one last looked, without a word from the scheduler."""
        self._looked_s = 0.0
        self._seen_s = time.monotonic()
        self._is_told = False
        client.subscribe_topic("all", self._hear)

    def _hear(self, event: Any) -> None:
        """Take what the scheduler tells of its workers."""
        with suppress(LookupError, TypeError, AttributeError):
            said = event[1]
            if said["action"] == "remove-worker":
                self._events.put(_Gone(said["worker"], bool(said.get("expected"))))
            elif said["action"] == "add-worker":
                self._events.put(None)

    def results(self) -> Iterator[TaskResult]:
        """Yield results until there are no more tasks."""
        while self._batches.more or any(self._flights.values()):
            yield from self._look()
            self._give()
            try:
                event = self._events.get(timeout=_LOOK_S / 2)
            except queue.Empty:
                continue
            if isinstance(event, _Flight):
                yield from self._landed(event)
            elif isinstance(event, _Gone):
                yield from self._lost(event)
            else:
                self._looked_s = 0.0

    # Workers ------------------------------------------------------------------------------------------

    def _look(self) -> Iterator[TaskResult]:
        """Ask from time to time which workers there are."""
        now_s = time.monotonic()
        if now_s < self._looked_s + _LOOK_S:
            return
        self._looked_s = now_s
        if self._client.status != "running":
            raise self._scheduler_lost("none any more")
        try:
            told = self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception as error:
            raise self._scheduler_lost(error) from None
        there = {name for name, each in told.items() if each.get("status", "running") == "running"}
        for name in there - self._flights.keys():
            self._flights[name] = []
        for name in self._missing - told.keys():
            yield from self._lost(_Gone(name, False))
        self._missing = self._flights.keys() - told.keys()
        for name in self._flights.keys() & (told.keys() - there):  # paused: it has too little memory left
            if not self._flights[name]:
                del self._flights[name]
        self._cluster.workers = len(self._flights)
        if self._flights:
            self._seen_s = now_s
            self._is_told = False
        elif now_s > self._seen_s + _PATIENCE_S:
            raise self._cluster._error("a worker", f"none for {_PATIENCE_S / 60:.0f} minutes")
        elif not self._is_told and now_s > self._seen_s + _LOOK_S:
            self._is_told = True
            self._cluster.tell(f"{self._cluster.address} has no worker: waiting for one")

    def _lost(self, gone: _Gone) -> Iterator[TaskResult]:
        """Give what a lost worker had to others."""
        if gone.worker not in self._flights:
            return
        flights = self._flights.pop(gone.worker)
        self._cluster.workers = len(self._flights)
        self._seen_s = time.monotonic()
        for flight in flights:
            with suppress(Exception):
                flight.future.cancel()
        for flight in reversed(flights if gone.is_no_loss else flights[1:]):
            self._batches.put_back(flight.tasks)
        if flights and not gone.is_no_loss:
            self._cluster.tell(f"worker {gone.worker} died; what it had is run again")
            yield from self._batches.killed(flights[0].tasks, "lost worker", gone.worker)

    def _scheduler_lost(self, error: object) -> ExecutorError:
        got = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        remedy = "the same command does what is missing, once there is a scheduler"
        return self._cluster._error("the scheduler until the work is done", got, remedy)

    # Batches ------------------------------------------------------------------------------------------

    def _give(self) -> None:
        """Give each worker a batch to run, then each the next."""
        for before in range(_AHEAD):
            for name, flights in self._flights.items():
                if len(flights) == before and (tasks := self._next(flights)):
                    self._send(_Flight(name, tasks))

    def _next(self, flights: list[_Flight]) -> list[Task]:
        """Return what a worker is given that has some batches."""
        if self._batches.suspected:
            # What was running when a worker died has the next one for itself.
            return [] if flights else [self._batches.next_suspected()]
        return self._batches.next(_AHEAD * len(self._flights))

    def _send(self, flight: _Flight) -> None:
        flight.future = self._client.submit(
            run_request,
            request_of(flight.tasks, self._call),
            code_digest(),
            key=f"ecmproto-{uuid.uuid4().hex}",
            workers=[flight.worker],
            allow_other_workers=False,
            pure=False,
        )
        self._flights[flight.worker].append(flight)
        flight.future.add_done_callback(lambda future: self._events.put(flight))

    def _landed(self, flight: _Flight) -> Iterator[TaskResult]:
        """Yield the results of a batch that is done."""
        if flight not in self._flights.get(flight.worker, ()):
            return  # its worker died in the meantime
        try:
            answered = flight.future.result(timeout=_FETCH_S)
        except TimeoutError:
            self._events.put(flight)  # the worker died, of which the scheduler tells, or is slow
            return
        except ExecutorError as error:
            where = error.where if error.where != "a worker" else f"worker {flight.worker}"
            raise ExecutorError(where=where, needed=error.needed, got=error.got) from None
        except ImportError as error:
            where, needed = f"worker {flight.worker}", f"ecmproto {__version__} installed"
            raise ExecutorError(where=where, needed=needed, got=str(error)) from None
        except Exception as error:
            yield from self._not_done(flight, error)
            return
        self._flights[flight.worker].remove(flight)
        flight.future.release()
        results = [result_of(*each) for each in zip(flight.tasks, unframed(answered), strict=True)]
        for result, was_warm in results:
            if was_warm:
                self._batches.measure(result)
        self._give()  # what is done with results takes time
        yield from (result for result, _ in results)

    def _not_done(self, flight: _Flight, error: Exception) -> Iterator[TaskResult]:
        """Take a batch that Dask could not have done."""
        if self._client.status != "running":
            raise self._scheduler_lost("none any more") from None
        self._flights[flight.worker].remove(flight)
        name = type(error).__name__
        if name == "KilledWorker":
            yield from self._batches.killed(flight.tasks, "lost worker", flight.worker)
        elif "Cancelled" in name:  # by somebody else
            self._batches.put_back(flight.tasks)
        else:
            needed, got = "a cluster that runs tasks", f"{name}: {error}"
            raise ExecutorError(where=f"worker {flight.worker}", needed=needed, got=got) from None

    def end(self) -> None:
        """Cancel what is not done."""
        with suppress(Exception):
            self._client.unsubscribe_topic("all")
        for flight in itertools.chain(*self._flights.values()):
            with suppress(Exception):
                flight.future.cancel()
