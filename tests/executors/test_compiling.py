"""Kernels that several processes need: one compiles them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecmproto.executors.cluster import Cluster
from ecmproto.executors.processes import Processes
from ecmproto.executors.protocol import Call, Executor, Task
from tests.kernels.test_kernel import INNER

WORK = """
import time
from inner_part import inner
def called(data, options):
    given = inner(data["x"])
    time.sleep(0.5)  # so that none can do the other's
    return {"y": int(given)}
"""


@pytest.mark.parametrize("executor", [Processes(2), Cluster(address="local:2")], ids=["processes", "cluster"])
def test_a_kernel_is_compiled_by_one_process_and_loaded_by_others(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if isinstance(executor, Cluster):
        pytest.importorskip("distributed")
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
    results = list(executor.run(tasks, call))
    assert sorted(result.row["y"] for result in results) == [1, 2]
    assert len({result.worker for result in results}) == 2
    said = "".join(capfd.readouterr())
    assert said.count("data saved") == len(list(cache.rglob("*.nbc"))) > 0
    assert said.count("data loaded") == said.count("data saved")
