"""Verdicts on device tests: reading tests, printing verdicts and writing verdicts as JUnit."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from ecmproto.errors import InterfaceError, counted
from ecmproto_cli.errors import FINDINGS, CommandError
from ecmproto_cli.recipes import sequence_from, spec_expectations, spec_frames
from ecmproto_cli.sending import report_document, report_rows
from ecmproto_cli.terminal import echo, paint

if TYPE_CHECKING:
    from ecmproto.frames.capture.linux.transmission import SendReport
    from ecmproto.tools.testing.verdicts import Test
    from ecmproto.wire.formats.ethertypes import EtherTypes

Outcome: TypeAlias = Literal["passed", "failed", "unknown"]

SCHEMA = "ecmproto/verdicts/1"


def described_test(
    arguments: tuple[str, ...], line: Mapping[str, Any], spec: str | None, ethertypes: EtherTypes
) -> Test:
    """Return the test that a sequence or a specification describes.

    Raises SpecError for an invalid description, and click.UsageError for a test without expectations.
    """
    from ecmproto.tools.craft.recipe import chunks
    from ecmproto.tools.craft.spec import Reading
    from ecmproto.tools.testing.verdicts import SIDES, Test, sequence_test

    name = arguments[0] if spec is None else spec
    if spec is None:
        sequence, given = sequence_from(arguments, line)
        expectations = sequence.expected(given, ethertypes=ethertypes)
    else:
        expectations = spec_expectations(spec)
    if not expectations:
        raise click.UsageError(f"--receive: {name} has no expectation")
    if spec is None:
        steps = sequence.steps(given, ethertypes=ethertypes)
        return sequence_test(name, steps, expectations, ethertypes)
    reading = Reading(ethertypes=ethertypes)
    batches = {
        side: [chunk.batch() for chunk in chunks(spec_frames(spec, reading, side))] for side, _ in SIDES
    }
    return Test(name, expectations, batches, ethertypes)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VerdictOutput:
    """The options for printed results: text or JSON, only failures, and a JUnit file."""

    form: str
    quiet: bool = False
    junit: str | None = None
    force: bool = False
    began: float = dataclasses.field(default_factory=time.monotonic)

    def write_junit(
        self, name: str, verdicts: Iterable[tuple[Outcome, str, str]], rows: Iterable[tuple[str, str]]
    ) -> None:
        """Write the JUnit file, if one was requested.

        The file contains a test case for each verdict. Unknown verdicts become skipped test cases.
        """
        from ecmproto.frames.capture.writer import write_output
        from ecmproto.tables import JUnitCase, junit_text

        if self.junit is None:
            return
        cases = [
            JUnitCase(classname=name, name=expected, outcome=_IN_JUNIT[outcome], message=observed)
            for outcome, expected, observed in verdicts
        ]
        seconds = time.monotonic() - self.began
        text = junit_text([(name, cases)], seconds=seconds, properties=rows)
        write_output(self.junit, text, force=self.force)


def report_verdicts(test: Test, output: VerdictOutput, sent: SendReport | None = None) -> int:
    """Print the verdicts, write the JUnit file, and return the exit code of `verdict_code`."""
    verdicts = test.judge.verdicts()
    outcomes = [each.outcome for each in verdicts]
    if output.form == "json":
        document = {
            "schema": SCHEMA,
            "recipe": test.name,
            "passed": outcomes.count("passed"),
            "failed": outcomes.count("failed"),
            "unknown": outcomes.count("unknown"),
            "frames": dict(test.judge.frames),
            "verdicts": [each.document() for each in verdicts],
            "sent": None if sent is None else report_document(sent),
        }
        echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        shown = [(each.outcome, each.expectation.sentence(), each.result) for each in verdicts]
        print_verdicts(shown, quiet=output.quiet, explain=False)
    named = [
        (each.outcome, each.expectation.name, f"{each.expectation.sentence()}: {each.result}")
        for each in verdicts
    ]
    output.write_junit(test.name, named, [] if sent is None else report_rows(sent))
    return verdict_code(outcomes)


_IN_JUNIT: dict[Outcome, Literal["passed", "failure", "skipped"]] = {
    "passed": "passed",
    "failed": "failure",
    "unknown": "skipped",
}
_SHOWN: dict[Outcome, tuple[str, str]] = {
    "passed": ("passed", "tag"),
    "failed": ("FAILED", "error"),
    "unknown": ("unknown", "dim"),
}


_MAX_PASSED = 24
"""Maximum number of passed expectations that are listed individually."""


def print_verdicts(
    verdicts: Sequence[tuple[Outcome, str, str]], *, quiet: bool, explain: bool = True
) -> None:
    """Print the outcome, the expectation and the result of each verdict.

    ``quiet`` prints only failed verdicts. ``explain`` also prints the results of passed verdicts. More than
    24 passed verdicts are only counted.
    """
    outcomes = [outcome for outcome, _, _ in verdicts]
    brief = quiet or outcomes.count("passed") > _MAX_PASSED
    for outcome, expected, observed in verdicts:
        if (quiet and outcome != "failed") or (brief and outcome == "passed"):
            continue
        shown, style = _SHOWN[outcome]
        echo(f"  {paint(shown.ljust(7), style)}  {expected}")
        if explain or outcome != "passed":
            echo(f"           {observed}")
    if not quiet:
        echo(", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in _SHOWN))


def verdict_code(outcomes: Sequence[Outcome]) -> int:
    """Return exit code 0 if no verdict failed and at least one verdict passed, else the code for findings."""
    return FINDINGS if "failed" in outcomes or "passed" not in outcomes else 0


def check_sides(near: str | None, far: str | None, captured: str | None, near_captured: str | None) -> None:
    """Raise an error for invalid combinations of options for the two sides of a test."""
    if far is not None and captured is not None:
        raise click.UsageError(
            "expected --receive, which captures, or --received, which reads a capture, got both"
        )
    if captured is not None and near is not None:
        raise click.UsageError("--received sends nothing: expected no -i")
    if near_captured is not None and captured is None:
        raise click.UsageError("--sent needs --received")
    if captured == near_captured == "-":
        raise click.UsageError("stdin can be read only once: expected - once, got it twice")
    if far is not None and far == near:
        raise InterfaceError(interface=far, needed="an interface other than the sending one", got="the same")


def no_frame_judged(test: Test) -> CommandError | None:
    """Return an error if a test checked no frame, else None."""
    if test.judge.anchored or any(test.judge.frames.values()):
        return None
    sides = counted(len(test.judge.seen), "side")
    return CommandError(
        f"{test.name}: expected frames to judge, got none on {sides}",
        exit_code=FINDINGS,
        help="is the device under test between the two interfaces?",
    )
