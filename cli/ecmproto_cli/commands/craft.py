"""``ecmproto craft``: build frames from a command line, a specification, JSON or columns."""

from __future__ import annotations

import itertools
import random
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import EncodeError, ParameterError, SpecError
from ecmproto_cli.errors import FINDINGS, USAGE, CommandError, warn
from ecmproto_cli.options import SIZE, force_option, with_ethertypes, write_option
from ecmproto_cli.output import BINARY, check_outputs, output_form, pairs
from ecmproto_cli.progress import work
from ecmproto_cli.recipes import (
    StormOptions,
    bounded_memory,
    check_sources,
    check_storm,
    from_columns,
    from_file,
    from_line,
    from_steps,
    help_on,
    is_sequence,
    line_item,
    line_options,
    sequence_from,
    sequence_list,
    storm_from,
    storm_options,
    storm_rows,
    storm_steps,
    write_expectations,
    write_toml,
)
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from ecmproto.tools.craft.expectations import Expectation
    from ecmproto.tools.craft.recipe import Chunk, Recipe
    from ecmproto.tools.craft.sequences import Step
    from ecmproto.tools.craft.spec import Reading
    from ecmproto.wire.formats.ethertypes import EtherTypes

FORMS = ("hex", "line", "pcap", "pcapng", "python", "json", "ndjson", "toml")


