"""Open-loop replay: the capture is the arrival process of one or several ports, whatever their messages say.

>>> replay = replay_open_loop(batches, machine=machine_of(QCN, {}), port=PortFacts(…), seed=1)
>>> for piece in merged(replay):       # replayed.merged; or: for replayed in replay
...     ...
>>> replay.summary()

Captures stream through: memory is a batch, the ports' buffers and statistics of fixed size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.flows import FlowTable
from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.mechanisms.machine import Machine, Place
from ecmproto.mechanisms.protocol import new_outbox
from ecmproto.record import columns
from ecmproto.replay.counts import PortCounts
from ecmproto.replay.facts import PortFacts, check_seed
from ecmproto.replay.fates import DROPPED, PASSED_BY
from ecmproto.replay.flow_series import FlowSeries
from ecmproto.replay.intake import Intake, Taken
from ecmproto.replay.labels import flow_labels
from ecmproto.replay.open_port import Arrivals, Outcomes, run
from ecmproto.replay.port import lengthen_ring, new_port, set_rate
from ecmproto.replay.ports import NO_PORT, ONE_PORT, Ports
from ecmproto.replay.replayed import ReplayedBatch
from ecmproto.replay.spans import second_half_ns
from ecmproto.replay.summary import PortSummary, ReplaySummary, port_summary

_MESSAGES_AT_ONCE = 4096
_LARGEST_STATIONS = 4096


class _Port:
    """One port under way."""

    def __init__(
        self, name: str, number: int, machine: Machine, facts: PortFacts, place: Place, seed: int
    ) -> None:
        self.name = name
        self.counts = PortCounts(machine)
        self.state = new_port(facts, tag_octets=machine.tag_octets)
        self.place = place
        # The first port draws from the seed alone, so that it does not matter how many there are.
        generator = np.random.default_rng([seed, number] if number else seed)
        self.point = machine.congestion_point(place, generator)
        self.outbox = new_outbox(_MESSAGES_AT_ONCE)
        self._machine = machine
        self._changes = list(facts.rate_changes)

    def run(self, arrivals: Arrivals, outcomes: Outcomes) -> NDArray[Any]:
        """Run all ``arrivals``, the rate changing among them; return the messages."""
        pieces, position = [], 0
        while self._changes and arrivals.time_ns[-1] >= self._changes[0].time_ns:
            change = self._changes.pop(0)
            until = int(np.searchsorted(arrivals.time_ns, change.time_ns))
            pieces.append(
                self._run(Arrivals._make(column[:until] for column in arrivals), outcomes, position)
            )
            position = until
            # A frame that passes by just before the change: all comes first that is due until then.
            last = Arrivals._make(column[until : until + 1].copy() for column in arrivals)
            last.time_ns[:], last.occupies[:] = change.time_ns - 1, False
            spare = Outcomes._make(column[until : until + 1].copy() for column in outcomes)
            pieces.append(self._run(last, spare, 0))
            set_rate(self.state.line, change.rate_bps)
            self._machine.set_capacity(self.point, change.rate_bps)
        pieces.append(self._run(arrivals, outcomes, position))
        messages: NDArray[Any] = np.concatenate(pieces)
        self.counts.add_messages(messages)
        return messages

    def _run(self, arrivals: Arrivals, outcomes: Outcomes, position: int) -> NDArray[Any]:
        """Run ``arrivals`` from ``position`` on, making room wherever the kernel stops for it."""
        pieces, count = [], len(arrivals.time_ns)
        while True:
            before = position
            position = run(self.state, self.point, arrivals, outcomes, self.outbox, position)
            used = self.outbox.posted.count
            pieces.append(columns(self.outbox.messages)[:used].copy())
            self.outbox.posted.count = 0
            if position == count:
                break
            if position == before and not used:
                lengthen_ring(self.state, int(arrivals.priority[position]))
        messages: NDArray[Any] = np.concatenate(pieces)
        return messages

    def summary(self, now_ns: int) -> PortSummary:
        """Return what has come to the port so far, the time being ``now_ns``."""
        return port_summary(self.name, self.state.gauge, now_ns, self.counts)


class OpenLoopReplay:
    """A replay under way; made by ``replay_open_loop``, iterated once."""

    def __init__(
        self,
        batches: Iterable[Batch],
        *,
        machine: Machine,
        port: PortFacts,
        seed: int,
        ports: Ports,
        with_flows: bool,
        ethertypes: EtherTypes,
        interfaces: Sequence[Interface],
    ) -> None:
        check_seed(seed)
        self.machine = machine
        self._batches = batches
        self._facts = port
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
        self._ports: list[_Port] = []
        self._frames = self._octets = self._passed_by = self._untimed = self._backwards = 0
        self._now_ns = 0

    def __iter__(self) -> Iterator[ReplayedBatch]:
        for batch in self._batches:
            replayed = self._replay(self._intake.take(batch))
            yield replayed

    def summary(self) -> ReplaySummary:
        """Return what the replay has come to so far; its end, once iterated."""
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
            flow_span_ns=0 if self._series is None else self._series.span_ns,
            rate_bps=self._facts.rate_bps,
            rate_changes=self._facts.rate_changes,
            buffer_octets=self._facts.buffer_octets,
            buffer_frames=self._facts.buffer_frames,
            overhead_octets=self._facts.overhead_octets,
            seed=self._seed,
            parameters=self.machine.parameters_as_text(),
        )

    def flow_labels(self) -> dict[int, str]:
        """Return what flows are called, by their own numbers; empty without flows."""
        return {} if self._flows is None else flow_labels(self._flows)

    def flow_numbers(self, replayed: ReplayedBatch) -> NDArray[np.int64]:
        """Return the number of the flow that each message of ``replayed`` is about, −1 for none."""
        messages = replayed.messages
        if self._flows is None:
            return np.full(len(messages), -1)
        return self._flows.numbers(messages["station"], messages["flow"])

    def _replay(self, taken: Taken) -> ReplayedBatch:
        count = len(taken.batch)
        outcomes = Outcomes(
            np.full(count, PASSED_BY, np.uint8),
            np.full(count, -1, np.int64),
            taken.arrivals.tag.copy(),
        )
        port = self._chooser.of(taken)
        pieces, numbers = [columns(new_outbox(0).messages)], [np.zeros(0, np.int64)]
        frames_of = np.bincount(port - NO_PORT)[-NO_PORT:]
        for number in np.flatnonzero(frames_of).tolist():
            pieces.append(self._run(number, port, taken.arrivals, outcomes))
            numbers.append(np.full(len(pieces[-1]), number))
        messages, of_port = np.concatenate(pieces), np.concatenate(numbers)
        # Ticks stand before the first frame of the batch, whatever comes after them.
        order = np.lexsort((messages["cause"], messages["time_ns"]))
        self._count(taken, outcomes)
        return ReplayedBatch(
            taken=taken,
            fate=outcomes.fate,
            qlen_octets=outcomes.qlen_octets,
            tag=outcomes.tag,
            messages=messages[order],
            port=of_port[order],
            places=tuple(port.place for port in self._ports),
            machine=self.machine,
            first_time_ns=self._intake.first_time_ns or 0,
        )

    def _run(
        self, number: int, port: NDArray[np.int64], arrivals: Arrivals, outcomes: Outcomes
    ) -> NDArray[Any]:
        """Run the frames of port ``number``; return its messages, their causes as positions in the batch."""
        own = port == number
        if own.all():
            messages = self._port(number).run(arrivals, outcomes)
        else:
            chosen = np.flatnonzero(own)
            part = Outcomes._make(column[chosen] for column in outcomes)
            messages = self._port(number).run(Arrivals._make(column[chosen] for column in arrivals), part)
            outcomes.fate[chosen] = part.fate
            outcomes.qlen_octets[chosen] = part.qlen_octets
            outcomes.tag[chosen] = part.tag
            caused = messages["cause"] >= 0
            messages["cause"][caused] = chosen[messages["cause"][caused]]
        came = own & (outcomes.fate != PASSED_BY)
        self._port(number).counts.add_frames(arrivals, came, came & (outcomes.fate == DROPPED))
        return messages

    def _port(self, number: int) -> _Port:
        while len(self._ports) <= number:
            self._ports.append(self._new_port(len(self._ports)))
        return self._ports[number]

    def _new_port(self, number: int) -> _Port:
        # Each port of a switch has an address of its own.
        mac = (int.from_bytes(self._facts.cp_mac) + number) % (1 << 48)
        place = Place(
            rate_bps=self._facts.rate_bps,
            link_rate_bps=self._facts.rate_bps,
            cp_mac=mac.to_bytes(6),
            stations=_LARGEST_STATIONS if self.machine.knows_stations else 1,
            flows=1,
            ethertypes=self._ethertypes,
        )
        return _Port(self._chooser.name(number), number, self.machine, self._facts, place, self._seed)

    def _count(self, taken: Taken, outcomes: Outcomes) -> None:
        arrivals = taken.arrivals
        self._frames += len(taken.batch)
        self._octets += int(arrivals.octets.sum())
        self._passed_by += int((outcomes.fate == PASSED_BY).sum())
        self._untimed += taken.untimed
        self._backwards += taken.backwards
        if len(arrivals.time_ns):
            self._now_ns = int(arrivals.time_ns[-1])
        if self._series is not None and self._flows is not None:
            number = self._flows.numbers(arrivals.station, arrivals.flow)
            self._series.offered(number, arrivals.time_ns, arrivals.octets)
            self._series.passed(number, arrivals.time_ns, arrivals.octets, outcomes.fate)


def replay_open_loop(
    batches: Iterable[Batch],
    *,
    machine: Machine,
    port: PortFacts,
    seed: int,
    ports: Ports = ONE_PORT,
    with_flows: bool = False,
    ethertypes: EtherTypes = DEFAULT,
    interfaces: Sequence[Interface] = (),
) -> OpenLoopReplay:
    """Return the replay of ``batches`` of Ethernet frames through ports with ``machine``'s congestion point.

    ``ports`` says which port a frame goes to; all are as ``port`` says, each with its own buffer and, from
    ``port.cp_mac`` on, its own address.  ``seed`` makes the randomness; equal arguments give equal results
    however the frames are batched.  ``with_flows`` asks for the rates of flows.  ``interfaces`` (a reader's
    own list, which may grow) tell where frames end with an FCS, which queues do not count.  ParameterError
    for a value out of range.
    """
    return OpenLoopReplay(
        batches,
        machine=machine,
        port=port,
        seed=seed,
        ports=ports,
        with_flows=with_flows,
        ethertypes=ethertypes,
        interfaces=interfaces,
    )
