"""One replay of one capture: the input is a path or an open reader, and the result is a summary."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict, Unpack, overload

from numpy.typing import NDArray

from ecmproto.arguments import Assignments, assigned, checked, numeric
from ecmproto.control.engine.config import CP_MAC, LoopConfig, PortConfig, parse_buffer, parse_port_rate
from ecmproto.control.engine.port import machine_on_port
from ecmproto.control.mechanisms.api.machine import Machine
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.control.replay.closed_loop import ClosedLoopReplay
from ecmproto.control.replay.closed_output import ClosedLoopOutput, OpenLoopOutput, batches_of
from ecmproto.control.replay.open_loop import OpenLoopReplay, ports_from
from ecmproto.control.replay.series import Samples, sample_rows
from ecmproto.control.replay.summary import ReplaySummary, flow_labels
from ecmproto.control.replay.tables import WIDTH, comparison_table, replay_table
from ecmproto.errors import ParameterError
from ecmproto.frames.batch.inner import open_unwrapped
from ecmproto.frames.capture import Batch, CaptureCopier, CaptureReader
from ecmproto.frames.capture.names import names_shown
from ecmproto.frames.filter import Filter, compile_filter
from ecmproto.kernels.structs import method_errors
from ecmproto.tables import Paint, Tabular, plain
from ecmproto.units import WIRE_OVERHEAD_OCTETS, parse_octets, parse_rate, parse_time
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.text import mac_of

Captures: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

Sink = Callable[[NDArray[Any]], None]

Watch = Callable[[Iterable[Batch]], Iterable[Batch]]
"""A function that wraps the iterator of batches, for example to show a progress bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a replay: mechanism, port and stations; with ``loop``, a closed loop around one port."""

    machine: Machine
    port: PortConfig
    loop: LoopConfig | None
    seed: int
    variant: str = ""
    """The name of the replay among other replays of the mechanism; empty means the mechanism's name."""
    title: str = ""
    """The title of the mechanism's table; empty means the machine's name."""
    ports: str = "one"
    """The assignment of frames to ports, as a text for `open_loop.ports_from`."""
    with_flows: bool = False
    filter: Filter | None = None
    """The filter that selects frames; ``None`` selects all frames."""
    ethertypes: EtherTypes = DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Outcome(Tabular):
    """The summary and samples of one replay, displayed as the table that the command line prints."""

    summary: ReplaySummary
    samples: Samples
    flow_labels: dict[int, str]
    plan: Plan
    capture: str = ""
    """The names of the captures."""

    def __repr__(self) -> str:
        return self.table()

    def records(self) -> list[dict[str, Any]]:
        """Return one row per port: counts, messages, queue lengths in octets, and the busy share of the
        time.
        """
        return [
            {
                "mechanism": self.summary.variant or self.summary.mechanism,
                "port": port.name,
                "frames": port.frames,
                "octets": port.octets,
                "dropped_frames": port.dropped_frames,
                "samples": port.samples,
                "messages": sum(port.messages.values()),
                "mean_octets": port.queue.mean_octets,
                "p99_octets": port.queue.p99_octets,
                "peak_octets": port.queue.peak_octets,
                "utilisation": port.utilisation,
            }
            for port in self.summary.ports
        ]

    def table(self, paint: Paint = plain, *, width: int = WIDTH) -> str:
        """Return the table that ``ecmproto replay`` prints."""
        return replay_table(
            self.summary, self.capture, self.plan.title or self.plan.machine.name, paint=paint, width=width
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the document that ``ecmproto replay -T json`` prints."""
        return {"schema": "ecmproto/replay/1", "capture": self.capture} | self.summary.as_dict()


class Comparison(tuple[Outcome, ...], Tabular):
    """Several replays of one capture, displayed side by side."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self.table()

    def records(self) -> list[dict[str, Any]]:
        """Return one row per replay and port."""
        return [row for outcome in self for row in outcome.records()]

    def table(self, paint: Paint = plain, *, width: int = WIDTH) -> str:
        """Return the table that ``ecmproto replay --compare`` prints."""
        return comparison_table(
            [outcome.summary for outcome in self], self[0].capture, paint=paint, width=width
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the document that ``ecmproto replay --compare … -T json`` prints."""
        replays = [outcome.as_dict() for outcome in self]
        return {
            "schema": "ecmproto/replay-comparison/1",
            "capture": self[0].capture,
            "replays": replays,
        }


class ReplayOptions(TypedDict, total=False):
    """Options of `replay`."""

    set: Assignments | None
    closed: bool
    speed: str | int
    buffer: str | int
    seed: int | None
    filter: Filter | str | None
    ports: str
    link_speed: str | int | None
    feedback_delay: str | int
    hops: int
    rp_queue: str | int
    captured_feedback: bool
    flow_control: str | None
    cp_mac: str
    overhead: int
    trailer: str | None
    output: str | os.PathLike[str] | None
    force: bool
    outer: bool
    ethertypes: EtherTypes


@overload
def replay(captures: Captures, mechanism: str, **options: Unpack[ReplayOptions]) -> Outcome: ...
@overload
def replay(
    captures: Captures, mechanism: list[str] | tuple[str, ...], **options: Unpack[ReplayOptions]
) -> Comparison: ...
@checked
def replay(
    captures: Captures,
    mechanism: str | Sequence[str],
    *,
    set: Assignments | None = None,
    closed: bool = False,
    speed: str | int = "10G",
    buffer: str | int = "500kB",
    seed: int | None = None,
    filter: Filter | str | None = None,
    ports: str = "one",
    link_speed: str | int | None = None,
    feedback_delay: str | int = "10us",
    hops: int = 1,
    rp_queue: str | int = "1MB",
    captured_feedback: bool = False,
    flow_control: str | None = None,
    cp_mac: str = CP_MAC,
    overhead: int = WIRE_OVERHEAD_OCTETS,
    trailer: str | None = None,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    outer: bool = False,
    ethertypes: EtherTypes = DEFAULT,
    **parameters: object,
) -> Outcome | Comparison:
    """Run one or more captures through one mechanism, or through several mechanisms side by side.

    Several captures are replayed as one capture. In an open loop, frames arrive at a congestion point at the
    captured times. With ``closed``, each source is a station, and the station's reaction point delays the
    departures. The options of ``ecmproto replay`` apply. Rates in bit/s, sizes in octets and times in ns are
    numbers, or text with units. ``set`` are parameters of the mechanism (``{"qeq": "33kB", "rp.gd": 0.01}``
    or ``["qeq=33kB"]``). Further keywords are parameters too, without type checks. ``link_speed``,
    ``feedback_delay``, ``hops`` and ``rp_queue`` describe the stations of a closed loop. With
    ``captured_feedback``, the stations react to the feedback in the capture. ``overhead`` is the number of
    octets that the line adds to each frame. ``trailer`` is the device whose time stamps replace the times of
    frames. ``output`` is the path of the resulting capture. ``outer`` replays the outer frames of mirrors and
    tunnels instead of the inner frames. Raises ParameterError for a value out of range, and CaptureError for
    an unreadable capture.
    """
    names = [mechanism] if isinstance(mechanism, str) else list(mechanism)
    given = [captures] if isinstance(captures, str | os.PathLike) else captures
    paths = [os.fspath(path) for path in given]
    if not names or not paths:
        raise ParameterError(name="replay", needed="at least one capture and one mechanism", got="none")
    if len(names) > 1 and output is not None:
        raise ParameterError(name="output", needed="one mechanism", got=", ".join(names))
    capacity = parse_buffer(str(buffer))
    served = parse_port_rate(str(speed))
    port = PortConfig(
        rate_bps=served.rate_bps,
        rate_changes=served.changes,
        buffer_octets=capacity.octets,
        buffer_frames=capacity.frames,
        overhead_octets=overhead,
        cp_mac=mac_of(cp_mac),
    )
    loop = LoopConfig(
        link_rate_bps=served.rate_bps if link_speed is None else numeric(link_speed, parse_rate),
        feedback_delay_ns=numeric(feedback_delay, parse_time),
        queue_octets=numeric(rp_queue, parse_octets),
        hops=hops,
        captured_feedback=captured_feedback,
    )
    number = secrets.randbelow(2**32) if seed is None else seed
    assignments = [*assigned(set), *assigned(parameters)]
    outcomes = []
    for name in names:
        machine = machine_on_port(
            name, assignments, buffer_octets=port.buffer_octets, flow_control=flow_control
        )
        plan = Plan(
            machine=machine,
            port=port,
            loop=loop if closed or captured_feedback else None,
            seed=number,
            title=find_mechanism(name).title,
            ports=ports,
            with_flows=True,
            filter=compile_filter(filter) if isinstance(filter, str) else filter,
            ethertypes=ethertypes,
        )
        with (
            open_unwrapped(paths, outer=outer, trailer=trailer, ethertypes=ethertypes) as reader,
            output_of(reader, plan, output, force=force) as writer,
        ):
            outcomes.append(replay_capture(reader, plan, output=writer, capture=names_shown(paths)))
    return outcomes[0] if isinstance(mechanism, str) else Comparison(outcomes)


@contextmanager
def output_of(
    reader: CaptureReader, plan: Plan, path: str | os.PathLike[str] | None, *, force: bool
) -> Iterator[OpenLoopOutput | ClosedLoopOutput | None]:
    """Open the capture that a replay writes, for an open or closed loop; return ``None`` without a path."""
    if path is None:
        yield None
    elif plan.loop is not None:
        with ClosedLoopOutput(reader, path, force=force) as written:
            yield written
    else:
        with CaptureCopier(reader, path, force=force) as copier:
            yield OpenLoopOutput(reader, copier)


@method_errors()
def replay_capture(
    reader: CaptureReader,
    plan: Plan,
    *,
    output: OpenLoopOutput | ClosedLoopOutput | None = None,
    sink: Sink | None = None,
    watch: Watch | None = None,
    capture: str = "",
) -> Outcome:
    """Replay the frames of ``reader`` that ``plan`` selects, and return the outcome.

    All selected frames and all messages are written to ``output`` until nothing is in flight. ``output`` must
    fit the loop of ``plan``. ``sink`` receives every sample and message that the summary counts, as rows of
    `series.SAMPLE` in order. ``capture`` is the name of the capture in tables and documents.
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
    return Outcome(summary=summary, samples=samples, flow_labels=labels, plan=plan, capture=capture)


def _open(
    reader: CaptureReader, plan: Plan, batches: Iterable[Batch], output: OpenLoopOutput | None, keep: Sink
) -> tuple[ReplaySummary, dict[int, str]]:
    replay = OpenLoopReplay(
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
    replay = ClosedLoopReplay(
        batches,
        machine=plan.machine,
        port=plan.port,
        loop=loop,
        seed=plan.seed,
        ethertypes=plan.ethertypes,
        interfaces=reader.interfaces,
    )
    for engine_batch, pieces in replay.batches():
        if output is not None and engine_batch is not None:
            output.take(engine_batch)
        for piece in pieces:
            if engine_batch is not None:
                flow = replay.flows.numbers(piece.messages["station"], piece.messages["flow"])
                keep(sample_rows(piece.messages, 0, flow))
            if output is not None:
                output.write(piece, replay)
    return replay.summary(), flow_labels(replay.flows)