@click.command()
@click.argument("arguments", nargs=-1, metavar="[LAYER [FIELD=VALUE]...]...")
@click.option("--spec", metavar="FILE", help="Read a .toml or .json specification; - is stdin (JSON).")
@click.option(
    "--from-json", metavar="[FILE]", is_flag=False, flag_value="-",
    help="Rebuild the frames of a JSON file exactly. The file is output of dissect -T json or ndjson, or of "
        "craft -T json.  [default: stdin]",
)  # fmt: skip
@click.option(
    "--from-columns", "columns", metavar="FILE",
    help="Build a frame from each row of a .parquet, .arrow or .csv file; - is CSV from stdin. With a "
        "LAYER, columns set fields of the layers. Without a LAYER, the file must contain all columns that "
        "dissect --all-fields writes.",
)  # fmt: skip
@click.option(
    "--fix", is_flag=True,
    help="Compute types, lengths, checksums and padding of frames from --from-json, or from --from-columns "
        "without a LAYER.",
)  # fmt: skip
@click.option(
    "--memory", type=SIZE, default="2GB", show_default=True,
    help="Maximum memory for the columns of --from-columns.",
)  # fmt: skip
@line_options
@click.option(
    "-c",
    "--count",
    metavar="N",
    type=click.IntRange(min=0, max=1 << 53),
    help="Number of frames. A sweep with fewer frames is repeated.",
)
@click.option(
    "--storm", metavar="SPEED",
    help="Repeat a PAUSE or PFC frame often enough to keep queues paused on a link with this speed, such as "
        "10G.",
)  # fmt: skip
@storm_options
@click.option(
    "--rate", metavar="RATE",
    help="Rate of the frames: frames per second (1000pps, 1.5Mpps), bits per second on the line including "
        "FCS, preamble and gap (1G), or the time between frames (1us).",
)  # fmt: skip
@click.option(
    "--time", metavar="TIME", help="Time stamp of the first frame, in seconds since 1970.  [default: 0]"
)
@click.option(
    "-T", "form", type=click.Choice(FORMS),
    help="Format of the output; toml writes a specification.  [default: by the suffix of the output file, "
        "else hex]",
)  # fmt: skip
@write_option("Write the output to this file; - is stdout.  [default: -]")
@click.option(
    "--expectations", "expect", metavar="FILE",
    help="Write the behaviour that a sequence expects from a switch to this file, as one JSON document per "
        "line.",
)  # fmt: skip
@force_option
@click.option("--list", "listing", is_flag=True, help="List the sequences with their parameters.")
@click.option("--seed", type=int, help="Seed of random:N.  [default: a new seed, which is printed]")
@with_ethertypes
def command(
    arguments: tuple[str, ...],
    spec: str | None,
    from_json: str | None,
    columns: str | None,
    fix: bool,
    memory: int,
    storm: str | None,
    rate: str | None,
    time: str | None,
    form: str | None,
    output: str | None,
    expect: str | None,
    force: bool,
    listing: bool,
    seed: int | None,
    options: StormOptions,
    ethertypes: EtherTypes,
    **line: Any,
) -> None:
    """Build frames from LAYER FIELD=VALUE ..., --spec, --from-json or --from-columns.

    To build a series of related frames, name a sequence and its parameters instead of a LAYER. --list
    lists the sequences.

    A FIELD can also belong to an implied layer. In "cnm qntz_fb=40 flow_id=7", for example, flow_id adds
    a CN-TAG. Omitted fields are computed or have default values. The command never changes a field that
    you set, even if the value is wrong.

    \b
    ecmproto craft cnm qntz_fb=40 flow_id=7 --vlan 5 --prio 3
    ecmproto craft pfc prio3=65535 -w pfc.pcap
    ecmproto craft cnm --sweep cntag.flow_id=0..65535 --sweep qntz_fb=0..15 -w sweep.pcap
    ecmproto craft pfc prio3=65535 prio4=65535 --storm 10G --duration 1s -w storm.pcap
    ecmproto craft cnd-boundary cnpv=3,4 -w boundary.pcapng --expectations boundary.ndjson
    ecmproto craft cnm --from-columns feedback.csv -w feedback.pcap
    ecmproto dissect -r in.pcap -T json | ecmproto craft --from-json -w same.pcap
    """
    from ecmproto.frames.capture import open_sink
    from ecmproto.tools.craft.recipe import is_time
    from ecmproto.tools.craft.spec import Reading

    if listing:
        echo(sequence_list(), wrap=True)
        return
    sources = {"--spec": spec, "--from-json": from_json, "--from-columns": columns}
    check_sources(sources, arguments, line)
    interval, rate = (rate, None) if is_time(rate) else (None, rate)
    times = {"interval": interval, "rate": rate, "time": time}
    others = {name.removeprefix("--"): value for name, value in sources.items()}
    others |= {"interval": interval, "rate": rate, "count": line["count"], "sweep": line["sweeps"]}
    check_storm(storm, arguments, options, others)
    _check_options(arguments, from_json, columns, fix, line)
    form = _form(form, output, arguments)
    check_outputs([output, expect], force=force)
    seed = secrets.randbits(32) if seed is None else seed
    reading = Reading(ethertypes=ethertypes, exact=from_json is not None, fix=fix, random=random.Random(seed))
    untouched = reading.random.getstate()
    try:
        with ExitStack() as files:
            recipes: Iterator[Recipe | Chunk]
            steps = _steps(arguments, line, storm, options, times, ethertypes)
            expectations: list[Expectation] = []
            if is_sequence(arguments) and storm is None and (expect is not None or form == "toml"):
                sequence, given = sequence_from(arguments, line | {"rate": rate})
                expectations = sequence.expected(given, ethertypes=ethertypes)
            if expect is not None:
                write_expectations(
                    steps or (), expectations, files.enter_context(open_sink(expect, force=force))
                )
            if steps is not None:
                sent = [step for step in steps if not step.reverse]
                recipes = from_steps(sent, "storm" if storm else arguments[0], reading)
            elif columns is not None:
                timed = any(value is not None for value in times.values())
                files.enter_context(bounded_memory(columns, memory))
                recipes = from_columns(columns, arguments, line, reading, timed=timed)
            elif arguments:
                recipes = iter([from_line(arguments, line, reading)])
            else:
                recipes = from_file(spec if spec is not None else str(from_json), reading, files)
            if form == "toml":
                items = [line_item(arguments, line, times)]
                if steps:
                    items = [{**step.item, **({"side": "far"} if step.reverse else {})} for step in steps]
                list(recipes)  # raises errors in the recipes
                write_toml(items, expectations, output or "-", force)
            else:
                _write(_timed(recipes, interval, rate, time), reading, form, output or "-", force)
    except (SpecError, EncodeError, ParameterError) as error:
        raise CommandError(str(error), exit_code=USAGE, help=help_on(error, "craft")) from error
    finally:
        if reading.random.getstate() != untouched:
            echo(f"ecmproto: seed {seed}", err=True)


