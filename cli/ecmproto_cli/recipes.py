"""Frames that `craft` builds and `send` sends.

The frames are described as LAYER FIELD=VALUE ... with options, in a specification, in JSON or in columns.
They can also be a named sequence of frames, or a pause storm.
"""

from __future__ import annotations

import dataclasses
import io
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import EncodeError, ParameterError, SpecError
from ecmproto.units import (
    NS_PER_S,
    format_octets,
    format_rate,
    format_share,
    format_time,
    frames_per_second,
    parse_rate,
)
from ecmproto_cli.errors import USAGE, CommandError
from ecmproto_cli.options import TIME, F, options_as, with_options
from ecmproto_cli.terminal import paint

if TYPE_CHECKING:
    from ecmproto.frames.capture import Sink
    from ecmproto.tools.craft.expectations import Expectation, Side
    from ecmproto.tools.craft.recipe import Chunk, Recipe
    from ecmproto.tools.craft.sequences import Sequence as FrameSequence
    from ecmproto.tools.craft.sequences import Step, Storm
    from ecmproto.tools.craft.spec import Reading
    from ecmproto.tools.craft.stack import Stack
    from ecmproto.wire.formats.ethertypes import EtherTypes

line_options = with_options(
    click.option("--dst", metavar="MAC", help="Destination MAC address."),
    click.option("--src", metavar="MAC", help="Source MAC address."),
    click.option(
        "--vlan", metavar="ID[,ID...]", help="IDs of VLAN tags, outermost first. The last tag is a C-TAG, "
            "and all other tags are S-TAGs."
    ),
    click.option("--prio", metavar="N", help="Priority of the outermost VLAN tag."),
    click.option("--flow", metavar="ID", help="Flow ID in a CN-TAG."),
    click.option("--ip", metavar="SRC,DST", help="Source and destination IPv4 or IPv6 address."),
    click.option(
        "--sweep", "sweeps", metavar="NAME=VALUES", multiple=True,
        help="Build a frame for each value of a field. VALUES is a..b, a..b:step, a,b,c or random:N. If "
            "there are several sweeps, the last sweep varies fastest.",
    ),
    click.option(
        "--raw", is_flag=True, help="Build exactly the given layers and values, without computed fields or "
            "padding."
    ),
)  # fmt: skip
"""Options for a frame given as LAYER FIELD=VALUE ..., such as --dst, --vlan and --sweep."""


def given_options(options: Mapping[str, object]) -> list[str]:
    """Return the names of the options that have a value."""
    return [name for name, value in options.items() if not (value is None or value is False or value == ())]


def check_sources(sources: Mapping[str, object], arguments: tuple[str, ...], line: dict[str, Any]) -> None:
    """Raise UsageError unless the command line has exactly one source of frames.

    A source is a LAYER or an option from ``sources``. Raises UsageError also for `line_options` without a
    LAYER.
    """
    sources_given = [name for name, given in sources.items() if given is not None]
    # columns contain fields of a LAYER, or complete frames
    if len(sources_given) + (bool(arguments) and sources_given != ["--from-columns"]) != 1:
        *others, last = ["a LAYER", *sources]
        got = "several" if sources_given else "none"
        raise click.UsageError(f"expected one of {', '.join(others)} or {last}, got {got}")
    given = given_options(line)
    if given and not arguments:
        name = "sweep" if given[0] == "sweeps" else given[0]
        raise click.UsageError(f"--{name} applies to a frame given as LAYER FIELD=VALUE ..., not to a file")


def stack_from(arguments: tuple[str, ...], line: dict[str, Any]) -> Stack:
    """Return the layers for LAYER FIELD=VALUE ... and for `line_options`."""
    from ecmproto.tools.craft.stack import stack_from_arguments

    stack = stack_from_arguments(arguments)
    for name in _SHORTHANDS:
        if line[name] is not None:
            stack.give(name, line[name], None)
    stack.settle()
    return stack


