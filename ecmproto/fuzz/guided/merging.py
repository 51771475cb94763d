"""The least of many inputs that reaches all that they reach: what is committed of a campaign's corpus."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from ecmproto.errors import OutputError
from ecmproto.fuzz.guided.corpus import in_folder, write_folder
from ecmproto.fuzz.guided.process import require_atheris, start
from ecmproto.fuzz.guided.targets import find_target


def merged(name: str, inputs: Iterable[bytes]) -> list[bytes]:
    """Return those of ``inputs`` that the target ``name`` needs, which may take minutes.

    MissingDependencyError without atheris.
    """
    require_atheris()
    with tempfile.TemporaryDirectory() as place:
        given, least = Path(place) / "given", Path(place) / "least"
        write_folder(given, inputs)
        least.mkdir()
        arguments = [
            "-set_cover_merge=1", f"-max_len={find_target(name).longest_octets}", str(least), str(given)
        ]  # fmt: skip
        with start(name, Path(place), seed=0, arguments=arguments) as process:
            output, _ = process.communicate()
        if process.returncode:
            raise OutputError(path=name, needed="inputs that can be merged", got=output.decode()[-500:])
        return in_folder(least)
