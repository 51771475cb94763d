"""Kernels that several processes need: one compiles them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecmproto.executors.processes import Processes
from ecmproto.executors.protocol import Call, Task, TaskResult
from tests.executors.test_cluster import Dask
from tests.kernels.test_kernel import INNER

WORK = """
import time
from inner_part import inner
def called(data, options):
    given = inner(data["x"])
    time.sleep(0.5)  # so that none can do the other's
    return {"y": int(given)}
"""


def by_cluster(tasks: list[Task], call: Call, folder: Path, repository: Path) -> tuple[list[TaskResult], str]:
    """Return the results of two workers, and what these have printed."""
    pytest.importorskip("distributed")
    dask = Dask(folder, repository, tls=False)
    try:
        dask.start_workers(2)
        dask.wait()
        return list(dask.cluster().run(tasks, call)), dask.printed
    finally:
        dask.end()


@pytest.mark.parametrize("kind", ["processes", "cluster"])
def test_a_kernel_is_compiled_by_one_process_and_loaded_by_others(
    kind: str,
    tmp_path: Path,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "inner_part.py").write_text(INNER.format(1))
    (tmp_path / "work_part.py").write_text(WORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    cache = tmp_path / "cache"
    for name, value in {
        "NUMBA_CACHE_DIR": str(cache),
        "NUMBA_DEBUG_CACHE": "1",
        "NUMBA_DISABLE_JIT": "0",
    }.items():
        monkeypatch.setenv(name, value)
    call = Call("work_part:called")
    tasks = [Task(key=str(x), data={"x": x}) for x in range(2)]
    if kind == "processes":
        results = list(Processes(2).run(tasks, call))
        said = "".join(capfd.readouterr())
    else:
        results, said = by_cluster(tasks, call, tmp_path, repository)
    assert sorted(result.row["y"] for result in results) == [1, 2]
    assert len({result.worker for result in results}) == 2
    assert said.count("data saved") == len(list(cache.rglob("*.nbc"))) > 0
    assert said.count("data loaded") == said.count("data saved")
