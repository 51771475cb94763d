"""The inputs that a target starts from: what is committed for it, and the folder that a campaign grows.

``corpus/NAME.hex`` has an input a line, the shortest first; an empty line is the empty input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path


def committed(name: str) -> list[bytes]:
    """Return the committed inputs of a target; none of one's own."""
    if "." in name:
        return []
    place = files(__package__) / "corpus" / f"{name}.hex"
    return [bytes.fromhex(line) for line in place.read_text(encoding="ascii").splitlines()]


def write_lines(path: Path, inputs: Iterable[bytes]) -> None:
    """Write inputs as they are committed."""
    ordered = sorted(set(inputs), key=lambda octets: (len(octets), octets))
    path.write_text("".join(octets.hex() + "\n" for octets in ordered), encoding="ascii")


def write_folder(folder: Path, inputs: Iterable[bytes]) -> None:
    """Write each input into a file of its own, named as atheris names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for octets in inputs:
        (folder / hashlib.sha1(octets, usedforsecurity=False).hexdigest()).write_bytes(octets)


def in_folder(folder: Path) -> list[bytes]:
    """Return the inputs that a folder has."""
    return [path.read_bytes() for path in sorted(folder.iterdir())]
