"""Gaps in the sequence numbers of mirrors, agents and queue pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import four_octets, signed
from ecmproto.frames.batch.packets import NOWHERE, Packet
from ecmproto.frames.batch.parse_tables import IP4
from ecmproto.kernels.kernel import inlined
from ecmproto.wire.formats.infiniband import ANSWERS, BTH, DATAGRAM, READ_REQUEST

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_SEQUENCES = 1 << 32
_MAX_LOSS = 1 << 31
"""Maximum step of a sequence number. A greater step means reordering or a restart of the sender."""
_MAX_STREAMS = 65536
"""Maximum number of streams whose sequence numbers are followed."""

_QUEUE_PAIRS = 256
"""Number of queue pairs whose PSNs are followed at the same time."""
_STEPS, _KEY, _LAST = -1, 0, 1
"""Layout of `PsnSteps`. _STEPS is the last row, which contains the number of steps and their sum. _KEY and
_LAST are the columns of all other rows.
"""
_MAX_STEP = 1 << 16
"""Upper bound of steps. A greater step means a new connection or a retransmission."""
_MIN_STEPS = 16
_BTH_OCTETS, _PSN_MASK = BTH.fixed_octets, (1 << 24) - 1

PsnSteps = Int64


def psn_steps() -> PsnSteps:
    """Return the initial state of `follow_psn`."""
    return np.zeros((_QUEUE_PAIRS + 1, 2), np.int64)


@inlined
def follow_psn(buffer: Octets, packet: Packet, steps: PsnSteps) -> None:
    """Update ``steps`` with the PSN difference between this and the previous packet of the queue pair."""
    if packet.bth == NOWHERE or packet.bth + _BTH_OCTETS > packet.stop:
        return
    opcode, queue_pair = signed(buffer[packet.bth]), four_octets(buffer, packet.bth + 4) & _PSN_MASK
    operation = opcode & 31
    # The PSNs of responses follow the requests, and the PSNs of datagrams follow the sender.
    if opcode >> 5 >= DATAGRAM or operation in ANSWERS:
        return
    key = four_octets(buffer, packet.network + (16 if packet.kind == IP4 else 36)) << 24 | queue_pair
    row = (key ^ key >> 24) % _QUEUE_PAIRS
    psn = four_octets(buffer, packet.bth + 8) & _PSN_MASK
    step = (psn - steps[row, _LAST]) & _PSN_MASK
    if steps[row, _KEY] == key:
        if step > _PSN_MASK - _MAX_STEP:
            return  # a retransmission, or a second copy of a packet that is mirrored twice
        if 0 < step < _MAX_STEP:
            steps[_STEPS, 0] += 1
            steps[_STEPS, 1] += step
    # A READ request uses one PSN for each response.
    steps[row, _KEY], steps[row, _LAST] = -1 if operation == READ_REQUEST else key, psn


def mean_step(steps: PsnSteps) -> float:
    """Return the mean PSN step. The result is 1 if no PSN is missing or if there are only a few packets."""
    count, total = steps[_STEPS].tolist()
    return total / count if count >= _MIN_STEPS else 1.0


class SequenceGaps:
    """Gaps in 32-bit sequence numbers, by stream."""

    def __init__(self) -> None:
        self.lost: int = 0
        """Number of missing sequence numbers."""
        self._last: dict[int, int] = {}

    def __bool__(self) -> bool:
        """Return whether any stream was counted."""
        return bool(self._last)

    def add(self, streams: Int64, numbers: Int64) -> None:
        """Count the gaps in the sequence numbers, in their order of arrival.

        ``streams`` contains the stream of each number.
        """
        if not len(streams):
            return
        if (streams != streams[0]).any():
            order = np.argsort(streams, kind="stable")
            streams, numbers = streams[order], numbers[order]
        starts = np.flatnonzero(np.diff(streams, prepend=streams[0] - 1))
        keys, before = streams[starts].tolist(), np.roll(numbers, 1)
        before[starts] = [
            self._last.get(key, number - 1)
            for key, number in zip(keys, numbers[starts].tolist(), strict=True)
        ]
        steps = (numbers - before) & (_SEQUENCES - 1)
        self.lost += int((steps[(steps > 1) & (steps < _MAX_LOSS)] - 1).sum())
        ends = np.append(starts[1:], len(streams)) - 1
        for key, number in zip(keys, numbers[ends].tolist(), strict=True):
            if key in self._last or len(self._last) < _MAX_STREAMS:
                self._last[key] = number
