"""Makes the bundled captures anew and writes down what they are: ``python -m pcaps [FILE…]``."""

from __future__ import annotations

import sys

from pcaps.manifest import FOLDER, entries, made, written_down


def main() -> None:
    """Create the named captures, or all captures, and update their hashes and frame counts."""
    wanted = set(sys.argv[1:])
    facts = {}
    for entry in entries():
        if wanted and entry.file not in wanted:
            continue
        octets = made(entry)
        (FOLDER / entry.file).write_bytes(octets)
        facts[entry.file] = octets
        print(f"{entry.file}: {len(octets):,} octets")
    written_down(facts)


main()
