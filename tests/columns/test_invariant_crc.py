"""Invariant CRCs of many frames are evaluated like the CRC of a single frame."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ecmproto import encode
from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.wire.codec.frame import decode_lax
from ecmproto.wire.formats.infiniband import CRC_STATUS, crc_status
from tests.dissect.sample import FRAMES
from tests.formats.roce import cnp_frame

ADDRESSES: Any = {"dst": "02:00:00:00:00:01", "src": "02:00:00:00:00:02"}


def told_one_by_one(frames: list[bytes], original: list[int]) -> dict[int, str | None]:
    """Return the verdict on the CRC of each frame that has one, or would."""
    told = {}
    for row, (octets, wire) in enumerate(zip(frames, original, strict=True)):
        frame = decode_lax(octets, original_octets=wire)
        told[row] = crc_status(frame)
    return {row: status for row, status in told.items() if status is not None}


def test_status_in_batches_equals_single_frames() -> None:
    whole = [
        encode(cnp_frame(7, dst_ip="10.0.0.1", src_ip="10.0.0.2", **ADDRESSES)),
        encode(cnp_frame(8, dst_ip="10.0.0.1", src_ip="10.0.0.2", vlan=5, **ADDRESSES)),
        encode(cnp_frame(9, dst_ip="2001:db8::1", src_ip="2001:db8::2", **ADDRESSES)),
        *(frame for frame in FRAMES.values() if len(frame) > 14),
    ]
    draw = random.Random(4)
    frames, original = [], []
    for number in range(3000):
        octets = bytearray(draw.choice(whole[:3] if number % 2 else whole))
        for _ in range(draw.choice((0, 0, 0, 1, 1, 3))):
            octets[draw.randrange(12, len(octets))] ^= 1 << draw.randrange(8)
        kept = draw.randrange(14, len(octets) + 1) if draw.random() < 0.2 else len(octets)
        octets += bytes(draw.choice((0, 0, 0, 4, 40)))
        frames.append(bytes(octets[:kept] if kept < len(octets) else octets))
        original.append(len(octets))
    column = extract(Batch.from_frames(frames, original=np.array(original)), [CRC_STATUS])[CRC_STATUS]
    found = dict(zip(column.rows.tolist(), column, strict=True))
    assert found == told_one_by_one(frames, original)
    assert {"good", "bad", "unverified"} == set(found.values())
