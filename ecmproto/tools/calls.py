"""A function for each command: `dissect`, `stats`, `check`, `diff`, `craft`, `edit` and `lab`.

Each function is also ``ecmproto.NAME``, like `ecmproto.replay`.

A capture is a path, ``-``, a URL or a file object. Several captures are merged into one capture in order of
time. Numbers with units may be texts, such as ``"10G"`` or ``"20us"``. ``set`` is a mapping, or texts such as
``["qeq=33kB"]``. A wrong argument raises ParameterError. A result has a short `repr`, is a
table for pandas, polars and Arrow (`ecmproto.tables.Tabular`), and is displayed as a table in notebooks.
"""

from __future__ import annotations

import dataclasses
import os
import random
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, TypeAlias

import numpy as np

from ecmproto.arguments import Assignments, assigned, checked, comma_separated, listed, numeric
from ecmproto.control.lab.results.outcome import Outcome
from ecmproto.control.lab.results.running import Runs, runs_named
from ecmproto.control.lab.setup.changes import Changes
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.errors import CaptureError, ParameterError, counted, shown
from ecmproto.frames.batch.inner import open_innermost
from ecmproto.frames.capture import Batch, CaptureReader, open_sink
from ecmproto.frames.capture.copier import format_of
from ecmproto.frames.columns import selected
from ecmproto.frames.dissect.form import Record, records
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.stats import Statistics, capture_stats
from ecmproto.frames.stats.sampling import parse_sampled
from ecmproto.tables import Tabular
from ecmproto.tools.check import FAMILIES, Checked, check_capture, chosen
from ecmproto.tools.check.own import own_family
from ecmproto.tools.craft.output import output_of
from ecmproto.tools.craft.recipe import chunks, is_time
from ecmproto.tools.craft.sequences import given_by
from ecmproto.tools.craft.spec import Reading, read_items
from ecmproto.tools.craft.switch_tests import SEQUENCES
from ecmproto.tools.diff import Comparison, difference_document, rules_of, summary_document
from ecmproto.tools.diff.comparison import WINDOW_FRAMES
from ecmproto.tools.edit import Edit, Report, assignments_from, edit_capture, frames_from, span_from
from ecmproto.tools.edit.records import clock_from
from ecmproto.tools.edit.selection import tag_from, tag_named
from ecmproto.tools.edit.wrapping import wrapper_from
from ecmproto.units import parse_rate, parse_time
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

Capture: TypeAlias = "str | os.PathLike[str] | BinaryIO"
Captures: TypeAlias = "Capture | Sequence[Capture]"

MAX_DIFFERENCES = 1000
"""The default maximum number of listed differences."""


def _opened(captures: Captures, *, outer: bool, trailer: str | None, ethertypes: EtherTypes) -> CaptureReader:
    is_one = isinstance(captures, str | os.PathLike) or hasattr(captures, "read")
    paths: Any = [captures] if is_one else captures
    return open_innermost(paths, outer=outer, trailer=trailer, ethertypes=ethertypes)


