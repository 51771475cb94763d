"""Frames for tests, and functions that send and receive frames on a veth pair."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.capture.linux.reader import InterfaceReader
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.frames.capture.linux.sender import FrameSender
from tests.namespaces import PATIENCE_S

ADDRESSES = bytes.fromhex("020000000002020000000001")

TAGGED = {
    "untagged": "0800",
    "C-tag": "8100600a22e7",
    "S-tag": "88a8200122e9",
    "S-tag and C-tag": "88a8c0018100a00222e9",
    "three C-tags": "8100000181000002810000030800",
    "priority tag": "8100e0000800",
    "DEI": "8100100a0800",
    "all ones": "8100ffff0800",
    "old S-tag": "9100e0010800",
    "802.3 length": "0040",
    "PAUSE": "880800010001",
}


def frame(head: str, octets: int = 64) -> bytes:
    """Return a frame in which ``head`` follows the addresses."""
    start = ADDRESSES + bytes.fromhex(head)
    return start + bytes(i * 7 + octets & 0xFF for i in range(octets - len(start)))


def random_frames(count: int, seed: int) -> list[bytes]:
    """Return frames with random lengths and tags that fit into an MTU of 1500."""
    source = random.Random(seed)
    heads = list(TAGGED.values())
    return [
        frame(source.choice(heads), source.randint(26, 1514))[:1514] + source.randbytes(source.randint(0, 3))
        if source.random() < 0.01
        else frame(source.choice(heads), source.randint(26, 1510))
        for _ in range(count)
    ]


def send(frames: Sequence[bytes], interface: str) -> None:
    """Send all frames, and wait while the queue is full."""
    batch = Batch.from_frames(frames)
    with FrameSender(interface) as sender:
        done = 0
        while done < len(batch):
            done += sender.send(batch.buffer, batch.offset[done:], batch.captured[done:])
        assert sender.sent == len(frames)
        assert sender.octets == sum(map(len, frames))


def received(receiver: FrameReceiver, count: int) -> list[bytes]:
    """Return ``count`` frames, or the frames that arrive before the timeout."""
    frames: list[bytes] = []
    until = time.monotonic() + PATIENCE_S
    while len(frames) < count and time.monotonic() < until:
        batch = receiver.receive()
        frames += batch.frames() if batch is not None else ()
    return frames


def begun(receiver: FrameReceiver) -> list[bytes]:
    """Return the first frames of a process."""
    found = received(receiver, 1)
    assert found, "it has begun"
    return found


def captured(reader: InterfaceReader, count: int) -> list[Batch]:
    """Return batches of ``count`` frames, or the batches before the end of the reader."""
    batches: list[Batch] = []
    for batch in reader:
        batches.append(batch)
        if sum(map(len, batches)) >= count:
            break
    return batches


def frames_of(batches: Sequence[Batch]) -> list[bytes]:
    return [each for batch in batches for each in batch.frames()]


@contextmanager
def ended_after(reader: InterfaceReader, seconds: float = PATIENCE_S) -> Iterator[None]:
    """Stop the reader after some time, so that a test without frames ends."""
    import threading

    timer = threading.Timer(seconds, reader.stop)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def eventually(holds: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true before the timeout."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def readable_frames(folder: Path) -> list[bytes]:
    """Return the frames of a capture that is being written."""
    frames: list[bytes] = []
    for path in folder.iterdir():
        with suppress(CaptureError), open_capture(path) as reader:
            for batch in reader:
                frames += batch.frames()
    return frames
