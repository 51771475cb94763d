"""Verification of storms and numbered data frames at the receivers, based on kernel timestamps.

A thread captures each receiving interface (`Watch`). A frame that the capture dropped can look like a gap or
a lost frame. Therefore, a failure is inconclusive if frames were dropped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ecmproto.control.live.device import ProcessorWait
from ecmproto.control.live.privileges import run_in_realtime
from ecmproto.errors import InterfaceError, counted
from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.batch import Int64
from ecmproto.frames.capture.linux.bpf import MAX_CUT_OCTETS
from ecmproto.frames.capture.linux.interface import interface_facts, speed_bps
from ecmproto.frames.capture.linux.reader import RING_OCTETS, InterfaceReader, open_interface
from ecmproto.frames.stats.lapses import Held, Lapses
from ecmproto.tools.craft.expectations import MARK
from ecmproto.units import format_time

_RETIRE_MS = 300
"""Milliseconds until an incomplete ring block is delivered; long, because evaluation is later."""
_STAMPS_S = 0.1
"""Seconds until the kernel has enabled timestamps on arrival."""


class StoppedError(Exception):
    """Error that ends a transmission in a thread."""


class StopFlag(threading.Event):
    """A flag that ends a transmission in a thread."""

    def check(self) -> None:
        """Raise StoppedError if the flag is set."""
        if self.is_set():
            raise StoppedError


class Capturing:
    """Capture of an interface in a thread that runs until `end` is called.

    ``take`` is called with each batch. Without ``take``, the batches are appended to ``batches``. With
    ``zero_copy``, a batch is valid only during the call of ``take``, which saves a copy.
    """

    def __init__(
        self,
        interface: str,
        *,
        take: Callable[[Batch], None] | None = None,
        outgoing: bool = True,
        snap_octets: int = MAX_CUT_OCTETS,
        zero_copy: bool = False,
        ring_octets: int = RING_OCTETS,
    ) -> None:
        self.reader: InterfaceReader = open_interface(
            interface, idle_batches=True, outgoing=outgoing, snap_octets=snap_octets, retire_ms=_RETIRE_MS,
            zero_copy=zero_copy, ring_octets=ring_octets,
        )  # fmt: skip
        self.batches: list[Batch] = []
        self.dropped: int = 0
        """Number of frames that the kernel dropped because its buffer was full."""
        self._take = take or self.batches.append
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # higher priority than ordinary processes, lower than senders: missing frames would prove nothing
        with contextlib.suppress(PermissionError):
            run_in_realtime(below_devices=True)
        try:
            for batch in self.reader:
                if len(batch):
                    self._take(batch)
        except BaseException as error:  # raised again after the thread is joined
            self._error = error

    def end(self, warn: Callable[[str], None] = lambda _: None) -> None:
        """Stop after all received frames were processed, and raise any error of the capture thread."""
        self.reader.stop()
        self._thread.join()
        self.dropped = self.reader.counts().dropped
        self.reader.close()
        if self._error is not None:
            raise self._error
        for warning in self.reader.warnings:
            warn(warning)
        if self.reader.problem is not None:
            raise self.reader.problem


def settle() -> None:
    """Wait until the kernel adds timestamps to frames on arrival."""
    time.sleep(_STAMPS_S)


Outcome = Literal["passed", "failed", "unknown"]
_SNAP_OCTETS = 64
"""Octets to capture of each pause frame. Data frames, numbered at the end, are captured in full."""
_RING_OCTETS = 4 << 20
"""Ring size for one second of pause frames. The rings of sixteen ports fit into a processor cache."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The verification result at a port, as text and as figures."""

    name: str
    outcome: Outcome
    result: str
    figures: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """Return the verification result as plain data."""
        return {"name": self.name, "outcome": self.outcome, "found": self.result, "figures": self.figures}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Storming:
    """A storm as expected at ``port``: the paused priorities and the link rate ``rate_bps``.

    In ``priorities``, ``None`` means that the whole link is paused.
    """

    port: str
    rate_bps: int
    priorities: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """Data frames that are sent from interface ``near`` and expected at interface ``far``.

    The numbers of the ``count`` frames start at ``first``. ``tail_octets`` is the distance from the mark of
    the number to the end of the frame. ``lossless`` and ``in_order`` are the expected properties.
    ``latency_ns`` is the maximum latency between the interfaces, and ``None`` means no limit.
    """

    name: str
    near: str
    far: str
    count: int
    first: int = 1
    tail_octets: int
    lossless: bool = True
    in_order: bool = True
    latency_ns: int | None = None