def from_line(arguments: tuple[str, ...], line: dict[str, Any], reading: Reading) -> Recipe:
    """Return the recipe for LAYER FIELD=VALUE ... and for `line_options`.

    Raises SpecError if the arguments or the options are invalid.
    """
    from ecmproto.tools.craft.recipe import Recipe, count_of
    from ecmproto.tools.craft.spec import plan_of

    stack = stack_from(arguments, line)
    sweeps: dict[str, object] = {}
    for sweep in line["sweeps"]:
        name, equals, values = sweep.partition("=")
        if not equals or name in sweeps:
            got = repr(sweep) if not equals else f"{name!r} twice"
            raise SpecError(where="--sweep", needed="FIELD=VALUES, each field once", got=got)
        sweeps[name] = values
    plan = plan_of(stack, sweeps, random=reading.random, ethertypes=reading.ethertypes, raw=bool(line["raw"]))
    recipe = Recipe(plan=plan, count=line.get("count"), where="--sweep")
    count_of(recipe)
    return recipe


def from_file(path: str, reading: Reading, files: ExitStack) -> Iterator[Recipe | Chunk]:
    """Return an iterator over the frames of a specification: a .toml file, a .json file, or JSON on stdin.

    JSON is read during the iteration.
    """
    from ecmproto.tools.craft.spec import read_json

    if path == "-":
        # JSON is UTF-8, whatever the encoding of the terminal
        stdin = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8")
        return read_json(stdin, "stdin", reading)
    if path.endswith(".toml"):
        return spec_frames(path, reading, "near")
    return read_json(files.enter_context(open(path, encoding="utf-8")), path, reading)


def spec_frames(path: str, reading: Reading, side: Side) -> Iterator[Recipe | Chunk]:
    """Return the frames of a .toml specification that are sent from one side of the device."""
    from ecmproto.tools.craft.spec import read_toml

    with open(path, "rb") as stream:
        # read all items first, so that an error is raised before a frame is written
        return iter(list(read_toml(stream, path, reading, side=side)))


def spec_expectations(path: str) -> list[Expectation]:
    """Return the expectations of a .toml specification."""
    from ecmproto.tools.craft.spec import read_expectations

    with open(path, "rb") as stream:
        return read_expectations(stream, path)


def from_columns(
    path: str, arguments: tuple[str, ...], line: dict[str, Any], reading: Reading, *, timed: bool
) -> Iterator[Chunk]:
    """Return the frames for a file of columns.

    Each row is built as LAYER FIELD=VALUE ... if a layer is given, else rebuilt from its columns. ``timed``
    means that options set the times of the frames.
    """
    from ecmproto.tools.craft.columns import frames_of_template, rebuilt_frames

    if arguments:
        stack = stack_from(arguments, line)
        return frames_of_template(
            path, stack, ethertypes=reading.ethertypes, raw=bool(line["raw"]), timed=timed
        )
    return rebuilt_frames(
        path, capture=reading.capture, ethertypes=reading.ethertypes, fix=reading.fix, timed=timed
    )


@contextmanager
def bounded_memory(path: str, octets: int) -> Iterator[None]:
    """Limit this process to ``octets`` of additional memory while the process reads a file of columns.

    Raises CommandError if reading needs more memory. A lower limit of the system remains in force. No limit
    is set if the system does not report memory use.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        yield
        return
    import resource  # every system with /proc has this module

    bounded = next(
        (int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:")), 0
    )
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = min(bound for bound in (bounded + octets, *before) if bound != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    except MemoryError:
        needed = f"columns that take at most {format_octets(octets)} of memory"
        help = "--memory with more, if you trust the file"
        raise CommandError(
            f"{path}: expected {needed}, got columns that take more", exit_code=USAGE, help=help
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def help_on(error: SpecError | EncodeError | ParameterError, command: str) -> str:
    """Return a command that shows valid input: ``ecmproto fields FORMAT``, or the command's help."""
    from ecmproto.wire.formats.registry import BY_PREFIX

    location = error.layer if isinstance(error, EncodeError) else getattr(error, "where", "")
    parts = location.replace(":", " ").split()
    # for example, "cnm" from "cnm.msdu"
    known = [word for word in (each.partition(".")[0] for each in parts) if word in BY_PREFIX]
    return f"ecmproto fields {known[-1]}" if known else f"ecmproto {command} --help"


_SHORTHANDS = ("dst", "src", "vlan", "prio", "flow", "ip")


def is_sequence(arguments: tuple[str, ...]) -> bool:
    """Return whether the first argument names a sequence, whose name has a hyphen unlike a layer's."""
    return bool(arguments) and "-" in arguments[0] and "=" not in arguments[0]


