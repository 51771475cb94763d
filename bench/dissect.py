"""`ecmproto dissect` on a large capture: frames per second of whole processes, compared with tshark and
tcpdump.

The capture has 128-octet frames with a VLAN tag and a CN-TAG. One frame in ten is a CNM. Addresses,
priorities, flows and messages vary.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from bench.contest import rates, show
from ecmproto import CNM, UDP, VLAN, CNTag, Ethernet, Frame, IPv4, encode

FRAMES = 1_000_000
SLOW_FRAMES = 100_000
_OCTETS = 128
_MESSAGES = 10
"""Number of frames per CNM."""


FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "eth.src",
    "eth.dst",
    "vlan.id",
    "vlan.priority",
    "ip.src",
    "ip.dst",
)
_OUR_FIELDS = (*FIELDS, "cntag.flow_id", "cnm.qntz_fb")


def run() -> None:
    """Print the speed of each program on each capture."""
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.pcap", Path(folder) / "small.pcap"
        write_varied(large, FRAMES)
        write_varied(small, SLOW_FRAMES)
        ours = [str(Path(sys.executable).with_name("ecmproto")), "dissect", "-r", str(large)]
        as_many = [*ours[:-1], str(small)]
        theirs = ["tshark", "-n", "-r", str(small)]
        tcpdump = ["tcpdump", "-n", "-e", "-r", str(small)]
        parquet = ["-T", "parquet", "-w", str(Path(folder) / "out.parquet"), "--force"]
        for title, contenders in {
            "JSON": {
                "ecmproto -T ndjson": _frames([*ours, "-T", "ndjson"], FRAMES),
                "ecmproto -T json": _frames([*ours, "-T", "json"], FRAMES),
                "tshark -T json": _frames([*theirs, "-T", "json"], SLOW_FRAMES),
                "tshark -T ek": _frames([*theirs, "-T", "ek"], SLOW_FRAMES),
            },
            "a line each": {
                "ecmproto": _frames(ours, FRAMES),
                "tshark": _frames(theirs, SLOW_FRAMES),
                "tcpdump": _frames(tcpdump, SLOW_FRAMES),
            },
            "a tree each": {
                "ecmproto -V": _frames([*ours, "-V"], FRAMES),
                "ecmproto -V, equal frames": _frames([*as_many, "-V"], SLOW_FRAMES),
                "tshark -V": _frames([*theirs, "-V"], SLOW_FRAMES),
            },
            "fields": {
                "ecmproto -T fields": _frames([*ours, "-T", "fields", *_chosen(_OUR_FIELDS)], FRAMES),
                "ecmproto -T csv": _frames([*ours, "-T", "csv", *_chosen(_OUR_FIELDS)], FRAMES),
                "ecmproto -T parquet, all there are": _frames([*ours, *parquet], FRAMES),
                "tshark -T fields": _frames([*theirs, "-T", "fields", *_chosen(FIELDS)], SLOW_FRAMES),
            },
        }.items():
            show(f"dissect 128-octet frames: {title}", rates(contenders, rounds=3), "frames/s")


def _frames(command: Sequence[str], frames: int) -> Callable[[], int]:
    def work() -> int:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return frames

    return work


def _chosen(fields: Sequence[str]) -> list[str]:
    return [word for field in fields for word in ("-e", field)]


def write_varied(path: Path, frames: int, period: int = _MESSAGES) -> None:
    """Write a pcap of varied frames between 8 hosts in 256 VLANs, about one per 150 ns.

    The last frame of each ``period`` frames is a CNM from one of 64 congestion points.
    """
    draw = np.random.default_rng(1)
    record = np.zeros(frames, dtype=[("head", "<u4", 4), ("octets", "u1", _OCTETS)])
    times = np.cumsum(draw.integers(100, 200, frames)) + 1_700_000_000_000_000_000
    record["head"][:, 0], record["head"][:, 1] = np.divmod(times, 10**9)
    record["head"][:, 2:] = _OCTETS
    octets = record["octets"]
    octets[:] = np.frombuffer(_data(), np.uint8)
    messages = np.arange(frames) % period == period - 1
    octets[messages] = np.frombuffer(_message(), np.uint8)
    octets[:, [4, 10, 18]] = 0
    for at, values in ((5, 8), (11, 8), (19, 16)):  # the last octets of both addresses and of the flow ID
        octets[:, at] = draw.integers(0, values, frames)
    octets[:, 14] = draw.integers(0, 8, frames) << 5
    octets[:, 15] = draw.integers(0, 256, frames)
    octets[~messages, 60:] = draw.integers(0, 256, (int((~messages).sum()), _OCTETS - 60))
    # the low bits of the quantized feedback, the local number, the offset and the delta
    said = octets[messages]
    said[:, 30] = 0
    for at in (23, 31, 32, 33, 34, 35):
        said[:, at] = draw.integers(0, 64, len(said))
    octets[messages] = said
    header = np.array([0xA1B23C4D, 0x00040002, 0, 0, 262144, 1], dtype="<u4")
    path.write_bytes(header.tobytes() + record.tobytes())


def _data() -> bytes:
    layers = (
        Ethernet(dst=b"\2\0\0\0\0\1", src=b"\2\0\0\0\0\2"), VLAN(id=5, priority=3), CNTag(flow_id=7),
        IPv4(src=b"\x0a\0\0\1", dst=b"\x0a\0\0\2", proto=17, len=_OCTETS - 22),
        UDP(srcport=5000, dstport=6000, length=_OCTETS - 42),
    )  # fmt: skip
    octets = encode(Frame(layers=layers), fix=False)
    octets = octets[:12] + b"\x81\0" + octets[14:16] + b"\x22\xe9" + octets[18:20] + b"\x08\0" + octets[22:]
    return octets + bytes(_OCTETS - len(octets))


def _message() -> bytes:
    sampled = _data()[20:82]
    layers = (
        Ethernet(dst=b"\2\0\0\0\0\2", src=b"\2\0\0\0\0\3"), VLAN(id=5, priority=6), CNTag(flow_id=7),
        CNM(qntz_fb=40, cpid=0x0200000000030001, encap_prio=3, encap_dst=b"\2\0\0\0\0\1", msdu=sampled),
    )  # fmt: skip
    octets = encode(Frame(layers=layers), fix=True)
    return octets + bytes(_OCTETS - len(octets))
