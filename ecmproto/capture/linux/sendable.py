"""What of a capture can be sent: whole Ethernet frames, without the FCS that the network card adds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

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
            kept = _without_fcs(kept, [each.fcs_octets for each in reader.interfaces])
            self.cut += int((kept.captured < kept.original).sum())
            yield kept


def _without_fcs(batch: Batch, fcs_octets: Sequence[int]) -> Batch:
    """Return the frames without what they have of the FCS; one that was cut lost it first."""
    lengths = np.array(fcs_octets, dtype=np.int64)
    if not lengths.any():
        return batch
    original = np.maximum(batch.original - lengths[batch.interface], 0)
    return dataclasses.replace(batch, original=original, captured=np.minimum(batch.captured, original))
