"""The process that atheris drives: ``harness.py TARGET FOLDER SEED PACKAGES [ARGUMENT]...``.

It is started by its path: as a module of the package it would import the packages to be instrumented too
early. Findings of a target are reduced and stored in the folder like any campaign's, and fuzzing continues;
atheris itself ends the process, and on a crash of it leaves the input in the folder.
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
"""The script that starts this process, in the campaign's folder."""


def main(argv: list[str]) -> None:
    """Fuzz until atheris ends the process."""
    import atheris

    name, folder, seed, packages, *arguments = argv[1:]
    with atheris.instrument_imports(include=packages.split(",")):
        from ecmproto.tools.fuzz.guided.targets import InputTester, find_target
        from ecmproto.tools.fuzz.judgement import Bounds

        # some of it is imported no earlier than needed
        target = find_target(name)
        tester = InputTester(target, Path(folder), seed=int(seed), corpus=name, bounds=Bounds())
        tester.load()
    atheris.Setup([str(Path(folder) / SCRIPT), *arguments], tester.one, custom_mutator=_mutator(target))
    atheris.Fuzz()


def _mutator(target: GuidedTarget) -> Callable[[bytes, int, int], bytes]:
    """Return the mutator that atheris calls: it changes half of the inputs by the target's structure."""
    import atheris

    def mutate(octets: bytes, max_octets: int, seed: int) -> bytes:
        rng = random.Random(seed)
        for _ in range(rng.randint(1, 3)):
            octets = target.mutate(octets, rng) if rng.getrandbits(1) else atheris.Mutate(octets, max_octets)
        return octets[:max_octets]

    return mutate


if __name__ == "__main__":
    main(sys.argv)