def sequence_from(
    arguments: tuple[str, ...], line: Mapping[str, Any]
) -> tuple[FrameSequence, dict[str, str]]:
    """Return the sequence for SEQUENCE PARAMETER=VALUE ..., and its parameters.

    Options in ``line`` set the parameters with the same names. Raises SpecError or ParameterError for invalid
    arguments.
    """
    from ecmproto.tools.craft.sequences import given_by
    from ecmproto.tools.craft.switch_tests import sequence_named

    sequence = sequence_named(arguments[0])
    given = given_by(arguments[1:], sequence.name)
    for name in given_options(line):
        option = "sweep" if name == "sweeps" else name
        if option in given:
            raise SpecError(where=sequence.name, needed="each parameter once", got=f"{option!r} twice")
        given[option] = str(line[name])
    return sequence, given


def from_steps(steps: Iterable[Step], name: str, reading: Reading) -> Iterator[Recipe | Chunk]:
    """Return the frames for the steps of a sequence.

    Raises SpecError with the position of the invalid step.
    """
    from ecmproto.tools.craft.spec import read_items

    return read_items((step.item for step in steps), name, reading)


def line_item(
    arguments: tuple[str, ...], line: Mapping[str, Any], times: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the specification item that is equivalent to LAYER FIELD=VALUE ... and its options."""
    item: dict[str, Any] = {"frame": shlex.join(arguments)}
    item |= {name: line[name] for name in (*_SHORTHANDS, "count") if line[name] is not None}
    if line["raw"]:
        item["raw"] = True
    item |= {name: value for name, value in times.items() if value is not None}
    if line["sweeps"]:
        item["sweep"] = dict(sweep.split("=", 1) for sweep in line["sweeps"])
    return item


def write_expectations(steps: Sequence[Step], expectations: Sequence[Expectation], sink: Sink) -> None:
    """Write one expectation per line as JSON.

    Expectations on single frames are written if there are any, else the expectations on the whole sequence.
    Raises UsageError if there are no expectations.
    """
    documents: list[Mapping[str, Any]] = [step.expected for step in steps if step.expected is not None]
    documents = documents or [each.document() for each in expectations]
    if not documents:
        from ecmproto.tools.craft.switch_tests import SEQUENCES

        known = ", ".join(name for name, each in SEQUENCES.items() if each.expects)
        raise click.UsageError(f"--expectations: expected a sequence with expectations: {known}")
    sink.write("".join(f"{json.dumps(document)}\n" for document in documents))


def write_toml(
    items: Iterable[Mapping[str, Any]], expectations: Iterable[Expectation], path: str, force: bool
) -> None:
    """Write a .toml specification."""
    from ecmproto.frames.capture import open_sink
    from ecmproto.tools.craft.spec import toml_of

    with open_sink(path, force=force) as sink:
        for piece in toml_of(items, expectations):
            sink.write(piece)


def sequence_list() -> str:
    """Return a text that lists the sequences and their parameters."""
    from ecmproto.tools.craft.switch_tests import SEQUENCES

    blocks = []
    for sequence in SEQUENCES.values():
        given = {f"{name}={each.default}": each.doc for name, each in sequence.parameters.items()}
        width = max(map(len, given))
        rows = "".join(f"\n  {paint(name.ljust(width), 'name')}  {doc}" for name, doc in given.items())
        blocks.append(f"{paint(sequence.name, 'title')}: {sequence.doc}{rows}")
    return "\n\n".join(blocks)


def storm_options(function: F) -> F:
    """Return ``function`` with the options --duration, --renew and --no-release, which require --storm.

    The command receives ``options``, a `StormOptions`.
    """
    options = [
        click.option("--duration", type=TIME, help="Duration of a storm.  [default: 1s]"),
        click.option(
            "--renew", metavar="SHARE",
            help="Fraction of the pause time after which a storm renews the pause.  [default: 0.5]",
        ),
        click.option(
            "--no-release", is_flag=True,
            help="Omit the final frame of a storm, which releases the paused queues.",
        ),
    ]  # fmt: skip
    return options_as(function, options, StormOptions, "options")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StormOptions:
    """The values of `storm_options`, with the duration in ns."""

    duration: int | None
    renew: str | None
    no_release: bool

    @property
    def duration_ns(self) -> int:
        """The duration in ns, one second by default."""
        return NS_PER_S if self.duration is None else self.duration


def check_storm(
    storm: str | None, arguments: tuple[str, ...], options: StormOptions, others: Mapping[str, object]
) -> None:
    """Raise UsageError for storm options without --storm, or for options that conflict with --storm.

    ``others`` are options that set the times of frames, and therefore conflict with --storm.
    """
    named = others if storm is not None else dataclasses.asdict(options)
    given = [name.replace("_", "-") for name in given_options(named)]
    if storm is None:
        if given:
            raise click.UsageError(f"--{given[0]} needs --storm")
    elif not arguments:
        raise click.UsageError("--storm needs a pause or pfc frame given as LAYER FIELD=VALUE ...")
    elif given:
        raise click.UsageError(f"--storm sets the frames' times itself: expected no --{given[0]}")


def storm_from(
    arguments: tuple[str, ...],
    line: dict[str, Any],
    speed: str | int,
    options: StormOptions,
    ethertypes: EtherTypes,
) -> Storm:
    """Return the storm for a pause frame given as LAYER FIELD=VALUE ... and for a link speed.

    Raises the SpecError and ParameterError of `storm_of`.
    """
    from ecmproto.control.mechanisms.lossless import DEFAULT_SHARE, share_of
    from ecmproto.tools.craft.sequences import storm_of

    share = DEFAULT_SHARE if options.renew is None else share_of(options.renew)
    rate_bps = parse_rate(speed) if isinstance(speed, str) else speed
    stack = stack_from(arguments, line)
    return storm_of(stack, rate_bps, share=share, ethertypes=ethertypes, raw=bool(line["raw"]))


def storm_steps(storm: Storm, options: StormOptions, time: str | None) -> list[Step]:
    """Return the frames of a storm that begins at ``time``.

    Raises ParameterError if the storm has more than UNASKED_FRAMES frames.
    """
    from ecmproto.tools.craft.recipe import UNASKED_FRAMES, time_of
    from ecmproto.tools.craft.sequences import Step

    start_ns = 0 if time is None else time_of(time, "--time")
    items = storm.items(options.duration_ns, start_ns=start_ns, release=not options.no_release)
    if storm.frames(options.duration_ns) > UNASKED_FRAMES:
        longest = format_time(UNASKED_FRAMES * storm.renewal.interval_ns)
        raise ParameterError(
            name="duration",
            needed=f"at most {longest}, {UNASKED_FRAMES:,} frames",
            got=f"{format_time(options.duration_ns)}, {storm.frames(options.duration_ns):,} frames",
        )
    return [Step(item=item) for item in items]


def storm_rows(storm: Storm, duration_ns: int | None) -> list[tuple[str, str]]:
    """Return rows of a name and a text that describe a storm; ``None`` is an unlimited duration."""
    renewal = storm.renewal
    subject = storm.subject
    if duration_ns is not None:
        subject += f" for {format_time(duration_ns)}, by {storm.frames(duration_ns):,} frames"
    pause = f"{renewal.quanta:,} quanta, {format_time(renewal.pause_ns)} at {format_rate(renewal.rate_bps)}"
    renewed = f"every {format_time(renewal.interval_ns)}, {float(renewal.share):.4g} of the pause"
    octets, share = format_octets(float(renewal.octets_per_s)), format_share(float(renewal.link_share))
    return [
        ("storm", subject),
        ("pause", pause),
        ("needed", f"at least {frames_per_second(float(renewal.needed_fps))}"),
        ("renewed", f"{renewed}: {frames_per_second(float(renewal.frames_per_s))}"),
        ("takes", f"{octets}/s, {share} of the link"),
    ]


def storm_document(storm: Storm) -> dict[str, object]:
    """Return the priorities, times and rates of a storm as plain data."""
    renewal = storm.renewal
    return {
        "priorities": None if storm.priorities is None else list(storm.priorities),
        "quanta": renewal.quanta,
        "link_bps": renewal.rate_bps,
        "pause_ns": renewal.pause_ns,
        "needed_fps": float(renewal.needed_fps),
        "interval_ns": renewal.interval_ns,
        "wire_octets_per_s": float(renewal.octets_per_s),
        "link_share": float(renewal.link_share),
    }
