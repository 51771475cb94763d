"""One function for each command: `dissect`, `stats`, `check`, `diff`, `edit` and `lab`, as `ecmproto.NAME`.

Captures are paths, ``-``, URLs or file objects, one or several; several are one capture in the order of time.
Numbers with units may be texts (``"10G"``, ``"20us"``).  Results have a short `repr`, are tables of pandas,
polars and Arrow (`ecmproto.tables.Tabular`), and show as a table in notebooks.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, TypeAlias

from ecmproto.control.lab.results.outcome import Outcome
from ecmproto.control.lab.results.running import Runs, runs_named
from ecmproto.control.lab.setup.changes import Changes
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.errors import CaptureError, counted
from ecmproto.frames.batch.inner import open_innermost
from ecmproto.frames.capture import CaptureReader
from ecmproto.frames.columns import selected
from ecmproto.frames.dissect.form import Record, records
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.stats import Statistics, capture_stats
from ecmproto.tables import Tabular
from ecmproto.tools.check import Checked, check_capture, chosen
from ecmproto.tools.diff import Comparison, difference_document, rules_of, summary_document
from ecmproto.tools.edit import Edit, Report, assignments_from, edit_capture, frames_from, span_from
from ecmproto.tools.edit.selection import tag_from, tag_named
from ecmproto.units import parse_rate, parse_time
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

Capture: TypeAlias = "str | os.PathLike[str] | BinaryIO"
Captures: TypeAlias = "Capture | Sequence[Capture]"

MAX_DIFFERENCES = 1000
"""The default maximum number of listed differences."""


def _opened(captures: Captures, *, outer: bool, ethertypes: EtherTypes) -> CaptureReader:
    is_one = isinstance(captures, str | os.PathLike) or hasattr(captures, "read")
    return open_innermost([captures] if is_one else captures, outer=outer, ethertypes=ethertypes)  # type: ignore[list-item,arg-type]


def dissect(
    captures: Captures,
    *,
    filter: str | None = None,
    inner: bool = False,
    count: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Iterator[Record]:
    """Yield the frames of captures one by one: number, time, interface, octets and the decoded ``frame``.

    ``filter`` is a display filter, ``count`` the maximum number of frames; ``inner`` unwraps mirrors and
    tunnels.  Raises CaptureError, also for a capture that cannot be read to its end, and FilterError.
    """
    test = None if filter is None else compile_filter(filter)

    def frames() -> Iterator[Record]:
        with _opened(captures, outer=not inner, ethertypes=ethertypes) as reader:
            for batch in reader:
                interfaces = reader.interfaces
                if test is not None:
                    batch = batch.select(selected(batch, test, interfaces=interfaces, ethertypes=ethertypes))
                yield from records(batch.displayed(), interfaces, ethertypes=ethertypes)
            if reader.problem is not None:
                raise reader.problem

    return islice(frames(), count)


def stats(
    captures: Captures,
    *,
    filter: str | None = None,
    speed: str | int = "10G",
    interval: str | int | None = None,
    lossless: Collection[int] | None = None,
    outer: bool = False,
    count: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Statistics:
    """Return the statistics of captures, as a table one row a kind of frame.

    ``speed`` is the rate of links without a stated one (bit/s), ``interval`` the width of time intervals
    (ns), ``lossless`` the priorities that PFC may pause; ``outer`` counts wrappers.  Raises CaptureError,
    FilterError and ParameterError.
    """
    with _opened(captures, outer=outer, ethertypes=ethertypes) as reader:
        return capture_stats(
            reader,
            filter=filter,
            interval_ns=parse_time(interval) if isinstance(interval, str) else interval,
            speed_bps=parse_rate(speed) if isinstance(speed, str) else speed,
            lossless=lossless,
            limit=count,
            ethertypes=ethertypes,
        )


def check(
    captures: Captures,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    filter: str | None = None,
    set: Mapping[str, object] | None = None,
    outer: bool = False,
    count: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Checked:
    """Return the findings of rules in captures, as a table one row a finding.

    ``select`` and ``ignore`` are families of rules or beginnings of ids (``["pfc"]``), ``set`` parameters of
    rules (``{"qcn.w": 2}``); ``outer`` checks wrappers.  Raises CaptureError, FilterError and ParameterError.
    """
    test = None if filter is None else compile_filter(filter)
    texts = {name: str(value) for name, value in (set or {}).items()}
    with _opened(captures, outer=outer, ethertypes=ethertypes) as reader:
        rules = chosen(select, ignore)
        return check_capture(reader, rules, texts, filter=test, limit=count, ethertypes=ethertypes)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Differences(Tabular):
    """The differences of two captures: the listed ones, and the sums of all as a document."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("kind", "a", "b")

    listed: tuple[dict[str, Any], ...]
    """Documents of ``ecmproto/diff/1``, in order."""
    summary: dict[str, Any]
    problem: CaptureError | None
    """The error that ended the reading early."""

    def records(self) -> list[dict[str, Any]]:
        """Return one row a listed difference."""
        return [{name: each[name] for name in self.COLUMNS} for each in self.listed]

    def __repr__(self) -> str:
        kinds = ("changed", "retimed", "moved", "missing", "added")
        counts = [f"{self.summary[kind]:,} {kind}" for kind in kinds if self.summary[kind]]
        return f"{counted(self.summary['same'], 'frame')} the same; {', '.join(counts) or 'no difference'}"


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    ignore: Sequence[str] = (),
    tolerance: Mapping[str, str] | None = None,
    align_time: Literal["none", "offset", "drift"] = "none",
    per_interface: bool = False,
    filter: str | None = None,
    outer: bool = False,
    limit: int = MAX_DIFFERENCES,
    ethertypes: EtherTypes = DEFAULT,
) -> Differences:
    """Return the differences of two captures, up to ``limit`` of them listed, all counted.

    ``ignore`` are fields and layers, ``tolerance`` differences by field (``{"time": "1us"}``); ``outer``
    compares wrappers.  Raises CaptureError, FilterError, SpecError and ParameterError.
    """
    rules = rules_of(ignore, tolerance, align_time=align_time, by_interface=per_interface)
    test = None if filter is None else compile_filter(filter)
    listed: list[dict[str, Any]] = []
    with Comparison(
        os.fspath(a), os.fspath(b), rules, filter=test, outer=outer, ethertypes=ethertypes
    ) as comparison:
        for difference in comparison:
            if len(listed) < limit:
                listed.append(dict(difference_document(difference)))
            comparison.listing = len(listed) < limit
        summary = dict(summary_document(comparison))
        return Differences(listed=tuple(listed), summary=summary, problem=comparison.problem)


