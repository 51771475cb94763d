"""Commands that compile the kernels for the kernel library.

The commands run on small captures, which `run` creates first. A step is a list of command lines, or of calls
for commands that need an interface.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecmproto.control.mechanisms.api.mechanism import Mechanism, isolation_of
from ecmproto.control.mechanisms.registry import MECHANISMS

_HERE = "@"
"""Prefix of file names that are in the folder of captures."""
_FINE = (0, 1)
"""Exit codes of successful commands; code 1 reports findings."""
MANY = 32_768
"""Minimum number of frames for which all output formats process columns."""

_SFLOW = (
    "00000005000000010a00000100000000000000010000000000000001"
    "000000010000007400000001000000010000001000000010000000000000000100000002000000010000000"
    "10000004c0000000100000040000000040000003c02000000000102000000000222e7" + "00" * 46
)
"""Datagram of sFlow version 5 in hexadecimal, with the header of one sampled frame."""


def captures(many: int) -> tuple[str, ...]:
    """Return the command lines that create the captures.

    The largest capture has ``many`` frames.
    """
    return (
        f"craft cnm --sweep cntag.flow_id=0..{many - 1} --vlan 5 --rate 1Mpps -w @many.pcap",
        "craft cnm --sweep cntag.flow_id=0..199 --vlan 5 --rate 1Mpps -w @cnms.pcap",
        "craft pfc prio3=65535 --storm 10G --duration 2ms -w @storm.pcap",
        "craft cnp --ip 10.0.17.1,10.0.18.1 --sweep cnp.qp=0x100..0x10f --count 200 --rate 1Mpps"
        " -w @cnps.pcap",
        "craft bth opcode=0x0a qp=0x118 psn=7 reth dmalen=4 data data=00010203 --sweep ip.dsfield.ecn=0..3"
        " --count 200 --rate 1Mpps -w @roce.pcap",
        f"craft udp srcport=49153 dstport=7 data data={'00' * 1000} --vlan 5 --prio 3 --ip 10.0.0.1,10.0.0.2"
        " --sweep eth.src=02:00:00:00:00:01,02:00:00:00:00:02 --count 400 --rate 1Mpps -w @data.pcap",
        "craft lldpcee lldpcee.pg enabled=1 -w @dcbx.pcap",
        f"craft udp dstport=6343 data data={_SFLOW} --ip 10.0.0.1,10.0.0.2 --count 2 -w @sflow.pcap",
        "edit -r @data.pcap -r @cnms.pcap -r @storm.pcap -r @cnps.pcap -r @roce.pcap -w @mixed.pcapng",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A named list of command lines and calls that compile kernels."""

    name: str
    lines: tuple[str, ...] = ()
    calls: tuple[Callable[[], None], ...] = ()


def steps() -> list[Step]:
    """Return all steps, including the steps for each mechanism."""
    return [*_GENERAL, *(step for mechanism in MECHANISMS for step in _of_mechanism(mechanism))]


def run(chosen: Iterable[Step], *, many: int = MANY) -> Iterator[str]:
    """Run steps, and yield the name of each finished step.

    The largest capture that the steps read has ``many`` frames. Raises RuntimeError if a step fails.
    """
    os.environ["ECMPROTO_PROGRESS"] = "0"
    with tempfile.TemporaryDirectory(prefix="ecmproto-") as name:
        for step in [Step(name="captures", lines=captures(many)), *chosen]:
            printed = Path(name, "printed")
            with _into(printed):
                codes = ((line, _called(line, Path(name))) for line in step.lines)
                failed = next((each for each in codes if each[1] not in _FINE), None)
                for call in () if failed else step.calls:
                    call()
            if failed:
                tail = " ".join(printed.read_text(errors="replace").split())[-300:]
                raise RuntimeError(f"{step.name}: {failed[0]}: exit code {failed[1]}: {tail}")
            yield step.name


@contextmanager
def _into(path: Path) -> Iterator[None]:
    """Redirect standard output and error to a file."""
    streams = sys.stdout, sys.stderr
    saved = [os.dup(stream.fileno()) for stream in streams]
    try:
        with path.open("wb") as file:
            for stream in streams:
                stream.flush()
                os.dup2(file.fileno(), stream.fileno())
        yield
    finally:
        for stream, descriptor in zip(streams, saved, strict=True):
            stream.flush()
            os.dup2(descriptor, stream.fileno())
            os.close(descriptor)


