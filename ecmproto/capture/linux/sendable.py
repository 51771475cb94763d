"""What of a capture can be sent: whole Ethernet frames, without the FCS that the network card adds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from ecmproto.capture.batch import Batch
from ecmproto.capture.linktypes import ETHERNET
from ecmproto.capture.reader import CaptureReader


@dataclasses.dataclass(slots=True)
class Sendable:
    """The frames of a capture as they are sent; counts what is not as it was on the wire."""

    foreign: int = 0
    """Frames of other link types, left out."""
    cut: int = 0
    """Frames that the capture cut, sent as far as it has them."""

    def of(self, reader: CaptureReader) -> Iterator[Batch]:
        """Yield the Ethernet frames of ``reader``."""
        for batch in reader:
            kept = batch
            ethernet = [each.linktype == ETHERNET for each in reader.interfaces]
            if not all(ethernet):
                mask = np.array(ethernet)[batch.interface]
                self.foreign += int((~mask).sum())
                kept = batch.select(mask)
            self.cut += int((kept.captured < kept.original).sum())
            yield self._without_fcs(kept, [each.fcs_octets for each in reader.interfaces])

    def _without_fcs(self, batch: Batch, fcs_octets: Iterable[int]) -> Batch:
        lengths = np.array([*fcs_octets], dtype=np.int64)
        if not lengths.any():
            return batch
        # a frame that was cut lost its FCS first
        there = np.maximum(lengths[batch.interface] - (batch.original - batch.captured), 0)
        return dataclasses.replace(batch, captured=np.maximum(batch.captured - there, 0))
