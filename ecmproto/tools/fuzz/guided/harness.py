"""The atheris process: ``harness.py TARGET FOLDER SEED PACKAGES [ARGUMENT]...``.

The harness is started as a script by its path. If the harness were started as a module, Python would import
the package before instrumentation. Findings of a target are reduced and stored in the folder, and fuzzing
continues. After a crash or a timeout, atheris ends the process and writes the input to the folder.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecmproto.tools.fuzz.guided.targets import GuidedTarget

SCRIPT = "atheris.sh"
"""Name of the script in the campaign folder that starts the harness."""


def main(argv: list[str]) -> None:
    """Fuzz until atheris ends the process."""
    import atheris

    name, folder, seed, packages, *arguments = argv[1:]
    with atheris.instrument_imports(include=packages.split(",")):
        from ecmproto.tools.fuzz.guided.targets import InputTester, find_target
        from ecmproto.tools.fuzz.judgement import Bounds

        # load() imports modules that are only imported on demand
        target = find_target(name)
        tester = InputTester(target, Path(folder), seed=int(seed), corpus=name, bounds=Bounds())
        tester.load()
    atheris.Setup([str(Path(folder) / SCRIPT), *arguments], tester.one, custom_mutator=_mutator(target))
    atheris.Fuzz()


def _mutator(target: GuidedTarget) -> Callable[[bytes, int, int], bytes]:
    """Return a mutator for atheris that uses the mutator of the target for half of the mutations."""
    import atheris

    def mutate(octets: bytes, max_octets: int, seed: int) -> bytes:
        rng = random.Random(seed)
        for _ in range(rng.randint(1, 3)):
            octets = target.mutate(octets, rng) if rng.getrandbits(1) else atheris.Mutate(octets, max_octets)
        return octets[:max_octets]

    return mutate


if __name__ == "__main__":
    main(sys.argv)
