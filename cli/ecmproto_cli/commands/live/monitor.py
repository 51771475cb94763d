"""``ecmproto live monitor``: an updated table of an interface's traffic, and rotating captures."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from ecmproto.units import format_octets, format_rate, format_share, format_time, per_second
from ecmproto_cli.capturing import Saving, StoppingInterrupt, captured
from ecmproto_cli.errors import INTERRUPTED, warn
from ecmproto_cli.options import (
    RATE,
    TIME,
    filter_option,
    force_option,
    keyed_option,
    outer_option,
    print_unwrapped,
    storm_options,
    with_ethertypes,
    write_option,
)
from ecmproto_cli.output import check_outputs, output_form, pairs
from ecmproto_cli.progress import reporting_compilation
from ecmproto_cli.stats_table import address, flow_name, stats_table, table
from ecmproto_cli.terminal import echo, paint, visible

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ecmproto.control.live.monitor import Change, PauseChange, Rotation
    from ecmproto.frames.capture import Batch, CaptureReader, Interface
    from ecmproto.frames.capture.linux.reader import InterfaceReader
    from ecmproto.frames.filter import Filter
    from ecmproto.frames.stats import Accumulator, Neighbour, Statistics
    from ecmproto.frames.stats.cells import Columns
    from ecmproto.wire.codec import EtherTypes

SCHEMA = "ecmproto/monitor/1"
_NAMES = 13
_ROWS_SHOWN = 12
_REPORTED = ("message", "flow control")
"""Groups of frame types whose rates are printed in a report line."""
_HOME, _REST, _LINE_REST = "\x1b[H", "\x1b[J", "\x1b[K"


@click.command()
@click.option("-i", "--interface", metavar="IF", required=True, help="Interface to monitor.")
@filter_option("Count and write only frames that this display filter selects.")
@click.option(
    "--interval", "every_ns", type=TIME, default="1s", show_default=True, help="Time between reports."
)
@click.option("--duration", "duration_ns", type=TIME, help="Stop after this time.  [default: at Ctrl-C]")
@click.option(
    "-T", "form", type=click.Choice(["text", "line", "ndjson"]),
    help="Format of each report: a table that is redrawn (text), a line, or a JSON document (ndjson).  "
        "[default: text on a terminal, else line]",
)  # fmt: skip
@write_option("Write the frames to this pcap or pcapng file.")
@keyed_option(
    "-b", "rotation", metavar="KEY:VALUE", keys={"filesize": (), "duration": (), "files": ()},
    help="Start a new -w file at a size (filesize:100MB) or after a time (duration:60s). files:10 deletes "
        "all but the last ten files.",
)  # fmt: skip
@click.option(
    "-s",
    "--snaplen",
    "snap",
    type=click.IntRange(min=64),
    metavar="N",
    help="Truncate captured frames to N octets.",
)
@click.option(
    "--speed", "speed_bps", type=RATE, default="10G", show_default=True,
    help="Link speed if none is detected.",
)  # fmt: skip
@storm_options
@click.option(
    "--prometheus", metavar="[HOST:]PORT",
    help="Serve Prometheus metrics at this TCP port.  [default HOST: localhost]",
)  # fmt: skip
@outer_option
@click.option("--no-promiscuous", is_flag=True, help="Do not capture frames to other stations.")
@force_option
@with_ethertypes
def command(
    interface: str,
    filter: Filter | None,
    every_ns: int,
    duration_ns: int | None,
    form: str | None,
    output: str | None,
    rotation: dict[str, str],
    snap: int | None,
    prometheus: str | None,
    outer: bool,
    no_promiscuous: bool,
    force: bool,
    ethertypes: EtherTypes,
    **counting: Any,
) -> int:
    """Monitor an interface: frame types, rates, messages by congestion point, and pause times.

    At the end, the command prints the same statistics as `ecmproto stats`.

    \b
    ecmproto live monitor -i eth0
    ecmproto live monitor -i eth0 -Y 'cnm or pfc' -w feedback.pcapng
    ecmproto live monitor -i eth0 -w all.pcapng -b filesize:100MB -b files:10
    ecmproto live monitor -i mirror0 -Y pfc
    """
    from ecmproto.frames.capture.linux.interface import interface_facts
    from ecmproto.frames.stats import Accumulator

    if output is None and rotation:
        raise click.UsageError("-b needs -w")
    files = rotation.get("files")
    if rotation.keys() == {"files"}:
        raise click.UsageError("-b files:N needs -b filesize:SIZE or -b duration:TIME")
    if files is not None and not (files.isdecimal() and int(files)):
        raise click.UsageError(f"-b files: expected a number of at least 1, got {files!r}")
    output_form(output, None, ("pcap", "pcapng"), text="")
    if not rotation:
        check_outputs([output], force=force)
    if output == "-":
        raise click.UsageError(
            "-w -: stdout contains the reports; `ecmproto dissect -i` writes captures there"
        )
    watch = Watch(
        counts=Accumulator(ethertypes=ethertypes, **counting),
        form=form or ("text" if sys.stdout.isatty() else "line"),
        filter=filter,
        ethertypes=ethertypes,
        every_ns=every_ns,
        duration_ns=duration_ns,
        outer=outer,
    )
    interface_facts(interface)  # raises the error for a missing interface before the work
    with reporting_compilation():
        watch.warm_up()
    with captured(
        interface,
        filter=filter,
        outer=outer,
        ethertypes=ethertypes,
        snap_octets=snap,
        promiscuous=not no_promiscuous,
        idle_batches=True,
    ) as reader:
        writer = nullcontext() if output is None else _rotation(output, reader, rotation, force)
        endpoint = nullcontext(0) if prometheus is None else _endpoint(prometheus, watch)
        with writer as written, endpoint as port:
            if port:
                echo(f"ecmproto: metrics on port {port}", err=True)
            watch.run(reader, written)
    warn(*reader.warnings)
    if written is not None:
        names = f"{len(written.files)} files" if len(written.files) > 1 else written.files[0]
        echo(f"{written.frames:,} frames written to {names}", err=True)
    if reader.problem is not None:
        raise reader.problem
    return INTERRUPTED if watch.interrupted else 0


def _endpoint(address: str, watch: Watch) -> AbstractContextManager[int]:
    from ecmproto.control.live.prometheus import served_statistics

    return served_statistics(address, lambda: watch.last)


def _rotation(output: str, reader: InterfaceReader, given: Mapping[str, str], force: bool) -> Rotation:
    from ecmproto.control.live.monitor import Rotation
    from ecmproto.units import parse_octets, parse_time

    return Rotation(
        output,
        reader.interfaces,
        octets=parse_octets(given["filesize"]) if "filesize" in given else None,
        span_ns=parse_time(given["duration"]) if "duration" in given else None,
        keep=int(given["files"]) if "files" in given else None,
        force=force,
    )


@dataclasses.dataclass(kw_only=True)
class Watch:
    """Counts the frames of a reader, and prints a report every ``every_ns``.

    ``form`` is ``text`` for a table, ``line`` for one line, or ``ndjson``.
    """

    counts: Accumulator
    form: str
    filter: Filter | None
    ethertypes: EtherTypes
    every_ns: int
    duration_ns: int | None
    outer: bool
    interrupted: bool = False
    """Whether an interrupt ended the monitoring."""
    last: Statistics | None = None
    """The statistics of the last report."""

    def warm_up(self) -> None:
        """Compile all code before the first frame arrives."""
        from ecmproto.frames.capture import Batch, Interface
        from ecmproto.frames.stats import Accumulator

        batch = Batch.from_frames([bytes(64)] * 2, time_ns=[1, 2])
        interfaces = [Interface(index=0, linktype=1)]
        if not self.outer:
            from ecmproto.frames.batch.inner import unwrap
            from ecmproto.frames.batch.sequences import psn_steps

            unwrap(batch, interfaces, psn_steps(), self.ethertypes)
        Accumulator().add(batch, interfaces=interfaces, selected=self._selected(batch, interfaces))

    def run(self, reader: InterfaceReader, rotation: Rotation | None) -> None:
        """Monitor frames until the duration has passed, the interface is gone or an interrupt arrives.

        Prints a summary at the end.
        """
        self._screen = Screen()
        self._begun_ns = self._reported_ns = time.monotonic_ns()
        saving = Saving(rotation.flush) if rotation is not None else None

        def write(batch: Batch) -> None:
            """Write the selected frames of a batch."""
            if rotation is not None and len(batch):
                selected = self._selected(batch, reader.interfaces)
                rotation.write(batch if selected is None else batch.select(selected))

        frames = self._frames_of(reader, write)
        with StoppingInterrupt(reader.stop).handled() as interrupt:
            for batch in frames:
                if self.outer:
                    write(batch)
                if len(batch):
                    selected = self._selected(batch, frames.interfaces)
                    self.counts.add(batch, interfaces=frames.interfaces, selected=selected)
                if saving is not None:
                    saving.look()
                now_ns = time.monotonic_ns()
                if now_ns - self._reported_ns >= self.every_ns:
                    self._print_report(reader, frames.interfaces, now_ns)
                if self.duration_ns is not None and now_ns - self._begun_ns >= self.duration_ns:
                    self.duration_ns = None
                    reader.stop()
        self.interrupted = interrupt.came
        self._end(reader, frames.interfaces)
        print_unwrapped(frames)

    def _frames_of(self, reader: InterfaceReader, watch: Callable[[Batch], None]) -> CaptureReader:
        """Return the reader of the frames to count.

        ``watch`` receives each batch before its frames are unwrapped.
        """
        if self.outer:
            return reader
        from ecmproto.frames.batch.inner import InnerReader

        return InnerReader(reader, ethertypes=self.ethertypes, watch=watch)

    def _selected(self, batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_] | None:
        if self.filter is None:
            return None
        from ecmproto.frames.columns.selection import selected

        return selected(batch, self.filter, interfaces=interfaces, ethertypes=self.ethertypes)

    def _print_report(self, reader: InterfaceReader, interfaces: Sequence[Interface], now_ns: int) -> None:
        from ecmproto.control.live.monitor import change_between

        statistics = self.counts.result(interfaces=interfaces)
        happened = change_between(self.last, statistics, now_ns - self._reported_ns)
        elapsed_ns, dropped = now_ns - self._begun_ns, reader.counts().dropped
        if self.form == "text":
            self._screen.draw(monitor_table(happened, reader.path, elapsed_ns, dropped))
        elif self.form == "line":
            echo(monitor_line(happened, elapsed_ns, dropped))
        else:
            echo(document_line(happened, reader.path, elapsed_ns, dropped))
        self.last, self._reported_ns = statistics, now_ns

    def _end(self, reader: InterfaceReader, interfaces: Sequence[Interface]) -> None:
        statistics = self.counts.result(interfaces=interfaces, problem=reader.problem)
        if self.form == "ndjson":
            echo(summary_line(statistics, reader.path, reader.counts().dropped))
            return
        self._screen.clear()
        echo(stats_table(statistics, reader.path) if statistics.frames else "0 frames", wrap=True)


class Screen:
    """A terminal screen whose contents are replaced by each report."""

    def __init__(self) -> None:
        self._drawn = False

    def draw(self, text: str) -> None:
        """Replace the contents of the screen with the lines of ``text`` that fit on the screen."""
        lines = text.splitlines()[: shutil.get_terminal_size().lines - 1]
        start = _HOME if self._drawn else _HOME + _REST
        self._drawn = True
        sys.stdout.write(start + "".join(f"{visible(line)}{_LINE_REST}\n" for line in lines) + _REST)
        sys.stdout.flush()

    def clear(self) -> None:
        """Clear the screen, if something was drawn."""
        if self._drawn:
            sys.stdout.write(_HOME + _REST)
            self._drawn = False


def monitor_table(change: Change, name: str, elapsed_ns: int, dropped: int) -> str:
    """Return a table of the traffic since the last report."""
    rows = [
        ("now", f"{per_second(change.frames_per_s)}, {format_rate(change.bits_per_s)}"),
        ("frames", f"{change.frames:,}, {format_octets(change.octets)}"),
    ]
    if dropped:
        rows.append(("dropped", f"{dropped:,} by the kernel: not counted below"))
    title = f"{paint(name, 'title')}, {format_time(elapsed_ns)}"
    # the last parts are cut off on a terminal with few lines
    if change.roce is not None:
        marks = f"{format_share(change.roce.ce_share)} CE, {per_second(change.roce.cnps_per_s)} CNPs"
        rows.append(("RoCE", f"{per_second(change.roce.frames_per_s)}, {marks}"))
    rows += [
        (f"neighbour {address(each.source)}", _advertised(each))
        for each in change.neighbours
        if each.dialects
    ]
    parts = [
        f"{title}\n{pairs(rows, width=_NAMES)}",
        *_pauses(change),
        *_queue_pairs(change),
        *_points(change),
        *_frame_types(change),
    ]
    return "\n\n".join(parts)


def _advertised(each: Neighbour) -> str:
    facts = (("PFC", each.pfc_text), ("ETS", each.ets_text), ("", each.applications_text))
    return "; ".join([f"{name} {text}".strip() for name, text in facts if text])


def _frame_types(change: Change) -> Iterator[str]:
    if not change.kinds:
        return
    # types of messages are printed at the end
    rows = [(each.kind.title, each) for each in change.kinds if "." not in each.kind.name]
    columns: Columns = {"frames": "frames", "now": "frames_per_s", "": "bits_per_s"}
    yield f"{paint('types of frames', 'title')}\n{table(rows, columns, change)}"


def _section(
    title: str, rest: str, rows: Sequence[tuple[str, Any]], columns: Columns, change: Change
) -> Iterator[str]:
    """Yield a titled table of the first rows, if there are any rows."""
    if rows:
        more = len(rows) - _ROWS_SHOWN
        tail = f"\n  and {more} more" if more > 0 else ""
        yield f"{paint(title, 'title')}{rest}\n{table(rows[:_ROWS_SHOWN], columns, change)}{tail}"


def _points(change: Change) -> Iterator[str]:
    from ecmproto.frames.stats.statistics import kind_of
    from ecmproto.wire.formats.text import cpid_text

    rows = [(f"{kind_of(point.kind).title} {cpid_text(point.cpid)}", point) for point in change.points]
    columns: Columns = {"messages": "frames", "now": "frames_per_s"}
    return _section("messages by congestion point", "", rows, columns, change)


_QUEUE_PAIRS: Columns = {
    "frames": "frames", "now": "bits_per_s", "CE": "ce_share", "CNPs": "cnps", "missing": "psns_missing",
    "repeated": "psn_repeats", "NAKs": "naks",
}  # fmt: skip


def _queue_pairs(change: Change) -> Iterator[str]:
    rows = [(flow_name(each), each) for each in change.queue_pairs]
    rest = ", by queue pair and direction, worst first"
    return _section("RoCE", rest, rows, _QUEUE_PAIRS, change)


def _pauses(change: Change) -> Iterator[str]:
    rows = [(f"{address(each.source)} {_class(each)}", each) for each in change.pauses]
    return _section("time paused by PAUSE and PFC", ", by sender", rows, _PAUSES, change)


_PAUSES: Columns = {
    "frames": "frames", "stopped": "paused_ns", "now": lambda each, _: format_share(min(1.0, each.share)),
    "transitions": "transitions", "ran out": "expired", "": lambda each, _: "storm" if each.in_storm else "",
}  # fmt: skip


def _class(each: PauseChange) -> str:
    return "link" if each.priority is None else f"priority {each.priority}"


def monitor_line(change: Change, elapsed_ns: int, dropped: int) -> str:
    """Return a line on the traffic since the last report."""
    parts = [
        format_time(elapsed_ns).rjust(8),
        per_second(change.frames_per_s).rjust(10),
        format_rate(change.bits_per_s).rjust(10),
    ]
    parts += [
        f"{each.kind.title} {per_second(each.frames_per_s)}"
        for each in change.kinds
        if each.kind.group in _REPORTED and "." not in each.kind.name and each.frames_per_s
    ]
    stopped = max((each.share for each in change.pauses), default=0.0)
    if stopped > 0:
        parts.append(f"stopped {format_share(min(1.0, stopped))}")
    if any(each.in_storm for each in change.pauses):
        parts.append("storm")
    if change.roce is not None and change.roce.ce_share > 0:
        parts.append(f"CE {format_share(change.roce.ce_share)}")
    if dropped:
        parts.append(f"dropped {dropped:,}")
    return "  ".join(parts)


def document_line(change: Change, name: str, elapsed_ns: int, dropped: int) -> str:
    """Return a line of JSON on the traffic since the last report."""
    from ecmproto.frames.stats.statistics import members

    head = {
        "schema": SCHEMA, "event": "stats", "interface": name, "elapsed_ns": elapsed_ns,
        "span_ns": change.span_ns, "dropped_frames": dropped,
    }  # fmt: skip
    return json.dumps({**head, **members(change, change)})


def summary_line(statistics: Statistics, name: str, dropped: int) -> str:
    """Return a line of JSON with all statistics and the number of dropped frames."""
    from ecmproto.frames.stats import as_document

    document = {"schema": SCHEMA, "event": "summary", "interface": name, "dropped_frames": dropped}
    return json.dumps({**document, "stats": as_document(statistics, name)})
