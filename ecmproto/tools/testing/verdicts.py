"""Verdicts about test recipes that are sent and captured on both sides, or read from captures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias

from ecmproto.frames.capture import Batch, open_captures
from ecmproto.frames.capture.linux.schedule import schedule_of
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.frames.capture.linux.transmission import SendReport, Transmission
from ecmproto.tools.craft.expectations import Expectation, Judge, Side
from ecmproto.tools.craft.recipe import chunks
from ecmproto.tools.craft.sequences import Step
from ecmproto.tools.craft.spec import Reading, read_items
from ecmproto.tools.testing.proofs import Capturing, StopFlag, StoppedError, settle
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

Sent: TypeAlias = tuple[SendReport, BaseException | None]
"""The report of a transmission, and the exception that interrupted the transmission."""

Warn: TypeAlias = Callable[[str], None]
SIDES: tuple[tuple[Side, bool], ...] = (("near", False), ("far", True))
"""The sides, and whether the reverse steps of a sequence are sent from each side."""
_SETTLE_NS = 300_000_000
"""Nanoseconds to wait for frames in transit after the last frame was sent."""


class Test:
    """A recipe with its expectations, and the frames of each side sorted by time."""

    __test__ = False  # pytest does not collect this class

    def __init__(
        self,
        name: str,
        expectations: Sequence[Expectation],
        batches: Mapping[Side, Sequence[Batch]],
        ethertypes: EtherTypes = DEFAULT,
    ) -> None:
        self.name = name
        self.expectations = expectations
        self.batches = batches
        sent = {
            side: [
                (due_ns, octets)
                for batch in of_side
                for due_ns, octets in zip(batch.time_ns.tolist(), batch.frames(), strict=True)
            ]
            for side, of_side in batches.items()
        }
        spans = [each.during_ns for each in expectations if each.during_ns is not None]
        last = [frames[-1][0] for frames in sent.values() if frames]
        self.end_ns: int = max([*last, *(last_ns or first_ns for first_ns, last_ns in spans)])
        self.judge: Judge = Judge(expectations, sent, ethertypes=ethertypes)


def sequence_test(
    name: str, steps: Sequence[Step], expectations: Sequence[Expectation], ethertypes: EtherTypes = DEFAULT
) -> Test:
    """Return the test of the steps of a sequence.

    Raises SpecError with the position of an invalid step.
    """
    reading = Reading(ethertypes=ethertypes)
    batches: dict[Side, list[Batch]] = {}
    for side, reverse in SIDES:
        items = (step.item for step in steps if step.reverse is reverse)
        batches[side] = [chunk.batch() for chunk in chunks(read_items(items, name, reading))]
    return Test(name, expectations, batches, ethertypes)


def judge_captures(test: Test, far: str, near: str | None, warn: Warn) -> None:
    """Read captures of the far side and, optionally, the near side into the judge of a test."""
    sides: list[tuple[Side, str]] = [("far", far)]
    if near is not None:
        # the near side is first, because it contains the send time of each frame
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


def judge_interfaces(
    test: Test,
    near: str,
    far: str,
    send: Callable[[Sequence[Batch]], Sent],
    warn: Warn,
) -> Sent:
    """Send the frames of a test, capture both interfaces, and add the captured frames to the judge.

    ``send`` sends the frames of the near side. The reverse frames are sent from ``far``.
    """
    captured: dict[Side, Capturing] = {}
    try:
        captured["far"] = Capturing(far)
        captured["near"] = Capturing(near)
        settle()
        stop = StopFlag()
        ended_by: BaseException | None = KeyboardInterrupt()
        with ThreadPoolExecutor(1) as thread:
            returning = thread.submit(_send_back, far, test.batches["far"], stop)
            try:
                began_ns = time.monotonic_ns()
                report, ended_by = send(test.batches["near"])
            finally:
                if ended_by is not None:
                    stop.set()
                returning.result()
        if ended_by is None:
            left_ns = began_ns + test.end_ns + _SETTLE_NS - time.monotonic_ns()
            time.sleep(max(left_ns, _SETTLE_NS) / 10**9)
    finally:
        for each in captured.values():
            each.end(warn)
    for side, _ in SIDES:
        test.judge.seen.add(side)
        for batch in captured[side].batches:
            test.judge.take(side, batch, captured[side].reader.interfaces)
    return report, ended_by


def _send_back(interface: str, batches: Sequence[Batch], stop: StopFlag) -> None:
    """Send the frames of the far side, until the last frame or until ``stop`` is set."""
    if batches:
        with suppress(StoppedError), FrameSender(interface) as sender:
            Transmission(sender, schedule_of(), check=stop.check).run(batches)
