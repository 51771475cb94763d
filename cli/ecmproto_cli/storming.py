"""Pause storms on the command line: their options, and their arithmetic in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ecmproto.errors import ParameterError
from ecmproto.units import format_octets, format_rate, format_time, parse_rate, parse_time
from ecmproto_cli.options import TIME
from ecmproto_cli.recipes import stack_from

if TYPE_CHECKING:
    from ecmproto.craft.sequence import Step
    from ecmproto.craft.storm import Storm
    from ecmproto.formats.ethertypes import EtherTypes

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--duration", type=TIME, help="How long a storm holds.  [default: 1s]"),
    click.option(
        "--renew", metavar="SHARE", help="Share of a pause after which a storm renews it.  [default: 0.5]"
    ),
    click.option("--no-release", is_flag=True, help="Leave out the frame that ends a storm's last pause."),
)


def storm_options(function: F) -> F:
    """--duration, --renew and --no-release, which go with --storm."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StormOptions:
    """What `storm_options` were given, as text."""

    duration: str | None
    renew: str | None
    no_release: bool

    @property
    def duration_ns(self) -> int:
        """How long; ParameterError for what is no time."""
        return parse_time(self.duration or "1s")


def taken_options(line: dict[str, Any]) -> StormOptions:
    """Return the storm's options, taken out of what else was given."""
    return StormOptions(**{each.name: line.pop(each.name) for each in dataclasses.fields(StormOptions)})


def check_storm(
    storm: str | None, words: tuple[str, ...], options: StormOptions, others: Mapping[str, object]
) -> None:
    """Refuse options of a storm without one; with one ``others``, which say which frames come when."""
    named = others if storm is not None else dataclasses.asdict(options)
    given = [name.replace("_", "-") for name, value in named.items() if value not in (None, (), False)]
    if storm is None:
        if given:
            raise click.UsageError(f"--{given[0]} belongs to --storm")
    elif not words:
        raise click.UsageError("--storm belongs to a pause or pfc frame given as LAYER FIELD=VALUE ...")
    elif given:
        raise click.UsageError(f"--storm itself says which frames come when: needed no --{given[0]}")


def storm_from(
    words: tuple[str, ...],
    line: dict[str, Any],
    speed: str | int,
    options: StormOptions,
    ethertypes: EtherTypes,
) -> Storm:
    """Return the storm of LAYER FIELD=VALUE ... on a link; SpecError and ParameterError as `storm_of`."""
    from ecmproto.craft.storm import DEFAULT_SHARE, share_of, storm_of

    share = DEFAULT_SHARE if options.renew is None else share_of(options.renew)
    rate_bps = parse_rate(speed) if isinstance(speed, str) else speed
    stack = stack_from(words, line)
    return storm_of(stack, rate_bps, share=share, ethertypes=ethertypes, raw=bool(line["raw"]))


def storm_steps(storm: Storm, options: StormOptions, time: str | None) -> list[Step]:
    """Return the frames of a storm that begins at ``time``; ParameterError for more than anybody wants."""
    from ecmproto.craft.quantities import time_of
    from ecmproto.craft.recipe import UNASKED_FRAMES
    from ecmproto.craft.sequence import Step

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
    """Return a storm's arithmetic, by name; no duration is one without end."""
    renewal = storm.renewal
    held = "the whole link"
    if storm.priorities is not None:
        named = ", ".join(map(str, storm.priorities))
        held = f"priority {named}" if len(storm.priorities) == 1 else f"priorities {named}"
    if duration_ns is not None:
        held += f" for {format_time(duration_ns)}, by {storm.frames(duration_ns):,} frames"
    pause = f"{renewal.quanta:,} quanta, {format_time(renewal.pause_ns)} at {format_rate(renewal.rate_bps)}"
    renewed = f"every {format_time(renewal.interval_ns)}, {float(renewal.share):.4g} of the pause"
    octets, share = format_octets(float(renewal.octets_per_s)), float(100 * renewal.link_share)
    return [
        ("storm", held),
        ("pause", pause),
        ("needed", f"at least {float(renewal.needed_fps):,.6g} frames/s"),
        ("renewed", f"{renewed}: {float(renewal.frames_per_s):,.6g} frames/s"),
        ("wire", f"{octets}/s, {share:.4g} % of the link"),
    ]


def storm_document(storm: Storm) -> dict[str, object]:
    """Return a storm's arithmetic as plain data."""
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
