"""What atheris says while it runs: how many inputs it tried, how many edges it has seen."""

from __future__ import annotations

import dataclasses
import os
import re
import selectors
import subprocess
from pathlib import Path

_LINE = re.compile(r"^#(\d+)\s.*?cov: (\d+) ft: \d+ corp: (\d+)/")
_TOTAL = re.compile(r"^stat::number_of_executed_units:\s+(\d+)")
_WAIT_S = 0.2
_PIECE_OCTETS = 1 << 16
_KEPT_LINES = 60


@dataclasses.dataclass(slots=True, kw_only=True)
class Coverage:
    """How much of the code that guides was reached."""

    first_edges: int = 0
    """By the inputs to start from."""
    edges: int = 0
    inputs: int = 0
    """Kept, because each reaches something."""


class Status:
    """Follows a process, and writes what it prints into a file."""

    def __init__(self, path: Path, coverage: Coverage) -> None:
        self.path = path
        self.executions = 0
        self._coverage = coverage
        self._lines: list[str] = []
        self._unfinished = b""
        path.write_bytes(b"")

    @property
    def last(self) -> str:
        """The last lines that it printed."""
        return "\n".join(self._lines) + "\n"

    def read(self, process: subprocess.Popen[bytes]) -> bool:
        """Read what there is, waiting a little for it; return whether more can come."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(_WAIT_S):
                return True
        piece = os.read(process.stdout.fileno(), _PIECE_OCTETS)
        with self.path.open("ab") as file:
            file.write(piece)
        *lines, self._unfinished = (self._unfinished + piece).split(b"\n")
        for line in lines:
            self._line(line.decode("utf-8", errors="replace"))
        return bool(piece)

    def _line(self, line: str) -> None:
        self._lines = [*self._lines, line][-_KEPT_LINES:]
        if found := _TOTAL.match(line):
            self.executions = int(found.group(1))
        if found := _LINE.match(line):
            self.executions, edges, inputs = map(int, found.groups())
            self._coverage.first_edges = self._coverage.first_edges or edges
            self._coverage.edges = max(self._coverage.edges, edges)
            self._coverage.inputs = inputs
