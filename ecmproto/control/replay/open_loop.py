"""Open-loop replay: frames arrive at one or more ports as captured, independent of messages.

>>> replay = OpenLoopReplay(batches, machine=machine_of(QCN, {}), port=PortConfig(…), seed=1)
>>> for piece in merged(replay):       # replayed.merged; or: for replayed in replay
...     ...
>>> replay.summary()

The memory contains one batch, the ports' buffers and statistics of fixed size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import Arrivals, EngineBatch, Intake
from ecmproto.control.engine.config import PortConfig, check_seed
from ecmproto.control.engine.frames import GeneratedFrame, comment_of, octets_of
from ecmproto.control.engine.port import (
    DROPPED,
    ENQUEUED,
    PASSED_BY,
    Port,
    departs,
    is_full,
    lengthen_ring,
    new_port,
    set_rate,
)
from ecmproto.control.engine.port_steps import PassingFrame, enter, leave, tick
from ecmproto.control.engine.statistics import FlowSeries, PortCounts, second_half_ns
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    EVENT_MESSAGES,
    NO_CAUSE,
    CongestionPoint,
    Outbox,
    has_capacity,
    new_outbox,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.replay.summary import PortSummary, ReplaySummary, flow_labels, port_summary
from ecmproto.errors import ParameterError
from ecmproto.frames.batch.flows import DestinationTable, FlowTable
from ecmproto.frames.batch.tags import with_tag_values
from ecmproto.frames.capture import Interface
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.filter import compile_filter
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import columns
from ecmproto.kernels.structs import local_copy, write_back
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.text import mac_text

NO_PORT = -1


class Ports(Protocol):
    """The assignment of frames to ports, which are numbered from 0 in the order of their first frames."""

    def of(self, engine_batch: EngineBatch) -> NDArray[np.int64]:
        """Return the port of each frame, or NO_PORT for a frame without a port."""

    def name(self, number: int) -> str:
        """Return the name of a port for display."""


class OnePort:
    """The assignment of all frames to one port."""

    def of(self, engine_batch: EngineBatch) -> NDArray[np.int64]:
        """Return port 0 for each frame."""
        return np.zeros(len(engine_batch.batch), np.int64)

    def name(self, number: int) -> str:
        """Return the name of the only port, ``port``."""
        return "port"


ONE_PORT = OnePort()


class PortPerInterface:
    """The assignment of frames to one port per interface, with the number of the interface."""

    def of(self, engine_batch: EngineBatch) -> NDArray[np.int64]:
        """Return the number of each frame's interface."""
        return engine_batch.batch.interface.astype(np.int64)

    def name(self, number: int) -> str:
        """Return the number of the interface as a text."""
        return f"interface {number}"


class PortPerDestination:
    """The assignment of frames to one port per destination address, for up to ``most`` destinations.

    Frames to group addresses have no port.
    """

    def __init__(self, max_ports: int = 64) -> None:
        self._table = DestinationTable(max_destinations=max_ports)

    def of(self, engine_batch: EngineBatch) -> NDArray[np.int64]:
        """Return the number of each frame's destination."""
        batch = engine_batch.batch
        numbers = self._table.number(batch.buffer, batch.offset, batch.captured)
        return np.where(engine_batch.classes.occupies, numbers, NO_PORT).astype(np.int64)

    def name(self, number: int) -> str:
        """Return the destination address of the port."""
        return f"to {mac_text(self._table.address(number))}"


class PortPerFilter:
    """The assignment of a frame to the port of the first matching display filter.

    Frames that match no filter have no port.
    """

    def __init__(
        self, texts: Sequence[str], interfaces: Sequence[Interface], ethertypes: EtherTypes = DEFAULT
    ) -> None:
        self._filters = [compile_filter(text) for text in texts]
        self._interfaces = interfaces
        self._ethertypes = ethertypes

    def of(self, engine_batch: EngineBatch) -> NDArray[np.int64]:
        """Return the number of the first filter that matches each frame."""
        from ecmproto.frames.columns.selection import selected

        port = np.full(len(engine_batch.batch), NO_PORT, np.int64)
        for number, filter in enumerate(self._filters):
            left = np.flatnonzero(port == NO_PORT)
            batch = engine_batch.batch.select(left) if number else engine_batch.batch
            mask = selected(batch, filter, interfaces=self._interfaces, ethertypes=self._ethertypes)
            port[left[mask]] = number
        return port

    def name(self, number: int) -> str:
        """Return the text of the filter."""
        return self._filters[number].text.strip()


