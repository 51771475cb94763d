"""One replay of one capture, from an open reader to a summary: what is asked for, and what came out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ecmproto.capture import Batch, CaptureReader
from ecmproto.engine.config import LoopConfig, PortConfig
from ecmproto.filter import Filter
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.mechanisms.machine import Machine
from ecmproto.replay.closed_loop import replay_closed_loop
from ecmproto.replay.closed_output import ClosedLoopOutput
from ecmproto.replay.open_loop import ports_from, replay_open_loop
from ecmproto.replay.output import OpenLoopOutput, batches_of
from ecmproto.replay.series import Samples, sample_rows
from ecmproto.replay.summary import ReplaySummary, flow_labels

Sink = Callable[[NDArray[Any]], None]

Watch = Callable[[Iterable[Batch]], Iterable[Batch]]
"""Wraps the batches as they are read: a progress bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be replayed how.  With ``loop`` it is a closed loop, around one port."""

    machine: Machine
    port: PortConfig
    loop: LoopConfig | None
    seed: int
    variant: str = ""
    """What the replay is called beside others of its mechanism; empty for the mechanism's name."""
    ports: str = "one"
    """What `ports.ports_from` reads."""
    with_flows: bool = False
    filter: Filter | None = None
    """Which frames take part; None: all."""
    ethertypes: EtherTypes = DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What a replay came to."""

    summary: ReplaySummary
    samples: Samples
    flow_labels: dict[int, str]
    plan: Plan


def replay_capture(
    reader: CaptureReader,
    plan: Plan,
    *,
    output: OpenLoopOutput | ClosedLoopOutput | None = None,
    sink: Sink | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Replay what ``reader`` gives, as far as ``plan`` has it take part, and return what it came to.

    Every frame that takes part is written to ``output``, which is of the kind of loop that ``plan`` asks
    for, with all that happens until nothing is under way.  ``sink`` is given every sample and message of the
    capture's time, as the summary counts them: rows of `samples.SAMPLE`, in order.
    """
    samples = Samples()

    def keep(rows: NDArray[Any]) -> None:
        samples.add(rows)
        if sink is not None:
            sink(rows)

    copied = output if isinstance(output, OpenLoopOutput) else None
    batches: Iterable[Batch] = batches_of(reader, copied, filter=plan.filter, ethertypes=plan.ethertypes)
    batches = watch(batches) if watch else batches
    if plan.loop is None:
        summary, labels = _open(reader, plan, batches, copied, keep)
    else:
        written = output if isinstance(output, ClosedLoopOutput) else None
        summary, labels = _closed(reader, plan, plan.loop, batches, written, keep)
    summary = dataclasses.replace(summary, variant=plan.variant or plan.machine.name)
    return Outcome(summary=summary, samples=samples, flow_labels=labels, plan=plan)


def _open(
    reader: CaptureReader, plan: Plan, batches: Iterable[Batch], output: OpenLoopOutput | None, keep: Sink
) -> tuple[ReplaySummary, dict[int, str]]:
    replay = replay_open_loop(
        batches,
        machine=plan.machine,
        port=plan.port,
        seed=plan.seed,
        ports=ports_from(plan.ports, reader.interfaces, plan.ethertypes),
        with_flows=plan.with_flows,
        ethertypes=plan.ethertypes,
        interfaces=reader.interfaces,
    )
    for replayed in replay:
        keep(sample_rows(replayed.messages, replayed.port, replay.flow_numbers(replayed)))
        if output is not None:
            output.write(replayed)
    return replay.summary(), replay.flow_labels()


def _closed(
    reader: CaptureReader,
    plan: Plan,
    loop: LoopConfig,
    batches: Iterable[Batch],
    output: ClosedLoopOutput | None,
    keep: Sink,
) -> tuple[ReplaySummary, dict[int, str]]:
    replay = replay_closed_loop(
        batches,
        machine=plan.machine,
        port=plan.port,
        loop=loop,
        seed=plan.seed,
        ethertypes=plan.ethertypes,
        interfaces=reader.interfaces,
    )
    for taken, pieces in replay.taken():
        if output is not None and taken is not None:
            output.take(taken)
        for piece in pieces:
            if taken is not None:
                flow = replay.flows.numbers(piece.messages["station"], piece.messages["flow"])
                keep(sample_rows(piece.messages, 0, flow))
            if output is not None:
                output.write(piece, replay)
    return replay.summary(), flow_labels(replay.flows)
