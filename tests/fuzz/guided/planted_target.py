"""A decoder with a defect that random inputs hardly find, and a decoder that ends the process."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence

from ecmproto.tools.fuzz.checks.base import Difference
from ecmproto.tools.fuzz.guided.targets import GuidedTarget

if "PLANTED_BROKEN" in os.environ:
    raise RuntimeError("planted")


class Planted:
    """A decoder that fails after it has read ``QCN``."""

    name = "planted"
    every = 1

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        for row, octets in enumerate(items):
            if read(octets) == 3:
                yield Difference(what="three octets are one too many", detail=octets.hex(), row=row)


def read(octets: bytes) -> int:
    """Return the number of octets of the word that are there."""
    if len(octets) > 0 and octets[0] == 0x51:
        if len(octets) > 1 and octets[1] == 0x43:
            if len(octets) > 2 and octets[2] == 0x4E:
                if len(octets) > 3 and octets[3] == 0x21 and "PLANTED_CRASH" in os.environ:
                    os.abort()
                return 3
            return 2
        return 1
    return 0


def one_octet_set(octets: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(octets))
    return octets[:at] + bytes([rng.randrange(256)]) + octets[at + 1 :]


TARGET = GuidedTarget(
    of="any octets",
    promises=("they are not QCN",),
    subject="captures",
    checks=lambda: [Planted()],
    instrumented=("tests.fuzz.guided.planted_target",),
    starts=lambda: [bytes(8)],
    mutate=one_octet_set,
    longest_octets=8,
)
