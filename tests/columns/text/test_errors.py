"""Programs that tell malformed frames, and what is malformed."""

from __future__ import annotations

from collections.abc import Iterator

from ecmproto.capture import Batch
from ecmproto.codec import VLAN, decode_lax
from ecmproto.columns.text.pieces import Decimal, Mark, Path, Piece, Power, RecordNumber, Sum, When
from ecmproto.columns.text.renderer import Renderer
from tests.dissect.sample import FRAMES

IP = FRAMES["tcp"][:34]


def alone(batch: Batch) -> Iterator[str]:
    return (f"alone {number}\n" for number in batch.numbers)


def text(batch: Batch, pieces: list[Piece], *, malformed: bool = False) -> str:
    def write(path: Path) -> list[Piece] | None:
        return None if VLAN in path.layers else [*pieces, "\n"]

    rendering = Renderer(write, sampled=False, malformed=malformed, worth_frames=1)
    return b"".join(map(bytes, rendering.batch(batch, alone))).decode()


ERROR: list[Piece] = [
    Decimal(RecordNumber.FLAWED), When(RecordNumber.ERROR, 1, 1 << 60, [" ", Mark.ERROR], [" none"])
]  # fmt: skip


def test_each_frame_has_its_own_error() -> None:
    # whole, told alone, of other lengths and of one, cut off
    bodies = [FRAMES["tcp"], FRAMES["data"], IP[:20], IP[:33], IP[:20], IP]
    batch = Batch.from_frames(bodies, original=[*map(len, bodies[:-1]), 100])
    expected = ["0 none", "alone 1", *(f"1 {decode_lax(body).error}" for body in bodies[2:5]), "1 none"]
    assert text(batch, ERROR, malformed=True).split("\n")[:-1] == expected


def test_malformed_frames_are_told_alone_unless_asked_for() -> None:
    assert text(Batch.from_frames([FRAMES["tcp"], IP[:20]]), ERROR) == "0 none\nalone 1\n"


def test_sums_and_powers() -> None:
    batch = Batch.from_frames([bytes(20)], time_ns=[3], original=[60])
    original, captured, time = RecordNumber.ORIGINAL, RecordNumber.CAPTURED, RecordNumber.TIME_NS
    pieces: list[Piece] = [
        Decimal(Sum(original, captured, -2, 5)), " ", Decimal(Sum(original, more=-61)), " ",
        Decimal(Power(captured, time, 10)),
    ]  # fmt: skip
    assert text(batch, pieces) == f"{60 - 2 * 20 + 5} -1 {10 * (20 << 3)}\n"