def _called(line: str, folder: Path) -> int:
    from ecmproto_cli.main import run as called

    given = shlex.split(line)
    arguments = [str(folder / word[1:]) if word.startswith(_HERE) else word for word in given]
    for word in arguments[arguments.index("-w") + 1 :][:1] if "-w" in arguments else []:
        Path(word).unlink(missing_ok=True)
    return called(arguments)


def _align() -> None:
    """Align frames in reverse order, as `diff` does with many frames."""
    import numpy as np

    from ecmproto.tools.diff.alignment import Pairs, in_order

    rows = np.arange(10_000, dtype=np.int32)
    in_order([Pairs(a=rows, b=rows[::-1].copy())], len(rows))


def _receive() -> None:
    """Process empty receive rings."""
    import numpy as np

    from ecmproto.frames.capture.linux.reader import batch_of
    from ecmproto.frames.capture.linux.receiver import (
        ANY_TIME_NS,
        ReceiveBuffer,
        give_back_slots,
        no_ring,
        take_slots,
    )

    buffer = ReceiveBuffer(2048)
    ring = no_ring(buffer)
    buffer.unpack(0)
    give_back_slots(ring)
    take_slots(ring, 0, ANY_TIME_NS, buffer.offset, buffer.captured, buffer.original, buffer.time_ns)
    batch_of(np.zeros(4, np.uint8), 0, 0, first=0, snap_octets=0)


def _hold() -> None:
    """Run the stream loop with an empty timetable."""
    import numpy as np

    from ecmproto.frames.capture.linux.stream_loop import StreamFacts, Timetable, keep, new_worker
    from ecmproto.kernels.record import new_record

    columns = [np.zeros(0, np.int64) for _ in Timetable.parts()[1:]]
    keep(Timetable(new_record(StreamFacts), *columns), new_worker(0, 0, second=False, spin_ns=0))


def _judge() -> None:
    """Check a storm without frames."""
    from ecmproto.frames.capture import Batch
    from ecmproto.frames.stats.lapses import Lapses

    Lapses({"a": 10**9}).take("a", Batch.from_frames([]))


def _send() -> None:
    """Run the send loop without frames."""
    import numpy as np

    from ecmproto.frames.capture.linux import compiled_departures, departures

    state = compiled_departures.as_record(departures.DepartureState(paced=1, even=0, spin_ns=0))
    send: Any = compiled_departures.depart
    send(
        compiled_departures.new_line(-1),
        state,
        np.zeros(0, np.int64),
        departures.new_counts(),
        departures.new_counts(),
    )


def _monitor() -> None:
    """Count two frames as `live monitor` does."""
    from ecmproto.frames.capture import Batch, Interface
    from ecmproto.frames.stats import Accumulator

    batch = Batch.from_frames([bytes(64)] * 2, time_ns=[1, 2])
    Accumulator().add(batch, interfaces=[Interface(index=0, linktype=1)])


def _headers() -> None:
    """Compare a frame and enlarge a table of flows, as `fuzz decode` does in its processes."""
    from ecmproto.frames.batch.keys import larger_keys, new_keys
    from ecmproto.tools.fuzz.checks.headers import HeaderCheck

    list(HeaderCheck().differences([bytes(64)]))
    larger_keys(new_keys(16))


def _devices(mechanism: str) -> Callable[[], None]:
    def devices() -> None:
        """Compile the kernels of congestion points, reaction points and edges without interfaces."""
        from ecmproto.control.live.net import congestion_point, edge, reaction_point
        from ecmproto.errors import ParameterError

        rate: dict[str, Any] = {"link_rate_bps": 10**9, "mechanism": mechanism, "seed": 1}
        makers: list[Callable[[], Any]] = [
            lambda: congestion_point(inputs=["a"], output="b", rate_bps=10**8, **rate),
            lambda: congestion_point(inputs=["a"], output="b", rate_bps=10**8, flow_control="pfc", **rate),
            lambda: reaction_point(host="a", net="b", **rate),
            lambda: edge(net="a", host="b", **rate),
        ]
        for make in makers:
            with suppress(ParameterError):  # some mechanisms lack some devices
                make().precompile()

    return devices