def ports_from(text: str, interfaces: Sequence[Interface], ethertypes: EtherTypes = DEFAULT) -> Ports:
    """Return the ports that ``text`` describes: ``one``, ``dst``, ``interface``, or filters separated by
    ``;``.

    ``interfaces`` are the interfaces of the capture. Raises FilterError for an invalid text.
    """
    if text == "one":
        return ONE_PORT
    if text == "dst":
        return PortPerDestination()
    if text == "interface":
        return PortPerInterface()
    return PortPerFilter(text.split(";"), interfaces, ethertypes)


class Outcomes(NamedTuple):
    """Disposition, queue length and final tag of each frame.

    The queue length (Qlen) is the length after the frame, or −1 if the frame passed no queue.
    """

    disposition: NDArray[np.uint8]
    qlen_octets: NDArray[np.int64]
    tag: NDArray[np.int64]


@compiled
def run_port(
    port: Port,
    point: CongestionPoint,
    arrivals: Arrivals,
    outcomes: Outcomes,
    outbox: Outbox,
    first: int,
    change_ns: int,
) -> int:
    """Pass ``arrivals`` from index ``first`` on through the port and the congestion point.

    The function fills ``outcomes``. Messages and samples remain in ``outbox``; ``cause`` is the index of the
    frame that caused the message. Returns the index of the first unprocessed frame. The kernel returns early
    when ``outbox`` or a ring is full. The kernel also returns at ``change_ns``, after all events that are due
    earlier.
    """
    # The kernel works on a copy; the compiler can see that the copy has no other reference.
    own = local_copy(port)
    # The arrays are unpacked here, because a lookup in the loop costs as much as the loop itself.
    times_ns, lengths, priorities, occupies, sampled, answerable, tagged, tags, marks, stations, flows = (
        arrivals
    )
    dispositions, qlens_octets, forwarded = outcomes
    # With this loop, the compiler can see that no index is negative; with a range, it cannot.
    position = max(first, 0)
    while position < times_ns.size:
        priority, octets, station = int(priorities[position]), lengths[position], int(stations[position])
        now_ns = times_ns[position]
        if (
            not _settle(own, point, outbox, min(now_ns, change_ns - 1))
            or now_ns >= change_ns
            or is_full(own, priority)
        ):
            break
        if not occupies[position] or octets <= 0:
            dispositions[position] = PASSED_BY
            qlens_octets[position] = -1
            position += 1
            continue
        frame = PassingFrame(
            position, station, int(flows[position]), priority, octets, sampled[position],
            answerable[position], tagged[position], tags[position], marks[position],
        )  # fmt: skip
        enqueued, forwarded[position] = enter(own, point, outbox, frame, station + 1, True, now_ns)
        dispositions[position] = ENQUEUED if enqueued else DROPPED
        qlens_octets[position] = own.gauge.queues[priority].octets
        position += 1
    write_back(port, own)
    return position


