"""Options that several commands share, each defined once."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ecmproto_cli.completion import keyed_completer
from ecmproto_cli.terminal import color_callback, echo

F = TypeVar("F", bound=Callable[..., Any])


if TYPE_CHECKING:
    from ecmproto.executors.protocol import Executor, Shard
    from ecmproto.frames.capture.several import Order

    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # generic since click 8.3 only


def with_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds ``options``, in the order of the help."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class Quantity(_TextType):
    """A number with its unit, such as ``parser`` of `ecmproto.units` reads it.

    An unreadable number is refused with the option's name.
    """

    def __init__(self, name: str, parser: str) -> None:
        self.name = name
        self._parser = parser

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number: ns, bits a second or octets."""
        from ecmproto import units
        from ecmproto.errors import ParameterError

        try:
            return getattr(units, self._parser)(value)
        except ParameterError as error:
            self.fail(str(error).partition(": ")[2], param, ctx)


TIME, RATE, SIZE = (
    Quantity("time", "parse_time"),
    Quantity("rate", "parse_rate"),
    Quantity("size", "parse_octets"),
)


READ_HELP = (
    "Capture to read: a file, pcap or pcapng, plain, .gz or .zst; a folder or a pattern in quotes, whose "
    "files are read one after the other; a URL (s3://, https://, …), which needs ecmproto[remote]; - is "
    "stdin. Several captures are merged in time order."
)
_ORDER_HELP = (
    "Read several captures in the order of time, with separate interfaces, or one after the other as they "
    "are named. Frames are numbered consecutively."
)


_ORDER, _ETHERTYPES = "ecmproto.order", "ecmproto.ethertypes"


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that keeps an option's value for the command."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        ctx.meta[name] = value

    return keep


def given_order() -> Order:
    """Return the value of ``--order``."""
    order: Order = click.get_current_context().meta.get(_ORDER, "time")
    return order


group_options = with_options(
    click.option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto", expose_value=False,
        callback=color_callback, help="Colour the output (auto: on a terminal without NO_COLOR).",
    ),
    click.option(
        "--ethertype", metavar="ROLE=VALUE", multiple=True, expose_value=False,
        callback=_keep(_ETHERTYPES),
        help="Use another EtherType for a role, as in message=0x88b7; roles: c_tag s_tag old_s_tag i_tag "
        "cn_tag cnm mac_control lldp message tag csig key_frame.",
    ),
    click.option(
        "--order", type=click.Choice(["time", "named"]), default="time", show_default=True,
        expose_value=False, callback=_keep(_ORDER), help=_ORDER_HELP,
    ),
)  # fmt: skip
"""``--color``, ``--ethertype`` and ``--order``, options of the program, for all commands."""


def read_option(*, required: bool = True) -> Callable[[F], F]:
    """Add ``-r FILE``, or the file alone, repeatable; the command gets ``paths``."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def command(*, read: tuple[str, ...], named: tuple[str, ...], **options: Any) -> Any:
            return function(paths=captures_named(read + named, required=required), **options)

        argument = click.argument("named", nargs=-1, metavar="[FILE]...")
        option = click.option("-r", "--read", "read", metavar="FILE", multiple=True, help=READ_HELP)
        decorated: Any = option(argument(command))
        return cast("F", decorated)

    return decorate


def captures_named(paths: tuple[str, ...], *, required: bool) -> tuple[str, ...]:
    """Return a command's captures; for several, print on stderr the order of reading."""
    if not paths:
        if required:
            raise click.UsageError("expected a capture to read: -r FILE, or - for stdin")
        return ()
    from ecmproto.frames.capture.several import CaptureNames

    if paths.count("-") > 1:
        raise click.UsageError("stdin can be read once: expected - once, got it twice")
    order = given_order()
    if len(paths) > 1:
        how = "in the order of time" if order == "time" else "one after the other"
        echo(f"ecmproto: {len(paths)} captures read as one, {how}", err=True)
    return CaptureNames.of(paths, order)


