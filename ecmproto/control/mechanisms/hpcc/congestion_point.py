"""HPCC's congestion point: a record of the port in each frame that leaves it.

The reaction point uses only shares of the link's rate.  A port whose rate has no code therefore reports the
next higher rate that has one, and its octets in proportion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import NullCongestionPoint
from ecmproto.kernels.kernel import inlined
from ecmproto.kernels.record import new_record
from ecmproto.wire.formats.hpcc import GBPS, QLEN_BITS, QLEN_UNIT, RECORDS, SENT_BITS, SENT_UNIT, TIME_BITS

NUMBER_BITS = 16
_NUMBERS = (1 << NUMBER_BITS) - 1
_BPS = 10**9


class HPCCPortState:
    """The state of a port; a record (``kernels.record``)."""

    rate_code: int
    scale: float
    """The factor of octets in records: the reported rate over the port's own."""
    line_octets: int
    """The octets on the line up to the last record."""
    sent_octets: float
    """The same octets, as reported."""
    records: int
    """Records added to frames."""
    full_stacks: int
    """Frames of full stacks, which got no record."""


@inlined
def record_of(rate_code: int, now_ns: int, sent_octets: int, queue_octets: int) -> int:
    """Return a record as a signed number of 64 bits; a longer queue than a record can contain is cut."""
    record = rate_code << TIME_BITS | now_ns & (1 << TIME_BITS) - 1
    record = record << SENT_BITS | sent_octets // SENT_UNIT & (1 << SENT_BITS) - 1
    return record << QLEN_BITS | min(queue_octets // QLEN_UNIT, (1 << QLEN_BITS) - 1)


class HPCCPort(NullCongestionPoint):
    """The congestion point of a port; the mark is the number of hops, then the path in 16 bits."""

    state: HPCCPortState
    number: int
    """The port's number in the path."""

    def add_record(
        self, now_ns: int, line_octets: int, port_octets: int, mark: int, stack: NDArray[np.int64]
    ) -> int:
        """Add the port's record after the earlier ones, and count the hop."""
        state, hops = self.state, mark >> NUMBER_BITS & _NUMBERS
        state.sent_octets += float(line_octets - state.line_octets) * state.scale
        state.line_octets = line_octets
        if hops < RECORDS:
            queue_octets = int(float(port_octets) * state.scale)
            stack[hops] = record_of(state.rate_code, now_ns, int(state.sent_octets), queue_octets)
            state.records += 1
        else:
            state.full_stacks += 1
        return min(hops + 1, _NUMBERS) << NUMBER_BITS | (mark ^ self.number) & _NUMBERS


def set_capacity(state: HPCCPortState, rate_bps: int) -> None:
    """Set the rate of the port's line for later records."""
    reported = min((each for each in GBPS if each * _BPS >= rate_bps), default=max(GBPS))
    state.rate_code, state.scale = GBPS.index(reported), reported * _BPS / rate_bps


def new_port(context: PortContext) -> HPCCPort:
    """Return a port before its first frame."""
    state = new_record(HPCCPortState)
    set_capacity(state, context.rate_bps)
    return HPCCPort(state, int.from_bytes(context.cp_mac[-2:]))