def edit(
    captures: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    filter: str | None = None,
    set: Mapping[str, object] | None = None,
    strip: Sequence[str] = (),
    add_tag: Sequence[str] = (),
    delete: bool = False,
    keep: bool = False,
    frames: str | None = None,
    start: str | None = None,
    stop: str | None = None,
    snaplen: int | None = None,
    fix: bool = False,
    keep_checksums: bool = False,
    force: bool = False,
    ethertypes: EtherTypes = DEFAULT,
) -> Report:
    """Write captures to ``out`` with fields ``set``, tags changed and frames left out; return the counts.

    ``set`` are values by field (``{"vlan.id": 7}``); ``filter`` selects the frames to edit, ``delete`` or
    ``keep``; ``strip`` and ``add_tag`` are tags as on the command line; ``frames``, ``start`` and ``stop``
    select by number and time.  Checksums over set fields are updated except with ``keep_checksums``; ``fix``
    computes all.  Raises CaptureError, OutputError, FilterError, SpecError and ParameterError.
    """
    paths = [captures] if isinstance(captures, str | os.PathLike) else list(captures)
    return edit_capture(
        paths,
        out,
        Edit(
            assignments=assignments_from(f"{name}={value}" for name, value in (set or {}).items()),
            filter=None if filter is None else compile_filter(filter),
            drop="selected" if delete else "others" if keep else "",
            frames=None if frames is None else frames_from(frames),
            span=span_from(start, stop),
            strip=tuple(map(tag_named, strip)),
            tags=tuple(map(tag_from, add_tag)),
            snap_octets=snaplen,
            fix=fix,
            keep_checksums=not keep_checksums,
            ethertypes=ethertypes,
        ),
        force=force,
    )


def lab(
    scenario: str | Path,
    *,
    variant: str | None = None,
    mechanism: str | None = None,
    flow_control: Literal["none", "pause", "pfc"] | None = None,
    set: Mapping[str, object] | None = None,
    seed: int | None = None,
    seeds: int = 1,
    jobs: int = 1,
    show: Sequence[str] = (),
    outside: bool = False,
) -> Outcome:
    """Return the outcome of a scenario (a bundled name or a TOML file), as a table one row a figure.

    ``set`` are values of the scenario (``{"duration": "50ms"}``); ``seeds`` consecutive seeds are run from
    ``seed`` on (None: the scenario's), ``jobs`` processes at a time; ``show`` are figures besides the
    scenario's.  With ``outside`` the scenario may name files that are not below its folder.  Raises
    SpecError and ParameterError.
    """
    changes = Changes(
        variant=variant,
        mechanism=mechanism,
        flow_control=flow_control,
        settings=tuple(f"{name}={value}" for name, value in (set or {}).items()),
    )
    base = load_scenario(os.fspath(scenario), outside=outside)
    changed = changes.applied(base)
    experiment = changed.experiment()
    named = {name: changes.named(base, name).experiment() for name in runs_named(experiment, figures=show)}
    first = changed.seed if seed is None else seed
    runs = Runs({"": experiment, **named}, range(first, first + seeds), jobs=jobs)
    runs.run()
    others = {name: each for name, each in runs.results.items() if name}
    return Outcome(experiment, runs.results[""], variant=changed.variant, others=others, figures=show)
