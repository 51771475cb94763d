"""Captures as traffic: frames by flow, and a network with one port for their replay.

A capture is read as for `replay`. Frames that occupy no queue (PAUSE, PFC) are ignored. Lengths are without
FCS, and times count from the first frame. The mechanism distinguishes stations and flows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from ecmproto.control.engine.config import parse_buffer, parse_port_rate
from ecmproto.control.lab.model import Flow, Pattern
from ecmproto.control.lab.setup.keys import Document
from ecmproto.control.lab.setup.values import LONGEST_NS
from ecmproto.errors import ParameterError, SpecError, shown
from ecmproto.units import exact_rate, exact_time

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ecmproto.control.engine.arrivals import EngineBatch
    from ecmproto.control.mechanisms.api.machine import Machine
    from ecmproto.frames.batch.flows import FlowTable

MAX_SOURCES = 1024
"""Maximum number of source addresses; each source address becomes a host."""
MAX_FRAMES = 1 << 24
"""Maximum number of frames in a capture; each frame needs 40 bytes of memory."""
MAX_FLOWS = 256
"""Maximum number of flows that a host distinguishes."""
_MIN_OCTETS, _MAX_OCTETS = 60, 0xFFFF
_CP_MAC = bytes([2, 0, 0, 0, 0xCC, 1])
_NAMES = re.compile(r".+\.(pcap|pcapng|cap|ntar)(\.gz|\.zst)?", re.IGNORECASE)


class CapturedFrames(NamedTuple):
    """Frames of a capture that belong to one flow, in time order."""

    time_ns: NDArray[np.int64]
    octets: NDArray[np.int64]
    """Frame lengths without FCS, padded to the minimum length of an Ethernet frame."""
    priority: NDArray[np.int64]
    flow: NDArray[np.int64]
    """Number of each frame's flow, counted from 0 for each host."""


class _Columns(NamedTuple):
    """Columns of a whole capture; ``source`` is the address as a number, ``flow`` is unique in a source."""

    time_ns: NDArray[np.int64]
    octets: NDArray[np.int64]
    priority: NDArray[np.int64]
    flow: NDArray[np.int64]
    source: NDArray[np.int64]


def is_capture(name: str) -> bool:
    """Return whether a file name is the name of a capture."""
    return bool(_NAMES.fullmatch(name))


def captured_frames(flows: Sequence[Flow], machine: Machine | None = None) -> dict[int, CapturedFrames]:
    """Return the frames of the capture ``flows``, by index; each file is read once.

    Without ``machine``, addresses distinguish the flows. Raises CaptureError for an unreadable file, and
    SpecError for an invalid address.
    """
    from ecmproto.wire.formats.text import mac_of

    result: dict[int, CapturedFrames] = {}
    read: dict[tuple[str, bool], _Columns] = {}
    for index, flow in enumerate(flows):
        if flow.pattern is not Pattern.CAPTURE:
            continue
        source = int.from_bytes(mac_of(flow.capture_source)) if flow.capture_source else None
        capture = flow.capture, flow.capture_outer
        if capture not in read:
            read[capture] = _columns(*capture, _machine(machine), [])
        result[index] = _frames_of(read[capture], source)
    return result


def _machine(machine: Machine | None) -> Machine:
    from ecmproto.control.mechanisms.api.machine import machine_of
    from ecmproto.control.mechanisms.registry import find_mechanism

    if machine is not None:
        return machine
    none = find_mechanism("none")
    return machine_of(none, none.parse([]))


def _engine_batches(
    path: str, outer: bool, machine: Machine, notes: list[str]
) -> Iterator[tuple[EngineBatch, FlowTable]]:
    """Yield the batches of a capture for the engine; remarks on unusual frames are appended to ``notes``."""
    from ecmproto.control.engine.arrivals import Intake, check_ethernet, flow_table
    from ecmproto.frames.batch.inner import InnerReader, open_innermost
    from ecmproto.wire.formats.ethertypes import DEFAULT

    table = flow_table(machine, stations=MAX_SOURCES, flows=MAX_FLOWS)
    with open_innermost((path,), outer=outer) as reader:
        intake = Intake(
            machine, cp_mac=_CP_MAC, ethertypes=DEFAULT, interfaces=reader.interfaces, flows=table
        )
        for batch in reader:
            check_ethernet(batch, reader)
            yield intake.take(batch), table
        if reader.problem is not None:
            notes.append(f"{reader.problem.frame:,} of them before it is truncated")
        if isinstance(reader, InnerReader) and reader.summary:
            notes.append(reader.summary)


