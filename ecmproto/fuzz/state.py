"""What a campaign keeps in its folder: how far it has come, and what it found.

How far is one number, the index of the next case: everything else follows from the seed and the corpus.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ecmproto.errors import ParameterError
from ecmproto.fuzz.findings import Finding, findings_in, save, write_document

STATE_SCHEMA = "ecmproto/campaign/1"
_FILE = "campaign.json"


@dataclasses.dataclass(slots=True, kw_only=True)
class Progress:
    """How far a campaign has come."""

    index: int = 0
    """Of the next case."""
    runs: int = 0
    """Of a program, or batches compared."""
    cases: int = 0
    failures: int = 0
    """Runs that failed, those with a known signature too."""
    seconds: float = 0.0
    checked: dict[str, int] = dataclasses.field(default_factory=dict)
    """How many cases each check saw, by its name."""


def seed_of(folder: Path) -> int | None:
    """Return the seed of the campaign that a folder has; None where there is none to be read."""
    try:
        seed = json.loads((folder / _FILE).read_text(encoding="utf-8"))["seed"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return seed if isinstance(seed, int) else None


class State:
    """Progress and findings below ``folder``; what is found there of the same campaign goes on.

    ParameterError where the folder has a campaign of another seed or corpus, or none that can be read.
    """

    def __init__(self, folder: Path, *, seed: int, corpus: str) -> None:
        self.folder = folder
        self._file = folder / _FILE
        self._of = {"seed": seed, "corpus": corpus}
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self.progress = self._resumed()
            self.findings = findings_in(self._place)
            """By signature."""
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ParameterError(
                name="folder", needed="a new one, or one of a campaign", got=f"{folder}: {error!r}"
            ) from error

    @property
    def _place(self) -> Path:
        return self.folder / "findings"

    def _resumed(self) -> Progress:
        if not self._file.exists():
            return Progress()
        document = json.loads(self._file.read_text(encoding="utf-8"))
        for name, value in self._of.items():
            if document[name] != value:
                needed = f"{document[name]}, of the campaign in {self.folder}, or another folder"
                raise ParameterError(name=name, needed=needed, got=str(value))
        return Progress(**document["progress"])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time while entered, and save at the end."""
        start, before = time.monotonic(), self.progress.seconds
        try:
            yield
        finally:
            self.progress.seconds = before + time.monotonic() - start
            self.save()

    def count(self, cases: int, *, failed: bool, checks: Iterable[str] = ()) -> None:
        """Take note of a run over the next ``cases`` cases, which ``checks`` saw."""
        self.progress.index += cases
        self.progress.runs += 1
        self.progress.cases += cases
        self.progress.failures += failed
        for name in checks:
            self.progress.checked[name] = self.progress.checked.get(name, 0) + cases

    def seen(self, signature: str) -> bool:
        """Return whether there is a finding of this signature; then it is counted again."""
        known = self.findings.get(signature)
        if known is None:
            return False
        self.findings[signature] = again = dataclasses.replace(known, count=known.count + 1)
        write_document(self._place / again.name, again)
        return True

    def keep(self, finding: Finding, line: str, *, name: str = "case.pcap") -> None:
        """Save a new finding; ``line`` and ``name`` as `findings.save` has them."""
        self.findings[finding.outcome.signature] = finding
        save(finding, self._place, line, name=name)

    def save(self) -> None:
        """Write down how far it has come."""
        document = {"schema": STATE_SCHEMA, **self._of, "progress": dataclasses.asdict(self.progress)}
        beside = self._file.with_suffix(".part")
        beside.write_text(json.dumps(document) + "\n", encoding="utf-8")
        beside.replace(self._file)
