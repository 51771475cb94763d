"""Single frames: decoding and encoding, compared with Scapy, dpkt and tshark on frames that all tools
decode.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpkt

from bench.captures import write_frames
from bench.contest import rates, show
from ecmproto import CNM, PFC, UDP, VLAN, CNTag, Data, Ethernet, Frame, IPv4, decode, encode

TSHARK_FRAMES = 20_000

SOURCE, DESTINATION = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
IP = IPv4(src=bytes([10, 0, 0, 2]), dst=bytes([10, 0, 0, 1]))


def run() -> None:
    """Print the speeds for a VLAN/IP/UDP frame, a PFC frame and a CN-tagged CNM."""
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False
    import scapy.layers.inet  # noqa: F401 (binds IP and UDP to Ethernet)
    from scapy.layers.l2 import Ether

    ethernet = Ethernet(dst=DESTINATION, src=SOURCE)
    udp = (VLAN(id=5, priority=3), IP, UDP(srcport=4791, dstport=4791), Data(data=bytes(64)))
    _contest("VLAN/IP/UDP", Frame(layers=(ethernet, *udp)), Ether, dpkt.ethernet.Ethernet)

    from scapy.contrib import mac_control  # noqa: F401 (binds MAC Control to Ethernet)

    _contest("PFC", Frame(layers=(ethernet, PFC(class_enable_vector=8, time3=65535))), Ether, None)

    from ecmproto.wire.layers import bind, unbind

    message = (VLAN(id=5, priority=6), CNTag(flow_id=7), CNM(qntz_fb=40, encap_prio=3, msdu=bytes(48)))
    bind()
    _contest("CNM (ours: Scapy with ecmproto.wire.layers)", Frame(layers=(ethernet, *message)), Ether, None)
    unbind()


def _contest(
    title: str, frame: Frame, ether: Callable[[bytes], Any], dpkt_ethernet: Callable[[bytes], Any] | None
) -> None:
    octets = encode(frame, fix=True)
    decoders = {"ecmproto": lambda: _repeat(lambda: decode(octets), 2000)}
    encoders = {"ecmproto": lambda: _repeat(lambda: encode(decoded), 5000)}
    decoded = decode(octets)
    packet = ether(octets)

    def rebuilt() -> bytes:
        packet.clear_cache()
        return bytes(packet)

    # Scapy dissects some layers lazily: access to the innermost layer dissects the whole frame
    decoders["Scapy"] = lambda: _repeat(lambda: ether(octets).lastlayer(), 200)
    encoders["Scapy"] = lambda: _repeat(rebuilt, 200)
    if dpkt_ethernet is not None:
        read = dpkt_ethernet(octets)
        decoders["dpkt"] = lambda: _repeat(lambda: dpkt_ethernet(octets), 2000)
        encoders["dpkt"] = lambda: _repeat(lambda: bytes(read), 2000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.pcap"
        write_frames(path, TSHARK_FRAMES, octets)
        decoders["tshark -V (process)"] = lambda: _with_tshark(path)
        show(f"decode one frame: {title}, {len(octets)} octets", rates(decoders), "frames/s")
    show(f"encode one frame: {title}", rates(encoders), "frames/s")


def _with_tshark(path: Path) -> int:
    """Dissect every frame to a tree with tshark; the start of tshark takes a small part of the time."""
    subprocess.run(["tshark", "-n", "-V", "-r", str(path)], check=True, capture_output=True)
    return TSHARK_FRAMES


def _repeat(work: Callable[[], object], times: int) -> int:
    for _ in range(times):
        work()
    return times
