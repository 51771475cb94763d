"""``ecmproto dissect``: show the frames of a capture as lines, trees, fields, JSON or columns, or copy them.

Frames are processed one by one at first, and column by column if the capture is large. Both methods give the
same text. The second method loads compiled code first, which takes as long as about ten thousand frames.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click

from ecmproto.errors import counted, escaped
from ecmproto.values import dataclass
from ecmproto_cli.capturing import Saving, StoppingInterrupt, captured, interface_option, interrupts, opened
from ecmproto_cli.errors import INTERRUPTED, warn
from ecmproto_cli.options import (
    columns_settings,
    count_option,
    fields_option,
    filter_option,
    force_option,
    inner_option,
    print_unwrapped,
    read_option,
    trailer_option,
    with_ethertypes,
    write_option,
)
from ecmproto_cli.output import BINARY, Stdout, check_outputs, output_form
from ecmproto_cli.progress import reading, reporting_compilation, watched, work
from ecmproto_cli.terminal import echo, is_coloured, paint

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from ecmproto.frames.capture import Batch, CaptureCopier, CaptureReader, Interface, Sink
    from ecmproto.frames.capture.batch import Format
    from ecmproto.frames.capture.forked import ForkedCapture
    from ecmproto.frames.columns.arrow import Addresses, Repeated
    from ecmproto.frames.columns.files import Form as FileForm
    from ecmproto.frames.columns.threads import Turn
    from ecmproto.frames.dissect import Form, Record
    from ecmproto.frames.filter import Filter
    from ecmproto.wire.codec import EtherTypes
    from ecmproto_cli.capturing import DeferredInterrupt

    OutputCounts: TypeAlias = tuple[int, int, Counter[int]]
    """The numbers of frames, of shown frames, and of frames per link type without a decoder."""
    Interrupt: TypeAlias = DeferredInterrupt | StoppingInterrupt

CAPTURES = ("pcap", "pcapng")
COLUMN_FILES = ("parquet", "arrow")
FORMS = ("line", "tree", "json", "ndjson", "csv", "fields", *COLUMN_FILES, *CAPTURES)


@click.command()
@read_option(required=False)
@interface_option("Capture on this interface instead, until Ctrl-C or -c.")
@filter_option(
    "Show only the frames that match this display filter (Wireshark's syntax); with -w, write only these. "
    "With -i and without -c, the kernel drops all other frames, which then get no frame number."
)
@click.option("-V", "verbose", is_flag=True, help="Show every field of every layer; equivalent to -T tree.")
@click.option("-x", "hex", is_flag=True, help="Also show the octets of each layer.")
@click.option(
    "-T", "form", type=click.Choice(FORMS),
    help="Format of the frames on stdout, or of the -w file.  [default: by the output's suffix, else line]",
)  # fmt: skip
@click.option(
    "-e", "fields", metavar="FIELD", multiple=True,
    help="Show this field, in -T fields (the default with -e), csv, parquet or arrow. `ecmproto fields` "
    "lists the fields. encapsulated.FIELD is a field of the frame inside a CNM, ECM, BCN or E²CM message.",
)  # fmt: skip
@fields_option
@click.option(
    "--all-fields", is_flag=True,
    help="With -T parquet or arrow and without -e: write every field that occurs, so that craft can rebuild "
    "the frames. Reads the capture twice.",
)  # fmt: skip
@count_option
@inner_option
@trailer_option
@write_option(
    "Write the frames to this file, in the format of -T or of the suffix: .json, .ndjson, .csv, .tsv, .txt, "
    ".parquet, .arrow. With any other suffix, write a capture of the unchanged frames; -V, -x and -e also "
    "show them on stdout."
)
@force_option
@click.option("--deep", is_flag=True, help="With -V: also show Scapy's tree of the payload.")
@with_ethertypes
def command(
    paths: tuple[str, ...],
    interface: str | None,
    filter: Filter | None,
    verbose: bool,
    hex: bool,
    form: str | None,
    fields: tuple[str, ...],
    settings: dict[str, str],
    all_fields: bool,
    count: int | None,
    inner: bool,
    trailer: str | None,
    output: str | None,
    force: bool,
    deep: bool,
    ethertypes: EtherTypes,
) -> int:
    """Show the frames of a capture, by default one line each.

    \b
    ecmproto dissect -r in.pcapng
    ecmproto dissect -r in.pcapng -V -c 1
    ecmproto dissect -r in.pcapng -Y 'cnm.qntz_fb > 40 and vlan.priority == 6'
    ecmproto dissect -r in.pcapng -T fields -e frame.number -e cnm.qntz_fb
    ecmproto dissect -r in.pcapng -T json | ecmproto craft --from-json -w same.pcapng
    ecmproto dissect -r in.pcapng -w frames.parquet
    ecmproto dissect -r monday.pcap -r tuesday.pcap -Y cnm -w cnms.pcapng
    ecmproto dissect -r mirror.pcap --inner -w bare.pcapng
    ecmproto dissect -i eth0 -Y cnm -w cnms.pcapng
    """
    shown = "tree" if verbose or deep else "fields" if fields else "line"
    form = output_form(output, form, FORMS, text=shown)
    if form == "csv" and not fields:
        from ecmproto.wire.formats.registry import USUAL_FIELDS

        fields = USUAL_FIELDS
    copies = form in CAPTURES or (form is None and output is not None)
    requested = _FormOptions(
        verbose=verbose,
        hex=hex,
        form=None if copies else form,
        fields=fields,
        settings=settings,
        deep=deep,
    )
    requested.check(output if copies else None)
    if requested.kind not in COLUMN_FILES and settings.keys() - {"header"}:
        got = f"-T {form or requested.kind}"
        raise click.UsageError(f"-E occurrence and values need -T parquet or arrow, not {got}")
    if all_fields and (fields or requested.kind not in COLUMN_FILES):
        got = "with -e" if fields else f"with -T {form or requested.kind}"
        raise click.UsageError(f"--all-fields needs -T parquet or arrow and no -e, got {got}")
    if bool(paths) == (interface is not None):
        raise click.UsageError(f"expected -r FILE or -i IF, got {'both' if paths else 'none'}")
    if (inner or trailer) and not paths:
        option = "--inner" if inner else "--trailer"
        raise click.UsageError(f"{option} needs -r: capture with -w first")
    if requested.kind in COLUMN_FILES and not paths:
        raise click.UsageError(f"-T {requested.kind} needs -r: capture with -w first")
    if form in BINARY:
        output = _binary_target(str(form), output)
    check_outputs([output], force=force)
    if requested.kind in COLUMN_FILES:
        return _write_columns(
            paths, str(output), requested.kind, fields, every=all_fields, filter=filter, limit=count,
            inner=inner, trailer=trailer, **columns_settings(settings), ethertypes=ethertypes, force=force,
        )  # fmt: skip
    from ecmproto.frames.capture import CaptureCopier, open_sink

    with ExitStack() as stack:
        reader = stack.enter_context(
            captured(
                interface, filter=filter if count is None else None, ethertypes=ethertypes, idle_batches=True
            )
            if interface is not None
            else opened(paths, inner=inner, trailer=trailer, ethertypes=ethertypes, batch_frames=FIRST_FRAMES)
        )
        shape = requested.build(ethertypes, to_file=not copies and output is not None)
        with ExitStack() as written:
            copier = sink = None
            if copies:
                kind = cast("Format | None", form)
                copier = written.enter_context(CaptureCopier(reader, str(output), format=kind, force=force))
            elif output not in (None, "-"):
                sink = written.enter_context(open_sink(str(output), force=force))
            form_shown = shape if copier is None or requested.something else None
            out = Output(form_shown, reader, ethertypes, requested.kind, filter, count, sink=sink)
            file = copier or sink
            source: CaptureReader | ForkedCapture = reader
            interrupted = False
            whole = not (inner or trailer or copies or count or interface)
            processes = out.processes(paths, fields) if whole else 1
            if processes > 1:
                source = _run_forked(paths[0], out, reader, processes)
            else:
                interrupted = _run(reader, out, copier, count, file.flush if file is not None else None)
        print_unwrapped(reader)
        _report(source, out, copier, None if output == "-" and copier is None else output)
        return INTERRUPTED if interrupted else 0


def _binary_target(form: str, output: str | None) -> str:
    """Return ``output`` or stdout for binary output; raise UsageError if stdout is a terminal."""
    if output in (None, "-") and sys.stdout.isatty():
        raise click.UsageError(f"-T {form} is binary: expected -w FILE or a pipe, got a terminal")
    return output or "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormOptions:
    """The output form that the options select, and the settings of the form."""

    verbose: bool
    hex: bool
    form: str | None
    fields: tuple[str, ...]
    settings: dict[str, str]
    deep: bool

    @property
    def kind(self) -> str:
        return self.form or ("tree" if self.verbose or self.deep else "fields" if self.fields else "line")

    @property
    def something(self) -> bool:
        """Return whether an option selects a form explicitly."""
        return bool(self.verbose or self.hex or self.form or self.fields or self.deep)

    def check(self, copy: str | None) -> None:
        """Refuse options that contradict each other; ``copy`` is the path of a copy of the frames."""
        kind = self.kind
        if self.verbose and kind != "tree":
            raise click.UsageError(f"-V means -T tree: expected no -T {kind} and no -e")
        if self.deep and kind != "tree":
            raise click.UsageError(f"--deep needs -V, not -T {kind} or -e")
        if self.hex and kind not in ("line", "tree"):
            raise click.UsageError(f"-x needs lines or -V, not -T {kind} or -e")
        if self.fields and kind not in ("fields", "csv", *COLUMN_FILES):
            raise click.UsageError(f"-e needs -T fields, csv, parquet or arrow, not -T {kind} or -V")
        if kind == "fields" and not self.fields:
            raise click.UsageError(f"-T {kind} needs a field: -e NAME (`ecmproto fields` lists them)")
        if "header" in self.settings and kind != "fields":
            raise click.UsageError(f"-E header needs -T fields, not -T {kind}")
        if copy == "-" and self.something:
            raise click.UsageError("-w - writes the copy to stdout, so nothing else can be shown there")

    def build(self, ethertypes: EtherTypes, *, to_file: bool) -> Form:
        """Return the form; a form that is written to a file has no colours."""
        from ecmproto.frames import dissect

        style = paint if is_coloured() and not to_file else dissect.plain
        match self.kind:
            case "json":
                return dissect.Json()
            case "ndjson":
                return dissect.NdJson()
            case "csv":
                return dissect.Csv(self.fields)
            case "fields":
                return dissect.Tabs(self.fields, header=self.settings.get("header") == "y")
            case "tree":
                form: Form = dissect.Trees(style, deep=_deep(ethertypes) if self.deep else None)
            case _:
                form = dissect.Lines(style)
        return dissect.WithHex(form, style) if self.hex else form


def _deep(ethertypes: EtherTypes) -> Callable[[bytes], str]:
    from ecmproto.wire.layers import payload_text

    return lambda octets: payload_text(octets, ethertypes=ethertypes)


def _run(
    reader: CaptureReader,
    out: Output,
    copier: CaptureCopier | None,
    limit: int | None,
    flush: Callable[[], None] | None,
) -> bool:
    """Show and copy the reader's frames, up to ``limit``; return whether an interrupt ended the work."""
    from ecmproto.frames.capture import Batch

    items = iter(reader) if copier is None and not out.lists_blocks else reader.items()
    with interrupts(reader) as interrupt:
        # Without flushes, a copy of a file is always the same, even if compressed.
        live = isinstance(interrupt, StoppingInterrupt)
        if live:
            work.end()  # frames from an interface must not be delayed
        elif sys.stdout.isatty():
            reading(reader, "dissect")
        else:
            items = watched(items, reader, "dissect")
        saving = Saving(flush) if flush is not None and live else None
        try:
            for item in out.begun(items, limit):
                part = out.show(item, interrupt) if isinstance(item, Shown) else item
                if copier is not None and (not isinstance(part, Batch) or len(part)):
                    copier.write(part)
                if saving is not None:
                    saving.look()
                interrupt.check()
        finally:
            out.end()
    return isinstance(interrupt, StoppingInterrupt) and interrupt.came


