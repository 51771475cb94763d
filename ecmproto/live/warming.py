"""Having everything compiled before frames come: devices with nothing attached, and a few frames."""

from __future__ import annotations

import numpy as np

from ecmproto.batch.flows import FlowTable
from ecmproto.capture.batch import Batch
from ecmproto.codec import EtherTypes
from ecmproto.engine.config import LoopConfig, PortConfig
from ecmproto.live.device import Device
from ecmproto.live.edge import Edge
from ecmproto.live.port import SwitchPort
from ecmproto.live.reaction_point import ReactionPoint
from ecmproto.live.tagging import Tagger, stripped, with_vlan, without_vlan
from ecmproto.mechanisms.api.machine import Machine
from ecmproto.units import NS_PER_S

_DATA = bytes.fromhex("020000000002020000000001810000010800")
_MESSAGE = bytes.fromhex("0200000000010200000000cc88b50700").ljust(60, b"\0")
_PAUSE = bytes.fromhex("0180c20000010200000000fa880800010001").ljust(60, b"\0")
_LLDP = bytes.fromhex("0180c200000e0200000000fb88cc0207040200000000fb0403076162060200780000").ljust(60, b"\0")
_CONTROL, _CONTROL_AT = 5, 14
_FRAMES = 400
_WHOLE_NS = 10 * NS_PER_S
_OCTETS = 1500
_MAC = bytes.fromhex("0200000000cc")


def warm_port(machine: Machine, ethertypes: EtherTypes, *, obeys: str | None = None) -> None:
    """Have compiled what a switch port with ``machine`` runs, messages included."""
    # Slow enough that it has something to say.
    config = PortConfig(rate_bps=1_000_000, buffer_octets=_FRAMES * _OCTETS)
    port = SwitchPort(
        machine, config, inputs=1, frames=_FRAMES, seed=1, start_ns=0, send=_discard, obeys=obeys,
        ethertypes=ethertypes,
    )  # fmt: skip
    _drive(port)
    port.take(Batch.from_frames([_PAUSE]), 1, _WHOLE_NS)


def warm_reaction_point(machine: Machine, ethertypes: EtherTypes) -> None:
    """Have compiled what a reaction point with ``machine`` runs."""
    point = ReactionPoint(
        machine, LoopConfig(link_rate_bps=10**8), seed=1, start_ns=0, send=_discard,
        longest_octets=2 * _OCTETS, ethertypes=ethertypes,
    )  # fmt: skip
    _drive(point)
    _look_up(point.flows)
    point.warm_up(_tagged(machine, ethertypes))
    _edit(machine, ethertypes)


def warm_edge(machine: Machine, ethertypes: EtherTypes) -> None:
    """Have compiled what an edge with ``machine`` runs."""
    edge = Edge(
        machine, link_rate_bps=10**8, mac=_MAC, seed=1, start_ns=0, send=_discard, ethertypes=ethertypes
    )  # fmt: skip
    _drive(edge)
    _look_up(edge.flows)
    _edit(machine, ethertypes)


def _drive(device: Device) -> None:
    frame = np.frombuffer(_DATA.ljust(_OCTETS, b"\0"), np.uint8)
    data = Batch.from_matrix(np.tile(frame, (_FRAMES, 1)))
    message = Batch.from_frames([_MESSAGE, _LLDP])
    for second, (batch, place) in enumerate(((data, 0), (data, 1), (message, 1), (message, 0), (data, 0))):
        device.take(batch, place, second * NS_PER_S)
        _ = device.due_ns  # asks the machines when they are due
    device.advance(_WHOLE_NS)
    device.snapshot(_WHOLE_NS)


def _tagged(machine: Machine, ethertypes: EtherTypes) -> bytes:
    """Return a frame with a tag of the machine's, if it has such."""
    octets = _DATA.ljust(_OCTETS, b"\0")
    tagged = Tagger(machine, ethertypes).tagged(octets, 1, 0) if machine.tag is not None else None
    return octets if tagged is None else tagged


def _edit(machine: Machine, ethertypes: EtherTypes) -> None:
    """Have compiled what takes tags out of frames, and what puts VLAN tags in."""
    batch = Batch.from_frames([_tagged(machine, ethertypes)])
    stripped(batch, machine, ethertypes)
    without_vlan(with_vlan(batch, _CONTROL, ethertypes), _CONTROL, ethertypes)
    without_vlan(batch, int.from_bytes(_DATA[_CONTROL_AT : _CONTROL_AT + 2]), ethertypes)


def _look_up(flows: FlowTable) -> None:
    """Ask for a flow, as messages do."""
    flows.find(_DATA[6:12], destination=_DATA[:6], priority=0)


def _discard(*_: object) -> None:
    pass
