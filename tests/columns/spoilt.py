"""Frames that are damaged at random from a seed, for the long comparison run."""

from __future__ import annotations

import random

from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.capture.batch import ETHERNET, INFINIBAND, LINUX_SLL, LINUX_SLL2, RAW_IP
from tests.dissect.sample import FRAMES

_LINKS = (
    (ETHERNET, 0), (ETHERNET, 0), (ETHERNET, 4), (LINUX_SLL, 0), (LINUX_SLL2, 0), (RAW_IP, 0),
    (INFINIBAND, 0), (147, 0),
)  # fmt: skip
INTERFACES = tuple(
    Interface(index=index, linktype=linktype, fcs_octets=fcs, local_index=index % 3)
    for index, (linktype, fcs) in enumerate(_LINKS)
)
_TAGS = [bytes.fromhex(tag) for tag in ("81000005", "22e90007", "88a82001", "9100e001")]
_WORDS = [
    bytes.fromhex(word)
    for word in (
        "88b5", "88b6", "22e7", "22e9", "88cc", "8808", "0800", "0806", "86dd", "88e7", "0020", "0000",
        "05dc", "05dd", "4500", "0204",
    )
]  # fmt: skip


def spoilt_batch(generator: random.Random, count: int) -> Batch:
    """Return frames of all types with up to four faults each, from interfaces of all types."""
    seeds = list(FRAMES.values())
    frames = [_spoilt(generator, generator.choice(seeds)) for _ in range(count)]
    return Batch.from_frames(
        frames,
        original=[len(frame) + generator.choice((0, 0, 0, 1, 4, 60)) for frame in frames],
        interface=[generator.randrange(len(_LINKS)) for _ in frames],
    )


def _spoilt(generator: random.Random, frame: bytes) -> bytes:
    octets = bytearray(frame)
    for _ in range(generator.randint(0, 4)):
        if octets:
            _spoil(generator, octets)
    return bytes(octets)


def _spoil(generator: random.Random, octets: bytearray) -> None:
    at = generator.randrange(len(octets))
    match generator.randrange(6):
        case 0 | 1:
            octets[at] ^= 1 << generator.randrange(8)
        case 2:
            octets[at] = generator.randrange(256)
        case 3:
            del octets[at:]
        case 4:
            octets[12:12] = generator.choice(_TAGS)
        case _:
            octets[at : at + 2] = generator.choice(_WORDS)
