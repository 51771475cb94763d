"""Changes of a network during a run: rates of links, links that go down and return, and broken hosts."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ecmproto.control.engine.messages import send_storm
from ecmproto.control.engine.network import NetworkState
from ecmproto.control.engine.port import set_rate
from ecmproto.control.engine.switches import cut_link
from ecmproto.control.lab.model import Experiment, Link
from ecmproto.control.lab.simulation.routing import Routes
from ecmproto.control.lab.simulation.windows import Windows
from ecmproto.control.lab.simulation.wiring import Wiring
from ecmproto.control.mechanisms.api.machine import Machine
from ecmproto.control.mechanisms.api.protocol import (
    PAUSE_KIND,
    PFC_KIND,
    CongestionPoint,
    Message,
    flow_control_payload,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.lossless import MAX_QUANTA
from ecmproto.control.mechanisms.pause.reaction_point import ALL_PRIORITIES
from ecmproto.kernels.record import new_record
from ecmproto.units import quanta_to_ns


class Changes:
    """Future changes of a network, each kind in time order; broken hosts need a flow control.

    The initial losses of links are set at once.
    """

    def __init__(
        self, experiment: Experiment, wiring: Wiring, network: NetworkState, flow_control: str | None
    ) -> None:
        self._wiring, self._network = wiring, network
        names = [port.name for port in wiring.ports] + [line.name for line in wiring.host_lines]
        self._sender_of = {name: number for number, name in enumerate(names)}
        changes = [port.rate_changes for port in wiring.ports]
        changes += [line.rate_changes for line in wiring.host_lines]
        rates = ((each.time_ns, number, each.rate_bps) for number, own in enumerate(changes) for each in own)
        self._rates = deque(sorted(rates))
        outages = []
        for link in experiment.network.links:
            if link.loss or link.down:
                self._set_loss(link, link.loss)
            for begin_ns, end_ns in link.down:
                outages += [(begin_ns, link, True), (end_ns, link, False)]
        self._outages = deque(sorted(outages, key=lambda outage: outage[0]))
        self._down: set[int] = set()
        self._storms = _storm_frames(wiring) if flow_control else deque()
        self._pause = _longest_pause(flow_control)

    def next_ns(self) -> int:
        """Return the time of the next change; NEVER_NS without further changes."""
        return min(
            (each[0][0] for each in (self._rates, self._outages, self._storms) if each), default=NEVER_NS
        )

    def apply(
        self, now_ns: int, machine: Machine, points: Sequence[CongestionPoint], windows: Windows
    ) -> None:
        """Apply the changes of the time ``now_ns``."""
        network, ports = self._network, len(points)
        while self._rates and self._rates[0][0] == now_ns:
            _, sender, rate_bps = self._rates.popleft()
            if sender < ports:
                line = network.ports[sender].line
                set_rate(line, rate_bps)
                machine.set_capacity(points[sender], rate_bps)
                # The frame on the line continues at the old rate.
                begins_ns = max(now_ns, line.departure_ns if line.in_service_octets > 0 else 0)
                windows.set_rate(sender, rate_bps, int(begins_ns))
            else:
                network.links[sender - ports].rate_bps = rate_bps
        if self._outages and self._outages[0][0] == now_ns:
            self._change_links(now_ns)
        while self._storms and self._storms[0][0] == now_ns:
            _, station, port = self._storms.popleft()
            send_storm(network, self._pause, station, port, now_ns)

    def _change_links(self, now_ns: int) -> None:
        """Take links down or up at ``now_ns``, and compute new routes."""
        network, wiring = self._network, self._wiring
        while self._outages and self._outages[0][0] == now_ns:
            _, link, goes_down = self._outages.popleft()
            self._set_loss(link, 1.0 if goes_down else link.loss)
            for sender in self._senders_on(link):
                if goes_down:
                    self._down.add(sender)
                    cut_link(network, sender)
                else:
                    self._down.discard(sender)
        routes = Routes(wiring.ports, len(wiring.switches), len(wiring.hosts), dead=self._down)
        network.routes, network.choices = routes.offsets, routes.choices

    def _senders_on(self, link: Link) -> list[int]:
        """Return the two senders on a link: ports, or hosts, which are numbered after the ports."""
        return [self._sender_of[f"{link.a}>{link.b}"], self._sender_of[f"{link.b}>{link.a}"]]

    def _set_loss(self, link: Link, loss: float) -> None:
        ports = len(self._wiring.ports)
        for sender in self._senders_on(link):
            if sender < ports:
                self._network.outputs[sender].loss = loss
            else:
                self._network.links[sender - ports].loss = loss


def _storm_frames(wiring: Wiring) -> deque[tuple[int, int, int]]:
    """Return the frames of broken hosts in time order: (time, host, port that leads to the host).

    A broken host sends a frame after each half of a pause.
    """
    interval_ns = quanta_to_ns(MAX_QUANTA, wiring.link_rate_bps) // 2
    port_to = {port.leads_to: number for number, port in enumerate(wiring.ports)}
    frames = [
        (time_ns, station, port_to[station])
        for station, host in enumerate(wiring.hosts)
        for begin_ns, end_ns in host.storms
        for time_ns in range(max(1, begin_ns), end_ns, interval_ns)
    ]
    return deque(sorted(frames))


def _longest_pause(flow_control: str | None) -> Message:
    """Return the message of a broken host: the longest pause, for all priorities."""
    message = new_record(Message)
    message.kind = PFC_KIND if flow_control == "pfc" else PAUSE_KIND
    fields = flow_control_payload(message)
    fields.enable_vector, fields.quanta = ALL_PRIORITIES, MAX_QUANTA
    return message
