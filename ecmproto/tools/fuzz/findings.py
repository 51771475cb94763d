"""The folder of a campaign, with progress and one folder per finding.

``campaign.json``      seed, corpus digest, and progress (index of the next case, counters)

``findings/NAME/``
    ``case.pcap``     the reduced frames that fail; other file names for other subjects
    ``case.hex``      the length and octets of each frame, one frame per line
    ``output.txt``    the end of the program output, or the difference
    ``reproduce.sh``  a command line that reproduces the finding
    ``finding.json``  seed, index, signature, kind, number of occurrences
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ecmproto.errors import ParameterError
from ecmproto.frames.capture import Batch, PcapWriter, Sink
from ecmproto.frames.capture.writer import write_output
from ecmproto.paths import make_folder
from ecmproto.tools.fuzz.command import PLACE, CaseOutcome, Command

FINDING_SCHEMA = "ecmproto/finding/1"

_OF_OUTCOME = ("kind", "signature", "status", "seconds")
_OF_FINDING = ("seed", "index", "count")
"""Attributes of a `Finding` in ``finding.json``."""
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_NAME_CHARACTERS = 48
_DIGEST_CHARACTERS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A defect with the reduced frames that cause it, and the outcome of the program for these frames."""

    frames: tuple[bytes, ...]
    outcome: CaseOutcome
    seed: int
    index: int
    """Index of the first case of the run that caused the defect."""
    count: int = 1
    """Number of runs that caused the defect."""

    @property
    def name(self) -> str:
        """The folder name, which is readable and unique for each signature."""
        words = _WORDS.sub("-", self.outcome.signature).strip("-")[:_NAME_CHARACTERS].strip("-")
        digest = hashlib.sha256(self.outcome.signature.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        return f"{self.outcome.kind}-{words}-{digest}".lower()


def save(finding: Finding, folder: Path, line: str, *, name: str = "case.pcap") -> Path:
    """Write a finding to a new folder below ``folder``, and return the new folder.

    ``line`` is the command line that reproduces the finding in the new folder. ``name`` is the file name for
    the frames. The file is a pcap file if its name is case.pcap, and otherwise contains the octets of the
    frames.
    """
    path = make_folder(folder / finding.name)
    frames = finding.frames
    write_output(path / name, capture_of(frames) if name == "case.pcap" else b"".join(frames), force=True)
    lines = [f"{len(octets):5} {octets.hex()}\n" for octets in finding.frames]
    write_output(path / "case.hex", "".join(lines), force=True)
    write_output(path / "output.txt", finding.outcome.output.encode(errors="backslashreplace"), force=True)
    write_output(path / "reproduce.sh", line + "\n", force=True)
    write_document(path, finding)
    return path


def write_document(folder: Path, finding: Finding) -> None:
    """Write ``finding.json``."""
    document = {
        "schema": FINDING_SCHEMA,
        **{name: getattr(finding.outcome, name) for name in _OF_OUTCOME},
        **{name: getattr(finding, name) for name in _OF_FINDING},
        "frames": [octets.hex() for octets in finding.frames],
    }
    write_output(folder / "finding.json", json.dumps(document, indent=2) + "\n", force=True)


def findings_in(folder: Path) -> dict[str, Finding]:
    """Return the findings stored below ``folder``, by signature."""
    result = {}
    for path in sorted(folder.glob("*/finding.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        output = (path.parent / "output.txt").read_text(encoding="utf-8")
        outcome = CaseOutcome(output=output, **{name: document[name] for name in _OF_OUTCOME})
        frames = tuple(bytes.fromhex(octets) for octets in document["frames"])
        others = {name: document[name] for name in _OF_FINDING}
        result[outcome.signature] = Finding(frames=frames, outcome=outcome, **others)
    return result


def capture_of(frames: Sequence[bytes]) -> bytes:
    """Return a pcap file of frames at intervals of 1 µs."""
    file = io.BytesIO()
    writer = PcapWriter(Sink("", file))
    writer.write_batch(Batch.from_frames(frames, time_ns=range(0, len(frames) * 1_000, 1_000)))
    return file.getvalue()


def reproduction(command: Sequence[str], path: str) -> str:
    """Return the shell line that runs a command with a file in the same way as a campaign."""
    if any(PLACE in word for word in command):
        return shlex.join(word.replace(PLACE, path) for word in command)
    return f"{shlex.join(command)} < {shlex.quote(path)}"


TIMED_OUT = 124
"""Exit status of the coreutils program ``timeout``."""


def in_time(line: str, command: Command) -> str:
    """Return ``line`` with the time limit of ``command``. A timeout has the exit status `TIMED_OUT`."""
    return f"timeout {command.seconds:g} {line}"


def in_memory(line: str, command: Command) -> str:
    """Return ``line`` with the memory limit of ``command``.

    The limit applies to the address space, so the limit is not suitable for programs that reserve more memory
    than they use.
    """
    return f"ulimit -v {command.memory_octets >> 10} && {line}"


def judged_again(command: Command, path: str) -> str:
    """Return the shell line that runs ``command`` with a file under the limits of a campaign."""
    limits = ["--memory", f"{command.memory_octets}B", "--timeout", f"{command.seconds:g}s"]
    return shlex.join(
        ["ecmproto", "fuzz", "target", "--as-is", "-r", path, *limits, "--", *command.arguments]
    )


STATE_SCHEMA = "ecmproto/campaign/1"
_FILE = "campaign.json"


@dataclasses.dataclass(slots=True, kw_only=True)
class Progress:
    """The progress of a campaign."""

    index: int = 0
    """Index of the next case."""
    runs: int = 0
    """Number of program runs or checked batches."""
    cases: int = 0
    failures: int = 0
    """Number of failed runs, including runs with a known signature."""
    seconds: float = 0.0
    checked: dict[str, int] = dataclasses.field(default_factory=dict)
    """Number of cases per check, by the name of the check."""


def seed_of(folder: Path) -> int | None:
    """Return the seed of the campaign in a folder, or ``None`` if no campaign can be read."""
    try:
        seed = json.loads((folder / _FILE).read_text(encoding="utf-8"))["seed"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return seed if isinstance(seed, int) else None


class CampaignState:
    """Progress and findings of a campaign below ``folder``. An earlier campaign in the folder is continued.

    Raises ParameterError if the folder contains a campaign with another seed or corpus, or a damaged
    campaign.
    """

    def __init__(self, folder: Path, *, seed: int, corpus: str) -> None:
        self.folder = folder
        self._file = folder / _FILE
        self._of = {"seed": seed, "corpus": corpus}
        make_folder(folder)
        try:
            self.progress: Progress = self._resumed()
            self.findings: dict[str, Finding] = findings_in(self._folder)
            """The findings by signature."""
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # the end of a long path is shown too
            damaged = f"{folder}: {_FILE} or a finding is damaged"
            raise ParameterError(
                name="folder", needed="a new one, or one of a campaign", got=damaged
            ) from error

    @property
    def _folder(self) -> Path:
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
        """Measure the time of a ``with`` block, and save the progress at the end of the block."""
        start, before = time.monotonic(), self.progress.seconds
        try:
            yield
        finally:
            self.progress.seconds = before + time.monotonic() - start
            self.save()

    def count(self, cases: int, *, failed: bool, checks: Iterable[str] = ()) -> None:
        """Add a run over the next ``cases`` cases to the progress.

        ``checks`` are the names of the checks that ran.
        """
        self.progress.index += cases
        self.progress.runs += 1
        self.progress.cases += cases
        self.progress.failures += failed
        for name in checks:
            self.progress.checked[name] = self.progress.checked.get(name, 0) + cases

    def seen(self, signature: str) -> bool:
        """Return whether a finding with this signature exists, and increment its count."""
        known = self.findings.get(signature)
        if known is None:
            return False
        self.findings[signature] = again = dataclasses.replace(known, count=known.count + 1)
        write_document(self._folder / again.name, again)
        return True

    def keep(self, finding: Finding, line: str, *, name: str = "case.pcap") -> None:
        """Save a new finding. ``line`` and ``name`` have the same meaning as in `findings.save`."""
        self.findings[finding.outcome.signature] = finding
        save(finding, self._folder, line, name=name)

    def save(self) -> None:
        """Save the progress."""
        document = {"schema": STATE_SCHEMA, **self._of, "progress": dataclasses.asdict(self.progress)}
        write_output(self._file, json.dumps(document) + "\n", force=True)


class Campaign:
    """Base class of campaigns, which store their state in a folder."""

    _state: CampaignState

    @property
    def progress(self) -> Progress:
        """The progress of the campaign in the folder."""
        return self._state.progress

    @property
    def findings(self) -> dict[str, Finding]:
        """All findings in the folder, by signature."""
        return self._state.findings
