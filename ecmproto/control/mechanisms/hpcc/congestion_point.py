"""The HPCC congestion point, which adds a record of the port to each frame that leaves the port.

The reaction point uses only shares of the link rate. A port reports the next higher rate if no code exists
for the port rate. The octets in records are then scaled by the ratio of the reported rate to the port rate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import NullCongestionPoint
from ecmproto.kernels.kernel import inlined
from ecmproto.kernels.record import new_record
from ecmproto.wire.formats.hpcc import (
    GBPS,
    QLEN_BITS,
    QLEN_UNIT,
    RATE_BITS,
    RECORDS,
    SENT_BITS,
    SENT_UNIT,
    TIME_BITS,
)

NUMBER_BITS = 16
_NUMBERS = (1 << NUMBER_BITS) - 1
_BPS = 10**9
_SIGN = 1 << RATE_BITS - 1


class HPCCPortState:
    """Record of a port's state (``kernels.record``)."""

    rate_code: int
    scale: float
    """Scale factor for octets in records: the reported rate divided by the port rate."""
    line_octets: int
    """Number of octets sent on the line until the last record."""
    sent_octets: float
    """Number of sent octets, scaled for records."""
    records: int
    """Number of records added to frames."""
    full_stacks: int
    """Number of frames without a new record because the stack was full."""


@inlined
def record_of(rate_code: int, now_ns: int, sent_octets: int, queue_octets: int) -> int:
    """Return a record as a signed 64-bit number; the queue length is limited to the maximum of the field."""
    # The highest bit of the code is the sign. In plain Python, a shift alone would give a larger number.
    record = ((rate_code ^ _SIGN) - _SIGN) << TIME_BITS | now_ns & (1 << TIME_BITS) - 1
    record = record << SENT_BITS | sent_octets // SENT_UNIT & (1 << SENT_BITS) - 1
    return record << QLEN_BITS | min(queue_octets // QLEN_UNIT, (1 << QLEN_BITS) - 1)


class HPCCPort(NullCongestionPoint):
    """The congestion point of a port.

    The mark of a frame is the number of hops followed by the path in 16 bits.
    """

    state: HPCCPortState
    number: int
    """Number of the port, which is combined into the path."""

    def add_record(
        self, now_ns: int, line_octets: int, port_octets: int, mark: int, stack: NDArray[np.int64]
    ) -> int:
        """Add a record of the port after the existing records, and count the hop in the mark."""
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
    """Set the line rate of the port for later records."""
    reported = min((each for each in GBPS if each * _BPS >= rate_bps), default=max(GBPS))
    state.rate_code, state.scale = GBPS.index(reported), reported * _BPS / rate_bps


def new_port(context: PortContext) -> HPCCPort:
    """Return a port before the first frame."""
    state = new_record(HPCCPortState)
    set_capacity(state, context.rate_bps)
    return HPCCPort(state, int.from_bytes(context.cp_mac[-2:]))