outer_option = click.option(
    "--outer", is_flag=True,
    help="Leave frames in mirrors and tunnels wrapped (GRE, ERSPAN, VXLAN, Geneve, sFlow, …).",
)  # fmt: skip
"""``--outer``: look at wrappers, not at the frames in them."""


inner_option = click.option(
    "--inner", is_flag=True,
    help="Take the innermost frames of mirrors and tunnels (GRE, ERSPAN, VXLAN, sFlow, …).",
)  # fmt: skip
"""``--inner``: unwrap frames."""


trailer_option = click.option(
    "--trailer", metavar="DEVICE",
    help="Read the time stamps of a tap or switch out of frames: metamako, exablaze, arista7280, "
    "arista7150, ixia, ixia-counter, erspan3, or auto: the format whose stamp all of the first thousand "
    "frames have.",
)  # fmt: skip
"""``--trailer DEVICE``: take the times of frames from stamps in them."""


def _sampled(ctx: click.Context, param: click.Parameter, given: str) -> tuple[int, bool]:
    if given == "1:1" or ctx.resilient_parsing:
        return 1, False
    from ecmproto.frames.stats.sampling import parse_sampled

    return parse_sampled(given)


sampled_option = click.option(
    "--sampled", metavar="1:N|every:N", callback=_sampled, default="1:1",
    help="Treat frames as a sample of one in N, at random or every N-th. sFlow carries its own N.",
)  # fmt: skip
"""``--sampled 1:N``: the frames are a sample; the command gets ``sampled``, as for an `Accumulator`."""


def print_unwrapped(reader: object) -> None:
    """Print on stderr the frames that a reader has unwrapped or stamped, and the mirror's losses."""
    if summary := getattr(reader, "summary", ""):
        echo(f"ecmproto: {summary}", err=True)


def filter_option(help: str) -> Callable[[F], F]:
    """Add ``-Y FILTER``; the command gets ``filter``, a `Filter`, or None."""
    return click.option("-Y", "--filter", "filter", metavar="FILTER", callback=_filter, help=help)


def _filter(ctx: click.Context, param: click.Parameter, given: str | None) -> object:
    if given is None or ctx.resilient_parsing:
        return None
    from ecmproto.frames.filter import compile_filter

    return compile_filter(given)


def write_option(help: str) -> Callable[[F], F]:
    """Add ``-w FILE``."""
    return click.option("-w", "--write", "output", metavar="FILE", help=help)


force_option = click.option("--force", is_flag=True, help="Overwrite an output file that exists.")


def with_ethertypes(function: F) -> F:
    """Pass ``--ethertype`` of the program to the command as ``ethertypes``, an `EtherTypes`."""

    @functools.wraps(function)
    def command(**options: Any) -> Any:
        given = click.get_current_context().meta.get(_ETHERTYPES, ())
        return function(ethertypes=_ethertypes(given), **options)

    return cast("F", command)


count_option = click.option(
    "-c", "--count", type=click.IntRange(min=1), metavar="N", help="Stop after N frames are read."
)


