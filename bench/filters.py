"""Display filters: printing or counting selected frames, compared with tshark and tcpdump.

tcpdump takes part if BPF can express the filter. The capture has 128-octet frames with a VLAN tag and a
CN-TAG, and a tenth of the frames are messages. All files are in the page cache. The times of whole processes
include the start, which takes most of ecmproto's time for a million frames. In the measurements within a
process, the kernels are loaded beforehand.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from bench.contest import rates, show
from ecmproto import CNM, UDP, VLAN, CNTag, Data, Ethernet, Frame, IPv4, encode
from ecmproto.frames.capture import PcapWriter, open_capture
from ecmproto.frames.columns.selection import count, selected
from ecmproto.frames.filter import compile_filter

FRAMES = 1_000_000
LARGE_FRAMES = int(os.environ.get("ECMPROTO_BENCH_FRAMES", "10000000"))
_STEP = 100_000
_COUNT = "import sys; from ecmproto.frames.columns.selection import count; print(count(*sys.argv[1:]))"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Filter:
    text: str
    bpf: str = ""
    """The equivalent filter for tcpdump, or an empty string if BPF cannot express the filter."""
    known: bool = True
    """Whether tshark has the fields of the filter."""


_FILTERS = (
    _Filter(text="vlan.id == 5", bpf="vlan 5"),
    _Filter(text="vlan", bpf="vlan"),
    _Filter(text="eth.src == 02:00:00:00:00:07", bpf="ether src 02:00:00:00:00:07"),
    _Filter(text="vlan.id in {1, 5..9}", bpf="vlan and (ether[14:2] & 0xfff = 1 or (ether[14:2] & 0xfff >= 5 "
            "and ether[14:2] & 0xfff <= 9))"),
    _Filter(text="vlan.priority == 3 and frame.len > 100", bpf="vlan and ether[14] >> 5 = 3 and greater 101"),
    _Filter(text="vlan.id == 5 or eth.src[5] == 07", bpf="vlan 5 or ether[11] = 7"),
    _Filter(text="frame.number > 100 and frame.number < 200"),
    _Filter(text='frame contains "Port 7"'),
    _Filter(text=r'frame matches r"port \d7"'),
    _Filter(text="cnm.qntz_fb > 40", known=False),
)  # fmt: skip


def run() -> None:
    """Print all results."""
    with tempfile.TemporaryDirectory() as folder:
        path, large = str(Path(folder) / "frames.pcap"), str(Path(folder) / "large.pcap")
        write(path, FRAMES)
        _in_process(path)
        for filter in _FILTERS:
            _contest(path, filter)
        write(large, LARGE_FRAMES)
        _large(large)


def write(path: str, frames: int) -> None:
    """Write frames with 16 VLANs, 8 priorities and 250 sources, one per µs; all files are equal."""
    udp = UDP(srcport=1, dstport=2)
    layers = (Ethernet(), VLAN(), CNTag(), IPv4(), udp, Data(data=b"Port 00".ljust(78)))
    message = (Ethernet(), VLAN(), CNTag(), CNM(msdu=bytes(64)))
    kinds = [encode(Frame(layers=each), fix=True).ljust(128, b"\0") for each in (layers, message)]
    generator = np.random.default_rng(1)
    with PcapWriter(path) as writer:
        for first in range(0, frames, _STEP):
            draws = generator.integers(0, 1 << 16, (_STEP, 4))
            is_message = draws[:, 0] % 10 == 0
            templates = np.frombuffer(b"".join(kinds), np.uint8).reshape(2, -1)
            matrix = templates[is_message.astype(np.intp)]
            matrix[:, :2], matrix[:, 6] = 2, 2
            matrix[:, 11] = draws[:, 1] % 250
            matrix[:, 14], matrix[:, 15] = draws[:, 2] % 8 << 5, draws[:, 2] // 8 % 16
            matrix[~is_message, 55:57] = ord("0") + draws[~is_message, 3:] // np.array([10, 1]) % 10
            matrix[is_message, 23] = draws[is_message, 3] % 64
            writer.write_matrix(matrix, np.arange(first, first + _STEP, dtype=np.int64) * 1000)


def _contest(path: str, filter: _Filter) -> None:
    command = [str(Path(sys.executable).with_name("ecmproto")), "dissect", "-r", path, "-Y", filter.text]
    contenders = {
        "ecmproto dissect -Y": lambda: _process(command),
        "ecmproto, counted": lambda: _process([sys.executable, "-c", _COUNT, path, filter.text]),
    }
    if filter.known:
        contenders["tshark -n -Y"] = lambda: _process(["tshark", "-n", "-r", path, "-Y", filter.text])
    if filter.bpf:
        contenders["tcpdump --count"] = lambda: _process(["tcpdump", "--count", "-r", path, filter.bpf])
    show(f"{filter.text}, whole processes", rates(contenders, rounds=1), "frames/s")


def _process(arguments: list[str]) -> int:
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return FRAMES


def _in_process(path: str) -> None:
    contenders = {filter.text: partial(_selected, path, filter.text) for filter in _FILTERS}
    print(f"\n{FRAMES:,} frames read and filtered in process")
    for text, figure in rates(contenders, rounds=3).items():
        print(f"  {text:<45} {figure.median:>12,.0f} frames/s, {count(path, text):>9,} selected")


def _selected(path: str, text: str) -> int:
    filter = compile_filter(text)
    with open_capture(path) as reader:
        for batch in reader:
            selected(batch, filter, interfaces=reader.interfaces)
    return FRAMES


def _large(path: str) -> None:
    """Count frames in a large capture, whose processing takes longer than the start of the process."""
    print(f"\n{LARGE_FRAMES:,} frames, whole processes")
    for text in ("vlan.id == 5", "vlan.priority == 3 and frame.len > 100"):
        ours = _timed([sys.executable, "-c", _COUNT, path, text])
        theirs = _timed(["tshark", "-n", "-r", path, "-Y", text])
        for name, (seconds, cpu_s) in {"ecmproto": ours, "tshark -n -Y": theirs}.items():
            print(f"  {text:<40} {name:<14} {seconds:7.2f} s, {cpu_s:6.2f} s of CPU")
        print(f"  ecmproto is {theirs[0] / ours[0]:.1f} ×, by CPU time {theirs[1] / ours[1]:.1f} ×")


def _timed(arguments: list[str]) -> tuple[float, float]:
    """Return the duration and the processor time of a process in seconds."""
    before, start = _cpu_s(), time.perf_counter()
    _process(arguments)
    return time.perf_counter() - start, _cpu_s() - before


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
