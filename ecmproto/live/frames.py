"""Frames on their way through a device: those that wait, in a store of fixed size, and those that leave."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import inlined


class Incoming(NamedTuple):
    """Frames that came in together, by columns, as in `ecmproto.capture.batch.Batch`."""

    buffer: NDArray[np.uint8]
    offset: NDArray[np.int64]
    captured: NDArray[np.int64]
    original: NDArray[np.int64]


class Leaving(NamedTuple):
    """Frames that are to leave by each of a device's places: a row a place, of which ``frames`` are there.

    Their octets lie one behind the other in ``octets``, of which ``used[0]`` are.
    """

    frames: NDArray[np.int64]
    used: NDArray[np.int64]
    octets: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]


def new_leaving(places: int, *, frames: int, largest_octets: int) -> Leaving:
    """Return room for ``frames`` frames of up to ``largest_octets`` to leave at once."""
    return Leaving(
        np.zeros(places, np.int64),
        np.zeros(1, np.int64),
        np.zeros(frames * largest_octets, np.uint8),
        np.zeros((places, frames), np.int64),
        np.zeros((places, frames), np.int64),
    )


def empty(leaving: Leaving) -> None:
    """Make room: all that was there has left."""
    leaving.frames[:] = 0
    leaving.used[0] = 0


@inlined
def has_space(leaving: Leaving, largest_octets: int) -> bool:
    """Whether one frame more may leave by every place."""
    room = leaving.offset.shape[1]
    for place in range(len(leaving.frames)):
        if leaving.frames[place] >= room:
            return False
    return bool(leaving.used[0] + largest_octets <= len(leaving.octets))


@inlined
def put(leaving: Leaving, buffer: NDArray[np.uint8], start: int, octets: int) -> int:
    """Copy a frame to the octets that leave; return where it stands there."""
    at = leaving.used[0]
    copy(buffer, start, leaving.octets, at, octets)
    leaving.used[0] = at + octets
    return int(at)


@inlined
def let_leave(leaving: Leaving, place: int, at: int, octets: int) -> None:
    """Let the frame that stands at ``at`` leave by ``place``."""
    frame = leaving.frames[place]
    leaving.offset[place, frame] = at
    leaving.length[place, frame] = octets
    leaving.frames[place] = frame + 1


@inlined
def copy(source: NDArray[np.uint8], start: int, target: NDArray[np.uint8], at: int, octets: int) -> None:
    """Copy ``octets`` octets from ``start`` on in ``source`` to ``at`` in ``target``."""
    from_, to = source[start : start + octets], target[at : at + octets]
    for i in range(len(from_)):
        to[i] = from_[i]


class Store(NamedTuple):
    """Octets of frames that wait: slot i from i · ``slot_octets`` on."""

    octets: NDArray[np.uint8]
    slot_octets: int


def new_store(slots: int, slot_octets: int) -> Store:
    """Return a store; memory that no frame has stood in yet takes no room."""
    return Store(np.zeros(slots * slot_octets, np.uint8), slot_octets)