def _run_forked(path: str, out: Output, reader: CaptureReader, processes: int) -> ForkedCapture:
    """Show all frames of a large file with several processes, and return the capture."""
    from ecmproto.frames.capture.forked import PART_OCTETS, ForkedCapture

    with interrupts(reader) as interrupt:

        def take(text: memoryview) -> None:
            out.put(text)
            interrupt.check()

        octets = PART_OCTETS // _TEXT_OF_FORM.get(out.kind, 1)
        try:
            out.begin()
            with ForkedCapture(path, out.work, processes=processes, take=take, part_octets=octets) as capture:
                if sys.stdout.isatty():
                    reading(capture, "dissect")
                items = iter(capture) if sys.stdout.isatty() else watched(capture, capture, "dissect")
                for done in items:
                    out.count(done.result)
                    interrupt.check()
        finally:
            out.end()
    return capture


def _report(
    reader: CaptureReader | ForkedCapture, out: Output, copier: CaptureCopier | None, output: str | None
) -> None:
    """Print warnings on stderr, and raise the error that ended the reading early."""
    warn(*reader.warnings, *(copier.warnings if copier is not None else ()))
    for linktype, count in out.unknown.items():
        from ecmproto.frames.capture import linktype_name

        name = linktype_name(linktype)
        echo(f"{counted(count, 'frame')} of link type {name} ({linktype}) not decoded", err=True)
    if output is not None:
        frames = out.selected if copier is None else copier.frames
        echo(f"{counted(frames, 'frame')} written to {escaped(output)}", err=True)
    elif not out.selected:
        counts = f"0 of {counted(out.frames, 'frame')} selected" if out.frames else "0 frames"
        echo(counts, err=True)
    if reader.problem is not None:
        raise reader.problem


