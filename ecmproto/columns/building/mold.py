"""An encoded frame and what is written into each copy of it: places for columns, then checksums."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec.frame import Frame, encode
from ecmproto.columns.building.checksums import Checksum, checksums_of
from ecmproto.columns.building.place import Place

Octets = NDArray[np.uint8]

Source: TypeAlias = Callable[[Any], NDArray[Any]]
"""What returns the values of some frames, numbers or rows of octets: it is given a slice or positions."""

_BLOCK_OCTETS = 1 << 18
"""How much of a matrix is filled at a time: it stays in the cache for all columns."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mold:
    """The octets of a frame, the places that are written over in each copy, and the checksums over them."""

    octets: Octets
    places: tuple[Place, ...] = ()
    checksums: tuple[Checksum, ...] = ()

    def fill(self, out: Octets, rows: Any, sources: Sequence[Source]) -> None:
        """Make ``out`` (n × length) frames: a copy a row, with the values that the sources have for ``rows``.

        ``rows`` is the number of the first of n frames that follow each other, or an array of n numbers;
        there is a source for each place.
        """
        step = max(1, _BLOCK_OCTETS // max(1, len(self.octets)))
        for low in range(0, len(out), step):
            block = out[low : low + step]
            picks = (
                rows[low : low + step]
                if isinstance(rows, np.ndarray)
                else slice(rows + low, rows + low + len(block))
            )
            block[:] = self.octets
            for place, source in zip(self.places, sources, strict=True):
                place.put(block, source(picks))
            for checksum in self.checksums:
                checksum.write(block)


def mold_of(
    frame: Frame,
    places: Iterable[Place],
    given: Sequence[Collection[str]],
    *,
    checksums: bool = True,
    transport: bool = True,
) -> Mold:
    """Return the mold of ``frame``, which is put right already but for what its places will hold.

    Of the checksums of ``frame`` but those ``given``, the mold has those that cover a place, or a checksum
    that does; with ``checksums`` False none.
    """
    places = tuple(places)
    written = [place.octets for place in places]
    covering: list[Checksum] = []
    for checksum in checksums_of(frame, given, transport=transport) if checksums else ():
        if checksum.covers(written):
            covering.append(checksum)
            written.append(range(checksum.at, checksum.at + 2))
    octets = np.frombuffer(encode(frame), np.uint8)
    return Mold(octets=octets, places=places, checksums=tuple(covering))