@inlined
def _settle(port: Port, point: CongestionPoint, outbox: Outbox, now_ns: int) -> bool:
    """Process departures and timers until ``now_ns``; return False if ``outbox`` is full earlier."""
    line, late = port.line, False
    while has_capacity(outbox, EVENT_MESSAGES):
        tick_ns = point.next_timer_ns()
        # The comparison with NEVER_NS is first, so a point without timers needs no other comparison.
        ticks = tick_ns != NEVER_NS and tick_ns <= now_ns
        if departs(line, tick_ns if ticks else now_ns):
            leave(port, point, outbox, line.in_service_token - 1)
        elif ticks:
            # At an idle port, nothing changes between ticks, so one call processes all ticks.
            tick(port, point, outbox, now_ns if late and line.in_service_octets == 0 else tick_ns)
            late = True
        else:
            return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayedBatch:
    """A batch after the frames passed their ports.

    ``disposition`` is the disposition of each frame (`engine.port`). ``qlen_octets`` is the length of the
    queue of the frame's priority after the frame, or −1 if the frame passed no queue. ``tag`` is the final
    value of the mechanism's tag.

    ``messages`` has the columns of `protocol.Message` in order, and includes silent samples. ``cause`` is an
    index in the batch or −1, and times are ns from the first arrival. ``port`` is the port of each message,
    and ``contexts`` are the contexts of the ports.
    """

    engine_batch: EngineBatch
    disposition: NDArray[np.uint8]
    qlen_octets: NDArray[np.int64]
    tag: NDArray[np.int64]
    messages: NDArray[Any]
    port: NDArray[np.int64]
    contexts: tuple[PortContext, ...]
    machine: Machine
    first_time_ns: int

    @property
    def batch(self) -> Batch:
        """Return the batch before the frames passed the ports."""
        return self.engine_batch.batch

    def forwarded(self) -> Batch:
        """Return the batch as forwarded by the ports, with rewritten tags."""
        changed = np.flatnonzero(self.tag != self.engine_batch.arrivals.tag)
        if not len(changed) or self.machine.tag is None:
            return self.batch
        ethertypes = self.contexts[0].ethertypes
        return with_tag_values(
            self.batch, changed, self.tag[changed], self.machine.tag, ethertypes=ethertypes
        )

    def generated(self) -> Iterator[tuple[int, GeneratedFrame]]:
        """Yield each generated frame, with the index of the frame that it follows; −1 before all frames."""
        chosen = np.flatnonzero(self.messages["sent"] == 1)
        messages: Any = self.messages[chosen].view(np.recarray)
        cause = messages["cause"]
        before = np.searchsorted(self.engine_batch.arrivals.time_ns, messages["time_ns"]) - 1
        follows = np.where(cause >= 0, cause, before)
        for index in np.argsort(follows, kind="stable").tolist():
            context = self.contexts[int(self.port[chosen[index]])]
            yield int(follows[index]), self._frame(messages[index], int(follows[index]), context)

    def _frame(self, message: Any, follows: int, context: PortContext) -> GeneratedFrame:
        position = int(message.cause)
        cause, time_ns = NO_CAUSE, self.first_time_ns + int(message.time_ns)
        if position != NO_CAUSE:
            cause, time_ns = int(self.batch.numbers[position]), int(self.batch.time_ns[position])
        return GeneratedFrame(
            octets=octets_of(self.machine, message, self._about(position), context),
            time_ns=time_ns,
            interface=int(self.batch.interface[max(0, follows)]),
            cause=cause,
            comment=comment_of(self.machine, message, cause),
        )

    def _about(self, position: int) -> SampledFrame:
        if position == NO_CAUSE:
            return SampledFrame(b"", 0, 0)
        length_octets = int(self.engine_batch.arrivals.octets[position])
        return SampledFrame(
            self.batch.frame(position)[:length_octets],
            length_octets,
            int(self.engine_batch.classes.msdu_offset[position]),
        )


def merged(replay: Iterable[ReplayedBatch]) -> Iterator[Batch | GeneratedFrame]:
    """Yield all frames in output order: input frames as batches, and generated frames in between.

    Input frames keep their order, times and octets, except for tags that the ports rewrote. A message
    directly follows the frame that caused the message, and has the same time.
    """
    for replayed in replay:
        batch = replayed.forwarded()
        done = 0
        for follows, frame in replayed.generated():
            if follows >= done:
                yield batch.select(np.arange(done, follows + 1))
                done = follows + 1
            yield frame
        if done < len(batch):
            yield batch.select(np.arange(done, len(batch))) if done else batch


_MESSAGES_AT_ONCE = 4096
_LARGEST_STATIONS = 4096