def _columns(path: str, outer: bool, machine: Machine, notes: list[str]) -> _Columns:
    import numpy as np

    parts: list[_Columns] = []
    frames = 0
    for engine_batch, table in _engine_batches(path, outer, machine, notes):
        frames += len(engine_batch.batch)
        if frames > MAX_FRAMES:
            raise SpecError(where=path, needed=f"at most {MAX_FRAMES:,} frames", got="more")
        arrivals, batch = engine_batch.arrivals, engine_batch.batch
        # All other frames have truncated addresses, or occupy no queue.
        chosen = np.flatnonzero(arrivals.occupies & (batch.captured >= 12))
        at = batch.offset[chosen, None] + np.arange(6, 12)
        weights = 1 << np.arange(40, -1, -8, dtype=np.int64)
        parts.append(
            _Columns(
                time_ns=arrivals.time_ns[chosen],
                octets=np.clip(arrivals.octets[chosen], _MIN_OCTETS, _MAX_OCTETS),
                priority=arrivals.priority[chosen].astype(np.int64),
                flow=table.numbers(arrivals.station[chosen], arrivals.flow[chosen]),
                source=batch.buffer[at].astype(np.int64) @ weights,
            )
        )
    if not parts:
        return _Columns(*(np.zeros(0, np.int64) for _ in _Columns._fields))
    return _Columns(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _frames_of(columns: _Columns, source: int | None) -> CapturedFrames:
    import numpy as np

    if source is not None:
        chosen = columns.source == source
        columns = _Columns(*(column[chosen] for column in columns))
    # Numbers in the order of the flows' first frames; flows without a number come last.
    known, first_at, inverse = np.unique(columns.flow, return_index=True, return_inverse=True)
    order = np.argsort(np.where(known < 0, len(columns.flow), first_at), kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return CapturedFrames(columns.time_ns, columns.octets, columns.priority, number[inverse].astype(np.int64))


# The network of one port ----------------------------------------------------------------------------------


def capture_document(path: str, *, rate: str = "10G", buffer: str = "500kB", outer: bool = False) -> Document:
    """Return a scenario with one port to which all sources of a capture send, as in ``replay``.

    Each source address becomes a host. Frames reach the port at their captured times, unless a reaction point
    delays the frames. Messages take 10 µs. ``outer`` offers frames with their outer headers. ``rate`` may
    include changes, such as ``10G,1G@10ms``. Frames more than eleven days after the first frame are ignored.

    Raises SpecError for a capture without frames, or with too many sources.
    """
    served = _checked("rate", rate, parse_port_rate)
    _checked("buffer", buffer, parse_buffer)
    if path == "-":
        raise SpecError(where="capture", needed="a file, which is read more than once", got="stdin")
    notes: list[str] = []
    columns = _columns(path, outer, _machine(None), notes)
    if not len(columns.source):
        raise SpecError(where=path, needed="frames that occupy a queue", got="none")
    title = ", ".join([f"One port, to which the frames of {PurePath(path).name} come", *notes])
    sources = list(dict.fromkeys(columns.source.tolist()))
    if len(sources) > MAX_SOURCES:
        needed = f"at most {MAX_SOURCES:,} source addresses"
        raise SpecError(where=path, needed=needed, got=f"{len(sources):,}")
    duration_ns = min(max(1_000, int(columns.time_ns[-1]) + 1), LONGEST_NS)
    sink = f"h{len(sources) + 1}"
    link_rate = exact_rate(served.rate_bps).replace(" ", "")
    capacity = buffer.replace(" ", "")
    document = Document(
        scenario={
            "name": _name(path),
            "title": title,
            "duration": exact_time(duration_ns),
            "overhead": "24B",
            "topology": f"star hosts={len(sources) + 1} rate={link_rate} propagation=0ns buffer={capacity}",
        },
        flow=list(_flows(path, outer, sources, sink)),
        control={"mechanism": "none", "message_delay": "10us", "points": f"core>{sink}"},
        measure={
            "from": "0ns",
            "window": exact_time(min(1_000_000, max(1_000, duration_ns // 100))),
            "port": f"core>{sink}",
        },
    )
    if served.changes:
        document.link.append({"a": "core", "b": sink, "rate": rate})
    return document


def _checked(name: str, text: str, parse: Any) -> Any:
    try:
        return parse(text)
    except ParameterError as error:
        raise SpecError(where=name, needed=error.needed, got=shown(text)) from None


def _flows(path: str, outer: bool, sources: Iterable[int], sink: str) -> Iterator[dict[str, Any]]:
    from ecmproto.wire.formats.text import mac_text

    for number, source in enumerate(sources, 1):
        yield {
            "name": f"s{number}",
            "from": f"h{number}",
            "to": sink,
            "pattern": "capture",
            "capture": path,
            "capture_source": mac_text(source.to_bytes(6)),
            **({"capture_outer": True} if outer else {}),
            "group": "sources",
        }


def _name(path: str) -> str:
    """Return a name for the scenario of a capture: the file name, without characters not allowed in names."""
    stem = PurePath(path).name.split(".")[0]
    word = re.sub(r"[^A-Za-z0-9_-]", "-", stem)[:60]
    return word if re.match(r"[A-Za-z_]", word) else f"c-{word}"