_FILTERED = "cnm.qntz_fb > 10 and vlan.priority in {3, 6} or eth.src == eth.dst or frame contains eth.src"
_SHORT = "--set duration=1ms --set measure.from=500us --set measure.until=1ms --set measure.window=500us"
_GENERAL = (
    Step(
        name="dissect",
        lines=(
            "dissect -r @many.pcap",
            f"dissect -r @many.pcap -Y '{_FILTERED}'",
            *(f"dissect -r @many.pcap -T {form}" for form in ("tree", "json", "ndjson")),
            "dissect -r @many.pcap -T fields -e frame.time_epoch -e eth.src -e cnm.cpid -e cnm.qntz_fb",
            "dissect -r @mixed.pcapng -T csv -e frame.number -e eth.src -e ip.dsfield.ecn -e cnm.cpid",
            "dissect -r @many.pcap -w @some.pcapng -Y cnm",
        ),
    ),
    Step(
        name="columns",
        lines=(
            "dissect -r @many.pcap -w @many.parquet",
            "dissect -r @mixed.pcapng -w @a.parquet --all-fields -Y"
            " 'eth.src < eth.dst or eth.src & eth.dst or cnm.msdu & 01 > 00'",
            "dissect -r @mixed.pcapng -T arrow -e frame.time_epoch -e eth.dst -e ip.src -w @some.arrow",
            "craft --from-columns @a.parquet -w @again.pcap",
        ),
    ),
    Step(
        name="stats",
        lines=(
            "stats -r @many.pcap",
            "stats -r @mixed.pcapng -Y 'cnm or pfc' --interval 1ms -T json",
            "stats -r @mixed.pcapng --trailer erspan3",
            "stats -r @mixed.pcapng --speed 10G --lossless 3,4",
            "stats -r @dcbx.pcap",
            "stats -r @sflow.pcap",
        ),
        calls=(_monitor,),
    ),
    Step(
        name="check",
        lines=(
            "check -r @mixed.pcapng",
            "check -r @many.pcap --select qcn",
            "check -r @mixed.pcapng --select qcn,ecm,dcqcn -T ndjson",
        ),
    ),
    Step(
        name="edit",
        lines=(
            "edit -r @many.pcap -w @seven.pcap --set vlan.id=7 --set eth.dst=02:00:00:00:00:99 -Y cnm",
            "edit -r @mixed.pcapng -w @stripped.pcapng --strip vlan --add-tag 'vlan id=5 priority=3' --fix",
            "edit -r @mixed.pcapng -w @marked.pcapng --set ip.ttl=3",
            "edit -r @many.pcap -w @half.pcap --frames 1-100,200-10000,20000-",
            "diff @many.pcap @seven.pcap --stat",
            "diff @many.pcap @half.pcap --align-time drift --stat",
            "diff @mixed.pcapng @marked.pcapng --ignore vlan",
            "diff @mixed.pcapng @data.pcap -T ndjson",
        ),
        calls=(_align,),
    ),
    Step(
        name="lab",
        lines=(
            f"lab run bcn-symmetric {_SHORT} -w @lab.pcapng",
            f"lab run e2cm-mice-elephant {_SHORT}",
            f"lab run dcqcn-incast {_SHORT}",
            f"lab run incast-victim {_SHORT}",
            f"lab run incast-victim {_SHORT} --parts 2",
            "lab run link-failure",
            f"lab run @data.pcap --mechanism qcn {_SHORT}",
        ),
    ),
    Step(
        name="fuzz",
        lines=("fuzz decode --runs 100 --seed 1 --every tshark=0 --every scapy=0 -w @fuzz",),
        calls=(_headers,),
    ),
    Step(
        name="ports",
        lines=("replay -r @data.pcap --cp none --ports dst --seed 1",),
    ),
    Step(
        name="interfaces",
        calls=(_receive, _send, _hold, _judge),
    ),
)  # fmt: skip


def _of_mechanism(mechanism: Mechanism) -> list[Step]:
    name = mechanism.name
    replay = "replay -r @mixed.pcapng --speed 500M,250M@50us --buffer 200kB --seed 1"
    closed = f"{replay} --cp {name} --rp {name} -w @{name}-closed.pcapng"
    # Ports that isolate flows exist only in closed loops, without PFC.
    others = (f"{replay} --cp {name} -w @{name}-open.pcapng", f"{replay} --compare {name} --flow-control pfc")
    isolates = isolation_of(mechanism.parse([])) is not None
    return [
        Step(
            name=f"replay-{name}",
            lines=(closed,) if isolates else (closed, *others),
        ),
        Step(
            name=f"live-{name}",
            calls=(_devices(name),),
        ),
        Step(
            name=f"lab-{name}",
            lines=(f"lab run qcn-baseline-1 --mechanism {name} {_SHORT}",),
        ),
    ]  # fmt: skip
