"""``python -m ecmproto.fuzz.guided FOLDER``: take over what campaigns in FOLDER/TARGET reached.

For each target that FOLDER has, the committed corpus becomes the least that reaches as much as it and what
the campaign kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ecmproto.fuzz.guided import corpus
from ecmproto.fuzz.guided.merging import merged
from ecmproto.fuzz.guided.targets import NAMES


def main(folder: Path) -> None:
    """Write the corpora anew."""
    for name in NAMES:
        grown = folder / name / "corpus"
        if grown.is_dir():
            inputs = merged(name, [*corpus.committed(name), *corpus.in_folder(grown)])
            corpus.write_lines(Path(__file__).parent / "corpus" / f"{name}.hex", inputs)
            print(f"{name}: {len(inputs)} inputs, {sum(map(len, inputs)):,} octets")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
