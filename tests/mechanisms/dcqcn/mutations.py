"""Mutations of DCQCN's machines with known mistakes, each of which a test must find.

Run this module with NUMBA_DISABLE_JIT=1. The output is a JSON document with the result for each mutation by
name.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tests.mechanisms.dcqcn import test_machines


class Trap(NamedTuple):
    """A text in a module, its replacement, and the check of `test_machines` that must then fail."""

    module: str
    old: str
    new: str
    check: Callable[[ModuleType], None]


def _paper(module: ModuleType) -> None:
    module.check_sequence("paper", module.FIXED["paper"], module.SEQUENCE)


def _nic(module: ModuleType) -> None:
    module.check_sequence("nic", module.FIXED["nic"], module.SEQUENCE)


_TIMER = "    limiter.timer_ns = now_ns + settings.timer_ns\n"
_RUNS_ON = f"    if limiter.timer_ns == NEVER_NS:\n    {_TIMER}"
TRAPS = {
    "marking by the queue at departure": Trap(
        "congestion_point",
        "    def rewrite_tag(",
        "    def on_dequeue(self, now_ns, station, priority, octets, port_octets, outbox):\n"
        "        self.state.marking = int(marks(self.settings, self.generator, port_octets))\n\n"
        "    def rewrite_tag(",
        lambda module: module.check_marks(ask_behind=True),
    ),
    "marking frames that are not ECT": Trap(
        "congestion_point", "arrival.tag in (ECT0, ECT1)", "arrival.tag != CE",
        lambda module: module.check_marks(ask_behind=False),
    ),
    "a CNP per marked frame": Trap(
        "notification_point", "if now_ns - sent_ns[index] < interval_ns:", "if interval_ns < 0:",
        lambda module: module.check_notifications(),
    ),
    "α decaying before the first CNP": Trap(
        "reaction_point",
        "    limiter.alpha = 1.0\n",
        "    limiter.alpha = settings.decay ** (now_ns // settings.alpha_interval_ns)\n",
        _paper,
    ),
    "hyper increase without i": Trap(
        "reaction_point", "float(beyond + 1) * settings.hai_rate_bps",
        "settings.hai_rate_bps", _paper,
    ),
    "an increase timer that runs on over a decrease": Trap("reaction_point", _TIMER, _RUNS_ON, _paper),
    "the same of the cards' variant": Trap("reaction_point", _TIMER, _RUNS_ON, _nic),
}  # fmt: skip


def found(trap: Trap) -> bool:
    """Return whether the check fails with the trap put back, and does not without."""
    module = importlib.import_module(f"ecmproto.control.mechanisms.dcqcn.{trap.module}")
    path = Path(str(module.__file__))
    text = path.read_text(encoding="utf-8")
    assert text.count(trap.old) == 1, trap
    trap.check(_with(module, path, text))
    try:
        trap.check(_with(module, path, text.replace(trap.old, trap.new)))
    except AssertionError:
        return True
    finally:
        _with(module, path, text)
    return False


def _with(module: ModuleType, path: Path, text: str) -> ModuleType:
    """Return the tests' module as it is with ``text`` as the text of ``module``."""
    exec(compile(text, path, "exec"), vars(module))
    importlib.reload(importlib.import_module("ecmproto.control.mechanisms.dcqcn.machine"))
    return importlib.reload(test_machines)


if __name__ == "__main__":
    print(json.dumps({name: found(trap) for name, trap in TRAPS.items()}))
