"""Kernels compiled before they are needed: what each command runs, run on small captures made for it.

A step is some command lines, or calls where a command would need an interface; what it makes numba compile is
what the command makes it compile later.  Steps run in processes of their own, several at a time: those of a
later stage find what an earlier one compiled.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ecmproto.control.mechanisms.registry import MECHANISMS
from ecmproto.kernels import prebuilt
from ecmproto_cli.errors import DEPENDENCY

_HERE = "@"
"""In front of the names of files in the folder of captures."""
_FINE = (0, 1)
"""Exit codes of commands that ran; findings are none of ours."""
MANY = 32_768
"""Frames that every form of output takes column by column."""


def captures(many: int) -> tuple[str, ...]:
    """Return the lines that make the captures which steps read, the largest of so many frames."""
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
        "edit -r @data.pcap -r @cnms.pcap -r @storm.pcap -r @cnps.pcap -r @roce.pcap -w @mixed.pcapng",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Command lines and calls that need the same kernels.

    ``about`` are the commands and mechanisms that it is for, ``seconds`` about how long it takes where
    nothing is compiled, of one processor: how fast steps go that are done corrects it.
    """

    name: str
    about: tuple[str, ...]
    seconds: float
    lines: tuple[str, ...] = ()
    calls: tuple[Callable[[], None], ...] = ()
    stage: int = 1


@dataclass(slots=True)
class Outcome:
    """What came of a step: the kernels that it compiled, how long it took, what went wrong."""

    step: Step
    seconds: float = 0.0
    kernels: list[str] = field(default_factory=list)
    problem: str = ""
    lacking: str = ""
    """Which command needs an extra that is not installed."""
    unused: str = ""
    """Why code that came with the wheel was not loaded."""


def steps() -> list[Step]:
    """Return all steps, those of a mechanism for each one."""
    names = [mechanism.name for mechanism in MECHANISMS]
    return [*_GENERAL, *(step for name in names for step in _of_mechanism(name))]


def chosen(names: Iterable[str]) -> list[Step]:
    """Return the steps for some commands and mechanisms; KeyError for a name that is neither's."""
    every = steps()
    found = []
    for name in names:
        matching = [step for step in every if name in step.about or name == step.name]
        if not matching:
            raise KeyError(name)
        found += matching
    return [step for step in every if step in found] if found else every


def subjects() -> dict[str, list[Step]]:
    """Return what can be asked for, with its steps."""
    every = steps()
    names = dict.fromkeys(name for step in every for name in step.about)
    return {name: [step for step in every if name in step.about] for name in names}


def run(
    chosen: Sequence[Step],
    *,
    processes: int | None = None,
    many: int = MANY,
    tell: Callable[[Sequence[Outcome], Sequence[Step]], None] = lambda done, running: None,
    begin: Callable[[Step], None] = lambda step: None,
    end: Callable[[Sequence[Step]], None] = lambda stage: None,
) -> list[Outcome]:
    """Run steps in so many processes (default: as many as there are processors); return what came of each.

    The largest of the captures that they read has ``many`` frames.  ``tell`` is told what is done and what
    runs, now and then; ``begin`` is called in the process of a step before it, ``end`` here when a stage is
    done.
    """
    done: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="ecmproto-") as name:
        folder = Path(name)
        if any(step.lines for step in chosen):
            made_of = Step(name="captures", about=(), seconds=0, lines=captures(many))
            (made,) = _stage([made_of], folder, 1, lambda *_: None, begin)
            if made.problem:
                raise RuntimeError(made.problem)
            end([made_of])
        for stage in sorted({step.stage for step in chosen}):
            together = [step for step in chosen if step.stage == stage]
            for outcome in _stage(together, folder, processes or processors(), tell, begin, done):
                done.append(outcome)
                tell(done, ())
            end(together)
    return done


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_LOOK_S = 0.5


