"""Reading captures: frames per second of ecmproto, tshark, tcpdump, dpkt and Scapy's raw reader."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import dpkt
import numpy as np

from bench.contest import rates, show
from ecmproto import CNM, VLAN, CNTag, Ethernet, Frame, encode

FRAMES = 1_000_000
SLOW_FRAMES = 50_000


def message() -> bytes:
    """Return a CN-tagged CNM of 128 octets."""
    layers = (Ethernet(), VLAN(id=5, priority=6), CNTag(flow_id=7), CNM(qntz_fb=40, msdu=bytes(64)))
    return encode(Frame(layers=layers, trailer=bytes(18)), fix=True)


def write_frames(path: Path, frames: int, octets: bytes) -> None:
    """Write a pcap with ``frames`` copies of a frame, one per µs."""
    record = np.zeros(frames, dtype=[("head", "<u4", 4), ("octets", "u1", len(octets))])
    index = np.arange(frames)
    record["head"][:, 0], record["head"][:, 1] = np.divmod(index * 1000, 10**9)
    record["head"][:, 2:] = len(octets)
    record["octets"] = np.frombuffer(octets, dtype=np.uint8)
    header = np.array([0xA1B23C4D, 0x00040002, 0, 0, 262144, 1], dtype="<u4")
    path.write_bytes(header.tobytes() + record.tobytes())


def run() -> None:
    """Print the speed of each reader on a pcap of 128-octet frames."""
    from scapy.utils import RawPcapReader

    from ecmproto.frames.capture import open_capture

    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.pcap", Path(folder) / "small.pcap"
        write_frames(large, FRAMES, message())
        write_frames(small, SLOW_FRAMES, message())

        def index() -> int:
            with open_capture(str(large)) as reader:
                return sum(len(batch) for batch in reader)

        def every_frame() -> int:
            with open_capture(str(small)) as reader:
                return sum(1 for batch in reader for _ in batch.frames())

        def with_dpkt() -> int:
            with small.open("rb") as file:
                return sum(1 for _ in dpkt.pcap.Reader(file))

        def with_scapy() -> int:
            with RawPcapReader(str(small)) as reader:
                return sum(1 for _ in reader)

        def with_tcpdump() -> int:
            command = ["tcpdump", "-n", "--count", "-r", str(large)]
            subprocess.run(command, check=True, capture_output=True)
            return FRAMES

        def with_tshark() -> int:
            command = ["tshark", "-n", "-r", str(small), "-T", "fields", "-e", "frame.number"]
            subprocess.run(command, check=True, capture_output=True)
            return SLOW_FRAMES

        contenders = {
            "ecmproto, batches": index,
            "ecmproto, one bytes object a frame": every_frame,
            "tcpdump --count (process)": with_tcpdump,
            "dpkt": with_dpkt,
            "Scapy RawPcapReader": with_scapy,
            "tshark -T fields (process)": with_tshark,
        }
        show("read a pcap of 128-octet frames", rates(contenders, rounds=3), "frames/s")
