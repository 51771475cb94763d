"""Frames that carry other frames, for example from switch mirrors. The inner frames are not decoded here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from ecmproto.frames.batch.inner import GENEVE_PORT, GPE_PORT, TZSP_PORT, VXLAN_PORT
from ecmproto.frames.columns import Column
from ecmproto.frames.stats.tally import CountedBatch
from ecmproto.values import dataclass
from ecmproto.wire.formats.gre import GRE
from ecmproto.wire.formats.ip import SFLOW_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """An encapsulation, and the field and the value that identify the encapsulation."""

    name: str
    field: Literal["ip.proto", "ipv6.nxt", "udp.dstport"]
    value: int


_GRE = "GRE or ERSPAN"
MIRRORS = (
    Mirror(name=_GRE, field="ip.proto", value=GRE.ip_protocol or 0),
    Mirror(name=_GRE, field="ipv6.nxt", value=GRE.ip_protocol or 0),
    Mirror(name="VXLAN", field="udp.dstport", value=VXLAN_PORT),
    Mirror(name="VXLAN-GPE", field="udp.dstport", value=GPE_PORT),
    Mirror(name="Geneve", field="udp.dstport", value=GENEVE_PORT),
    Mirror(name="sFlow", field="udp.dstport", value=SFLOW_PORT),
    Mirror(name="TZSP", field="udp.dstport", value=TZSP_PORT),
)
MIRROR_FIELDS = tuple(dict.fromkeys(each.field for each in MIRRORS))
"""Columns that the counts of encapsulations need."""


class MirrorCounts:
    """Frame counts by encapsulation."""

    def __init__(self) -> None:
        self._frames = np.zeros(len(MIRRORS), np.int64)

    def add(self, counted: CountedBatch) -> None:
        """Count the frames of a batch."""
        for field in MIRROR_FIELDS:
            numbers = [number for number, each in enumerate(MIRRORS) if each.field == field]
            values = [MIRRORS[number].value for number in numbers]
            self._frames[numbers] += _occurrences(counted.columns[field], values)

    def join(self, later: MirrorCounts) -> None:
        """Add the counts of ``later``, a counter of later frames."""
        self._frames += later._frames

    @property
    def mirrors(self) -> Mapping[str, int]:
        """Number of frames per name of the encapsulation."""
        result: dict[str, int] = {}
        for each, frames in zip(MIRRORS, self._frames.tolist(), strict=True):
            if frames:
                result[each.name] = result.get(each.name, 0) + frames
        return result


def _occurrences(column: Column, values: list[int]) -> list[int]:
    """Return the number of frames for each of ``values``. Only the outermost value of a frame counts."""
    result = np.asarray(column.outermost().values)
    return [int(np.count_nonzero(result == value)) for value in values] if len(result) else [0] * len(values)
