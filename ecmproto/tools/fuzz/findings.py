"""The folder of a campaign: progress, and a folder for each finding with its capture and reproduction.

``campaign.json``      seed, digest of the corpus and progress: the index of the next case, and counts

``findings/NAME/``
    ``case.pcap``     the reduced frames that fail; of other cases, ``case.pcapng`` or ``case.txt``
    ``case.hex``      the same, a line per frame, with the length of each
    ``output.txt``    the end of the program's output, or the difference
    ``reproduce.sh``  one line that reproduces it
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
"""The attributes in ``finding.json``."""
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_NAME_CHARACTERS = 48
_DIGEST_CHARACTERS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A defect: the reduced frames that show it, and the program's outcome on them."""

    frames: tuple[bytes, ...]
    outcome: CaseOutcome
    seed: int
    index: int
    """Index of the first case of the run that showed it."""
    count: int = 1
    """The number of runs that showed it."""

    @property
    def name(self) -> str:
        """The folder's name: readable, and different for different signatures."""
        words = _WORDS.sub("-", self.outcome.signature).strip("-")[:_NAME_CHARACTERS].strip("-")
        digest = hashlib.sha256(self.outcome.signature.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        return f"{self.outcome.kind}-{words}-{digest}".lower()


def save(finding: Finding, folder: Path, line: str, *, name: str = "case.pcap") -> Path:
    """Write a finding below ``folder``; return its own folder.

    ``line`` reproduces it with that folder as the current one.  ``name`` is the name of the file of its
    frames; any other than case.pcap gets the octets unchanged.
    """
    place = make_folder(folder / finding.name)
    frames = finding.frames
    write_output(place / name, capture_of(frames) if name == "case.pcap" else b"".join(frames), force=True)
    lines = [f"{len(octets):5} {octets.hex()}\n" for octets in finding.frames]
    write_output(place / "case.hex", "".join(lines), force=True)
    write_output(place / "output.txt", finding.outcome.output.encode(errors="backslashreplace"), force=True)
    write_output(place / "reproduce.sh", line + "\n", force=True)
    write_document(place, finding)
    return place


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
    found = {}
    for path in sorted(folder.glob("*/finding.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        output = (path.parent / "output.txt").read_text(encoding="utf-8")
        outcome = CaseOutcome(output=output, **{name: document[name] for name in _OF_OUTCOME})
        frames = tuple(bytes.fromhex(octets) for octets in document["frames"])
        others = {name: document[name] for name in _OF_FINDING}
        found[outcome.signature] = Finding(frames=frames, outcome=outcome, **others)
    return found


def capture_of(frames: Sequence[bytes]) -> bytes:
    """Return frames as a pcap file, a µs apart."""
    file = io.BytesIO()
    writer = PcapWriter(Sink("", file))
    writer.write_batch(Batch.from_frames(frames, time_ns=range(0, len(frames) * 1_000, 1_000)))
    return file.getvalue()


def reproduction(command: Sequence[str], path: str) -> str:
    """Return the shell line that runs a command on a file as a campaign does."""
    if any(PLACE in word for word in command):
        return shlex.join(word.replace(PLACE, path) for word in command)
    return f"{shlex.join(command)} < {shlex.quote(path)}"


TIMED_OUT = 124
"""The exit status of coreutils' timeout."""


def in_time(line: str, command: Command) -> str:
    """Return ``line`` limited to the time of ``command``, with the status `TIMED_OUT`."""
    return f"timeout {command.seconds:g} {line}"


def in_memory(line: str, command: Command) -> str:
    """Return ``line`` limited to the memory of ``command``.

    All addresses count, not only resident memory: not for programs that reserve more than they use.
    """
    return f"ulimit -v {command.memory_octets >> 10} && {line}"


def judged_again(command: Command, path: str) -> str:
    """Return the line that watches ``command`` on a file as a campaign does."""
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
    """The index of the next case."""
    runs: int = 0
    """Runs of a program, or batches compared."""
    cases: int = 0
    failures: int = 0
    """Failed runs, including those with a known signature."""
    seconds: float = 0.0
    checked: dict[str, int] = dataclasses.field(default_factory=dict)
    """The number of cases of each check, by its name."""


def seed_of(folder: Path) -> int | None:
    """Return the seed of the campaign in a folder; None without a readable one."""
    try:
        seed = json.loads((folder / _FILE).read_text(encoding="utf-8"))["seed"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return seed if isinstance(seed, int) else None


class CampaignState:
    """Progress and findings below ``folder``, continued from the same campaign there.

    ParameterError if the folder has a campaign of another seed or corpus, or an unreadable one.
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
            # the end is shown even of long paths
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
        """Count the time of the context, and save at the end."""
        start, before = time.monotonic(), self.progress.seconds
        try:
            yield
        finally:
            self.progress.seconds = before + time.monotonic() - start
            self.save()

    def count(self, cases: int, *, failed: bool, checks: Iterable[str] = ()) -> None:
        """Count a run over the next ``cases`` cases, by ``checks``."""
        self.progress.index += cases
        self.progress.runs += 1
        self.progress.cases += cases
        self.progress.failures += failed
        for name in checks:
            self.progress.checked[name] = self.progress.checked.get(name, 0) + cases

    def seen(self, signature: str) -> bool:
        """Return whether there is a finding of this signature, which is counted again then."""
        known = self.findings.get(signature)
        if known is None:
            return False
        self.findings[signature] = again = dataclasses.replace(known, count=known.count + 1)
        write_document(self._folder / again.name, again)
        return True

    def keep(self, finding: Finding, line: str, *, name: str = "case.pcap") -> None:
        """Save a new finding; ``line`` and ``name`` as in `findings.save`."""
        self.findings[finding.outcome.signature] = finding
        save(finding, self._folder, line, name=name)

    def save(self) -> None:
        """Save the progress."""
        document = {"schema": STATE_SCHEMA, **self._of, "progress": dataclasses.asdict(self.progress)}
        write_output(self._file, json.dumps(document) + "\n", force=True)


class Campaign:
    """Base class of campaigns, which keep their state in a folder."""

    _state: CampaignState

    @property
    def progress(self) -> Progress:
        """The progress of the folder's campaign."""
        return self._state.progress

    @property
    def findings(self) -> dict[str, Finding]:
        """All findings of the folder, by signature."""
        return self._state.findings
