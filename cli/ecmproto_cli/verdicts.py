"""Recipes judged: sent and captured on both sides, or read from captures; verdicts in text, JSON, JUnit."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ecmproto.errors import EcmprotoError, InterfaceError, counted
from ecmproto.tables import JUnitCase, junit_text
from ecmproto_cli.errors import FINDINGS, CommandError, warn
from ecmproto_cli.recipes import (
    from_steps,
    sequence_expectations,
    sequence_steps,
    spec_expectations,
    spec_frames,
)
from ecmproto_cli.terminal import echo, paint

if TYPE_CHECKING:
    from ecmproto.frames.capture import Batch
    from ecmproto.frames.capture.linux.reader import InterfaceReader
    from ecmproto.frames.capture.linux.transmission import SendReport
    from ecmproto.tools.craft.expectations import Judge, Side, Verdict
    from ecmproto.wire.formats.ethertypes import EtherTypes

Sent: TypeAlias = "tuple[SendReport, BaseException | None]"
"""The report of what was sent, and what ended it before its time."""

SCHEMA = "ecmproto/verdicts/1"
_SETTLE_NS = 300_000_000
"""What is on its way when the last frame has left arrives in this time."""


class Test:
    """A recipe with its expectations: the frames of both sides in the order of their times."""

    def __init__(
        self, words: tuple[str, ...], line: Mapping[str, Any], spec: str | None, ethertypes: EtherTypes
    ) -> None:
        from ecmproto.tools.craft.expectations import Judge
        from ecmproto.tools.craft.recipe import chunks
        from ecmproto.tools.craft.spec import Reading

        self.name = words[0] if spec is None else spec
        self.ethertypes = ethertypes
        self.expectations = (
            sequence_expectations(words, line, ethertypes=ethertypes)
            if spec is None
            else spec_expectations(spec)
        )
        if not self.expectations:
            raise click.UsageError(f"--expect: {self.name} says nothing of what is to be expected")
        steps = sequence_steps(words, line, ethertypes=ethertypes) if spec is None else []
        self.batches: dict[Side, list[Batch]] = {}
        sent: dict[Side, list[tuple[int, bytes]]] = {}
        reading = Reading(ethertypes=ethertypes)
        for side, reverse in _SIDES:
            told = (
                from_steps([step for step in steps if step.reverse is reverse], self.name, reading)
                if spec is None
                else spec_frames(spec, reading, side)
            )
            self.batches[side] = [chunk.batch() for chunk in chunks(told)]
            sent[side] = [
                (due_ns, octets)
                for batch in self.batches[side]
                for due_ns, octets in zip(batch.time_ns.tolist(), batch.frames(), strict=True)
            ]
        spans = [each.during_ns for each in self.expectations if each.during_ns is not None]
        last = [frames[-1][0] for frames in sent.values() if frames]
        self.end_ns = max([*last, *(last_ns or first_ns for first_ns, last_ns in spans)])
        self.judge: Judge = Judge(self.expectations, sent, ethertypes=ethertypes)


_SIDES: tuple[tuple[Side, bool], ...] = (("near", False), ("far", True))


def judge_captures(test: Test, far: str, near: str | None) -> None:
    """Let captures be judged: of the far side, and of the near one where there is one."""
    from ecmproto.frames.capture import open_captures

    sides: list[tuple[Side, str]] = [("far", far)]
    if near is not None:
        # first: when each frame left is known then
        sides.insert(0, ("near", near))
    for side, path in sides:
        with open_captures((path,)) as reader:
            test.judge.seen.add(side)
            for batch in reader:
                test.judge.take(side, batch, reader.interfaces)
            for warning in reader.warnings:
                warn(warning)
            if reader.problem is not None:
                raise reader.problem


class _Capturing:
    """Captures an interface in a thread of its own, to be judged afterwards."""

    def __init__(self, interface: str) -> None:
        from ecmproto.frames.capture.linux.reader import open_interface

        self.reader: InterfaceReader = open_interface(interface, idle_batches=True)
        self.batches: list[Batch] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for batch in self.reader:
                if len(batch):
                    self.batches.append(batch)
        except BaseException as error:  # told where the thread is joined
            self.error = error

    def end(self) -> None:
        """End once what has arrived is taken."""
        self.reader.stop()
        self._thread.join()
        self.reader.close()
        if self.error is not None:
            raise self.error
        for warning in self.reader.warnings:
            warn(warning)
        if self.reader.problem is not None:
            raise self.reader.problem


def judge_interfaces(
    test: Test,
    near: str,
    far: str,
    send: Callable[[Sequence[Batch]], tuple[SendReport, BaseException | None]],
) -> tuple[SendReport, BaseException | None]:
    """Send a test's frames by ``near`` (through ``send``) and the returning ones by ``far``; capture both."""
    captured: dict[Side, _Capturing] = {}
    try:
        captured["far"] = _Capturing(far)
        captured["near"] = _Capturing(near)
        time.sleep(0.1)  # the kernel stamps frames as they come a moment after it was asked to
        returning = _Returning(far, test.batches["far"])
        ended_by: BaseException | None = KeyboardInterrupt()
        try:
            began_ns = time.monotonic_ns()
            report, ended_by = send(test.batches["near"])
        finally:
            returning.end(wait=ended_by is None)
        if ended_by is None:
            left_ns = began_ns + test.end_ns + _SETTLE_NS - time.monotonic_ns()
            time.sleep(max(left_ns, _SETTLE_NS) / 10**9)
    finally:
        for each in captured.values():
            each.end()
    for side, _ in _SIDES:
        test.judge.seen.add(side)
        for batch in captured[side].batches:
            test.judge.take(side, batch, captured[side].reader.interfaces)
    return report, ended_by


