"""Runs the commands of the documentation: ``python -m docs.transcripts`` updates the output in the pages.

The README and the Markdown files of this folder contain blocks in the following languages:

- ``console``: commands after ``$ ``, each followed by its output, including errors
- ``sh``: commands that begin with ``ecmproto`` must exit with 0, and their output is not shown
- ``python``: code that is run; if the first line is ``# NAME.py``, the block is a module for later commands
  of the same document, and the ``toml`` block after the module contains its entry points
- ``toml``: if the first line is ``# NAME.toml``, the block is a file with this name

The blocks of a document run in order in one folder, which contains the ``pcaps/`` of the repository.
A reader who follows a page from its start gets the same results.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parent
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"# (\w+)\.py\n")
_FILE = re.compile(r"# ([\w-]+\.toml)\n")
_PROMPT = "$ "


class CommandError(Exception):
    """An error of a command in the documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block; its text is from offset ``start`` to ``end`` of the document."""

    language: str
    text: str
    start: int
    end: int

    @property
    def commands(self) -> list[str]:
        """The commands in the block."""
        lines = self.text.splitlines()
        if self.language == "console":
            return [line.removeprefix(_PROMPT) for line in lines if line.startswith(_PROMPT)]
        if self.language == "sh":
            return [line for line in lines if line.startswith("ecmproto ")]
        return []


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a document."""
    for match in _FENCE.finditer(text):
        yield Block(language=match[1], text=match[2], start=match.start(2), end=match.end(2))


def is_run(block: Block) -> bool:
    """Return whether a block contains Python code or commands."""
    return block.language == "python" or bool(block.commands)


def _documents() -> Iterator[str]:
    for path in (REPOSITORY / "README.md", *sorted(FOLDER.rglob("*.md"))):
        if any(map(is_run, blocks_of(path.read_text(encoding="utf-8")))):
            yield path.relative_to(REPOSITORY).as_posix()


DOCUMENTS = tuple(_documents())
"""The pages that contain code or commands."""


class Folder:
    """An environment for commands in the empty folder ``path``.

    ``python`` is the command line of a Python that has ecmproto. ``environment`` is the base for the
    environment variables of commands.
    """

    def __init__(
        self,
        path: Path,
        python: Sequence[str] = (sys.executable,),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._path = path
        self._python_words = python
        (path / "pcaps").symlink_to(REPOSITORY / "pcaps")
        programs = path / ".programs"
        programs.mkdir()
        program = programs / "ecmproto"
        called = shlex.join([*python, "-m", "ecmproto_cli"])
        program.write_text(f'#!/bin/sh\nexec {called} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        known = [str(path), *filter(None, [environment.get("PYTHONPATH")])]
        self._environment = {
            **environment,
            "PATH": f"{programs}{os.pathsep}{environment['PATH']}",
            "PYTHONPATH": os.pathsep.join(known),
            "PYTHONUTF8": "1",
            "ECMPROTO_PROGRESS": "0",
        }
        self._module = ""

    def run(self, block: Block) -> str:
        """Run ``block``, and return its text with updated output.

        Raises CommandError if the block fails. Commands in a ``console`` block may fail, because the block
        shows their output.
        """
        if block.language == "console":
            return "".join(f"{_PROMPT}{command}\n{self._printed(command)}" for command in block.commands)
        if block.language == "sh":
            for command in block.commands:
                self._checked(["sh", "-c", command])
        elif block.language == "python":
            self._python(block.text)
        elif block.language == "toml":
            self._toml(block.text)
        return block.text

    def _printed(self, command: str) -> str:
        text = self._run(["sh", "-c", command]).stdout
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n" if text else ""

    def _checked(self, command: list[str]) -> None:
        ended = self._run(command)
        if ended.returncode:
            raise CommandError(f"{command[-1]}\n{ended.stdout}")

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self._path, env=self._environment, text=True, encoding="utf-8",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip

    def _python(self, text: str) -> None:
        named = _MODULE.match(text)
        if named is None:
            self._checked([*self._python_words, "-c", text])
            return
        self._module = named[1]
        (self._path / f"{self._module}.py").write_text(text, encoding="utf-8")

    def _toml(self, text: str) -> None:
        named = _FILE.match(text)
        if named is None:
            self._entry_points(text)
        else:
            (self._path / named[1]).write_text(text, encoding="utf-8")

    def _entry_points(self, text: str) -> None:
        """Write the metadata that Python needs to find the entry points of the module."""
        installed = self._path / f"{self._module}-1.0.dist-info"
        installed.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {self._module}\nVersion: 1.0\n"
        (installed / "METADATA").write_text(metadata, encoding="utf-8")
        groups = tomllib.loads(text)["project"]["entry-points"]
        lines = [
            line
            for group, entries in groups.items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
        ]
        (installed / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def brought_up_to_date(text: str) -> str:
    """Return a document with the current output of its commands."""
    parts, done = [], 0
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path))
        for block in blocks_of(text):
            parts += [text[done : block.start], folder.run(block)]
            done = block.end
    return "".join([*parts, text[done:]])


if __name__ == "__main__":
    for name in sys.argv[1:] or DOCUMENTS:
        document = REPOSITORY / name
        document.write_text(brought_up_to_date(document.read_text(encoding="utf-8")), encoding="utf-8")
        print(name)
