"""Run the benchmarks named on the command line.

By default, all benchmarks run except for the slow benchmark and the benchmarks that need root.

``python -m bench [startup] [single_frames] [captures] [columns] [throughput] [dissect] [filters] [stats]
[mirrors] [check] [diff] [sweeps] [replay] [lab] [fuzzing] [editing] [wireshark] [memory] [interfaces]
[forwarding]``

The following benchmarks have options and run alone: ``endurance``, ``executors``, ``firstminute``, ``fleet``,
``limits``, ``storms`` and ``testbed`` (``python -m bench fleet --help``).
"""

from __future__ import annotations

import importlib
import os
import sys

NAMES = (
    "startup", "single_frames", "captures", "columns", "throughput", "dissect", "filters", "stats", "mirrors",
    "check", "diff", "sweeps", "replay", "lab", "fuzzing", "editing", "wireshark",
)  # fmt: skip
SLOW = ("memory",)
ON_INTERFACES = ("interfaces", "forwarding")
LONG = ("endurance", "executors", "firstminute", "fleet", "limits", "storms", "testbed")


def main() -> None:
    """Run the benchmarks in order."""
    # Byte code is cached, as it is for users. Each contender runs once before it is measured.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if sys.argv[1:] and sys.argv[1] in LONG:
        importlib.import_module(f"bench.{sys.argv[1]}").run(sys.argv[2:])
        return
    names = sys.argv[1:] or NAMES
    for name in names:
        if name not in (*NAMES, *SLOW, *ON_INTERFACES):
            known = ", ".join((*NAMES, *SLOW, *ON_INTERFACES))
            sys.exit(f"bench: there is no benchmark {name!r}: one of {known}")
        importlib.import_module(f"bench.{name}").run()


main()
