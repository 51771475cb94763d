"""What a format's parser gives its reader: a batch, a block, or why it cannot go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Block, ByteOrder, Format, Interface
from ecmproto.capture.source import Source

MAX_RECORD_OCTETS = 256 << 20
"""No record is longer, whatever its header says: longer claims are reported, not waited for."""

BATCH_OCTETS = 16 << 20
"""A batch spans no more than this and its last record, so that long frames do not make large batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The record at the source's position needs ``octets`` octets, described by ``what``."""

    octets: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The record at the source's position is wrong; ``at`` is the octet of the window where."""

    at: int
    needed: str
    got: str


class Parser(Protocol):
    """Turns a source's octets into batches and blocks, moving the source's position behind them."""

    format: Format
    byte_order: ByteOrder
    interfaces: list[Interface]
    warnings: list[str]
    frames: int
    batch_frames: int
    """How many frames a batch holds at most."""
    frames_only: bool
    """Whether only batches are asked for, so that they may go on behind blocks of other kinds."""

    def take(self, source: Source) -> Batch | Block | Shortage | Fault | None:
        """Return the next batch or block, or why there is none; None where to go on without either."""


def words(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], count: int, byte_order: ByteOrder
) -> NDArray[np.uint32]:
    """Return the ``count`` 32-bit words at each of ``starts`` (of any alignment): (len(starts), count)."""
    octets = 4 * count
    # One void item per octet of the buffer: indexing it copies whole headers, the quickest gather numpy has.
    headers = np.ndarray((len(buffer) - octets + 1,), dtype=f"V{octets}", buffer=buffer, strides=(1,))
    rows = headers[starts].view("<u4" if byte_order == "little" else ">u4")
    return rows.reshape(len(starts), count)


def word(source: Source, at: int, byte_order: ByteOrder) -> int:
    """Return the 32-bit word at octet ``at`` of the window."""
    return int.from_bytes(source.buffer[at : at + 4].tobytes(), byte_order)
