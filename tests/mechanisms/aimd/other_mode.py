"""Runs a module with the compiler enabled and with the compiler disabled."""

from __future__ import annotations

import os
import subprocess
import sys

from ecmproto.control.mechanisms.aimd.congestion_point import start


def output_in_other_mode(module: str) -> str:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1" if hasattr(start, "py_func") else "0"}
    done = subprocess.run(
        [sys.executable, "-m", module], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout
