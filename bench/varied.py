"""Varied frames of a congestion-managed network: messages, tagged data, IP and PAUSE."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from ecmproto import CNM, VLAN, CNTag, Ethernet, Frame, Pause, encode
from ecmproto.frames.capture import Batch, PcapWriter
from ecmproto.wire.codec import TCP, UDP, Data, IPv4, Layer

DIFFERENT = 1 << 13
"""Number of different frames, which are used in random order."""


def frames(count: int, seed: int = 5) -> list[bytes]:
    """Return random frames, of which three in five are messages."""
    generator = random.Random(seed)
    different = [_frame(generator) for _ in range(DIFFERENT)]
    return generator.choices(different, k=count)


def write_frames(path: Path, count: int) -> None:
    """Write a pcap of varied frames, one per µs."""
    with PcapWriter(str(path), force=True) as writer:
        writer.write_batch(Batch.from_frames(frames(count), time_ns=np.arange(count) * 1000))


def _frame(generator: random.Random) -> bytes:
    addresses = Ethernet(dst=_address(generator), src=_address(generator))
    tags = (
        VLAN(id=generator.randrange(1, 4095), priority=generator.randrange(8)),
        CNTag(flow_id=generator.randrange(1 << 16)),
    )
    kind = generator.random()
    if kind < 0.6:
        layers: tuple[Layer, ...] = (addresses, *tags[generator.randrange(2) :], _message(generator))
    elif kind < 0.8:
        layers = (addresses, *tags, *_packet(generator))
    elif kind < 0.95:
        layers = (addresses, *_packet(generator))
    else:
        layers = (addresses, Pause(pause_time=generator.randrange(1 << 16)))
    octets = encode(Frame(layers=layers), fix=True)
    return octets + bytes(max(0, 60 - len(octets)))


def _address(generator: random.Random) -> bytes:
    return b"\2" + generator.randbytes(5)


def _message(generator: random.Random) -> CNM:
    return CNM(
        qntz_fb=generator.randrange(1, 64),
        cpid=generator.randrange(1 << 64),
        q_offset=generator.randrange(-500, 100),
        q_delta=generator.randrange(-100, 100),
        encap_prio=generator.randrange(8),
        encap_dst=_address(generator),
        msdu=generator.randbytes(64),
    )


def _packet(generator: random.Random) -> tuple[Layer, ...]:
    transport = UDP if generator.random() < 0.5 else TCP
    return (
        IPv4(src=generator.randbytes(4), dst=generator.randbytes(4)),
        transport(srcport=generator.randrange(1024, 1 << 16), dstport=4791),
        Data(data=generator.randbytes(generator.randrange(600))),
    )
