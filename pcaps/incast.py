"""Creates the incast capture: four sources that each send 10 Gb/s to one 10 Gb/s port.

``python -m pcaps.incast OUT`` creates 60 ms of traffic. Four hosts on separate 10 Gb/s links send 1500-octet
frames without gaps to one host. Each host starts a quarter of a slot after the previous host. The frames have
VLAN 100 and priority 3, without tags of a mechanism, so a closed-loop replay shows the effect of each
mechanism. Frames are truncated to 64 octets.
"""

from __future__ import annotations

import sys

import numpy as np

from ecmproto import UDP, VLAN, Data, Ethernet, Frame, IPv4, encode
from ecmproto.frames.capture import PcapWriter
from ecmproto.units import WIRE_OVERHEAD_OCTETS, serialisation_ns

SOURCES = 4
OCTETS = 1500
SNAPLEN = 64
LINK_BPS = 10_000_000_000
START_NS = 1_700_000_000 * 10**9
DURATION_NS = 60_000_000

_HOST = bytes.fromhex("0200000000")
_DESTINATION = _HOST + b"\x0a"


def data_frame(source: int) -> bytes:
    """Return the frame that source 1..4 sends."""
    headers = (
        Ethernet(dst=_DESTINATION, src=_HOST + bytes([source])),
        VLAN(id=100, priority=3),
        IPv4(src=bytes([10, 0, 0, source]), dst=bytes([10, 0, 0, 10])),
        UDP(srcport=49152 + source, dstport=4792),
    )
    used = len(encode(Frame(layers=headers)))
    return encode(Frame(layers=(*headers, Data(data=bytes(OCTETS - used)))), fix=True)


def write(path: str, duration_ns: int = DURATION_NS) -> None:
    """Write the capture to ``path``."""
    slot_ns = serialisation_ns(OCTETS + WIRE_OVERHEAD_OCTETS, LINK_BPS)
    slots = np.arange(0, duration_ns - slot_ns, slot_ns, dtype=np.int64)
    shifts = np.arange(SOURCES) * slot_ns // SOURCES
    times_ns = (slots[:, np.newaxis] + shifts).reshape(-1)
    templates = [np.frombuffer(data_frame(source)[:SNAPLEN], np.uint8) for source in range(1, SOURCES + 1)]
    with PcapWriter(path, snaplen=SNAPLEN, force=True) as writer:
        writer.write_matrix(
            np.tile(np.stack(templates), (len(slots), 1)), START_NS + times_ns, original=OCTETS
        )


if __name__ == "__main__":
    write(sys.argv[1])
