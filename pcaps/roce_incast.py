"""Creates the RoCE incast capture: eight queue pairs that each send 25 Gb/s to one 25 Gb/s port.

``python -m pcaps.roce_incast OUT`` creates 12 ms of RDMA WRITEs of 4096 octets with ECT(0). Eight hosts on
separate 25 Gb/s links send to one host. Each host starts an eighth of a slot after the previous host. The
capture also contains the first acknowledgements of the destination, which show the pairs of queue pairs. The
queue pairs are 0x201 to 0x208 at the destination, and 0x101 to 0x108 at the senders. The frames have VLAN 100
and priority 3, and are truncated to 80 octets.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from ecmproto import UDP, VLAN, Data, Ethernet, Frame, IPv4, encode
from ecmproto.frames.capture import PcapWriter
from ecmproto.units import WIRE_OVERHEAD_OCTETS, serialisation_ns
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.infiniband import ACKNOWLEDGE, AETH, BTH, ICRC

SOURCES = 8
WRITE_MIDDLE = 0x07
PAYLOAD_OCTETS = 4096
SNAPLEN = 80
LINK_BPS = 25_000_000_000
START_NS = 1_700_000_000 * 10**9
DURATION_NS = 12_000_000
ACKNOWLEDGED_FRAMES = 32
"""Frames of a queue pair to an acknowledge …"""
ACKNOWLEDGES = 4
"""The number of acknowledgements, whose return path is not part of the incast."""

_HOST = bytes.fromhex("0200000000")
_HERE, _ECT_0, _DSCP = 10, 2, 26
_PSN_AT = 14 + 4 + 20 + 8 + 9


def frame(source: int, destination: int, port: int, *layers: Layer) -> bytes:
    """Return a frame from one host to another."""
    headers = (
        Ethernet(dst=_HOST + bytes([destination]), src=_HOST + bytes([source])),
        VLAN(id=100, priority=3),
        IPv4(
            src=bytes([10, 0, 0, source]),
            dst=bytes([10, 0, 0, destination]),
            dsfield=_DSCP << 2 | _ECT_0,
            flags=2,
        ),
        UDP(srcport=port),
    )
    return encode(Frame(layers=(*headers, *layers)), fix=True)


def data_frame(source: int) -> bytes:
    """Return a frame of the queue pair of source 1 to 8."""
    write = BTH(opcode=WRITE_MIDDLE, qp=0x200 + source)
    return frame(source, _HERE, 49_152 + source, write, Data(data=bytes(PAYLOAD_OCTETS)), ICRC())


def acknowledge(source: int, psn: int) -> bytes:
    """Return an acknowledge of the frames up to one."""
    said = BTH(opcode=ACKNOWLEDGE, qp=0x100 + source, psn=psn)
    return frame(_HERE, source, 49_152 + source, said, AETH(), ICRC())


def write(path: str, duration_ns: int = DURATION_NS) -> None:
    """Write the capture to ``path``."""
    data = [data_frame(source) for source in range(1, SOURCES + 1)]
    slot_ns = serialisation_ns(len(data[0]) + WIRE_OVERHEAD_OCTETS, LINK_BPS)
    slots = np.arange(0, duration_ns - 2 * slot_ns, slot_ns, dtype=np.int64)
    shifts = np.arange(SOURCES) * slot_ns // SOURCES
    psn = np.arange(len(slots))
    # Of what is cut off, the invariant CRC is a part: the sequence numbers may be written over.
    rows = np.tile(np.stack([_row(octets) for octets in data]), (len(slots), 1))
    for octet in range(3):
        rows[:, _PSN_AT + octet] = np.repeat(psn >> 8 * (2 - octet) & 0xFF, SOURCES)
    said = psn[ACKNOWLEDGED_FRAMES - 1 :: ACKNOWLEDGED_FRAMES][:ACKNOWLEDGES]
    answers = [acknowledge(source, number) for number in said.tolist() for source in range(1, SOURCES + 1)]
    # An acknowledge leaves when the next frame comes.
    answered_ns = (slots[said][:, None] + slot_ns + shifts + 1).ravel()
    times_ns = np.concatenate([(slots[:, None] + shifts).ravel(), answered_ns])
    lengths = np.repeat([len(data[0]), len(answers[0])], [len(rows), len(answers)])
    order = np.argsort(times_ns, kind="stable")
    with PcapWriter(path, snaplen=SNAPLEN, force=True) as writer:
        for position in order.tolist():
            octets = rows[position].tobytes() if position < len(rows) else answers[position - len(rows)]
            writer.write_frame(octets, START_NS + int(times_ns[position]), original=int(lengths[position]))


def _row(octets: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(octets[:SNAPLEN], np.uint8)


if __name__ == "__main__":
    write(sys.argv[1])