class _RunningPort:
    """The state of a port in a running replay."""

    def __init__(
        self, name: str, number: int, machine: Machine, config: PortConfig, context: PortContext, seed: int
    ) -> None:
        self.name = name
        self.counts = PortCounts(machine)
        self.state = new_port(config, tag_octets=machine.tag_octets)
        self.context = context
        # The first port's seed does not depend on the number of ports.
        generator = np.random.default_rng([seed, number] if number else seed)
        self.point = machine.congestion_point(context, generator)
        self.outbox = new_outbox(_MESSAGES_AT_ONCE)
        self._machine = machine
        self._changes = list(config.rate_changes)

    def run(self, arrivals: Arrivals, outcomes: Outcomes) -> NDArray[Any]:
        """Run all ``arrivals`` and return the messages; enlarge stores and change rates as needed."""
        pieces, position, count = [], 0, len(arrivals.time_ns)
        while True:
            before, change_ns = position, self._changes[0].time_ns if self._changes else NEVER_NS
            position = run_port(self.state, self.point, arrivals, outcomes, self.outbox, position, change_ns)
            used = self.outbox.posted.count
            pieces.append(columns(self.outbox.messages)[:used].copy())
            self.outbox.posted.count = 0
            if position == count:
                break
            if position > before or used:
                continue
            if arrivals.time_ns[position] >= change_ns:
                rate_bps = self._changes.pop(0).rate_bps
                set_rate(self.state.line, rate_bps)
                self._machine.set_capacity(self.point, rate_bps)
            else:
                lengthen_ring(self.state, int(arrivals.priority[position]))
        messages: NDArray[Any] = np.concatenate(pieces)
        self.counts.add_messages(messages)
        return messages

    def summary(self, now_ns: int) -> PortSummary:
        """Return the port's summary at ``now_ns``."""
        return port_summary(self.name, self.state.gauge, now_ns, self.counts, self._machine, self.point)


