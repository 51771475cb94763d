"""``ecmproto live cp`` as a library: a switch port between interfaces, until it is told to stop."""

from __future__ import annotations

import re

import numpy as np

from ecmproto.capture.batch import Batch
from ecmproto.control.machine import Machine
from ecmproto.errors import ParameterError
from ecmproto.live.port import SwitchPort
from ecmproto.replay.facts import PortFacts
from ecmproto.units import parse_octets
from ecmproto.wire import EtherTypes

_SLOT_OCTETS = 64
_LEAST_FRAME_OCTETS = 60
MOST_FRAMES = 1 << 18
"""A buffer given in octets holds no more frames than this."""
_FRAME_OCTETS = 1518
"""Of an ordinary full frame with a VLAN tag."""
_FRAMES = re.compile(r"([0-9]{1,12})\s*frames?")
LEAD_NS = 20_000
"""What handing a frame to the kernel takes, roughly: a port gives it away so much before it leaves."""
_DATA = bytes.fromhex("020000000002020000000001810000010800")
_WARMING_FRAMES = 400
_WARMING_OCTETS = 1500
_WARMING_BPS = 1_000_000


def slot_octets(mtus_octets: int) -> int:
    """Return what a frame may have where the largest MTU is ``mtus_octets``: headers and some tags more."""
    return -(-(mtus_octets + _SLOT_OCTETS) // _SLOT_OCTETS) * _SLOT_OCTETS


def buffer_of(text: str) -> tuple[int, int]:
    """Return the frames and the octets that a buffer such as ``1000frames`` or ``500kB`` holds.

    Frames are counted as 1518 octets where octets matter, shorter ones than 60 there are not.
    ParameterError for what is neither.
    """
    found = _FRAMES.fullmatch(text.strip())
    if found is None:
        octets = parse_octets(text)
        return min(MOST_FRAMES, max(1, octets // _LEAST_FRAME_OCTETS)), octets
    frames = int(found[1])
    if not 1 <= frames <= MOST_FRAMES:
        raise ParameterError(name="buffer", needed=f"1 to {MOST_FRAMES} frames", got=text)
    return frames, frames * _FRAME_OCTETS


def warm_up(machine: Machine, *, ethertypes: EtherTypes) -> None:
    """Have everything compiled that a port with ``machine`` runs, messages included."""

    def discard(*_: object) -> None:
        pass

    facts = PortFacts(rate_bps=_WARMING_BPS, buffer_octets=_WARMING_FRAMES * _WARMING_OCTETS)
    port = SwitchPort(
        machine, facts, inputs=1, frames=_WARMING_FRAMES, seed=1, start_ns=0, send=discard,
        ethertypes=ethertypes,
    )  # fmt: skip
    frame = np.frombuffer(_DATA.ljust(_WARMING_OCTETS, b"\0"), np.uint8)
    batch = Batch.from_matrix(np.tile(frame, (_WARMING_FRAMES, 1)))
    for place, now_ns in ((0, 1), (1, 2), (0, 10**10)):
        port.take(batch, place, now_ns)
    port.advance(2 * 10**10)
    port.snapshot(2 * 10**10)
