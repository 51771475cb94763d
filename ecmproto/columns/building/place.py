"""Where a field's bits stand in every row of a matrix of frames, and how values get there."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

Octets = NDArray[np.uint8]

_WORDS = (8, 16, 32, 64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """``bits`` bits from bit ``bit`` of the frame on, the most significant first."""

    bit: int
    bits: int

    @property
    def octets(self) -> range:
        """The octets of the frame that hold any of the bits."""
        return range(self.bit // 8, -(-(self.bit + self.bits) // 8))

    def put(self, frames: Octets, values: NDArray[np.integer]) -> None:
        """Write a number into each row of ``frames`` (n × length), in two's complement.

        Numbers of more than 64 bits come as rows of octets (n × width).
        """
        if values.ndim == 2:
            self.put_octets(frames, values.astype(np.uint8, copy=False))
        elif self.bits in _WORDS and self.bit % 8 == 0:
            # one store a row; octet by octet takes twice the time
            word = frames[:, self.octets.start : self.octets.stop].view(f">u{self.bits // 8}")
            np.copyto(word[:, 0], values, casting="unsafe")
        else:
            self._put_bits(frames, values)

    def put_octets(self, frames: Octets, rows: Octets) -> None:
        """Write a row of whole octets into each row of ``frames``."""
        if not rows.shape[1]:
            return
        whole = f"V{rows.shape[1]}"
        target = frames[:, self.octets.start : self.octets.stop].view(whole)
        target[:, 0] = np.ascontiguousarray(rows).view(whole)[:, 0]

    def _put_bits(self, frames: Octets, values: NDArray[np.integer]) -> None:
        """Write beside what other fields have in the same octets."""
        span = self.octets
        shift = 8 * span.stop - self.bit - self.bits
        mask = ((1 << self.bits) - 1) << shift
        numbers = values.astype(np.uint64, casting="unsafe", copy=False)
        for octet in span:
            # this octet's lowest bit is so far above the number's
            above = 8 * (span.stop - 1 - octet) - shift
            part = (numbers >> np.uint64(above) if above >= 0 else numbers << np.uint64(-above)).astype(
                np.uint8
            )
            own = mask >> 8 * (span.stop - 1 - octet) & 0xFF
            if own == 0xFF:
                frames[:, octet] = part
            else:
                frames[:, octet] = frames[:, octet] & np.uint8(~own & 0xFF) | part & np.uint8(own)