FIRST_FRAMES = 1024
"""The number of frames in the first batches.

The number is small, so output starts early and a progress bar moves.
"""
_LARGE_FRAMES = 1 << 16
_MANY_FRAMES = 24_576
"""The minimum size of a large capture in frames; compiled code loads slower than fewer frames."""
_MANY_OF_FORM = {"tree": 6144, "json": 12_288, "ndjson": 12_288}
"""The minimum size of a large capture in frames, for forms with more text per frame."""
_TEXT_OF_FORM = {"tree": 4, "ndjson": 2}
"""The amount of text relative to lines, for forms with more text per frame."""
_FULL_FRAMES = 64
"""The minimum batch size for compiled code; a slow pipe delivers fewer frames at a time."""
_COMMENTED = ("tree", "json", "ndjson")
_THREADS = 2
_BATCHES_AHEAD = 2
"""The number of batches that are started before the previous batch is shown.

The number is not more than the number of threads, because all threads except one may have to wait.
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """A batch in progress that is shown after the previous batches."""

    batch: Batch
    passes: bool = False
    """Whether all frames of the batch are selected and no frame is shown."""
    turn: Turn | None = None
    """The lock that the following batches in columns wait for, if this batch is shown frame by frame."""
    work: Future[tuple[Batch, Iterable[bytes | memoryview]]] | None = None
    """The pending result of a thread that processes the batch in columns."""


class Output:
    """An output of frames in a form, which is written to stdout or a file, and which counts the frames.

    Without a form, nothing is written.
    """

    def __init__(
        self,
        form: Form | None,
        reader: CaptureReader,
        ethertypes: EtherTypes,
        kind: str,
        filter: Filter | None,
        limit: int | None,
        *,
        sink: Sink | None = None,
    ) -> None:
        from ecmproto.frames.dissect.form import Listing

        self._form = form
        self.kind = kind
        self._many_frames = _MANY_FRAMES if form is None else _MANY_OF_FORM.get(kind, _MANY_FRAMES)
        self._reader = reader
        self._ethertypes = ethertypes
        self._commented = kind in _COMMENTED
        self.lists_blocks = kind == "json"
        """Whether the output lists the interfaces that were described before the first frame."""
        self._filter = filter
        self._stdout = Stdout("" if sink is None and kind in ("line", "tree") else "utf-8", sink)
        self._begun = False
        self._limit = limit
        self._listing = form if isinstance(form, Listing) and form.columnar else None
        self._large = False
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[Any] = deque()
        self._turn: Turn | None = None
        self._reporting = ExitStack()
        self.frames = 0
        """The number of frames read, including frames that the filter did not select."""
        self.selected = 0
        self.unknown: Counter[int] = Counter()
        """The number of frames per link type without a decoder."""

    def processes(self, paths: Sequence[str], fields: Sequence[str]) -> int:
        """Return the number of processes that create the text of captures with these ``fields``."""
        from ecmproto.frames.capture import open_capture
        from ecmproto.frames.capture.forked import processes_for
        from ecmproto.frames.filter.fields import DISPLAYED

        listing, filter = self._listing, self._filter
        in_turn = filter is not None and DISPLAYED in (*filter.fields, *fields)
        processes = 1 if listing is None or self.lists_blocks or in_turn else processes_for(paths)
        if listing is not None and processes > 1:
            with open_capture(paths[0], batch_frames=FIRST_FRAMES) as reader:
                for batch in itertools.islice(reader, 1):
                    listing.follow(batch, reader.interfaces)
            processes = 1 if listing.origin_ns is None else processes
        return processes

    def work(self, reader: CaptureReader, put: Callable[[bytes | memoryview], None]) -> OutputCounts:
        """Pass on the text of a part of the capture in a separate process, and return its counts."""
        assert self._listing is not None
        self._reader, self.frames, self.selected = reader, 0, 0
        self.unknown.clear()
        for batch in reader:
            self.frames += len(batch)
            self._count_unknown(batch)
            selected = self._selected(batch, reader.interfaces)
            self.selected += len(selected)
            for text in self._listing.texts(
                selected.displayed(), reader.interfaces, ethertypes=self._ethertypes
            ):
                put(text)
        return self.frames, self.selected, self.unknown

    def begin(self) -> None:
        """Write the text that precedes the first frame."""
        if self._form is not None and not self._begun:
            self._begun = True
            self._stdout.write(self._form.begin(self._reader))

    def put(self, text: memoryview) -> None:
        """Write text that another process created."""
        self._stdout.write_octets(text)

    def count(self, counts: OutputCounts) -> None:
        """Add the counts of another process."""
        frames, selected, unknown = counts
        self.frames += frames
        self.selected += selected
        self.unknown += unknown

    def begun(self, items: Iterable[Any], limit: int | None) -> Iterator[Any]:
        """Yield the reader's items, up to ``limit`` frames; a batch is yielded as `Shown`.

        In a large file, the processing of following batches starts before a batch is shown.
        """
        from ecmproto.frames.capture import Batch

        for item in items:
            if isinstance(item, Batch):
                over = limit is not None and self.frames + len(item) > limit
                item = self._shown(item.select(range((limit or 0) - self.frames)) if over else item)
            self._waiting.append(item)
            ahead = _BATCHES_AHEAD if self._large and self._reader.size_octets is not None else 0
            while len(self._waiting) > ahead:
                yield self._waiting.popleft()
            if self.frames == limit:
                break
        while self._waiting:
            yield self._waiting.popleft()

    def _shown(self, batch: Batch) -> Shown:
        """Start the processing of a batch; the frames count as read."""
        self.frames += len(batch)
        self._count_unknown(batch)
        if self._form is None and self._filter is None:
            return Shown(batch, passes=True)
        self.begin()
        by_columns = self._is_large(batch)
        if not self._large:
            return Shown(batch)
        from concurrent.futures import ThreadPoolExecutor

        from ecmproto.frames.columns.threads import Turn

        self._turn = Turn(self._turn)
        if not by_columns:
            return Shown(batch, turn=self._turn)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS)
            self._reporting.enter_context(reporting_compilation())
        # a copy of the list, because the reader may append interfaces meanwhile
        work = partial(self._columns, batch, tuple(self._reader.interfaces), self._turn)
        return Shown(batch, work=self._pool.submit(work))

    def show(self, shown: Shown, interrupt: Interrupt) -> Batch:
        """Show the frames of a batch that the filter selects, and return these frames.

        An interrupt that ``interrupt`` deferred is raised between frames.
        """
        batch = shown.batch
        if shown.work is not None:
            with interrupt.at_once():
                batch, texts = shown.work.result()
            for text in texts:
                self._stdout.write_octets(text)
                interrupt.check()
            self._reporting.close()
        elif not shown.passes:
            try:
                batch = self._one_by_one(batch, interrupt)
            finally:
                if shown.turn is not None:
                    shown.turn.end()
        self.selected += len(batch)
        return batch

    def _is_large(self, batch: Batch) -> bool:
        """Return whether a batch is processed column by column; the following batches are then larger."""
        by_columns = self._form is None or self._listing is not None
        if by_columns and not self._large and self._many():
            self._large = True
            self._reader.batch_frames = _LARGE_FRAMES
        return self._large and len(batch) >= _FULL_FRAMES

    def _many(self) -> bool:
        """Return whether a capture is large, from the rest of the file or the frames read from a pipe."""
        if self._limit is not None and self._limit - self.frames < self._many_frames:
            return False
        if self._reader.size_octets is None:
            return self.frames >= self._many_frames
        read = self._reader.octets_read
        return (self._reader.size_octets - read) * self.frames >= self._many_frames * read

    def _columns(
        self, batch: Batch, interfaces: Sequence[Interface], turn: Turn
    ) -> tuple[Batch, Iterable[bytes | memoryview]]:
        """Return the selected frames of a batch with their text; this method runs in a thread."""
        from ecmproto.frames.filter.fields import DISPLAYED

        ethertypes, listing = self._ethertypes, self._listing
        try:
            if self._filter is not None and DISPLAYED in self._filter.fields:
                turn.wait()
            selected = self._selected(batch, interfaces)
            turn.wait()
            if listing is None:
                return selected, ()
            listing.follow(batch, interfaces)
            displayed = selected.displayed()
        finally:
            turn.end()
        return selected, listing.texts(displayed, interfaces, ethertypes=ethertypes, pool=self._pool)

    def _selected(self, batch: Batch, interfaces: Sequence[Interface]) -> Batch:
        if self._filter is None:
            return batch
        from ecmproto.frames.columns.selection import selected

        return batch.select(selected(batch, self._filter, interfaces=interfaces, ethertypes=self._ethertypes))

    def _one_by_one(self, batch: Batch, interrupt: Interrupt) -> Batch:
        selected = [
            index for index, record in enumerate(self._records(batch)) if self._show(record, interrupt)
        ]
        self._stdout.flush()
        return batch if len(selected) == len(batch) else batch.select(selected)

    def _records(self, batch: Batch) -> Iterator[Record]:
        from ecmproto.frames.dissect import records

        interfaces, ethertypes = self._reader.interfaces, self._ethertypes
        return records(
            batch, interfaces, ethertypes=ethertypes, commented=self._commented,
            displayed=self._reader.displayed,
        )  # fmt: skip

    def _show(self, record: Record, interrupt: Interrupt) -> bool:
        """Show a frame if the filter selects the frame, and return whether the filter does."""
        selected = self._filter is None or self._filter.matches(record)
        if selected:
            self._reader.displayed.show(record.time_ns)
        if self._form is not None and selected:
            self._stdout.write(self._form.record(record))
        elif self._form is not None:
            self._form.passed(record)
        interrupt.check()
        return selected

    def end(self) -> None:
        """Write the text that follows the last frame, so that an interrupted output is complete too."""
        self.begin()
        if self._form is not None:
            self._stdout.write(self._form.end(self._reader))
            self._stdout.flush()
        self._reporting.close()
        for shown in self._waiting:
            if isinstance(shown, Shown) and shown.turn is not None:
                shown.turn.end()  # threads do not wait for batches that will not be shown
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _count_unknown(self, batch: Batch) -> None:
        from ecmproto.frames.batch.beginnings import KNOWN_LINKTYPES

        interfaces = self._reader.interfaces
        odd = {each.index: each.linktype for each in interfaces if each.linktype not in KNOWN_LINKTYPES}
        for index, linktype in odd.items():
            count = int((batch.interface == index).sum())
            if count:
                self.unknown[linktype] += count


def _write_columns(
    paths: Sequence[str],
    output: str,
    kind: str,
    fields: tuple[str, ...],
    *,
    every: bool,
    filter: Filter | None,
    limit: int | None,
    inner: bool,
    trailer: str | None,
    repeated: Repeated,
    addresses: Addresses,
    ethertypes: EtherTypes,
    force: bool,
) -> int:
    """Write the columns ``fields`` of captures and return the exit code; no ``fields`` means the default
    columns.

    ``every`` writes all fields that occur. The readable part of a truncated capture is written before
    CaptureError is raised. After the first interrupt, the file is completed as a partial file with the frames
    so far.
    """
    from ecmproto.frames.capture import open_sink
    from ecmproto.frames.capture.names import is_pipe
    from ecmproto.frames.columns.arrow import schema_of
    from ecmproto.frames.columns.column import fields_named
    from ecmproto.frames.columns.files import batch_tasks, fields_present, write_batches
    from ecmproto.wire.formats.registry import USUAL_FIELDS

    names = tuple(field.name for field in fields_named(None if every else fields or USUAL_FIELDS))
    typed = partial(schema_of, repeated=repeated, addresses=addresses, ethertypes=ethertypes)
    schema = typed(names)
    if every and not any(map(is_pipe, paths)):  # a pipe can be read only once
        with opened(paths, inner=inner, trailer=trailer, ethertypes=ethertypes) as reader:
            reading(reader, "dissect: searching for fields")
            names = fields_present(reader, filter=filter, limit=limit, ethertypes=ethertypes)
        schema = typed(names)
    with opened(paths, inner=inner, trailer=trailer, ethertypes=ethertypes) as reader:
        reading(reader, f"dissect to {kind}")
        works = batch_tasks(reader, lambda: names, filter=filter, limit=limit, ethertypes=ethertypes)
        form: FileForm = "parquet" if kind == "parquet" else "stream" if output == "-" else "arrow"
        with (
            open_sink(output, force=force, whole=form != "stream") as sink,
            StoppingInterrupt(lambda: None).handled() as interrupt,
        ):
            started = itertools.takewhile(lambda _: not interrupt.came, works)
            frames = write_batches(started, schema, sink, form)
            if interrupt.came:
                sink.whole = False  # keep the file, because its end is written
                raise KeyboardInterrupt
        warn(*reader.warnings)
        print_unwrapped(reader)
        echo(f"{counted(frames, 'frame')} written to {escaped(output)}", err=True)
        if reader.problem is not None:
            raise reader.problem
    return 0
