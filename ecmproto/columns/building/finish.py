"""What is computed of a frame whose fields columns set, and what of the columns that leaves.

The encoder says what it computes (`Layer.computed`), from the template.  A computed field is the same for all
frames of a shape, whatever its column says, but for two: a checksum, which is computed of each frame, and
the EtherType or length of what follows, which depends on what it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec.frame import Frame, encode, fixed
from ecmproto.columns.building.checksums import checksums_of
from ecmproto.formats.base import Layer
from ecmproto.formats.registry import dispatch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How frames are finished.

    ``fix`` computes what ``encode(frame, fix=True)`` does, with ``transport`` TCP's and UDP's checksums too.
    ``keep`` are the keys of each layer's fields that stay as they are.
    """

    fix: bool = True
    transport: bool = False
    keep: tuple[frozenset[str], ...] = ()

    def given(self, frame: Frame) -> tuple[frozenset[str], ...]:
        """Return ``keep`` with an entry for each layer of ``frame``."""
        return self.keep or (frozenset(),) * len(frame.layers)


def finished(frame: Frame, finish: Finish) -> Frame:
    """Return ``frame`` as ``finish`` wants it."""
    if not finish.fix:
        return frame
    given = finish.given(frame)
    frame = fixed(frame, given)
    # a header checksum that the encoder computed is over what is there, unless something given is wrong
    is_summed = not finish.transport and not any(given)
    return frame if is_summed else summed(frame, given, transport=finish.transport)


def summed(frame: Frame, given: Sequence[Collection[str]], *, transport: bool) -> Frame:
    """Return ``frame`` with its checksums computed, except those given."""
    checksums = checksums_of(frame, given, transport=transport)
    if not checksums:
        return frame
    octets = np.frombuffer(encode(frame), dtype=np.uint8).reshape(1, -1).copy()
    layers = list(frame.layers)
    for checksum in checksums:
        checksum.write(octets)
        number = int.from_bytes(octets[0, checksum.at : checksum.at + 2].tobytes(), "big")
        layers[checksum.layer] = layers[checksum.layer].replace(checksum=number)
    return dataclasses.replace(frame, layers=tuple(layers))


class Computing:
    """The fields that are computed of a finished frame's layers."""

    def __init__(self, frame: Frame, finish: Finish) -> None:
        self._layers = frame.layers
        self._given = finish.given(frame)
        self._formats = dispatch(frame.ethertypes)
        builds = [layer.build() for layer in frame.layers]
        self._rests = [b"".join(builds[index + 1 :]) for index in range(len(builds))]
        self._is_fixed = finish.fix

    def of(self, index: int, layer: Layer | None = None) -> dict[str, int]:
        """Return what is computed of layer ``index``, or of another layer in its place."""
        if not self._is_fixed:
            return {}
        layer = self._layers[index] if layer is None else layer
        following = self._layers[index + 1] if index + 1 < len(self._layers) else None
        computed = layer.computed(self._rests[index], following, self._formats)
        return {key: value for key, value in computed.items() if key not in self._given[index]}

    def announcing(self, index: int, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return what becomes of EtherTypes or lengths of what follows layer ``index``."""
        layer = self._layers[index]
        key = layer.next_key
        if not self._is_fixed or key in self._given[index]:
            return numbers
        used, places = np.unique(numbers, return_inverse=True)
        becomes = [
            self.of(index, layer.replace(**{key: number})).get(key, number) for number in used.tolist()
        ]
        return np.array(becomes, np.uint16)[places.reshape(-1)]
