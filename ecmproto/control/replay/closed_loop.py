"""Closed-loop replay: stations offer the frames of a capture, and reaction points delay the departures.

>>> replay = ClosedLoopReplay(batches, machine=…, port=PortConfig(…), loop=LoopConfig(…), seed=1)
>>> for piece in replay:          # frames at the port, and messages, in order of time
...     ...
>>> replay.summary()

The memory contains one batch, the frames that wait at stations and the port, and statistics of fixed size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import Arrivals, EngineBatch, Intake, flow_table
from ecmproto.control.engine.config import LoopConfig, PortConfig, check_seed
from ecmproto.control.engine.feedback import (
    CapturedFeedback,
    feedback_counters,
    new_feedback_counters,
    no_feedback,
    read_feedback,
)
from ecmproto.control.engine.gauge import PRIORITIES
from ecmproto.control.engine.loop import enlarge_stores, run, spare_events
from ecmproto.control.engine.network import add_stations, lengthened, new_network, next_change_ns, with_obeyed
from ecmproto.control.engine.port import DROPPED, ENQUEUED, HELD_OUT, PASSED_BY, set_rate
from ecmproto.control.engine.stations import PROBE_OCTETS
from ecmproto.control.engine.statistics import FlowSeries, PortCounts, second_half_ns
from ecmproto.control.engine.traffic import NoSources, Sources
from ecmproto.control.mechanisms.api.machine import Machine, PortContext
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import CongestionPoint, NullCongestionPoint, Receivers, Senders
from ecmproto.control.mechanisms.pause.gate import (
    ANY_PRIORITY,
    STANDSTILL_SPANS,
    paused_ns,
    settle_standstill,
)
from ecmproto.control.replay.summary import (
    PauseTrace,
    ReplaySummary,
    StationsSummary,
    counted_fields,
    flow_labels,
    port_summary,
)
from ecmproto.frames.batch.flows import FlowTable
from ecmproto.frames.capture.batch import Batch, Interface
from ecmproto.kernels.record import columns, new_arrays
from ecmproto.kernels.structs import as_interface
from ecmproto.units import serialisation_ns
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

LARGEST_STATIONS = 1024
"""The maximum number of stations with a reaction point; further stations have none."""
LARGEST_FLOWS = 256
"""The maximum number of flows that a station distinguishes."""
_FIRST_STATIONS = 16
_DATA_OCTETS = 1500
"""The length of the data frame that a probe follows on an empty path (S002)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Passages and messages of a span of time, in order.

    ``passages`` has the columns of `network.Passage`. ``messages`` has the columns of `protocol.Message`, and
    includes silent samples. ``cause`` and ``serial`` are frame numbers in the capture. Times are ns from the
    first arrival.
    """

    passages: NDArray[Any]
    messages: NDArray[Any]


class ClosedLoopReplay:
    """A replay of batches of frames through stations, one port and destinations, which can be iterated once.

    Every source address is a station. ``seed`` seeds all random numbers; equal arguments give equal results,
    independent of batch boundaries. ``interfaces`` give the FCS lengths, which do not count in queues.
    ``interfaces`` may be a reader's own list, which may grow. Raises ParameterError for a value out of range.
    """

    def __init__(
        self,
        batches: Iterable[Batch],
        *,
        machine: Machine,
        port: PortConfig,
        loop: LoopConfig,
        seed: int,
        ethertypes: EtherTypes = DEFAULT,
        interfaces: Sequence[Interface] = (),
    ) -> None:
        check_seed(seed)
        self.machine = machine
        self.flows: FlowTable = flow_table(
            machine, stations=LARGEST_STATIONS, flows=LARGEST_FLOWS, ethertypes=ethertypes
        )
        self._batches = batches
        self._port_config = port
        self._loop_config = loop = with_obeyed(loop, machine)
        self._seed = seed
        self._intake = Intake(
            machine, cp_mac=port.cp_mac, ethertypes=ethertypes, interfaces=interfaces, flows=self.flows
        )
        self.context: PortContext = self._context(_FIRST_STATIONS, ethertypes)
        self._feedback_counters = new_feedback_counters(machine) if loop.captured_feedback else None
        generators = [np.random.default_rng([seed, role]) for role in range(3)]
        self._point = self._new_point(generators[0])
        self._senders = machine.senders(self.context, generators[1])
        self._receivers = machine.receivers(self.context, generators[2])
        self._network = new_network(
            [port],
            loop,
            points=[self._point],
            stations=_FIRST_STATIONS,
            limiters=self._senders.limiters(),
            tag_octets=machine.tag_octets,
            stack_records=machine.stack_records,
            isolation=machine.isolation,
        )
        self._sources = as_interface(NoSources(), Sources)
        self._changes = list(port.rate_changes)
        self._counts = PortCounts(machine)
        self._series = FlowSeries()
        self._frames = self._octets = self._passed_by = self._untimed = self._backwards = 0
        self._held_out_frames = self._held_out_octets = self._probes = 0
        self._rtts, self._rtt_sum_ns = 0, 0.0
        self._now_ns = 0
        self._end: ReplaySummary | None = None

    def _new_point(self, generator: np.random.Generator) -> CongestionPoint:
        if self._feedback_counters is not None:
            return NullCongestionPoint()
        return self.machine.congestion_point(self.context, generator)

    def _context(self, stations: int, ethertypes: EtherTypes) -> PortContext:
        rate_bps, overhead_octets = self._port_config.rate_bps, self._port_config.overhead_octets
        return PortContext(
            rate_bps=rate_bps,
            link_rate_bps=self._loop_config.link_rate_bps,
            cp_mac=self._port_config.cp_mac,
            stations=stations,
            flows=LARGEST_FLOWS,
            hops=self._loop_config.hops,
            flight_ns=serialisation_ns(_DATA_OCTETS + PROBE_OCTETS + 2 * overhead_octets, rate_bps),
            ethertypes=ethertypes,
        )

    @property
    def first_time_ns(self) -> int:
        """Return the time of the first frame in ns since 1970, which is the origin of all other times.

        The result is 0 before the first frame.
        """
        return self._intake.first_time_ns or 0

    def batches(self) -> Iterator[tuple[EngineBatch | None, Iterator[Piece]]]:
        """Yield each batch with the passages and messages until all frames of the batch have arrived.

        The last batch is ``None``, with the events after the end of the capture.
        """
        for batch in self._batches:
            engine_batch = self._intake.take(batch)
            self._settle_stations()
            serial = self._frames
            feedback = self._feedback(engine_batch)
            self._note(engine_batch, feedback)
            yield engine_batch, self._run(engine_batch.arrivals, feedback, serial, last=False)
        self._end = self._summed_up()
        yield None, self._run(new_arrays(Arrivals, 0), no_feedback(0), self._frames, last=True)

    def _feedback(self, engine_batch: EngineBatch) -> CapturedFeedback:
        if self._feedback_counters is None:
            return no_feedback(len(engine_batch.batch))
        return read_feedback(engine_batch, self.machine, self.context, self.flows, self._feedback_counters)

    def __iter__(self) -> Iterator[Piece]:
        for _, pieces in self.batches():
            yield from pieces

    def _note(self, engine_batch: EngineBatch, feedback: CapturedFeedback) -> None:
        arrivals = engine_batch.arrivals
        self._frames += len(engine_batch.batch)
        self._octets += int(arrivals.octets.sum())
        self._untimed += engine_batch.untimed
        self._backwards += engine_batch.backwards
        if len(arrivals.time_ns):
            self._now_ns = int(arrivals.time_ns[-1])
        number = self.flows.numbers(arrivals.station, arrivals.flow)
        occupies = arrivals.occupies & (feedback.message < 0)
        self._series.offered(number[occupies], arrivals.time_ns[occupies], arrivals.octets[occupies])

    def _settle_stations(self) -> None:
        """Create reaction points for all stations that have sent a frame, and for one or more others."""
        stations = self.context.stations
        while stations <= min(self.flows.stations, LARGEST_STATIONS - 1):
            stations *= 2
        if stations == self.context.stations:
            return
        self.context = self._context(stations, self.context.ethertypes)
        # The new reaction points have drawn random numbers; these are discarded, and the old generators stay.
        spare = np.random.default_rng([self._seed, stations])
        self._point = lengthened(self._point, self._new_point(spare))
        self._network.points = [self._point]
        self._senders = lengthened(self._senders, self.machine.senders(self.context, spare))
        self._receivers = lengthened(self._receivers, self.machine.receivers(self.context, spare))
        add_stations(self._network, self._port_config, self._loop_config, stations, self._senders.limiters())

    def _run(
        self, arrivals: Arrivals, feedback: CapturedFeedback, serial: int, *, last: bool
    ) -> Iterator[Piece]:
        position, count = 0, len(arrivals.time_ns)
        while True:
            position = run(
                self._network,
                as_interface(self._senders, Senders),
                as_interface(self._receivers, Receivers),
                self._sources,
                arrivals,
                feedback,
                position,
                serial,
                last,
            )
            if self._network.loop.changes:
                self._change_rate()
                continue
            done = position == count and spare_events(self._network) > 0
            piece = self._drained()
            if len(piece.passages) or len(piece.messages):
                yield piece
            if done:
                return
            enlarge_stores(self._network)

    def _change_rate(self) -> None:
        """Set the port to the next rate."""
        loop, change = self._network.loop, self._changes.pop(0)
        set_rate(self._network.ports[0].line, change.rate_bps)
        self.machine.set_capacity(self._point, change.rate_bps)
        loop.change_ns, loop.changes = next_change_ns(self._changes), 0

    def _drained(self) -> Piece:
        log, outbox = self._network.log, self._network.outbox
        piece = Piece(
            passages=columns(self._network.passages)[: log.passages].copy(),
            messages=columns(outbox.messages)[: outbox.posted.count].copy(),
        )
        log.passages = outbox.posted.count = 0
        self._count(piece)
        return piece

    def _count(self, piece: Piece) -> None:
        passages, disposition = piece.passages, piece.passages["disposition"]
        self._passed_by += int((disposition == PASSED_BY).sum())
        is_held_out = disposition == HELD_OUT
        self._held_out_frames += int(is_held_out.sum())
        self._held_out_octets += int(passages["octets"][is_held_out].sum())
        self._probes += int(passages["probe"].sum())
        arrived = (disposition == ENQUEUED) | (disposition == DROPPED)
        self._counts.add_frames(passages.view(np.recarray), arrived, disposition == DROPPED)
        self._counts.add_messages(piece.messages)
        number = self.flows.numbers(passages["station"], passages["flow"])
        if self._end is None:
            rtts_ns = passages["rtt_average_ns"][disposition == ENQUEUED]
            known_ns = rtts_ns[rtts_ns >= 0]
            self._rtt_sum_ns += float(known_ns.sum())
            self._rtts += len(known_ns)
            data = passages["probe"] == 0
            self._series.passed(
                number[data],
                passages["time_ns"][data],
                passages["octets"][data],
                disposition[data],
                passages["limit_bps"][data],
                passages["rtt_average_ns"][data],
            )

    def summary(self, *, drained: bool = False) -> ReplaySummary:
        """Return the summary up to the current time, or the summary of the whole replay after iteration.

        The summary covers the time until the last arrival of the capture. With ``drained``, the counts of
        frames and messages continue until nothing is in flight, so every frame has an outcome. Queues, rates,
        pauses and shares still cover the time of the capture.
        """
        now = self._end or self._summed_up()
        if not drained or now.stations is None:
            return now
        stations = dataclasses.replace(self._stations_summary(), **{
            name: getattr(now.stations, name)
            for name in ("paused_ns", "paused_sum_ns", "pauses", "fairness", "fairness_flows")
        })  # fmt: skip
        return dataclasses.replace(
            now,
            passed_by=self._passed_by,
            ports=(dataclasses.replace(now.ports[0], **counted_fields(self._counts)),),
            stations=stations,
        )

    def _summed_up(self) -> ReplaySummary:
        gauge = self._network.ports[0].gauge
        port = port_summary("port", gauge, self._now_ns, self._counts, self.machine, self._point)
        return ReplaySummary(
            mechanism=self.machine.name,
            frames=self._frames,
            octets=self._octets,
            first_time_ns=self.first_time_ns,
            duration_ns=self._now_ns,
            second_half_ns=second_half_ns(self._now_ns),
            passed_by=self._passed_by,
            backwards=self._backwards,
            untimed=self._untimed,
            ports=(port,),
            stations=self._stations_summary(),
            flows=self._series.rates(flow_labels(self.flows), self._now_ns),
            flow_span_ns=self._series.bin_ns,
            rate_bps=self._port_config.rate_bps,
            rate_changes=self._port_config.rate_changes,
            buffer_octets=self._port_config.buffer_octets,
            buffer_frames=self._port_config.buffer_frames,
            overhead_octets=self._port_config.overhead_octets,
            seed=self._seed,
            parameters=self._parameters(),
        )

    def _parameters(self) -> dict[str, dict[str, str]]:
        """Return the parameters of the simulated roles; captured feedback replaces the congestion point."""
        parameters = self.machine.parameters_as_text(self._port_config.rate_bps)
        if self._feedback_counters is not None:
            parameters.pop(Role.CONGESTION_POINT.value, None)
        return parameters

    def _stations_summary(self) -> StationsSummary:
        network, machine, counts = self._network, self.machine, self._counts
        fairness = self._series.fairness(self._now_ns)
        pauses, paused_ns, paused_sum_ns = self._pauses()
        queues, log = columns(network.queues), network.log
        delivered_frames = int(log.delivered_frames)
        return StationsSummary(
            stations=self.flows.stations,
            flows=self.flows.count,
            link_rate_bps=self._loop_config.link_rate_bps,
            feedback_delay_ns=self._loop_config.feedback_delay_ns,
            queue_octets=self._loop_config.queue_octets,
            held_out_frames=self._held_out_frames,
            held_out_octets=self._held_out_octets,
            limited_frames=int(log.limited_frames),
            delivered_frames=delivered_frames,
            delivered_octets=int(log.delivered_octets),
            waiting_frames=int(queues["length"].sum()),
            waiting_octets=int(queues["octets"].sum()),
            queued_frames=counts.frames - counts.dropped_frames - delivered_frames,
            probes=self._probes,
            messages=int(log.received_messages),
            longest_wait_octets=int(log.longest_wait_octets),
            paused_ns=paused_ns,
            paused_sum_ns=paused_sum_ns,
            pauses=pauses,
            rtt_average_ns=self._rtt_sum_ns / self._rtts if self._rtts else None,
            fairness=fairness.index,
            fairness_flows=fairness.flows,
            counters=machine.counters(self._senders)
            | ({} if self._feedback_counters is None else feedback_counters(self._feedback_counters)),
        )

    def _pauses(self) -> tuple[PauseTrace, int, int]:
        """Return the times in which stations were stopped.

        The results are a trace over time, the time in which any station was stopped, and the sum over all
        stations.
        """
        gates, now_ns = self._network.gates, int(self._network.loop.now_ns)
        settle_standstill(gates, now_ns)
        still = gates.standstill
        masks = columns(gates.stopped)["sending_mask"][: self.flows.stations].tolist()
        sum_ns = sum(
            paused_ns(gates, station, priority, now_ns)
            for station, mask in enumerate(masks)
            for priority in range(PRIORITIES)
            if mask >> priority & 1
        )
        span_ns = 1 << int(still.span_shift)
        spans = min(STANDSTILL_SPANS, max(1, -(-now_ns // span_ns)))
        trace = PauseTrace(
            span_ns=span_ns,
            stopped_ns={
                priority: tuple(still.over_time_ns[priority, :spans].tolist())
                for priority in range(PRIORITIES)
                if still.stopped_ns[priority]
            },
        )
        return trace, int(still.stopped_ns[ANY_PRIORITY]), int(sum_ns)
