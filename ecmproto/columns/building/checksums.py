"""Internet checksums over many frames at once (RFC 1071), and which of them a frame has.

The encoder computes the checksum of an IPv4 header alone; here are those that also cover a pseudo header
(TCP's and UDP's, but for UDP over IPv4 that has 0, none), and all of them over many frames.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec.frame import Frame
from ecmproto.formats.ip import (
    PROTO_TCP,
    PROTO_UDP,
    TCP,
    UDP,
    Extension,
    FragmentHeader,
    IPv4,
    IPv6,
    Routing,
)

Octets = NDArray[np.uint8]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """One checksum: the octet it stands at, the octet ranges it covers and what else it counts."""

    layer: int
    at: int
    ranges: tuple[tuple[int, int], ...]
    constant: int = 0
    never_zero: bool = False
    """UDP writes a sum of 0 as 0xFFFF, since 0 says that there is none (RFC 768)."""

    def covers(self, written: Iterable[range]) -> bool:
        """Return whether any of the octets ``written`` goes into it."""
        return any(start < part.stop and part.start < stop for part in written for start, stop in self.ranges)

    def write(self, frames: Octets) -> None:
        """Compute it for each row of ``frames`` (n × length) and write it there."""
        frames[:, self.at : self.at + 2] = 0
        total = np.full(len(frames), self.constant, dtype=np.uint64)
        for start, stop in self.ranges:
            words = frames[:, start : stop - (stop - start) % 2].view(">u2")
            total += words.sum(axis=1, dtype=np.uint64)
            if (stop - start) % 2:
                total += frames[:, stop - 1].astype(np.uint64) << np.uint64(8)
        for _ in range(4):
            total = (total & np.uint64(0xFFFF)) + (total >> np.uint64(16))
        result = ~total & np.uint64(0xFFFF)
        if self.never_zero:
            result[result == 0] = 0xFFFF
        frames[:, self.at] = result >> np.uint64(8)
        frames[:, self.at + 1] = result & np.uint64(0xFF)


def checksums_of(
    frame: Frame, given: Sequence[Collection[str]], *, transport: bool = True
) -> tuple[Checksum, ...]:
    """Return the checksums to compute, innermost first: those whose field was not given.

    Without ``transport`` only those of IPv4 headers, which are what the encoder computes.
    """
    starts = frame.boundaries()
    found = []
    for index, value in enumerate(frame.layers):
        if "checksum" in given[index]:
            continue
        start, stop = starts[index], starts[index + 1]
        if isinstance(value, IPv4):
            found.append(Checksum(layer=index, at=start + 10, ranges=((start, stop),)))
        elif transport and isinstance(value, TCP | UDP) and index:
            outer = _transport(frame, starts, index)
            found += [outer] if outer else []
    return tuple(reversed(found))


def _transport(frame: Frame, starts: tuple[int, ...], index: int) -> Checksum | None:
    """Return a segment's checksum with its pseudo header (RFC 9293 3.1, RFC 8200 8.1)."""
    value, start = frame.layers[index], starts[index]
    under = index - 1
    while under and isinstance(frame.layers[under], Extension):
        # what a routing header makes of the destination, and what other fragments hold, is not known here
        if isinstance(frame.layers[under], Routing | FragmentHeader):
            return None
        under -= 1
    below, ip = frame.layers[under], starts[under]
    is_tcp = isinstance(value, TCP)
    has_none = isinstance(value, UDP) and value.checksum == 0
    if isinstance(below, IPv4) and not has_none:
        addresses = (ip + 12, ip + 20)
    elif isinstance(below, IPv6):
        addresses = (ip + 8, ip + 40)
    else:
        return None
    return Checksum(
        layer=index,
        at=start + (16 if is_tcp else 6),
        ranges=((start, starts[-1]), addresses),
        constant=(PROTO_TCP if is_tcp else PROTO_UDP) + starts[-1] - start,
        never_zero=not is_tcp,
    )