class _Numbers:
    """The numbers and arrival times of the frames of a stream at one interface."""

    def __init__(self, expected: Numbered) -> None:
        self._expected = expected
        self.numbers: list[Int64] = []
        self.times: list[Int64] = []

    def take(self, batch: Batch) -> None:
        at = batch.offset + batch.captured - self._expected.tail_octets
        rows = at >= batch.offset
        at, time_ns = at[rows], batch.time_ns[rows]
        marked = np.ones(len(at), np.bool_)
        for index, octet in enumerate(MARK):
            marked &= batch.buffer[at + index] == octet
        at, time_ns = at[marked], time_ns[marked]
        number = np.zeros(len(at), np.int64)
        for index in range(len(MARK), len(MARK) + 4):
            number = number << 8 | batch.buffer[at + index]
        own = (number >= self._expected.first) & (number < self._expected.first + self._expected.count)
        self.numbers.append(number[own])
        self.times.append(time_ns[own])

    def joined(self) -> tuple[Int64, Int64]:
        empty = np.zeros(0, np.int64)
        return np.concatenate([empty, *self.numbers]), np.concatenate([empty, *self.times])


class Watch:
    """Captures at all interfaces that storms and numbered data frames use, until `end` is called."""

    def __init__(self, storms: Sequence[Storming], data: Sequence[Numbered] = ()) -> None:
        self._storms, self._data = tuple(storms), tuple(data)
        self._lapses = Lapses({each.port: each.rate_bps for each in storms})
        for storm in self._storms[:1]:
            self._lapses.take(storm.port, Batch.from_frames([]))  # compiles kernels before frames arrive
        self._sides = [(each, _Numbers(each), _Numbers(each)) for each in data]
        takes: dict[str, list[Callable[[Batch], None]]] = {}
        for name in {each.port for each in storms}:
            takes.setdefault(name, []).append(functools.partial(self._lapses.take, name))
        for each, near, far in self._sides:
            takes.setdefault(each.near, []).append(near.take)
            takes.setdefault(each.far, []).append(far.take)
        self._captures: dict[str, Capturing] = {}
        self._waiting = ProcessorWait()
        self._ended = False
        self._sending = {each.near for each in data}
        try:
            for name, calls in takes.items():
                self._captures[name] = Capturing(
                    name, take=_each(calls), outgoing=name in self._sending, zero_copy=True,
                    snap_octets=MAX_CUT_OCTETS if data else _SNAP_OCTETS,
                    ring_octets=RING_OCTETS if data else _RING_OCTETS,
                )  # fmt: skip
        except BaseException:
            self.end()
            raise
        self.stolen_ns: int = 0
        """Average nanoseconds per processor that a hypervisor used for other guests."""
        settle()

    def end(self, warn: Callable[[str], None] = lambda _: None) -> None:
        """End all captures."""
        if self._ended:
            return
        self._ended = True
        with self._waiting:
            self.stolen_ns = self._waiting.stolen_ns()
        for each in self._captures.values():
            each.end(warn)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def proofs(self, preemptions: Int64 | None = None) -> list[Proof]:
        """Return the verification results after the captures have ended.

        ``preemptions`` contains the times during which the sender had no processor (`StreamSender.steals`).
        """
        by_port = {(each.port, each.priority): each for each in self._lapses.held()}
        return [
            self._pause_proof(each.port, priority, by_port.get((each.port, priority)), preemptions)
            for each in self._storms
            for priority in each.priorities
        ] + [self._data_proof(*each) for each in self._sides]

    def _pause_proof(
        self, port: str, priority: int | None, lapse: Held | None, preemptions: Int64 | None
    ) -> Proof:
        subject = "the link" if priority is None else f"priority {priority}"
        name = f"{port}: {subject} is held without a gap"
        if lapse is None:
            return Proof(name=name, outcome="failed", result="no frame came that pauses it", figures={})
        frames = counted(lapse.frames, "frame")
        result = f"{frames}, the longest gap {format_time(lapse.longest_ns)}"
        if lapse.gaps:
            longest = format_time(lapse.longest_lapse_ns)
            result += f"; {counted(lapse.gaps, 'gap')} beyond what the quanta cover"
            result += f", {format_time(lapse.lapsed_ns)} in all, the longest by {longest}"
        figures = lapse.document()
        if preemptions is not None:
            remaining = lapse.remaining(preemptions)
            figures["remaining"] = dataclasses.asdict(remaining) | {
                "first": [each._asdict() for each in remaining.first]
            }
            if lapse.gaps:
                result += f"; without the time that the sender's processors were taken: {remaining.gaps:,}"
                result += f", {format_time(remaining.lapsed_ns)} in all"
        return self._proof(name, not lapse.gaps, result, figures, port)

    def _proof(self, name: str, passed: bool, result: str, figures: Mapping[str, Any], port: str) -> Proof:
        dropped = self._captures[port].dropped
        outcome: Outcome = "passed" if passed else "unknown" if dropped else "failed"
        if dropped:
            result += f"; the capture dropped {counted(dropped, 'frame')}"
        return Proof(name=name, outcome=outcome, result=result, figures={**figures, "dropped": dropped})

    def _data_proof(self, expected: Numbered, near: _Numbers, far: _Numbers) -> Proof:
        left, left_ns = near.joined()
        came, came_ns = far.joined()
        lost = np.setdiff1d(left, came)
        twice = len(came) - len(np.unique(came))
        backwards = int((np.diff(came) < 0).sum())
        times = dict(zip(left.tolist(), left_ns.tolist(), strict=True))
        latency = [
            time_ns - times[number]
            for number, time_ns in zip(came.tolist(), came_ns.tolist(), strict=True)
            if number in times
        ]
        longest_ns = max(latency, default=0)
        parts = [f"{counted(len(came), 'frame')} of {len(left):,}"]
        parts += [f"{counted(len(lost), 'frame')} lost, the first number {lost[0]}"] if len(lost) else []
        parts += [f"{backwards:,} out of order"] if backwards else []
        parts += [f"{twice:,} twice"] if twice else []
        parts += [f"at most {format_time(longest_ns)} on the way"] if latency else []
        late = expected.latency_ns is not None and longest_ns > expected.latency_ns
        wrong = (
            not len(left)
            or (expected.lossless and len(lost))
            or (expected.in_order and (backwards or twice))
            or late
        )
        wishes = ["without loss"] * expected.lossless + ["in order"] * expected.in_order
        if expected.latency_ns is not None:
            wishes.append(f"within {format_time(expected.latency_ns)}")
        name = f"{expected.far}: {expected.name} arrives {', '.join(wishes)}".rstrip()
        figures = {
            "left": len(left), "came": len(came), "lost": len(lost), "out_of_order": backwards,
            "twice": twice, "longest_ns": longest_ns,
        }  # fmt: skip
        return self._proof(name, not wrong, ", ".join(parts), figures, expected.far)


def _each(calls: Sequence[Callable[[Batch], None]]) -> Callable[[Batch], None]:
    def take(batch: Batch) -> None:
        for call in calls:
            call(batch)

    return take


def rate_of_link(interface: str) -> int:
    """Return the link speed of an interface in bits per second.

    Raises InterfaceError if the link speed is unknown.
    """
    speed = speed_bps(interface_facts(interface).name)
    if not speed:
        raise InterfaceError(
            interface=interface, needed='the speed of its link, as in speed = "400G"', got="none"
        )
    return speed