def _stage(
    stage: Sequence[Step],
    folder: Path,
    processes: int,
    tell: Callable[[Sequence[Outcome], Sequence[Step]], None],
    begin: Callable[[Step], None],
    before: Sequence[Outcome] = (),
) -> Iterator[Outcome]:
    """Yield what came of the steps of a stage, as they end."""
    fork = multiprocessing.get_context("fork")
    waiting = sorted(stage, key=lambda step: -step.seconds)
    running: dict[BaseProcess, tuple[Step, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                step = waiting.pop(0)
                process: BaseProcess = fork.Process(target=_run, args=(step, folder, begin))
                process.start()
                running[process] = step, time.monotonic()
            tell(before, [step for step, _ in running.values()])
            wait([process.sentinel for process in running], _LOOK_S)
            for process in [each for each in running if not each.is_alive()]:
                step, start = running.pop(process)
                yield _outcome(step, folder, process, time.monotonic() - start)
    finally:
        for process in running:
            process.terminate()


def _outcome(step: Step, folder: Path, process: BaseProcess, seconds: float) -> Outcome:
    outcome = Outcome(step, seconds, problem=f"ended with exit code {process.exitcode}")
    with suppress(FileNotFoundError):
        told = json.loads((folder / f"{step.name}.told").read_text())
        for name, value in told.items():
            setattr(outcome, name, value)
    return outcome


def _run(step: Step, folder: Path, begin: Callable[[Step], None]) -> None:
    """Run a step in this process, which ends then, its output in files."""
    os.environ["ECMPROTO_PROGRESS"] = "0"
    with (folder / f"{step.name}.out").open("wb") as out:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(out.fileno(), stream.fileno())
    begin(step)
    from ecmproto.kernels.cache import compiled
    from ecmproto.kernels.turns import taking_turns

    compiled.clear()
    problem = lacking = ""
    try:
        # what one compiles now, the others do not compile too
        with taking_turns(lambda: None):
            for line in step.lines:
                code = _called(line, folder)
                if code == DEPENDENCY:
                    lacking = f"{line}: an extra is not installed"
                elif code not in _FINE:
                    problem = f"{line}: exit code {code}"
            for call in step.calls:
                call()
    except Exception:
        traceback.print_exc()
        problem = traceback.format_exc().splitlines()[-1]
    sys.stderr.flush()
    if problem:
        problem += ": " + " ".join((folder / f"{step.name}.out").read_text(errors="replace").split())[-300:]
    told = {"kernels": compiled, "problem": problem, "lacking": lacking, "unused": prebuilt.store().why_not}
    (folder / f"{step.name}.told").write_text(json.dumps(told))


def _called(line: str, folder: Path) -> int:
    """Run a command line; return its exit code."""
    from ecmproto_cli.main import run as called

    given = shlex.split(line)
    words = [str(folder / word[1:]) if word.startswith(_HERE) else word for word in given]
    for word in words[words.index("-w") + 1 :][:1] if "-w" in words else []:
        Path(word).unlink(missing_ok=True)
    return called(words)


def _align() -> None:
    """Align what stands in another order, as `diff` does with many frames."""
    import numpy as np

    from ecmproto.tools.diff.alignment import Pairs, in_order

    rows = np.arange(10_000, dtype=np.int32)
    in_order([Pairs(a=rows, b=rows[::-1].copy())], len(rows))


def _receive() -> None:
    """Take in frames of no interface."""
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


def _hold() -> None:
    """Keep a timetable without streams."""
    import numpy as np

    from ecmproto.frames.capture.linux.stream_loop import StreamFacts, Timetable, keep, new_worker
    from ecmproto.kernels.record import new_record

    columns = [np.zeros(0, np.int64) for _ in Timetable.parts()[1:]]
    keep(Timetable(new_record(StreamFacts), *columns), new_worker(0, 0, second=False, spin_ns=0))


def _send() -> None:
    """Send no frames."""
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
    """Count frames as `live monitor` does."""
    from ecmproto.frames.capture import Batch, Interface
    from ecmproto.frames.stats import Accumulator

    batch = Batch.from_frames([bytes(64)] * 2, time_ns=[1, 2])
    Accumulator().add(batch, interfaces=[Interface(index=0, linktype=1)])


def _devices(mechanism: str) -> Callable[[], None]:
    def devices() -> None:
        """Pass frames through devices that are attached to nothing."""
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
            with suppress(ParameterError):  # not every mechanism has every part
                make().precompile()

    return devices


_FILTERED = "cnm.qntz_fb > 10 and vlan.priority in {3, 6} or eth.src == eth.dst or frame contains eth.src"
_SHORT = "--set duration=1ms --set measure.from=500us --set measure.until=1ms --set measure.window=500us"
_GENERAL = (
    Step(
        name="dissect", about=("dissect",), seconds=20, stage=0,
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
        name="columns", about=("columns",), seconds=10,
        lines=(
            "dissect -r @many.pcap -w @many.parquet",
            "dissect -r @mixed.pcapng -w @a.parquet --all-fields -Y"
            " 'eth.src < eth.dst or eth.src & eth.dst or cnm.msdu & 01 > 00'",
            "dissect -r @mixed.pcapng -T arrow -e frame.time_epoch -e eth.dst -e ip.src -w @some.arrow",
            "craft --from-columns @a.parquet -w @again.pcap",
        ),
    ),
    Step(
        name="stats", about=("stats", "demo"), seconds=20, stage=0,
        lines=(
            "stats -r @many.pcap",
            "stats -r @mixed.pcapng -Y 'cnm or pfc' --interval 1ms -T json",
            "stats -r @mixed.pcapng --speed 10G --lossless 3,4",
        ),
        calls=(_monitor,),
    ),
    Step(
        name="check", about=("check",), seconds=10,
        lines=(
            "check -r @mixed.pcapng",
            "check -r @many.pcap --mechanism qcn",
            "check -r @mixed.pcapng --mechanism qcn,ecm,dcqcn -T ndjson",
        ),
    ),
    Step(
        name="edit", about=("edit", "diff"), seconds=10,
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
        name="lab", about=("lab",), seconds=20,
        lines=(
            f"lab run bcn-symmetric {_SHORT} -w @lab.pcapng",
            f"lab run e2cm-mice-elephant {_SHORT}",
            f"lab run dcqcn-incast {_SHORT}",
            f"lab run incast-victim {_SHORT}",
            f"lab run --capture @data.pcap --mechanism qcn --rate 10G --buffer 500kB {_SHORT}",
        ),
    ),
    Step(
        name="interfaces", about=("live", "send"), seconds=10,
        calls=(_receive, _send, _hold),
    ),
)  # fmt: skip


def _of_mechanism(name: str) -> list[Step]:
    first = name == "qcn"
    replay = "replay -r @mixed.pcapng --rate 500M --buffer 200kB --seed 1"
    return [
        Step(
            name=f"replay-{name}", about=("replay", name, *["demo"][:first]),
            seconds=15 if first else 3, stage=0 if first else 1,
            lines=(
                f"{replay} --cp {name} -w @{name}-open.pcapng",
                f"{replay} --cp {name} --rp {name} -w @{name}-closed.pcapng",
                f"{replay} --compare {name} --flow-control pfc",
            ),
        ),
        Step(
            name=f"live-{name}", about=("live", name), seconds=10 if first else 5, stage=1 if first else 2,
            calls=(_devices(name),),
        ),
        Step(
            name=f"lab-{name}", about=("lab", name), seconds=3, stage=2,
            lines=(f"lab run qcn-baseline-1 --mechanism {name} {_SHORT}",),
        ),
    ]  # fmt: skip
