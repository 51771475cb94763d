"""Tasks on a Dask cluster: killed workers, a killed scheduler, and the addresses of its sockets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bench.executors import SCENARIO as TWO_INTO_ONE
from ecmproto.errors import ExecutorError, ParameterError
from ecmproto.executors import cluster as module
from ecmproto.executors.cluster import Cluster
from ecmproto.executors.processes import Processes
from ecmproto.executors.protocol import Call
from ecmproto.executors.rows import RowStore
from ecmproto.executors.running import Tally, run_tasks
from ecmproto_cli.options import Execution
from tests.conftest import requires
from tests.executors.test_processes import FUNCTIONS, tasks_for

pytest.importorskip("distributed")


@pytest.fixture(scope="module", autouse=True)
def plain_python() -> Iterator[None]:
    """Run kernels as plain Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "1")
        yield


class Dask:
    """A scheduler and workers in separate processes, started with Dask's commands."""

    def __init__(self, folder: Path, repository: Path, *, tls: bool) -> None:
        self._folder = folder
        self._repository = repository
        self.tls = _certificates(folder) if tls else {}
        self._logs: list[Path] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        protocol = "tls" if tls else "tcp"
        self._start("scheduler", "--host", f"{protocol}://127.0.0.1", "--port", "0")
        self.address = ""

    def _start(self, name: str, *options: str) -> None:
        given = {"--tls-ca-file": "ca", "--tls-cert": "cert", "--tls-key": "key"}
        tls = [word for option, key in given.items() if self.tls for word in (option, self.tls[key])]
        self._logs.append(self._folder / f"log-{len(self._logs)}")
        with self._logs[-1].open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{name}", *options, *tls, "--no-dashboard"],
                cwd=self._repository, stdout=file, stderr=file, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
            )  # fmt: skip
        self.processes.append(process)

    def _said(self, number: int, pattern: str) -> str:
        """Wait until a process prints text that matches a pattern, and return the text."""
        end_s = time.monotonic() + 60
        while time.monotonic() < end_s and self.processes[number].poll() is None:
            found = re.search(pattern, self._logs[number].read_text())
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError(self._logs[number].read_text())

    def start_workers(self, count: int, nanny: str = "--no-nanny") -> None:
        """Start workers, which are not restarted unless they have a nanny."""
        self.address = self._said(0, r"Scheduler at: +(\w+://[\d.:]+)")
        for _ in range(count):
            options = [nanny, "--nthreads", "1", "--local-directory", str(self._folder)]
            self._start("worker", self.address, *options)

    def wait(self) -> None:
        """Wait until all workers have registered."""
        for number in range(1, len(self.processes)):
            self._said(number, r"(Registered to)")

    def cluster(self, notify: Callable[[str], None] = lambda sentence: None) -> Cluster:
        """Return an executor for the cluster."""
        return Cluster(address=self.address, notify=notify, tls=self.tls)

    @property
    def printed(self) -> str:
        """The output of all processes."""
        return "".join(log.read_text() for log in self._logs)

    def end(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.kill()
            process.wait()


def _certificates(folder: Path) -> dict[str, str]:
    """Return a CA certificate, a certificate signed by the CA, and its key, as options."""
    openssl = requires("openssl")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority",
        "req -newkey rsa:2048 -nodes -keyout me.key -out me.csr -subj /CN=me",
        "x509 -req -in me.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out me.pem -days 2",
    ):
        subprocess.run([openssl, *command.split()], cwd=folder, check=True, capture_output=True)
    files = {"ca": "ca.pem", "cert": "me.pem", "key": "me.key"}
    return {name: str(folder / file) for name, file in files.items()}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[tuple[Dask, Dask]]:
    """Two clusters: a cluster with two workers over TCP, and a cluster with one worker over TLS."""
    started = [Dask(tmp_path_factory.mktemp("dask"), repository, tls=tls) for tls in (False, True)]
    try:
        for each, workers in zip(started, (2, 1), strict=True):
            each.start_workers(workers)
        for each in started:
            each.wait()
        yield started[0], started[1]
    finally:
        for each in started:
            each.end()


SCENARIO = TWO_INTO_ONE.format(duration="50us")


def test_a_sweep_gives_the_same_on_a_cluster(clusters: tuple[Dask, Dask], tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(SCENARIO)
    command = [sys.executable, "-m", "ecmproto_cli", "lab", "sweep", "two.toml"]
    command += ["--sweep", "control.qeq=26kB,33kB", "--seeds", "3", "--show", "queue.mean", "-T", "csv"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    printed = [
        subprocess.run(
            [*command, *who, "-w", f"{who[0]}.ndjson"], cwd=tmp_path, env=environment,
            capture_output=True, text=True, check=True,
        )
        for who in (["--jobs", "1"], ["--scheduler", clusters[0].address])
    ]  # fmt: skip
    assert printed[0].stdout.count("\n") == 7
    assert [each.stderr for each in printed] == ["", ""]
    assert printed[0].stdout == printed[1].stdout
    rows = [RowStore(tmp_path / f"{who}.ndjson") for who in ("--jobs", "--scheduler")]
    assert set(rows[0]) == set(rows[1])


def rows_of(folder: Path, name: str = "rows") -> dict[int, Any]:
    store = RowStore(folder / name)
    return {store[key]["y"]: store[key]["array"].tolist() for key in store}


def test_a_run_outlives_its_workers_and_its_scheduler(
    clusters: tuple[Dask, Dask], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BATCH_S", 0.2)
    call = Call(f"{FUNCTIONS}:mishaps", {"takes_s": 0.01})
    tasks = tasks_for(call, [{"x": x, **({"what": "fail"} if x == 5 else {})} for x in range(200)])
    said: list[str] = []

    def run(dask: Dask, kills: dict[int, subprocess.Popen[bytes]]) -> Tally:
        """Run missing tasks, and kill processes once ``after`` tasks are done."""
        tally = Tally(total=200)
        with RowStore(tmp_path / "rows") as store:
            results = run_tasks(tasks, call, executor=dask.cluster(said.append), store=store, tally=tally)
            for _ in results:
                if tally.done in kills:
                    kills.pop(tally.done).kill()
        return tally

    first, second = clusters
    cluster = first.cluster()
    with cluster:
        for some in (tasks[:2], tasks[2:4]):
            assert len(list(cluster.run(some, call))) == 2
    with pytest.raises(ExecutorError, match="the scheduler until the work is done"):
        run(first, {40: first.processes[1], 120: first.processes[0]})
    assert sum("died" in sentence for sentence in said) == 1
    kept = len(rows_of(tmp_path))
    assert 120 <= kept < 180
    tally = run(second, {})
    assert (tally.known, tally.done) == (kept, 199 - kept)
    assert [result.task.data["x"] for result in tally.failures] == [5]
    with RowStore(tmp_path / "alone") as store:
        list(run_tasks(tasks, call, executor=Processes(1), store=store))
    assert rows_of(tmp_path) == rows_of(tmp_path, "alone")
    assert len(rows_of(tmp_path)) == 199


def listening() -> set[tuple[str, int]]:
    """Return the addresses at which this process and its child processes listen."""
    psutil = pytest.importorskip("psutil")  # Dask has it
    this = psutil.Process()
    found = set()
    for process in [this, *this.children(recursive=True)]:
        with suppress(psutil.Error):
            found |= {tuple(each.laddr) for each in process.net_connections() if each.status == "LISTEN"}
    return found


@pytest.fixture
def restarting(tmp_path: Path, repository: Path) -> Iterator[Dask]:
    """A cluster whose two workers are restarted when they die."""
    dask = Dask(tmp_path, repository, tls=False)
    try:
        dask.start_workers(2, "--nanny")
        dask.wait()
        yield dask
    finally:
        dask.end()


def test_cluster_survives_a_crashing_task(restarting: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH_S", 0.2)
    call = Call(f"{FUNCTIONS}:mishaps", {"takes_s": 0.01})
    tasks = tasks_for(call, [{"x": x, **({"what": "die"} if x == 7 else {})} for x in range(60)])
    found = {}
    for result in run_tasks(tasks, call, executor=restarting.cluster()):
        found[result.task.data["x"]] = result
    failures = {x: result.failure for x, result in found.items() if result.failure is not None}
    assert {x: each.kind for x, each in failures.items()} == {7: "killed"}
    assert "2 times" in failures[7].sentence
    assert {x: result.row.get("y") for x, result in found.items() if x != 7} == {
        x: x**2 for x in range(60) if x != 7
    }


def test_workers_of_this_machine_listen_nowhere() -> None:
    before = listening()
    executor = Execution(scheduler="local:2", jobs=None, tls={}).executor(9, lambda sentence: None)
    call = Call(f"{FUNCTIONS}:mishaps", {"takes_s": 0.01})
    with executor:
        results = list(executor.run(tasks_for(call, [{"x": x} for x in range(20)]), call))
        assert listening() == before
    assert {result.row["y"] for result in results} == {x**2 for x in range(20)}
    assert len({result.worker for result in results}) == 2


# What is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", ["", "local", "local:0", "local:5000", "10.0.0.1:8786", "tcp://a", "http://a:1"]
)
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(ParameterError, match="local:N"):
        Cluster(address=address)


def test_unreachable_scheduler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import dask

    call = Call(f"{FUNCTIONS}:squared")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "500ms"}),
        pytest.raises(ExecutorError, match="a scheduler that answers"),
    ):
        list(Cluster(address="tcp://127.0.0.1:1").run(tasks_for(call, [{"x": 1}]), call))


def test_tls_is_not_done_without() -> None:
    call = Call(f"{FUNCTIONS}:squared")
    refused: list[tuple[dict[str, str], str]] = [
        ({}, "--tls ca="),
        ({"ca": __file__, "cert": "no.pem"}, "no.pem"),
    ]
    for given, named in refused:
        with pytest.raises(ExecutorError, match=named):
            list(Cluster(address="tls://127.0.0.1:1", tls=given).run(tasks_for(call, [{"x": 1}]), call))
    with pytest.raises(ExecutorError, match="tls://"):
        list(Cluster(address="tcp://127.0.0.1:1", tls={"ca": "x"}).run(tasks_for(call, [{"x": 1}]), call))


def test_other_code_is_refused() -> None:
    with pytest.raises(ExecutorError, match="the same ecmproto"):
        module.run_batch([], Call(f"{FUNCTIONS}:squared"), "another")
