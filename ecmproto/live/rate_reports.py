"""DBP's rate reports on their way back through a port, whose congestion point may lower their rate (S002)."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.classes import FrameClasses, classify
from ecmproto.capture.batch import Batch
from ecmproto.codec import EtherTypes
from ecmproto.live.switching import forwarded
from ecmproto.mechanisms.dbp.messages import rate_of, with_rate
from ecmproto.mechanisms.protocol import CongestionPoint

_WORD_OCTETS = 4
"""The EtherType, and the discriminator word (wire-formats 1.1)."""
_PROTOCOL, _PROTOCOL_MASK, _TYPE_SHIFT = 4, 7, 4


def with_lower_rates(batch: Batch, point: CongestionPoint, ethertypes: EtherTypes) -> Batch:
    """Return ``batch`` with the rates of reports lowered to what ``point`` advertises."""
    classes = classify(batch.buffer, batch.offset, batch.captured, ethertypes=ethertypes)
    positions = _reports(batch, classes, ethertypes)
    if not len(positions):
        return batch
    buffer = batch.buffer.copy()
    for position in positions.tolist():
        octets = batch.frame(position)
        rate = rate_of(octets, ethertypes=ethertypes)
        if rate is None:
            continue
        lowered = int(forwarded(point, int(classes.priority[position]), rate))
        if lowered != rate:
            start = int(batch.offset[position])
            changed = with_rate(octets, lowered, ethertypes=ethertypes)
            buffer[start : start + len(octets)] = np.frombuffer(changed, np.uint8)
    buffer.flags.writeable = False
    return dataclasses.replace(batch, buffer=buffer)


def _reports(batch: Batch, classes: FrameClasses, ethertypes: EtherTypes) -> NDArray[np.int64]:
    """Return the positions of what looks like a report; a flood of other messages costs no more than this."""
    suspects = np.flatnonzero(classes.occupies & ~classes.sampled)
    if not len(suspects):
        return suspects
    at = classes.msdu_offset[suspects]
    whole = at + _WORD_OCTETS <= batch.captured[suspects]
    suspects = suspects[whole]
    at = batch.offset[suspects] + at[whole]
    types = batch.buffer[at].astype(np.uint16) << 8 | batch.buffer[at + 1]
    protocol, type = batch.buffer[at + 2] & _PROTOCOL_MASK, batch.buffer[at + 3] >> _TYPE_SHIFT
    is_report = (types == ethertypes.message) & (protocol == _PROTOCOL) & (type == 0)
    reports: NDArray[np.int64] = suspects[is_report]
    return reports