@checked
def dissect(
    captures: Captures,
    *,
    filter: str | None = None,
    inner: bool = False,
    trailer: str | None = None,
    count: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Iterator[Record]:
    """Yield the frames of captures with number, time, interface, octets and the decoded ``frame``.

    ``filter`` is a display filter, and ``count`` is the maximum number of frames. ``inner`` removes mirror
    and tunnel encapsulations. ``trailer`` is the device whose time stamps replace the times of frames, such
    as ``"metamako"``. Raises CaptureError if a capture cannot be read to its end, and FilterError for an
    invalid filter.
    """
    test = None if filter is None else compile_filter(filter)

    def frames() -> Iterator[Record]:
        with _opened(captures, outer=not inner, trailer=trailer, ethertypes=ethertypes) as reader:
            for batch in reader:
                interfaces = reader.interfaces
                if test is not None:
                    batch = batch.select(selected(batch, test, interfaces=interfaces, ethertypes=ethertypes))
                yield from records(batch.displayed(), interfaces, ethertypes=ethertypes)
            if reader.problem is not None:
                raise reader.problem

    return islice(frames(), count)


@checked
def stats(
    captures: Captures,
    *,
    filter: str | None = None,
    speed: str | int = "10G",
    interval: str | int | None = None,
    lossless: Collection[int] | None = None,
    storm_detect: str | int = "200ms",
    storm_restore: str | int = "400ms",
    outer: bool = False,
    trailer: str | None = None,
    sampled: str = "1:1",
    count: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Statistics:
    """Return the statistics of captures. As a table, the result has one row for each frame type.

    ``speed`` is the speed in bit/s of links without a stated speed. ``interval`` is the width of time
    intervals in ns. ``lossless`` contains the priorities that PFC may pause. A priority that is paused for
    99 % of ``storm_detect`` is in a storm, which ends after ``storm_restore`` without a pause. ``outer``
    counts the outer frames of mirror and tunnel encapsulations. ``trailer`` is the device whose time stamps
    replace the times of frames. ``sampled`` is ``"1:N"`` or ``"every:N"``, if the frames are a sample. Raises
    CaptureError, FilterError and ParameterError.
    """
    with _opened(captures, outer=outer, trailer=trailer, ethertypes=ethertypes) as reader:
        return capture_stats(
            reader,
            filter=filter,
            interval_ns=None if interval is None else numeric(interval, parse_time),
            speed_bps=numeric(speed, parse_rate),
            lossless=lossless,
            detect_ns=numeric(storm_detect, parse_time),
            restore_ns=numeric(storm_restore, parse_time),
            sampled=parse_sampled(sampled),
            limit=count,
            ethertypes=ethertypes,
        )


@checked
def check(
    captures: Captures,
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    rules: Iterable[str] = (),
    filter: str | None = None,
    set: Assignments | None = None,
    outer: bool = False,
    trailer: str | None = None,
    sampled: str = "1:1",
    count: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Checked:
    """Return the findings of rules in captures. As a table, the result has one row for each finding.

    ``select`` and ``ignore`` contain families of rules, or prefixes of rule ids, such as ``["pfc"]``.
    ``rules`` are .py or .toml files with your own rules. ``set`` contains parameters of rules, such as
    ``{"qcn.w": 2}``. ``outer`` checks the outer frames of mirror and tunnel encapsulations. ``trailer`` is
    the device whose time stamps replace the times of frames. ``sampled`` is ``"1:N"`` or ``"every:N"``, if
    the frames are a sample. Raises CaptureError, FilterError and ParameterError.
    """
    test = None if filter is None else compile_filter(filter)
    texts = dict(text.split("=", 1) for text in assigned(set))
    is_sample = parse_sampled(sampled)[0] > 1
    with _opened(captures, outer=outer, trailer=trailer, ethertypes=ethertypes) as reader:
        families = (*FAMILIES, *map(own_family, listed(rules)))
        return check_capture(
            reader,
            chosen(comma_separated(select), comma_separated(ignore), families),
            texts,
            families=families,
            filter=test,
            sampled=is_sample,
            limit=count,
            ethertypes=ethertypes,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Differences(Tabular):
    """The differences between two captures: the listed differences, and a document with the totals."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("kind", "a", "b")

    listed: tuple[dict[str, Any], ...]
    """Documents of the schema ``ecmproto/diff/1``, in order."""
    summary: dict[str, Any]
    problem: CaptureError | None
    """The error that ended a capture early."""

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each listed difference."""
        return [{name: each[name] for name in self.COLUMNS} for each in self.listed]

    def __repr__(self) -> str:
        types = ("changed", "retimed", "moved", "missing", "added")
        counts = [f"{self.summary[kind]:,} {kind}" for kind in types if self.summary[kind]]
        return f"{counted(self.summary['same'], 'frame')} the same; {', '.join(counts) or 'no difference'}"


@checked
def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    ignore: Iterable[str] = (),
    tolerance: Assignments | None = None,
    align_time: Literal["none", "offset", "drift"] = "none",
    per_interface: bool = False,
    snaplen: int | None = None,
    filter: str | None = None,
    outer: bool = False,
    limit: int = MAX_DIFFERENCES,
    times: bool | None = None,
    window: int = WINDOW_FRAMES,
    ethertypes: EtherTypes = DEFAULT,
) -> Differences:
    """Return the differences between two captures.

    All differences are counted, and at most ``limit`` differences are listed.

    ``ignore`` contains fields and layers. ``tolerance`` contains permitted differences by field, such as
    ``{"time": "1us"}``. ``snaplen`` is the number of compared octets of each frame. ``outer`` compares the
    outer frames of mirror and tunnel encapsulations. ``times`` lists frames that differ only in time, by
    default if at most half of the frames do. ``window`` is the number of frames that are aligned at a time.
    Raises CaptureError, FilterError, SpecError and ParameterError.
    """
    tolerances = dict(text.split("=", 1) for text in assigned(tolerance))
    rules = rules_of(
        comma_separated(ignore),
        tolerances,
        align_time=align_time,
        by_interface=per_interface,
        snap_octets=snaplen,
    )
    test = None if filter is None else compile_filter(filter)
    listed: list[dict[str, Any]] = []
    with Comparison(
        os.fspath(a),
        os.fspath(b),
        rules,
        filter=test,
        outer=outer,
        ethertypes=ethertypes,
        window=window,
        list_times=times,
    ) as comparison:
        for difference in comparison:
            if len(listed) < limit:
                listed.append(dict(difference_document(difference)))
            comparison.listing = len(listed) < limit
        summary = dict(summary_document(comparison))
        return Differences(listed=tuple(listed), summary=summary, problem=comparison.problem)


@checked
def craft(
    frame: str,
    out: str | os.PathLike[str] | None = None,
    *,
    sweep: Assignments | None = None,
    count: int | None = None,
    dst: str | None = None,
    src: str | None = None,
    vlan: str | int | None = None,
    prio: int | None = None,
    flow: int | None = None,
    ip: str | None = None,
    raw: bool = False,
    rate: str | None = None,
    time: str | None = None,
    seed: int | None = None,
    format: Literal["pcap", "pcapng"] | None = None,
    force: bool = False,
    ethertypes: EtherTypes = DEFAULT,
) -> Batch:
    """Return the frames of a line such as ``"cnm qntz_fb=40"``, or of a sequence such as ``"cnm-sweep"``.

    ``sweep`` contains values by field, such as ``{"cnm.qntz_fb": "0..63"}``. ``count`` is the number of
    frames. ``vlan`` and ``prio`` are the ID and the priority of a VLAN tag, ``flow`` is the flow ID in a
    CN-TAG, and ``ip`` is ``"SRC,DST"``. ``raw`` disables computed fields and padding. ``rate`` is a rate such
    as ``"1Mpps"``, or the time between frames. ``time`` is the time of the first frame. ``seed`` is the seed
    of random values. ``out`` is a capture for the frames. Raises SpecError, EncodeError, OutputError and
    ParameterError.
    """
    given: dict[str, object] = {
        "count": count,
        "dst": dst,
        "src": src,
        "vlan": vlan,
        "prio": prio,
        "flow": flow,
        "ip": ip,
    }
    spaced = "interval" if is_time(rate) else "rate"
    given |= {"raw": raw or None, spaced: rate, "time": time}
    given["sweep"] = dict(text.split("=", 1) for text in assigned(sweep)) or None
    options = {name: each for name, each in given.items() if each is not None}
    first, *words = frame.split() or [""]
    items: list[Mapping[str, Any]] = [{"frame": frame, **options}]
    if first in SEQUENCES:
        parameters = given_by([*words, *assigned(options)], first)
        steps = SEQUENCES[first].steps(parameters, ethertypes=ethertypes)
        items = [step.item for step in steps if not step.reverse]
    number = secrets.randbits(32) if seed is None else seed
    reading = Reading(ethertypes=ethertypes, random=random.Random(number))
    made = list(chunks(read_items(items, "craft", reading), start_ns=0, spacing=Fraction(0)))
    if out is not None:
        form = format or format_of(out, None)
        if form is None:
            raise ParameterError(
                name="out", needed="a name that ends in .pcap or .pcapng", got=shown(str(out))
            )
        with open_sink(os.fspath(out), force=force) as sink:
            output = output_of(form, sink, reading.capture, ethertypes=ethertypes)
            for chunk in made:
                output.write(chunk)
            output.finish()
    frames = [octets for chunk in made for octets in chunk.octets()]
    return Batch.from_frames(frames, time_ns=np.concatenate([chunk.times() for chunk in made]))


@checked
def edit(
    captures: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    filter: str | None = None,
    set: Assignments | None = None,
    strip: Iterable[str] = (),
    add_tag: Iterable[str] = (),
    replace_tags: bool = False,
    decap: bool = False,
    encap: Iterable[str] = (),
    delete: bool = False,
    keep: bool = False,
    frames: str | None = None,
    start: str | None = None,
    stop: str | None = None,
    shift: str | None = None,
    scale_time: str | None = None,
    snaplen: int | None = None,
    fix: bool = False,
    keep_checksums: bool = False,
    format: Literal["pcap", "pcapng"] | None = None,
    force: bool = False,
    ethertypes: EtherTypes = DEFAULT,
) -> Report:
    """Write edited captures to ``out``, and return the counts.

    ``filter`` selects the frames to edit. ``set`` contains new values by field, such as ``{"vlan.id": 7}``.
    ``strip`` and ``add_tag`` are the tags to remove and to add, and ``encap`` contains encapsulations, as on
    the command line. ``decap`` removes encapsulations first. With ``delete``, the selected frames are
    deleted. With ``keep``, all other frames are deleted. ``frames``, ``start`` and ``stop`` select frames by
    number and time. ``shift`` is added to all times, and ``scale_time`` multiplies the times since the first
    frame. Checksums over changed fields are updated, unless ``keep_checksums`` is set. ``fix`` updates all
    checksums. Raises CaptureError, OutputError, FilterError, SpecError and ParameterError.
    """
    paths = [captures] if isinstance(captures, str | os.PathLike) else list(captures)
    return edit_capture(
        paths,
        out,
        Edit(
            assignments=assignments_from(assigned(set)),
            filter=None if filter is None else compile_filter(filter),
            drop="selected" if delete else "others" if keep else "",
            frames=None if frames is None else frames_from(frames),
            span=span_from(start, stop),
            strip=tuple(dict.fromkeys(map(tag_named, comma_separated(strip)))),
            tags=tuple(map(tag_from, listed(add_tag))),
            replace_tags=replace_tags,
            clock=clock_from(shift, scale_time),
            snap_octets=snaplen,
            fix=fix,
            update_checksums=not keep_checksums,
            decap=decap,
            wrappers=tuple(map(wrapper_from, listed(encap))),
            ethertypes=ethertypes,
        ),
        format=format,
        force=force,
    )


@checked
def lab(
    scenario: str | Path,
    *,
    variant: str | None = None,
    mechanism: str | None = None,
    flow_control: Literal["none", "pause", "pfc"] | None = None,
    set: Assignments | None = None,
    seed: int | None = None,
    seeds: int = 1,
    jobs: int = 1,
    parts: int = 1,
    show: Iterable[str] = (),
    outside: bool = False,
) -> Outcome:
    """Run a scenario, and return the outcome. As a table, the result has one row for each figure.

    ``scenario`` is the name of a bundled scenario, or a TOML file. ``set`` contains values of the scenario,
    such as ``{"duration": "50ms"}``. ``seeds`` is the number of consecutive seeds, which start at ``seed``.
    If ``seed`` is ``None``, the seed of the scenario is used. ``jobs`` is the number of processes. The
    network is divided into ``parts`` parts, which run at the same time. ``show`` contains additional figures.
    With ``outside``, the scenario may name files outside its folder. Raises SpecError and ParameterError.
    """
    changes = Changes(
        variant=variant,
        mechanism=mechanism,
        flow_control=flow_control,
        settings=tuple(assigned(set)),
    )
    base = load_scenario(os.fspath(scenario), outside=outside)
    changed, figures = changes.applied(base), listed(show)
    experiment = changed.experiment()
    named = {name: changes.named(base, name).experiment() for name in runs_named(experiment, figures=figures)}
    first = changed.seed if seed is None else seed
    runs = Runs({"": experiment, **named}, range(first, first + seeds), jobs=jobs, parts=parts)
    runs.run()
    others = {name: each for name, each in runs.results.items() if name}
    return Outcome(experiment, runs.results[""], variant=changed.variant, others=others, figures=figures)
