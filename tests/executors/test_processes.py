"""Tasks in local processes, and tasks that kill their process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecmproto.errors import ExecutorError, ParameterError
from ecmproto.executors import running
from ecmproto.executors.batches import Batches
from ecmproto.executors.processes import Processes
from ecmproto.executors.protocol import Call, Shard, Task, TaskResult, parse_shard
from ecmproto.executors.rows import RowStore
from ecmproto.executors.running import Tally, run_tasks, task_key

FUNCTIONS = "tests.executors.functions"


@pytest.fixture(autouse=True)
def plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run kernels as plain Python."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")


def tasks_for(call: Call, data: Iterable[dict[str, Any]]) -> list[Task]:
    return [Task(key=task_key(call, each), data=each, name=f"x = {each['x']}") for each in data]


def by_x(results: Iterable[TaskResult]) -> dict[int, TaskResult]:
    return {result.task.data["x"]: result for result in results}


@pytest.mark.parametrize("way", ["closed", "terminated"])
def test_process_ends_without_output(way: str, capfd: pytest.CaptureFixture[str]) -> None:
    call = Call(f"{FUNCTIONS}:mishaps", {"takes_s": 0.01})
    results = Processes(1, apart=True).run(tasks_for(call, [{"x": x} for x in range(40)]), call)
    worker = int(next(results).worker.rpartition(":")[2])
    if way == "closed":
        results.close()
    else:
        os.kill(worker, signal.SIGTERM)
        assert len(list(results)) == 39
    assert "".join(capfd.readouterr()) == ""
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_shards_partition_the_tasks() -> None:
    parts = [parse_shard(f"{number}/4").of(range(18)) for number in range(1, 5)]
    assert sorted(item for part in parts for item in part) == list(range(18))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert Shard().of([1, 2]) == [1, 2]


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "a/b"])
def test_invalid_shard_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="3/40"):
        parse_shard(text)


@pytest.mark.parametrize("executor", [Processes(1), Processes(1, apart=True), Processes(2)])
def test_arrays_and_octets_pass_between_processes(executor: Processes) -> None:
    call = Call(f"{FUNCTIONS}:arrays")
    data = [{"x": x, "array": np.arange(x), "octets": b"\x80\x04." * x, "text": "ä"} for x in range(5)]
    found = by_x(executor.run(tasks_for(call, data), call))
    assert len(found) == 5
    for x, result in found.items():
        assert result.row["whole"].tolist() == [2 * n for n in range(x)]
        assert result.row["octets"] == b"\x80\x04." * 2 * x
        assert result.row["text"] == "ä"
        assert result.row["digest"] == result.task.key
    apart = {result.row["pid"] != os.getpid() for result in found.values()}
    assert apart == {executor.jobs > 1 or executor.apart}


def test_processes_stay_between_runs() -> None:
    calls = [Call(f"{FUNCTIONS}:{name}") for name in ("squared", "mishaps")]
    executor = Processes(2)
    with executor:
        workers = []
        for call in calls:
            results = list(executor.run(tasks_for(call, [{"x": x} for x in range(50)]), call))
            assert sorted(result.row["y"] for result in results) == [x**2 for x in range(50)]
            workers.append({result.worker for result in results})
        assert workers[0] == workers[1]
        with pytest.raises(ExecutorError, match="can import"):
            list(executor.run([Task(key="a", data={})], Call("nothing")))
        assert len(list(executor.run(tasks_for(calls[0], [{"x": 1}]), calls[0]))) == 1
    for worker in workers[0]:
        with pytest.raises(ProcessLookupError):
            os.kill(int(worker.rpartition(":")[2]), 0)


def test_failures_affect_only_their_own_task(tmp_path: Path) -> None:
    call = Call(f"{FUNCTIONS}:mishaps", {"folder": str(tmp_path)}, outside=("folder",))
    data: list[dict[str, Any]] = [{"x": x} for x in range(40)]
    for x, what in {3: "fail", 7: "die", 11: "die once", 12: "no row"}.items():
        data[x]["what"] = what
    said: list[str] = []
    tally = Tally(total=40)
    path = tmp_path / "rows"
    with RowStore(path) as store:
        executor = Processes(2, notify=said.append)
        tasks = tasks_for(call, data)
        found = by_x(run_tasks(tasks, call, executor=executor, store=store, tally=tally))
    failed = {x: result.failure for x, result in found.items() if result.failure is not None}
    assert {x: (each.kind, each.error) for x, each in failed.items()} == {
        3: ("failed", "ValueError"), 7: ("killed", "SIGKILL"), 12: ("failed", "TypeError"),
    }  # fmt: skip
    assert failed[3].sentence == "no 3"
    assert "functions.py" in failed[3].trace
    assert len(said) == 3
    assert [found[x].row["y"] for x in range(40) if x not in failed] == [
        x**2 for x in range(40) if x not in failed
    ]
    assert (tally.done, tally.finished, len(tally.failures)) == (37, 40, 3)
    assert len(RowStore(path)) == 37


def test_repeated_run_does_only_missing_tasks(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    call = Call(f"{FUNCTIONS}:squared", {"calls": str(calls)}, outside=("calls",))
    tasks = tasks_for(call, [{"x": x} for x in range(9)])

    def run(some: list[Task], jobs: int = 1) -> tuple[Tally, dict[int, TaskResult]]:
        tally = Tally(total=len(some))
        with RowStore(tmp_path / "rows") as store:
            results = run_tasks(some, call, executor=Processes(jobs), store=store, tally=tally)
            return tally, by_x(results)

    run(tasks[:4])
    tally, found = run(tasks, 2)
    assert (tally.known, tally.done) == (4, 5)
    assert {x: result.row["y"] for x, result in found.items()} == {x: x**2 for x in range(9)}
    assert {x for x, result in found.items() if result.was_known} == {0, 1, 2, 3}
    assert sorted(calls.read_text().split()) == [str(x) for x in range(9)]
    assert run(tasks, 2)[0].known == 9
    assert len(calls.read_text().split()) == 9


def test_key_is_of_function_options_data_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call(f"{FUNCTIONS}:squared", {"a": 1, "calls": "x"}, outside=("calls",))
    keys = {
        task_key(call, 1),
        task_key(call, 2),
        task_key(call, 1, 2),
        task_key(Call(call.function, {"a": 2}), 1),
        task_key(Call(f"{FUNCTIONS}:arrays", {"a": 1}), 1),
    }
    assert len(keys) == 5
    assert task_key(Call(call.function, {"a": 1, "calls": "y"}, outside=("calls",)), 1) in keys
    monkeypatch.setattr(running, "code_digest", lambda: "other")
    assert task_key(call, 1) not in keys


def test_closing_a_run_ends_its_processes(tmp_path: Path) -> None:
    call = Call(f"{FUNCTIONS}:mishaps", {"takes_s": 0.05, "folder": str(tmp_path)})
    results = Processes(2).run(tasks_for(call, [{"x": x} for x in range(1000)]), call)
    pids = {int(next(results).worker.rpartition(":")[2]) for _ in range(8)}
    results.close()
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", ["tests.executors.nothing:f", f"{FUNCTIONS}:nothing", "nothing"])
def test_missing_function_is_a_single_error(name: str, jobs: int) -> None:
    call = Call(name)
    with pytest.raises(ExecutorError, match="can import"):
        list(Processes(jobs).run([Task(key="a", data={}), Task(key="b", data={})], call))


PROGRAM = """
import signal
import sys
from pathlib import Path
from ecmproto.executors.processes import Processes
from ecmproto.executors.protocol import Call
from ecmproto.executors.rows import RowStore
from ecmproto.executors.running import run_tasks
from tests.executors.test_processes import FUNCTIONS, tasks_for

