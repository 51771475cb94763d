"""Crafting: a swept million frames into a pcap file, whole process, beside Scapy building and writing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.contest import rates, show

FRAMES = 65536 * 16
SCAPY_FRAMES = 2000


def run() -> None:
    """Print how many frames a second a sweep over CN-TAG flow ids and feedback values writes."""
    from ecmproto.layers import bind, unbind

    command = str(Path(sys.executable).with_name("ecmproto"))
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "sweep.pcap")

        swept = ["--sweep", "cntag.flow_id=0..65535", "--sweep", "cnm.qntz_fb=1..16"]
        arguments = [command, "craft", "cnm", *swept, "-w", out, "--force"]

        def sweep() -> int:
            subprocess.run(arguments, check=True, capture_output=True)
            return FRAMES

        bind()
        contenders = {"ecmproto craft --sweep (process)": sweep, "Scapy, wrpcap": lambda: _scapy(out)}
        show("craft into pcap", rates(contenders, rounds=3), "frames/s")
        unbind()


def _scapy(out: str) -> int:
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.utils import wrpcap

    from ecmproto.layers import CNM, CNTag

    frames = [
        Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02")
        / Dot1Q(vlan=5, prio=6)
        / CNTag(flow_id=i)
        / CNM(qntz_fb=i % 16)
        for i in range(SCAPY_FRAMES)
    ]
    wrpcap(out, frames)
    return SCAPY_FRAMES
