"""Reading captures of any octets: `CaptureError` alone, nothing made up, the same frames in pieces."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from ecmproto.capture import CaptureReader, open_capture
from ecmproto.capture.source import CHUNK_OCTETS
from ecmproto.errors import CaptureError
from ecmproto.fuzz.difference import Difference

_PIECE_OCTETS = 1 << 12

Read = tuple[list[tuple[int, int, int, bytes]], str]
"""Frames with their times, lengths and interfaces, and what was wrong."""


class CaptureCheck:
    """Reads each item as a capture: whole, and in small pieces."""

    name = "captures"
    every = 1

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield what is made up or wrongly placed, and captures that pieces give otherwise."""
        for row, octets in enumerate(items):
            whole, wrong = _read(octets, CHUNK_OCTETS)
            pieces, _ = _read(octets, _PIECE_OCTETS)
            for what in wrong:
                yield Difference(what=what, detail=f"{whole[1]} in {octets[:256].hex()}", row=row)
            if whole != pieces:
                detail = f"{len(whole[0])} frames, {whole[1]}; in pieces {len(pieces[0])}, {pieces[1]}"
                yield Difference(what="a capture in pieces is another", detail=detail, row=row)


def _read(octets: bytes, chunk_octets: int) -> tuple[Read, list[str]]:
    frames: list[tuple[int, int, int, bytes]] = []
    record_octets, wrong = 0, []
    try:
        reader = open_capture(io.BytesIO(octets), chunk_octets=chunk_octets)
    except CaptureError as error:
        return ([], str(error)), []
    with reader:
        for batch in reader:
            rows = (batch.time_ns.tolist(), batch.original.tolist(), batch.interface.tolist(), batch.frames())
            frames += zip(*rows, strict=True)
            record_octets += int(batch.record_length.sum())
            if (batch.captured > batch.record_length).any():
                wrong.append("a frame longer than its record")
            if (batch.interface >= len(reader.interfaces)).any():
                wrong.append("a frame of an interface that is not described")
    if record_octets > len(octets):
        wrong.append("more octets of records than there are")
    wrong += _misplaced(reader, len(octets), len(frames))
    return (frames, str(reader.problem)), wrong


def _misplaced(reader: CaptureReader, octets: int, frames: int) -> Iterator[str]:
    if reader.problem is not None:
        if not 0 <= reader.problem.offset <= octets:
            yield "a problem outside the capture"
        if reader.problem.frame != frames:
            yield "a problem after another number of frames"