def _steps(
    arguments: tuple[str, ...],
    line: dict[str, Any],
    storm: str | None,
    options: StormOptions,
    times: dict[str, str | None],
    ethertypes: EtherTypes,
) -> list[Step] | None:
    """Return the steps of a storm or a sequence, or ``None`` if neither was given."""
    if storm is not None:
        subject = storm_from(arguments, line, storm, options, ethertypes)
        steps = storm_steps(subject, options, times["time"])
        echo(pairs(storm_rows(subject, options.duration_ns)), err=True)
        return steps
    if not is_sequence(arguments):
        return None
    for name, option in (("interval", "rate with a time"), ("time", "time")):
        if times[name] is not None:
            raise click.UsageError(f"a sequence sets its own times: expected no --{option}")
    sequence, given = sequence_from(arguments, line | {"rate": times["rate"]})
    return sequence.steps(given, ethertypes=ethertypes)


def _check_options(
    arguments: tuple[str, ...], from_json: str | None, columns: str | None, fix: bool, line: dict[str, Any]
) -> None:
    """Refuse options that are not valid for the source of frames."""
    if fix and from_json is None and (arguments or columns is None):
        raise click.UsageError("--fix needs --from-json: other frames are always fixed, except with --raw")
    for name, option in (("sweep", "sweeps"), ("count", "count")):
        if columns is not None and line[option] not in (None, ()):
            raise click.UsageError(f"--{name} and --from-columns: expected one of them, got both")


def _form(form: str | None, output: str | None, arguments: tuple[str, ...]) -> str:
    to_terminal = output in (None, "-")
    form = output_form(output, form, FORMS, text="hex") or ("hex" if to_terminal else None)
    if form is None:
        needed = f"-T with one of {', '.join(FORMS)}, or a name that ends in .pcap, .json, .hex or .py"
        raise click.UsageError(f"{output}: expected {needed}")
    if form in BINARY and to_terminal and sys.stdout.isatty():
        raise click.UsageError(f"-T {form} is binary: expected -w FILE or a pipe, got a terminal")
    if form == "toml" and not arguments:
        raise click.UsageError("-T toml needs a LAYER or a sequence, got a file")
    return form


def _timed(
    recipes: Iterator[Recipe | Chunk], interval: str | None, rate: str | None, time: str | None
) -> Iterator[Chunk]:
    from ecmproto.tools.craft.recipe import Spacing, chunks, rate_of, time_of

    between: Spacing = Fraction(time_of(interval, "--rate")) if interval is not None else Fraction(0)
    between = rate_of(rate) if rate is not None else between
    start_ns = 0 if time is None else time_of(time, "--time")
    return chunks(recipes, start_ns=start_ns, spacing=between)


def _write(chunks: Iterator[Chunk], reading: Reading, form: str, path: str, force: bool) -> None:
    """Write the frames; the output is opened when the first frame is available."""
    from ecmproto.frames.capture import open_sink
    from ecmproto.tools.craft.output import output_of

    first = next(chunks, None)
    if first is None:
        raise CommandError(
            "no frame was crafted",
            exit_code=FINDINGS,
            help="a count of at least 1, a document with frames, a file with rows",
        )
    with open_sink(path, force=force) as sink:
        output = output_of(form, sink, reading.capture, ethertypes=reading.ethertypes)
        done = 0
        work.at(lambda: f"craft: {done:,} frames so far")
        for chunk in itertools.chain([first], chunks):
            output.write(chunk)
            done += len(chunk)
        output.finish()
    for sentence in (*output.warnings, *reading.capture.warnings):
        warn(sentence)