def _priorities(ctx: click.Context, param: click.Parameter, given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    texts = [text.strip() for text in given.split(",")]
    if not all(text in set("01234567") for text in texts):
        raise click.BadParameter(f"expected priorities from 0 to 7, as in 3,4, got {given!r}")
    return tuple(sorted({int(text) for text in texts}))


rates_options = with_options(
    click.option(
        "--interval", "interval_ns", type=TIME, metavar="TIME",
        help="Width of the intervals of rates over time.  [default: fitted to the capture]",
    ),
    click.option(
        "--speed", "speed_bps", type=RATE, default="10G", show_default=True,
        help="Speed of links for which the capture has none: the time base of pauses.",
    ),
)  # fmt: skip
"""``--interval`` and ``--speed``, as ``interval_ns`` and ``speed_bps`` of an `Accumulator`."""


storm_options = with_options(
    click.option(
        "--lossless", metavar="PRIORITIES", callback=_priorities,
        help="Priorities that PFC may pause, as 3,4.  [default: any]",
    ),
    click.option(
        "--storm-detect", "detect_ns", type=TIME, default="200ms", show_default=True,
        help="Detection time: a priority that is paused for 99 % of it is in a storm.",
    ),
    click.option(
        "--storm-restore", "restore_ns", type=TIME, default="400ms", show_default=True,
        help="Time without pause after which a storm is over.",
    ),
)  # fmt: skip
"""``--lossless``, ``--storm-detect`` and ``--storm-restore``, as an `Accumulator` has them."""


def _ethertypes(given: tuple[str, ...]) -> object:
    from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

    roles = {field.name for field in dataclasses.fields(EtherTypes)}
    changes = {}
    for item in given:
        role, _, value = item.partition("=")
        if role not in roles:
            raise click.UsageError(
                f"--ethertype: there is no role {role!r} (one of {', '.join(sorted(roles))})"
            )
        try:
            changes[role] = int(value, 0)
        except ValueError:
            raise click.UsageError(
                f"--ethertype {role}: expected a number such as 0x88b7, got {value!r}"
            ) from None
    return dataclasses.replace(DEFAULT, **changes)


def keyed_option(
    *names: str, keys: Mapping[str, Collection[str]], metavar: str, help: str
) -> Callable[[F], F]:
    """Add an option of KEY=VALUE pairs, with commas or several times; the command gets their values by key.

    ``keys`` has the values of each key; none: any.
    """

    def read(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
        values = {}
        for pair in split_values(ctx, param, given):
            key, mark, value = re.split("([=:]|$)", pair, maxsplit=1)
            if key not in keys:
                raise click.BadParameter(f"expected one of {', '.join(keys)}, got {key!r}")
            if not mark or (keys[key] and value not in keys[key]):
                needed = " or ".join(keys[key]) or "a value"
                raise click.BadParameter(f"{key}: expected {needed}, got {value!r}")
            values[key] = value
        return values

    return click.option(
        *names, metavar=metavar, multiple=True, callback=read, shell_complete=keyed_completer(keys), help=help
    )


fields_option = keyed_option(
    "-E", "settings", metavar="KEY=VALUE",
    keys={"header": ("y", "n"), "occurrence": ("f", "a"), "values": ("text", "raw")},
    help="header=y: begin -T fields with a header line. For -T parquet and arrow: occurrence=f writes "
    "the first value of each field, occurrence=a a list of all values, which wrapped frames need "
    "(default: lists only for fields such as vlan.id); values=raw writes addresses and CPIDs as octets "
    "and numbers.",
)  # fmt: skip
"""``-E``, as in tshark; the command gets ``settings``."""


def columns_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return ``repeated`` and ``addresses`` for writers of columns, from the settings of ``-E``."""
    return {
        "repeated": {"f": "first", "a": "all"}.get(settings.get("occurrence", ""), "list"),
        "addresses": "octets" if settings.get("values") == "raw" else "text",
    }


def timing_options(**defaults: str | None) -> Callable[[F], F]:
    """Add ``--precise`` and ``--timing``; the command gets ``realtime``, and each key with its value."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def command(*, precise: bool, timing: dict[str, str], **options: Any) -> Any:
            return function(realtime=precise, **defaults | timing, **options)

        fine = keyed_option(
            "--timing", metavar="KEY=VALUE,…", keys={key: _TIMING.get(key, ()) for key in defaults},
            help=f"Set timing parameters that --precise does not: {', '.join(defaults)} (manual: live, "
            "interfaces).",
        )  # fmt: skip
        precise = click.option(
            "--precise",
            is_flag=True,
            help="Run with real-time priority, so that fewer frames are late. Needs root.",
        )
        decorated: Any = precise(fine(command))
        return cast("F", decorated)

    return decorate


_TIMING = {"pacing": ("rate", "even", "kernel"), "bypass": ("yes", "no")}


def options_as(function: F, options: Sequence[Callable[[F], F]], kind: type[Any], name: str) -> F:
    """Give ``function`` options whose values arrive as one ``kind``, as the argument ``name``."""

    @functools.wraps(function)
    def wrapped(**given: Any) -> Any:
        own = {key: given.pop(key) for key in kind.__dataclass_fields__}
        return function(**given, **{name: kind(**own)})

    decorated: Any = wrapped
    for option in reversed(options):
        decorated = option(decorated)
    return cast("F", decorated)


def split_values(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of an option that may be given several times, each with commas."""
    return tuple(word.strip() for each in given for word in each.split(",") if word.strip())


def split_assignments(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return the names and values of an option that may be given several times, as NAME=VALUE."""
    assigned = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise click.BadParameter(f"expected NAME=VALUE, such as qcn.w=2, got {each!r}")
        assigned[name.strip()] = text.strip()
    return assigned


# Execution ------------------------------------------------------------------------------------------------


_LOCAL = re.compile(r"local:([1-9]\d{0,2})")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The workers of a command: processes of this machine, or a cluster; `execution_options`."""

    jobs: int | None
    scheduler: str | None
    ca_file: str | None
    certificate: str | None
    key: str | None

    def __post_init__(self) -> None:
        if self.scheduler is not None and self.jobs is not None:
            raise click.UsageError("expected --jobs or --scheduler, which has its own workers; got both")
        if self.scheduler is None and (self.ca_file or self.certificate or self.key):
            raise click.UsageError("--tls-… is for --scheduler tls://HOST:PORT")

    def executor(self, tasks: int, notify: Callable[[str], None], *, apart: bool = False) -> Executor:
        """Return the executor for a number of tasks; ``notify`` is called with messages about workers.

        A single process is this one, unless it is to be ``apart``, so that its crash spares this one.
        """
        # the workers are processes of this one, unreachable for others
        local = _LOCAL.fullmatch(self.scheduler or "")
        if self.scheduler is not None and not local:
            from ecmproto.executors.cluster import Cluster

            return Cluster(
                address=self.scheduler, notify=notify,
                ca_file=self.ca_file, certificate=self.certificate, key=self.key,
            )  # fmt: skip
        from ecmproto.executors.processes import Processes

        if local:
            return Processes(int(local[1]), apart=True, notify=notify)
        jobs = min(self.jobs or processors(), max(1, tasks))
        return Processes(jobs, apart=apart, notify=notify)


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


jobs_option = click.option(
    "--jobs", type=click.IntRange(1, 1024), metavar="N", help="Number of processes.  [default: one per core]"
)


def execution_options(function: F) -> F:
    """Add ``--jobs``, ``--scheduler`` and ``--tls-…``; the command gets ``execution``, an `Execution`."""
    options = [
        jobs_option,
        click.option(
            "--scheduler", metavar="ADDRESS",
            help="Run on a Dask cluster: tcp://HOST:PORT or tls://HOST:PORT; needs ecmproto[cluster]. "
            "local:4 is --jobs 4.",
        ),
        click.option("--tls-ca-file", "ca_file", metavar="FILE", help="For tls://: CA certificates."),
        click.option("--tls-cert", "certificate", metavar="FILE", help="For tls://: certificate."),
        click.option("--tls-key", "key", metavar="FILE", help="For tls://: private key."),
    ]  # fmt: skip
    return options_as(function, options, Execution, "execution")


def _shard(ctx: click.Context, param: click.Parameter, text: str | None) -> Shard:
    from ecmproto.executors.protocol import Shard, parse_shard

    return Shard() if text is None else parse_shard(text)


shard_option = click.option(
    "--shard", metavar="I/N", callback=_shard, help="Do only the I-th of N parts, as 3/40."
)
"""``--shard I/N``; the command gets ``shard``, a `Shard`."""
