"""Targets of coverage-guided fuzzing, their corpora, and the tester of inputs, which stores findings.

A target consists of the invariants of some octets, the checks, the instrumented packages, and the mutator of
inputs. ``corpus/NAME.hex`` contains the committed inputs of a target in hexadecimal, one per line, sorted by
length. An empty line is the empty input.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import random
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from ecmproto.tools.fuzz.agreement import DEFAULT_TRIES, REDUCED_SECONDS
from ecmproto.tools.fuzz.checks.base import BatchCheck, Items
from ecmproto.tools.fuzz.checks.frames import ColumnCheck, DocumentCheck, SchemaCheck
from ecmproto.tools.fuzz.checks.messages import MessageCheck
from ecmproto.tools.fuzz.checks.readers import CaptureCheck, FilterCheck, SpecCheck
from ecmproto.tools.fuzz.command import CaseOutcome
from ecmproto.tools.fuzz.findings import CampaignState, Finding
from ecmproto.tools.fuzz.judgement import (
    LOADING_SECONDS,
    Bounds,
    Disagreement,
    disagreements,
    first_of,
    reduced,
)
from ecmproto.tools.fuzz.minimisation import Budget
from ecmproto.tools.fuzz.mutators import (
    CAPTURE_MUTATORS,
    LAYER_MUTATORS,
    OCTET_MUTATORS,
    TEXT_MUTATORS,
    OctetMutator,
)
from ecmproto.tools.fuzz.subjects import SUBJECTS, template_frames
from ecmproto.wire.codec.frame import Frame, decode_lax


def as_one_item(octets: bytes) -> list[bytes]:
    """Return an input as the only item of a batch."""
    return [octets]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GuidedTarget:
    """A target of coverage-guided fuzzing."""

    of: str
    """Description of the inputs."""
    promises: tuple[str, ...]
    """Invariants that every input must satisfy."""
    subject: str
    """Name of the subject in ``fuzz decode --what``."""
    checks: Callable[[], list[BatchCheck]]
    instrumented: tuple[str, ...]
    """Packages whose coverage guides the campaign."""
    starts: Callable[[], list[bytes]]
    """Function that returns initial inputs, in addition to the committed inputs."""
    mutate: OctetMutator
    """Function that mutates an input by its structure. atheris also uses its own mutators."""
    items: Callable[[bytes], list[bytes]] = as_one_item
    """Function that returns the batch of items for an input."""
    longest_octets: int = 1024
    """Maximum length of an input in octets."""


def committed_inputs(name: str) -> list[bytes]:
    """Return the committed inputs of a target, or an empty list for a target of a user."""
    if "." in name:
        return []
    resource = files(__package__) / "corpus" / f"{name}.hex"
    return [bytes.fromhex(line) for line in resource.read_text(encoding="ascii").splitlines()]


def write_lines(path: Path, inputs: Iterable[bytes]) -> None:
    """Write inputs to a corpus file in hexadecimal, one per line."""
    ordered = sorted(set(inputs), key=lambda octets: (len(octets), octets))
    path.write_text("".join(octets.hex() + "\n" for octets in ordered), encoding="ascii")


def write_folder(folder: Path, inputs: Iterable[bytes]) -> None:
    """Write each input to a separate file with the name that atheris uses."""
    folder.mkdir(parents=True, exist_ok=True)
    for octets in inputs:
        (folder / hashlib.sha1(octets, usedforsecurity=False).hexdigest()).write_bytes(octets)


def inputs_in_folder(folder: Path) -> list[bytes]:
    """Return the inputs in a folder."""
    return [path.read_bytes() for path in sorted(folder.iterdir())]


SEPARATOR = b"\xfe\xed\xfe\xed"
"""Separator between the frames of a batch. The separator survives insertions and removals of octets."""
MAX_FRAMES = 12
"""Maximum number of frames in a batch. Further frames are ignored."""


def frame_mutated(octets: bytes, rng: random.Random) -> bytes:
    """Return a frame after one mutation of its layers or octets."""
    if octets and rng.randrange(4):
        change = rng.choice(LAYER_MUTATORS)
        return change(decode_lax(octets), octets, rng, _template_decodes())
    return rng.choice(OCTET_MUTATORS)(octets, rng)


def batch_of(octets: bytes) -> list[bytes]:
    """Return the batch of frames for an input."""
    return octets.split(SEPARATOR)[:MAX_FRAMES]


def batch_mutated(octets: bytes, rng: random.Random) -> bytes:
    """Return a batch after one mutation.

    The mutation changes, repeats, removes or moves a frame, or inserts a template frame.
    """
    frames = batch_of(octets)
    at = rng.randrange(len(frames))
    match rng.randrange(8):
        case 0:
            frames.insert(rng.randrange(len(frames) + 1), frames[at])
        case 1:
            frames.pop(at)
        case 2:
            frames.insert(rng.randrange(len(frames)), frames.pop(at))
        case 3:
            frames.insert(at, rng.choice(template_frames()))
        case _:
            frames[at] = frame_mutated(frames[at], rng)
    return SEPARATOR.join(frames)


@functools.cache
def _template_decodes() -> tuple[Frame, ...]:
    return tuple(decode_lax(octets) for octets in template_frames())


def one_of(mutators: Sequence[OctetMutator]) -> OctetMutator:
    """Return a mutator that applies a random one of ``mutators``."""
    return lambda octets, rng: rng.choice(mutators)(octets, rng)


def _pairs() -> list[bytes]:
    frames = template_frames()
    return [SEPARATOR.join(pair) for pair in pairwise(frames)]


TARGETS = {
    "frames": GuidedTarget(
        of="any octets",
        promises=(
            "`decode_lax` never raises; `decode` raises `DecodeError` alone, and for malformed frames alone",
            "the frame of both encodes to the same octets, and so does the frame of its document",
            "its fields follow one another without gaps and cover the frame",
        ),
        subject="frames",
        checks=lambda: [SchemaCheck(), DocumentCheck()],
        instrumented=("ecmproto.wire.codec",),
        starts=template_frames,
        mutate=frame_mutated,
    ),
    "columns": GuidedTarget(
        of="any batch of frames",
        promises=(
            "every field of every frame, and of the frame inside a message, has in the columns the values "
            "that the one-frame decoder gives, in the same order, and no others",
            "a frame's fields do not depend on the frames beside it",
        ),
        subject="frames",
        checks=lambda: [ColumnCheck()],
        instrumented=("ecmproto.frames.batch", "ecmproto.wire.codec"),
        starts=_pairs,
        mutate=batch_mutated,
        items=batch_of,
    ),
    "captures": GuidedTarget(
        of="any octets taken for a capture",
        promises=(
            "reading raises `CaptureError` alone, and names the offset: within the file, after the frames "
            "read",
            "no frame is longer than its record, or of an interface that is not described; records do not "
            "overlap",
            "read in small pieces it is the same capture: frames, times, interfaces and errors",
        ),
        subject="captures",
        checks=lambda: [CaptureCheck()],
        instrumented=("ecmproto.frames.capture",),
        starts=SUBJECTS["captures"].corpus,
        mutate=one_of(CAPTURE_MUTATORS),
        longest_octets=4096,
    ),
    "filters": GuidedTarget(
        of="any text taken for a display filter",
        promises=(
            "compiling raises `FilterError` alone, which points into the text",
            "of a frame of each kind it selects by columns the same as frame by frame",
        ),
        subject="filters",
        checks=lambda: [FilterCheck(template_frames())],
        instrumented=(
            "ecmproto.frames.filter",
            "ecmproto.frames.columns.selection",
            "ecmproto.frames.columns.relations",
        ),
        starts=SUBJECTS["filters"].corpus,
        mutate=one_of(TEXT_MUTATORS),
        longest_octets=256,
    ),
    "specs": GuidedTarget(
        of="any text taken for a specification, TOML or JSON",
        promises=(
            "reading and building its first frames raises `SpecError`, `EncodeError` or `ParameterError` "
            "alone",
            "each has a text, and takes time and memory in proportion",
        ),
        subject="specs",
        checks=lambda: [SpecCheck()],
        instrumented=("ecmproto.tools.craft", "ecmproto.units", "ecmproto.wire.codec"),
        starts=SUBJECTS["specs"].corpus,
        mutate=one_of(TEXT_MUTATORS),
    ),
    "messages": GuidedTarget(
        of="any octets that reach a reaction point "
        "(CNM, ECM, BCN, E²CM, FECN, DBP, PAUSE, PFC, or none of them)",
        promises=(
            "parsing feedback raises nothing; a discarded frame is counted, once",
            "parsed feedback fits a message of the mechanism, and is for the station addressed by the frame",
            "applied again and again, timers expiring in between, it leaves every rate between 0 and the "
            "link's",
        ),
        subject="messages",
        checks=lambda: [MessageCheck()],
        instrumented=("ecmproto.control.mechanisms", "ecmproto.wire.codec"),
        starts=template_frames,
        mutate=frame_mutated,
    ),
}


def find_target(name: str) -> GuidedTarget:
    """Return a target of ``TARGETS``, or the ``TARGET`` of a user module, whose name has dots."""
    if "." not in name:
        return TARGETS[name]
    result: GuidedTarget = importlib.import_module(name).TARGET
    return result


PLAIN = "NUMBA_DISABLE_JIT=1"
"""Environment setting that disables compilation of kernels, so that their lines are covered."""


def line_of(target: GuidedTarget) -> str:
    """Return the command line that reproduces a finding of a target in the folder of the finding."""
    what = "" if target.subject == "frames" else f" --what {target.subject}"
    return f"{PLAIN} ecmproto fuzz decode{what} --as-is -r {SUBJECTS[target.subject].file}"


class InputTester:
    """Tester of single inputs, which stores findings in the campaign in ``folder``."""

    def __init__(self, target: GuidedTarget, folder: Path, *, seed: int, corpus: str, bounds: Bounds) -> None:
        self._target = target
        self._checks = target.checks()
        self._seed = seed
        self._bounds = bounds
        self._state = CampaignState(folder, seed=seed, corpus=corpus)
        self._tried = 0

    def load(self) -> None:
        """Run the checks once, so that imports and compilation do not count towards the time limit."""
        patient = dataclasses.replace(self._bounds, seconds=LOADING_SECONDS)
        items = Items(self._target.items(self._target.starts()[0]))
        for check in self._checks:
            disagreements(check, items, patient)

    def one(self, octets: bytes) -> None:
        """Check an input."""
        self._tried += 1
        items = Items(self._target.items(octets))
        for check in self._checks:
            for wrong in disagreements(check, items, self._bounds):
                # an input that was too slow once may have waited for another process
                if wrong.kind == "hang" and first_of(check, wrong, items, self._bounds) is None:
                    continue
                if not self._state.seen(wrong.signature):
                    self._keep(check, wrong, items)

    def _keep(self, check: BatchCheck, wrong: Disagreement, items: Items) -> None:
        budget = Budget(DEFAULT_TRIES, seconds=REDUCED_SECONDS)
        _, smallest = reduced(check, wrong, items, self._bounds, budget)
        again = first_of(check, wrong, smallest, self._bounds) or wrong
        outcome = CaseOutcome(kind=wrong.kind, signature=wrong.signature, output=again.detail + "\n")
        finding = Finding(frames=tuple(smallest), outcome=outcome, seed=self._seed, index=self._tried)
        self._state.keep(finding, line_of(self._target), name=SUBJECTS[self._target.subject].file)