class OpenLoopReplay:
    """A replay of batches of Ethernet frames through ports with a congestion point, which can be iterated
    once.

    ``ports`` assigns frames to ports. All ports have the configuration ``port``. Each port has a separate
    buffer, and a separate address that is counted from ``port.cp_mac``. ``seed`` seeds all random numbers;
    equal arguments give equal results, independent of batch boundaries. ``with_flows`` adds the rates of
    flows. ``interfaces`` give the FCS lengths, which do not count in queues. ``interfaces`` may be a reader's
    own list, which may grow. Raises ParameterError for a value out of range.
    """

    def __init__(
        self,
        batches: Iterable[Batch],
        *,
        machine: Machine,
        port: PortConfig,
        seed: int,
        ports: Ports = ONE_PORT,
        with_flows: bool = False,
        ethertypes: EtherTypes = DEFAULT,
        interfaces: Sequence[Interface] = (),
    ) -> None:
        check_seed(seed)
        if machine.isolation is not None:
            needed = "one whose ports isolate no flows, except in a closed loop or the lab"
            raise ParameterError(name="mechanism", needed=needed, got=machine.name)
        self.machine = machine
        self._batches = batches
        self._config = port
        self._seed = seed
        self._chooser = ports
        self._ethertypes = ethertypes
        numbered = with_flows or machine.knows_stations
        flows = FlowTable(
            machine.flow_key, hashed=machine.flow_hash, max_stations=_LARGEST_STATIONS, ethertypes=ethertypes
        )
        self._flows = flows if numbered else None
        self._series = FlowSeries() if with_flows else None
        self._intake = Intake(
            machine, cp_mac=port.cp_mac, ethertypes=ethertypes, interfaces=interfaces, flows=self._flows
        )
        self._ports: list[_RunningPort] = []
        self._frames = self._octets = self._passed_by = self._untimed = self._backwards = 0
        self._now_ns = 0

    def __iter__(self) -> Iterator[ReplayedBatch]:
        for batch in self._batches:
            replayed = self._replay(self._intake.take(batch))
            yield replayed

    def summary(self) -> ReplaySummary:
        """Return the summary up to the current time, or the summary of the whole replay after iteration."""
        if not self._ports:
            self._port(0)
        return ReplaySummary(
            mechanism=self.machine.name,
            frames=self._frames,
            octets=self._octets,
            first_time_ns=self._intake.first_time_ns or 0,
            duration_ns=self._now_ns,
            second_half_ns=second_half_ns(self._now_ns),
            passed_by=self._passed_by,
            backwards=self._backwards,
            untimed=self._untimed,
            ports=tuple(port.summary(self._now_ns) for port in self._ports),
            stations=None,
            flows=() if self._series is None else self._series.rates(self.flow_labels(), self._now_ns),
            flow_span_ns=0 if self._series is None else self._series.bin_ns,
            rate_bps=self._config.rate_bps,
            rate_changes=self._config.rate_changes,
            buffer_octets=self._config.buffer_octets,
            buffer_frames=self._config.buffer_frames,
            overhead_octets=self._config.overhead_octets,
            seed=self._seed,
            parameters=self.machine.parameters_as_text(self._config.rate_bps),
        )

    def flow_labels(self) -> dict[int, str]:
        """Return the labels of flows by flow number; the result is empty if flows are not counted."""
        return {} if self._flows is None else flow_labels(self._flows)

    def flow_numbers(self, replayed: ReplayedBatch) -> NDArray[np.int64]:
        """Return the flow number of each message of ``replayed``, or −1 for a message without a flow."""
        messages = replayed.messages
        if self._flows is None:
            return np.full(len(messages), -1)
        return self._flows.numbers(messages["station"], messages["flow"])

    def _replay(self, engine_batch: EngineBatch) -> ReplayedBatch:
        count = len(engine_batch.batch)
        outcomes = Outcomes(
            np.full(count, PASSED_BY, np.uint8),
            np.full(count, -1, np.int64),
            engine_batch.arrivals.tag.copy(),
        )
        port = self._chooser.of(engine_batch)
        pieces, numbers = [columns(new_outbox(0).messages)], [np.zeros(0, np.int64)]
        frames_of = np.bincount(port - NO_PORT)[-NO_PORT:]
        for number in np.flatnonzero(frames_of).tolist():
            pieces.append(self._run(number, port, engine_batch.arrivals, outcomes))
            numbers.append(np.full(len(pieces[-1]), number))
        messages, of_port = np.concatenate(pieces), np.concatenate(numbers)
        # Ticks are processed before the first frame of the batch, whatever follows.
        order = np.lexsort((messages["cause"], messages["time_ns"]))
        self._count(engine_batch, outcomes)
        return ReplayedBatch(
            engine_batch=engine_batch,
            disposition=outcomes.disposition,
            qlen_octets=outcomes.qlen_octets,
            tag=outcomes.tag,
            messages=messages[order],
            port=of_port[order],
            contexts=tuple(port.context for port in self._ports),
            machine=self.machine,
            first_time_ns=self._intake.first_time_ns or 0,
        )

    def _run(
        self, number: int, port: NDArray[np.int64], arrivals: Arrivals, outcomes: Outcomes
    ) -> NDArray[Any]:
        """Run the frames of port ``number``; return the messages, with causes as indices in the batch."""
        own = port == number
        if own.all():
            messages = self._port(number).run(arrivals, outcomes)
        else:
            chosen = np.flatnonzero(own)
            part = Outcomes._make(column[chosen] for column in outcomes)
            messages = self._port(number).run(Arrivals._make(column[chosen] for column in arrivals), part)
            outcomes.disposition[chosen] = part.disposition
            outcomes.qlen_octets[chosen] = part.qlen_octets
            outcomes.tag[chosen] = part.tag
            caused = messages["cause"] >= 0
            messages["cause"][caused] = chosen[messages["cause"][caused]]
        arrived = own & (outcomes.disposition != PASSED_BY)
        self._port(number).counts.add_frames(arrivals, arrived, arrived & (outcomes.disposition == DROPPED))
        return messages

    def _port(self, number: int) -> _RunningPort:
        while len(self._ports) <= number:
            self._ports.append(self._new_port(len(self._ports)))
        return self._ports[number]

    def _new_port(self, number: int) -> _RunningPort:
        # Each port of a switch has its own address.
        mac = (int.from_bytes(self._config.cp_mac) + number) % (1 << 48)
        context = PortContext(
            rate_bps=self._config.rate_bps,
            link_rate_bps=self._config.rate_bps,
            cp_mac=mac.to_bytes(6),
            stations=_LARGEST_STATIONS if self.machine.knows_stations else 1,
            flows=1,
            ethertypes=self._ethertypes,
        )
        return _RunningPort(
            self._chooser.name(number), number, self.machine, self._config, context, self._seed
        )

    def _count(self, engine_batch: EngineBatch, outcomes: Outcomes) -> None:
        arrivals = engine_batch.arrivals
        self._frames += len(engine_batch.batch)
        self._octets += int(arrivals.octets.sum())
        self._passed_by += int((outcomes.disposition == PASSED_BY).sum())
        self._untimed += engine_batch.untimed
        self._backwards += engine_batch.backwards
        if len(arrivals.time_ns):
            self._now_ns = int(arrivals.time_ns[-1])
        if self._series is not None and self._flows is not None:
            number = self._flows.numbers(arrivals.station, arrivals.flow)
            self._series.offered(number, arrivals.time_ns, arrivals.octets)
            self._series.passed(number, arrivals.time_ns, arrivals.octets, outcomes.disposition)
