"""``python -m ecmproto.tools.fuzz.guided FOLDER``: merge the corpora of campaigns in FOLDER/TARGET.

For each target in FOLDER, the committed corpus is replaced. The new corpus is the smallest set of inputs that
covers as much code as the committed corpus and the campaign corpus together.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ecmproto.errors import OutputError
from ecmproto.tools.fuzz.guided.campaign import require_atheris, start_harness
from ecmproto.tools.fuzz.guided.targets import (
    TARGETS,
    committed_inputs,
    find_target,
    inputs_in_folder,
    write_folder,
    write_lines,
)


def main(folder: Path) -> None:
    """Replace the committed corpora."""
    for name in TARGETS:
        grown = folder / name / "corpus"
        if grown.is_dir():
            inputs = merged(name, [*committed_inputs(name), *inputs_in_folder(grown)])
            write_lines(Path(__file__).parent / "corpus" / f"{name}.hex", inputs)
            print(f"{name}: {len(inputs)} inputs, {sum(map(len, inputs)):,} octets")


def merged(name: str, inputs: Iterable[bytes]) -> list[bytes]:
    """Return the smallest subset of ``inputs`` that covers as much code of a target as all ``inputs``.

    Merging can take minutes.

    Raises MissingDependencyError if atheris is not installed.
    """
    require_atheris()
    with tempfile.TemporaryDirectory() as folder:
        given, reduced = Path(folder) / "given", Path(folder) / "least"
        write_folder(given, inputs)
        reduced.mkdir()
        arguments = [
            "-set_cover_merge=1", f"-max_len={find_target(name).longest_octets}", str(reduced), str(given)
        ]  # fmt: skip
        with start_harness(name, Path(folder), seed=0, arguments=arguments) as process:
            output, _ = process.communicate()
        if process.returncode:
            raise OutputError(path=name, needed="inputs that can be merged", got=output.decode()[-500:])
        return inputs_in_folder(reduced)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
