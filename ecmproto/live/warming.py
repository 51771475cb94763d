"""Having everything compiled before frames come: devices with nothing attached, and a few frames."""

from __future__ import annotations

import numpy as np

from ecmproto.capture.batch import Batch
from ecmproto.control.machine import Machine
from ecmproto.live.device import Device
from ecmproto.live.edge import Edge
from ecmproto.live.port import SwitchPort
from ecmproto.live.reaction_point import ReactionPoint
from ecmproto.replay.facts import LoopFacts, PortFacts
from ecmproto.table.flows import FlowTable
from ecmproto.units import NS_PER_S
from ecmproto.wire import EtherTypes

_DATA = bytes.fromhex("020000000002020000000001810000010800")
_MESSAGE = bytes.fromhex("0200000000010200000000cc88b50700").ljust(60, b"\0")
_PAUSE = bytes.fromhex("0180c20000010200000000fa880800010001").ljust(60, b"\0")
_FRAMES = 400
_WHOLE_NS = 10 * NS_PER_S
_OCTETS = 1500
_MAC = bytes.fromhex("0200000000cc")


def warm_port(machine: Machine, ethertypes: EtherTypes, *, obeys: str | None = None) -> None:
    """Have compiled what a switch port with ``machine`` runs, messages included."""
    # Slow enough that it has something to say.
    facts = PortFacts(rate_bps=1_000_000, buffer_octets=_FRAMES * _OCTETS)
    port = SwitchPort(
        machine, facts, inputs=1, frames=_FRAMES, seed=1, start_ns=0, send=_discard, obeys=obeys,
        ethertypes=ethertypes,
    )  # fmt: skip
    _drive(port)
    port.take(Batch.from_frames([_PAUSE]), 1, _WHOLE_NS)


def warm_reaction_point(machine: Machine, ethertypes: EtherTypes) -> None:
    """Have compiled what a reaction point with ``machine`` runs."""
    point = ReactionPoint(
        machine, LoopFacts(link_rate_bps=10**8), seed=1, start_ns=0, send=_discard,
        longest_octets=2 * _OCTETS, ethertypes=ethertypes,
    )  # fmt: skip
    _drive(point)
    _look_up(point.flows)


def warm_edge(machine: Machine, ethertypes: EtherTypes) -> None:
    """Have compiled what an edge with ``machine`` runs."""
    edge = Edge(
        machine, link_rate_bps=10**8, mac=_MAC, seed=1, start_ns=0, send=_discard, ethertypes=ethertypes
    )  # fmt: skip
    _drive(edge)
    _look_up(edge.flows)


def _drive(device: Device) -> None:
    frame = np.frombuffer(_DATA.ljust(_OCTETS, b"\0"), np.uint8)
    data = Batch.from_matrix(np.tile(frame, (_FRAMES, 1)))
    message = Batch.from_frames([_MESSAGE])
    for second, (batch, place) in enumerate(((data, 0), (data, 1), (message, 1), (message, 0), (data, 0))):
        device.take(batch, place, second * NS_PER_S)
    device.advance(_WHOLE_NS)
    device.snapshot(_WHOLE_NS)


def _look_up(flows: FlowTable) -> None:
    """Ask for a flow, as messages do."""
    flows.find(_DATA[6:12], destination=_DATA[:6], priority=0)


def _discard(*_: object) -> None:
    pass
