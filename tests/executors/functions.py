"""Functions for workers in these tests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def squared(data: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Square x, and record the call."""
    if "calls" in options:
        with Path(options["calls"]).open("a") as file:
            file.write(f"{data['x']}\n")
    return {"y": data["x"] ** 2}


def seeded(data: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seed of a point."""
    return {"seed": data["seed"]}


def arrays(data: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text, and the arrays multiplied by two."""
    return {
        "whole": data["array"] * 2,
        "text": data["text"],
        "octets": data["octets"] * 2,
        "pid": os.getpid(),
    }


def mishaps(data: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Fail, crash on every attempt, crash once, or run slowly, according to ``what``."""
    what = data.get("what", "")
    if what == "fail":
        raise ValueError(f"no {data['x']}")
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "die once":
        mark = Path(options["folder"], f"died-{data['x']}")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if what == "no row":
        return {"y": {1: float("nan")}}
    time.sleep(options.get("takes_s", 0))
    if "folder" in options:
        Path(options["folder"], f"done-{data['x']}").touch()
    return {"y": data["x"] ** 2, "array": np.arange(data["x"])}


no_function = 7