# whoever started the tests may have had SIGINT ignored, as a shell has for what is in the background
signal.signal(signal.SIGINT, signal.default_int_handler)
options = {"folder": sys.argv[1], "takes_s": float(sys.argv[2])}
call = Call(f"{FUNCTIONS}:mishaps", options, outside=("takes_s",))
with RowStore(Path(sys.argv[1]) / "rows") as store:
    tasks = tasks_for(call, [{"x": x} for x in range(60)])
    list(run_tasks(tasks, call, executor=Processes(2), store=store))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_run_keeps_its_finished_rows(tmp_path: Path, how: signal.Signals, repository: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    slow = [*command, "0.2"]  # a busy machine sees ten rows long before it is done
    first = subprocess.Popen(slow, cwd=repository, stderr=subprocess.DEVNULL, start_new_session=True)
    rows = tmp_path / "rows"
    while not (rows.exists() and rows.read_bytes().count(b"\n") >= 10):
        assert first.poll() is None
        time.sleep(0.005)
    first.send_signal(how)
    first.wait(30)
    kept = len(RowStore(rows))
    assert 10 <= kept < 60
    time.sleep(0.4)
    begun = len(list(tmp_path.glob("done-*")))
    time.sleep(0.4)
    assert len(list(tmp_path.glob("done-*"))) == begun  # the processes are gone too
    subprocess.run([*command, "0"], cwd=repository, check=True)
    store = RowStore(rows)
    assert len(store) == 60
    assert rows.read_bytes().count(b"\n") == 60
    assert sorted(store[key]["y"] for key in store) == [x**2 for x in range(60)]


# Batches --------------------------------------------------------------------------------------------------


def test_batches_adapt_to_the_target_time() -> None:
    tasks = [Task(key=str(n), data={}) for n in range(10_000)]
    batches = Batches(tasks, target_s=10, expected=len(tasks))
    sizes = []
    while batch := batches.next(2):
        sizes.append(len(batch))
        for task in batch:
            batches.measure(TaskResult(task=task, row={}, elapsed_s=0.01))
    assert sum(sizes) == 10_000
    assert sizes[0] == 1
    assert max(sizes) == pytest.approx(1000, abs=1)  # of 10 s
    assert sizes[-1] <= 20
    assert len(sizes) < 60


def test_batches_follow_the_sizes_of_tasks() -> None:
    tasks = [Task(key=str(n), data={}, size=size) for n, size in enumerate([1, 1, 1, 1, 100, 100, 1, 1])]
    batches = Batches(tasks, target_s=5)
    (task,) = batches.next(1)
    batches.measure(TaskResult(task=task, row={}, elapsed_s=1.0))
    assert [len(batches.next(1)) for _ in range(4)] == [3, 1, 1, 2]
    assert batches.next(1) == []
