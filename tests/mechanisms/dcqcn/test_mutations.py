"""Each trap of the specification fails when it is put back into the machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def test_every_trap_that_is_put_back_is_found() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mechanisms.dcqcn.mutations"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
        capture_output=True,
    )
    found = json.loads(done.stdout)
    assert len(found) == 7
    assert all(found.values()), found
