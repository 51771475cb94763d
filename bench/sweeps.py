"""Crafting: a million CNMs by array operations, in memory and into files, compared with single frames."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from bench.contest import rates, show
from ecmproto.frames.columns import extract
from ecmproto.frames.columns.building.frames import frames_from
from ecmproto.frames.columns.building.rebuilding import batch_from
from ecmproto.tools.craft import build
from ecmproto.wire.codec import CNM, CNTag, Frame, encode

FLOWS, FEEDBACK = 65536, int(os.environ.get("ECMPROTO_BENCH_SWEEP", "16"))
FRAMES = FLOWS * FEEDBACK
BATCH_FRAMES = 1 << 16
SLOW_FRAMES = 20_000
SCAPY_FRAMES = 2000
SEED = 1

TEMPLATE = build("cnm", flow_id=0, vlan=5)
DEST, SRC = "02:00:00:00:00:01", "02:00:00:00:00:02"


def run() -> None:
    """Print the frames per second of each method."""
    from ecmproto.wire.layers import bind, unbind

    bind()
    _in_memory()
    with tempfile.TemporaryDirectory() as folder:
        _into_files(Path(folder))
    unbind()


def _in_memory() -> None:
    random = np.random.default_rng(SEED)
    flows = random.integers(0, FLOWS, FRAMES)
    feedback = random.integers(0, 64, FRAMES)
    columns = {"cntag.flow_id": flows, "cnm.qntz_fb": feedback}
    more = columns | {
        "cnm.q_offset": random.integers(-3000, 3000, FRAMES),
        "cnm.cpid": random.integers(0, 1 << 60, FRAMES),
        "eth.dst": random.integers(0, 256, (FRAMES, 6)).astype(np.uint8),
    }
    ports = {"ip.src": more["eth.dst"][:, :4], "udp.srcport": flows}
    taken = extract(
        frames_from(TEMPLATE, BATCH_FRAMES, {name: each[:BATCH_FRAMES] for name, each in more.items()})
    )
    contenders = {
        "frames_from, 2 columns": lambda: _made(TEMPLATE, columns),
        "frames_from, 5 columns": lambda: _made(TEMPLATE, more),
        "frames_from, UDP with IP checksums": lambda: _made(build("udp"), ports),
        "batch_from, all columns of CNMs": lambda: len(batch_from(taken)),
        "struct, a loop, 2 columns": lambda: _struct(flows, feedback),
        "encode, frame by frame, 2 columns": lambda: _encode(flows, feedback),
        "Scapy, bytes(packet)": lambda: sum(len(bytes(packet)) > 0 for packet in _packets()),
    }
    show(f"CNMs of {len(encode(TEMPLATE))} octets in memory", rates(contenders, rounds=3), "frames/s")


def _made(template: Frame, columns: dict[str, NDArray[Any]]) -> int:
    """Build the frames in batches, as a writer does."""
    for low in range(0, FRAMES, BATCH_FRAMES):
        rows = slice(low, low + BATCH_FRAMES)
        frames_from(template, BATCH_FRAMES, {name: column[rows] for name, column in columns.items()})
    return FRAMES


def _struct(flows: NDArray[Any], feedback: NDArray[Any]) -> int:
    """Build the frames as a special-purpose script would: with two numbers packed into a finished frame."""
    octets = bytearray(encode(TEMPLATE))
    put_flow, put_feedback = struct.Struct(">H").pack_into, struct.Struct(">B").pack_into
    frames = []
    for flow, fb in zip(flows.tolist(), feedback.tolist(), strict=True):
        put_flow(octets, 20, flow)
        put_feedback(octets, 25, fb)
        frames.append(bytes(octets))
    return len(frames)


def _encode(flows: NDArray[Any], feedback: NDArray[Any]) -> int:
    layers = TEMPLATE.layers
    tag, message = TEMPLATE[CNTag], TEMPLATE[CNM]
    for flow, fb in zip(flows[:SLOW_FRAMES].tolist(), feedback.tolist(), strict=False):
        encode(Frame(layers=(*layers[:2], tag.replace(flow_id=flow), message.replace(qntz_fb=fb))))
    return SLOW_FRAMES


def _into_files(folder: Path) -> None:
    out, table = str(folder / "out.pcap"), str(folder / "columns.parquet")
    numbers = np.arange(FRAMES)
    pyarrow.parquet.write_table(
        pa.table({"cntag.flow_id": numbers % FLOWS, "cnm.qntz_fb": numbers // FLOWS % 64}), table
    )
    swept = ["--sweep", f"cntag.flow_id=0..{FLOWS - 1}", "--sweep", f"cnm.qntz_fb=0..{min(FEEDBACK, 64) - 1}"]
    contenders = {
        "craft --sweep (process)": lambda: _craft(*swept, "--count", str(FRAMES), "-w", out),
        "craft --from-columns Parquet (process)": lambda: _craft("--from-columns", table, "-w", out),
        "Scapy, wrpcap": lambda: _scapy(out),
    }
    show(f"{FRAMES:,} CNMs into a pcap file", rates(contenders, rounds=3), "frames/s")


def _craft(*arguments: str) -> int:
    command = [str(Path(sys.executable).with_name("ecmproto")), "craft", "cnm", *arguments, "--force"]
    subprocess.run(command, check=True, capture_output=True)
    return FRAMES


def _packets() -> list[Any]:
    from scapy.layers.l2 import Dot1Q, Ether

    from ecmproto.wire import layers

    return [
        Ether(dst=DEST, src=SRC)
        / Dot1Q(vlan=5, prio=6)
        / layers.CNTag(flow_id=i)
        / layers.CNM(qntz_fb=i % 16)
        for i in range(SCAPY_FRAMES)
    ]


def _scapy(out: str) -> int:
    from scapy.utils import wrpcap

    wrpcap(out, _packets())
    return SCAPY_FRAMES
