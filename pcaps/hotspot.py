"""Creates the hot-spot capture: the input of a switch port whose four sources send more than the port can
forward.

``python -m pcaps.hotspot OUT`` creates 20 ms at the input of a 10 Gb/s port. Four sources on separate 10 Gb/s
links send 1500-octet frames to one destination. Each source uses a random share of the slots of its link: 23
%, or 28 % from 6 to 10 ms. The total load is therefore 9.2 Gb/s, or 11.2 Gb/s from 6 to 10 ms.

The frames have VLAN 100 and priority 3. Three sources tag their flows (CN-TAG). The fourth source is a
single-flow station without tags. The first frame is the port's LLDP frame with the congestion notification
TLV. Frames are truncated to 128 octets, as in captures of fast links.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from ecmproto import TLV, UDP, VLAN, CNTag, CongestionNotificationTLV, Data, Ethernet, Frame, IPv4, encode
from ecmproto.frames.capture import PcapWriter
from ecmproto.units import WIRE_OVERHEAD_OCTETS, serialisation_ns
from ecmproto.wire.formats.lldp import DESTINATION as LLDP_DESTINATION

SOURCES = 4
OCTETS = 1500
SNAPLEN = 128
LINK_BPS = 10_000_000_000
START_NS = 1_700_000_000 * 10**9
DURATION_NS = 20_000_000
HOT_NS = (6_000_000, 10_000_000)
SHARE, HOT_SHARE = 0.23, 0.28
SEED = 802

_HOST = bytes.fromhex("0200000000")
_DESTINATION = _HOST + b"\x0a"
_SWITCH = _HOST + b"\xfe"


def data_frame(source: int) -> bytes:
    """Return the frame that source 1..4 sends: VLAN, CN-TAG (not source 4), RoCEv2-like UDP."""
    tags = (VLAN(id=100, priority=3), *([CNTag(flow_id=source)] if source < SOURCES else []))
    ip = IPv4(src=bytes([10, 0, 0, source]), dst=bytes([10, 0, 0, 10]))
    headers = (Ethernet(dst=_DESTINATION, src=_HOST + bytes([source])), *tags, ip)
    udp = UDP(srcport=49152 + source, dstport=4792)
    used = len(encode(Frame(layers=(*headers, udp))))
    return encode(Frame(layers=(*headers, udp, Data(data=bytes(OCTETS - used)))), fix=True)


def lldp_frame() -> bytes:
    """Return the port's LLDP frame: priority 3 is a CNPV and ready."""
    tlvs = (
        TLV(type=1, value=b"\x04" + _SWITCH),
        TLV(type=2, value=b"\x05hotspot"),
        TLV(type=3, value=(120).to_bytes(2, "big")),
        CongestionNotificationTLV(cnpv=1 << 3, ready=1 << 3),
        TLV(),
    )
    return encode(Frame(layers=(Ethernet(dst=LLDP_DESTINATION, src=_SWITCH), *tlvs)), fix=True)


def arrivals() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the data frames' times in ns from the start, in order, and their sources 1..4."""
    # RandomState's streams are frozen for good, a Generator's are not
    draws = np.random.RandomState(SEED)
    slot_ns = serialisation_ns(OCTETS + WIRE_OVERHEAD_OCTETS, LINK_BPS)
    times, sources = [], []
    for source in range(1, SOURCES + 1):
        end_ns = np.arange(source * slot_ns // SOURCES, DURATION_NS, slot_ns, dtype=np.int64)
        hot = (end_ns >= HOT_NS[0]) & (end_ns < HOT_NS[1])
        sent = end_ns[draws.random_sample(len(end_ns)) < np.where(hot, HOT_SHARE, SHARE)]
        times.append(sent)
        sources.append(np.full(len(sent), source))
    order = np.argsort(np.concatenate(times), kind="stable")
    return np.concatenate(times)[order], np.concatenate(sources)[order]


def write(path: str) -> None:
    """Write the capture to ``path``."""
    times_ns, sources = arrivals()
    templates = [np.frombuffer(data_frame(source)[:SNAPLEN], np.uint8) for source in range(1, SOURCES + 1)]
    with PcapWriter(path, snaplen=SNAPLEN, force=True) as writer:
        writer.write_frame(lldp_frame(), START_NS)
        matrix = np.stack(templates)[sources - 1]
        writer.write_matrix(matrix, START_NS + times_ns, original=OCTETS)


if __name__ == "__main__":
    write(sys.argv[1])