class _Returning:
    """The frames that a test sends by its far side, in a thread of its own."""

    def __init__(self, interface: str, batches: Sequence[Batch]) -> None:
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(interface, batches), daemon=True)
        self._thread.start()

    def _run(self, interface: str, batches: Sequence[Batch]) -> None:
        from ecmproto.frames.capture.linux.schedule import schedule_of
        from ecmproto.frames.capture.linux.sender import FrameSender
        from ecmproto.frames.capture.linux.transmission import Transmission

        try:
            if batches:
                with FrameSender(interface) as sender:
                    Transmission(sender, schedule_of(), check=self._check).run(batches)
        except _EndedError:
            pass
        except BaseException as error:  # told where the thread is joined
            self._error = error

    def _check(self) -> None:
        if self._ended.is_set():
            raise _EndedError

    def end(self, *, wait: bool) -> None:
        """Wait for the last frame, or leave the others out; raise what went wrong."""
        if not wait:
            self._ended.set()
        self._thread.join()
        if isinstance(self._error, EcmprotoError):
            raise self._error
        if self._error is not None:
            raise self._error


class _EndedError(Exception):
    """The sending is to end."""


def tell(
    test: Test, *, form: str, junit: str | None, force: bool, sent: Mapping[str, object] | None = None
) -> int:
    """Print the verdicts, write them as JUnit, and return the exit code: 0 if all that is known passed."""
    from ecmproto.frames.capture import open_sink

    verdicts = test.judge.verdicts()
    counts = {outcome: sum(each.outcome == outcome for each in verdicts) for outcome in _SHOWN}
    if form == "json":
        document = {
            "schema": SCHEMA,
            "recipe": test.name,
            **counts,
            "frames": dict(test.judge.frames),
            "verdicts": [each.document() for each in verdicts],
            "sent": sent,
        }
        echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for each in verdicts:
            shown, style = _SHOWN[each.outcome]
            echo(f"  {paint(shown.ljust(7), style)}  {each.expectation.sentence()}")
            if each.outcome != "passed":
                echo(f"           {each.found}")
        echo(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if junit is not None:
        with open_sink(junit, force=force) as sink:
            sink.write(junit_document(test.name, verdicts))
    return FINDINGS if counts["failed"] or not counts["passed"] else 0


_SHOWN = {"passed": ("passed", "tag"), "failed": ("FAILED", "error"), "unknown": ("unknown", "dim")}


def junit_document(recipe: str, verdicts: Sequence[Verdict]) -> str:
    """Return verdicts as JUnit's XML: a test case each; what is not known is skipped."""
    cases = []
    for each in verdicts:
        case = JUnitCase(classname=recipe, name=each.expectation.name)
        if each.outcome != "passed":
            case = JUnitCase(
                classname=recipe, name=each.expectation.name,
                outcome="failure" if each.outcome == "failed" else "skipped",
                message=f"{each.expectation.sentence()}: {each.found}",
            )  # fmt: skip
        cases.append(case)
    return junit_text([(recipe, cases)])


def check_sides(near: str | None, far: str | None, captured: str | None, near_captured: str | None) -> None:
    """Refuse sides that do not go together."""
    if far is not None and captured is not None:
        raise click.UsageError(
            "needed --expect, which captures, or --expect-from, which reads a capture, got both"
        )
    if captured is not None and near is not None:
        raise click.UsageError("--expect-from sends nothing: needed no -i")
    if near_captured is not None and captured is None:
        raise click.UsageError("--expect-near belongs to --expect-from")
    if captured == near_captured == "-":
        raise click.UsageError("stdin can be read once: needed - once, got it twice")
    if far is not None and far == near:
        raise InterfaceError(
            interface=far, needed="another interface than the one to send out of", got="the same"
        )


def no_frame_judged(test: Test) -> CommandError | None:
    """Return the error of a judgement without any frame, None where there was one."""
    if test.judge.anchored or any(test.judge.frames.values()):
        return None
    sides = counted(len(test.judge.seen), "side")
    return CommandError(
        f"{test.name}: needed frames to judge, got none on {sides}",
        exit_code=FINDINGS,
        help="is the device under test between the two interfaces?",
    )
