"""Where a campaign keeps what it found: a folder a defect, with its capture and how to see it again.

``findings/NAME/``
    ``case.pcap``     the least frames that fail; of cases that are no frames, ``case.pcapng`` or ``case.txt``
    ``case.hex``      the same, a line a frame, with the length of each
    ``output.txt``    the last of what the program printed, or what differs
    ``reproduce.sh``  one line that shows it again
    ``finding.json``  seed, index, signature, kind, how often it came
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from ecmproto.capture import Batch, PcapWriter
from ecmproto.fuzz.command import PLACE, Command, Outcome

FINDING_SCHEMA = "ecmproto/finding/1"

_WORDS = re.compile(r"[^A-Za-z0-9]+")
_NAME_CHARACTERS = 48
_DIGEST_CHARACTERS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A defect: the least frames that show it, and how the program ended on them."""

    frames: tuple[bytes, ...]
    outcome: Outcome
    seed: int
    index: int
    """Of the first case of the run that showed it."""
    count: int = 1
    """How many runs showed it."""

    @property
    def name(self) -> str:
        """The folder's name: readable, and different for different signatures."""
        words = _WORDS.sub("-", self.outcome.signature).strip("-")[:_NAME_CHARACTERS].strip("-")
        digest = hashlib.sha256(self.outcome.signature.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        return f"{self.outcome.kind}-{words}-{digest}".lower()


def save(finding: Finding, folder: Path, line: str, *, name: str = "case.pcap") -> Path:
    """Write a finding below ``folder``; return its own folder.

    ``line`` shows it again where the shell stands in that folder.  ``name`` is that of the file
    of its frames; another one than case.pcap gets the octets as they are.
    """
    place = folder / finding.name
    place.mkdir(parents=True, exist_ok=True)
    if name == "case.pcap":
        write_capture(place / name, finding.frames)
    else:
        (place / name).write_bytes(b"".join(finding.frames))
    lines = [f"{len(octets):5} {octets.hex()}\n" for octets in finding.frames]
    (place / "case.hex").write_text("".join(lines), encoding="ascii")
    (place / "output.txt").write_text(finding.outcome.output, encoding="utf-8", errors="backslashreplace")
    (place / "reproduce.sh").write_text(line + "\n", encoding="utf-8")
    write_document(place, finding)
    return place


def write_document(place: Path, finding: Finding) -> None:
    """Write what a program may want to know of a finding."""
    document = {
        "schema": FINDING_SCHEMA,
        "kind": finding.outcome.kind,
        "signature": finding.outcome.signature,
        "status": finding.outcome.status,
        "seconds": finding.outcome.seconds,
        "seed": finding.seed,
        "index": finding.index,
        "count": finding.count,
        "frames": [octets.hex() for octets in finding.frames],
    }
    (place / "finding.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def findings_in(folder: Path) -> dict[str, Finding]:
    """Return the findings that are kept below ``folder``, by signature."""
    found = {}
    for path in sorted(folder.glob("*/finding.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        outcome = Outcome(
            kind=document["kind"],
            signature=document["signature"],
            status=document["status"],
            seconds=document["seconds"],
            output=(path.parent / "output.txt").read_text(encoding="utf-8"),
        )
        frames = tuple(bytes.fromhex(octets) for octets in document["frames"])
        found[outcome.signature] = Finding(
            frames=frames,
            outcome=outcome,
            seed=document["seed"],
            index=document["index"],
            count=document["count"],
        )
    return found


def write_capture(path: Path, frames: Sequence[bytes]) -> None:
    """Write frames to a pcap file, a µs apart."""
    with PcapWriter(str(path), force=True) as writer:
        writer.write_batch(Batch.from_frames(frames, time_ns=range(0, len(frames) * 1_000, 1_000)))


def reproduction(command: Sequence[str], path: str) -> str:
    """Return the line for a shell that runs a command on a file as a campaign does."""
    if any(PLACE in word for word in command):
        return shlex.join(word.replace(PLACE, path) for word in command)
    return f"{shlex.join(command)} < {shlex.quote(path)}"


TIMED_OUT = 124
"""The exit status of coreutils' timeout."""


def in_time(line: str, command: Command) -> str:
    """Return ``line`` ended after the time of ``command``, with the status `TIMED_OUT`."""
    return f"timeout {command.seconds:g} {line}"


def in_memory(line: str, command: Command) -> str:
    """Return ``line`` without more memory than ``command`` may have.

    All addresses count, not only what is resident: not for programs that reserve more than they use.
    """
    return f"ulimit -v {command.memory_octets >> 10} && {line}"


def judged_again(command: Command, path: str) -> str:
    """Return the line that watches ``command`` on a file as a campaign does."""
    limits = ["--memory", f"{command.memory_octets}B", "--timeout", f"{command.seconds:g}s"]
    return shlex.join(["ecmproto", "fuzz", "target", "--as-is", "-r", path, *limits, "--", *command.words])
