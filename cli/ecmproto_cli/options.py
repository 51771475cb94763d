"""Options that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ecmproto.values import dataclass
from ecmproto_cli.terminal import color_callback, echo

F = TypeVar("F", bound=Callable[..., Any])


if TYPE_CHECKING:
    from ecmproto.executors.protocol import Executor, Shard
    from ecmproto.frames.capture.several import Order

    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # ParamType is generic only since click 8.3


def with_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds ``options`` to a command, in the order of the help."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class Quantity(_TextType):
    """A click parameter type for a number with a unit.

    ``parser`` is the name of a function in `ecmproto.units`.
    """

    def __init__(self, name: str, parser: str) -> None:
        self.name = name
        self._parser = parser

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number in ns, bit/s or octets.

        An invalid number causes a usage error that names the option.
        """
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
    "Read this capture: a pcap or pcapng file (also .gz or .zst), a folder or a quoted pattern (its files "
    "are read one after the other), a URL such as s3://… (needs ecmproto[remote]), or - for stdin. Several "
    "captures are merged in time order."
)
_ORDER_HELP = (
    "Merge several captures in time order, with separate interfaces, or read them one after the other as "
    "named. Frames are numbered consecutively."
)


_ORDER, _ETHERTYPES = "ecmproto.order", "ecmproto.ethertypes"


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that stores the value of an option in the click context."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        ctx.meta[name] = value

    return keep


def file_order() -> Order:
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
        help="Use another EtherType for a role, as in message=0x88b7. Roles: c_tag s_tag old_s_tag i_tag "
        "cn_tag cnm mac_control lldp message tag csig key_frame.",
    ),
    click.option(
        "--order", type=click.Choice(["time", "named"]), default="time", show_default=True,
        expose_value=False, callback=_keep(_ORDER), help=_ORDER_HELP,
    ),
)  # fmt: skip
"""The options ``--color``, ``--ethertype`` and ``--order``, which apply to all commands."""


def read_option(*, required: bool = True) -> Callable[[F], F]:
    """Return a decorator that adds ``-r FILE`` and the argument ``[FILE]...`` to a command.

    Both can be repeated. The command receives the files as ``paths``.
    """

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
    """Return the captures that a command reads.

    If there are several captures, a line on stderr states the order of reading. Raises UsageError if a
    required capture is missing, or if stdin is given twice.
    """
    if not paths:
        if required:
            raise click.UsageError("expected a capture to read: -r FILE, or - for stdin")
        return ()
    from ecmproto.frames.capture.several import CaptureNames

    if paths.count("-") > 1:
        raise click.UsageError("stdin can be read only once: expected - once, got it twice")
    order = file_order()
    if len(paths) > 1:
        how = "merged in time order" if order == "time" else "read one after the other"
        echo(f"ecmproto: {len(paths)} captures {how}", err=True)
    return CaptureNames.of(paths, order)


outer_option = click.option(
    "--outer", is_flag=True,
    help="Show the outer frames of mirrors and tunnels (GRE, ERSPAN, VXLAN, Geneve, sFlow, …).",
)  # fmt: skip
"""The option ``--outer``, which turns off unwrapping of mirrored and tunnelled frames."""


inner_option = click.option(
    "--inner", is_flag=True,
    help="Unwrap mirrored and tunnelled frames (GRE, ERSPAN, VXLAN, sFlow, …).",
)  # fmt: skip
"""The option ``--inner``, which turns on unwrapping of mirrored and tunnelled frames."""


trailer_option = click.option(
    "--trailer", metavar="DEVICE",
    help="Use the time stamps that a tap or switch adds to frames: metamako, exablaze, arista7280, "
    "arista7150, ixia, ixia-counter, erspan3, or auto, which detects the format from the first thousand "
    "frames.",
)  # fmt: skip
"""The option ``--trailer DEVICE``, which reads the times of frames from time stamps in the frames."""


def _sampled(ctx: click.Context, param: click.Parameter, given: str) -> tuple[int, bool]:
    if given == "1:1" or ctx.resilient_parsing:
        return 1, False
    from ecmproto.frames.stats.sampling import parse_sampled

    return parse_sampled(given)


sampled_option = click.option(
    "--sampled", metavar="1:N|every:N", callback=_sampled, default="1:1",
    help="Treat the frames as a sample: one in N at random (1:N), or every N-th (every:N). sFlow carries "
    "its own N.",
)  # fmt: skip
"""The option ``--sampled 1:N``, which treats the frames as a sample.

The command receives ``sampled`` in the form that `Accumulator` expects.
"""


def print_unwrapped(reader: object) -> None:
    """Print the numbers of unwrapped frames, of time stamps in frames, and of frames lost by a mirror."""
    if summary := getattr(reader, "summary", ""):
        echo(f"ecmproto: {summary}", err=True)


def filter_option(help: str) -> Callable[[F], F]:
    """Return the option ``-Y FILTER``; the command receives a `Filter` or None as ``filter``."""
    return click.option("-Y", "--filter", "filter", metavar="FILTER", callback=_filter, help=help)


def _filter(ctx: click.Context, param: click.Parameter, given: str | None) -> object:
    if given is None or ctx.resilient_parsing:
        return None
    from ecmproto.frames.filter import compile_filter

    return compile_filter(given)


def write_option(help: str) -> Callable[[F], F]:
    """Return the option ``-w FILE``."""
    return click.option("-w", "--write", "output", metavar="FILE", help=help)


def form_option(*forms: str, help: str, show_default: bool = False) -> Callable[[F], F]:
    """Return the option ``-T`` with these formats, of which the first is the default."""
    choice = click.Choice(forms)
    return click.option("-T", "form", type=choice, default=forms[0], show_default=show_default, help=help)


force_option = click.option("--force", is_flag=True, help="Overwrite existing output files.")


def with_ethertypes(function: F) -> F:
    """Return a command that receives the value of ``--ethertype`` as ``ethertypes``, an `EtherTypes`."""

    @functools.wraps(function)
    def command(**options: Any) -> Any:
        given = click.get_current_context().meta.get(_ETHERTYPES, ())
        return function(ethertypes=_ethertypes(given), **options)

    return cast("F", command)


count_option = click.option(
    "-c", "--count", type=click.IntRange(min=1), metavar="N", help="Stop after reading N frames."
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
        help="Interval for rates over time.  [default: chosen to fit the capture]",
    ),
    click.option(
        "--speed", "speed_bps", type=RATE, default="10G", show_default=True,
        help="Link speed if the capture contains none, to convert pause quanta into time.",
    ),
)  # fmt: skip
"""The options ``--interval`` and ``--speed``.

The command receives ``interval_ns`` and ``speed_bps`` for an `Accumulator`.
"""


storm_options = with_options(
    click.option(
        "--lossless", metavar="PRIORITIES", callback=_priorities,
        help="Priorities that PFC may pause, such as 3,4.  [default: any]",
    ),
    click.option(
        "--storm-detect", "detect_ns", type=TIME, default="200ms", show_default=True,
        help="Report a storm when a priority is paused for 99 % of this time.",
    ),
    click.option(
        "--storm-restore", "restore_ns", type=TIME, default="400ms", show_default=True,
        help="End a storm after this time without a pause.",
    ),
)  # fmt: skip
"""The options ``--lossless``, ``--storm-detect`` and ``--storm-restore``, for an `Accumulator`."""


def _ethertypes(given: tuple[str, ...]) -> object:
    from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

    roles = {field.name for field in dataclasses.fields(EtherTypes)}
    changes = {}
    for item in given:
        role, _, value = item.partition("=")
        if role not in roles:
            raise click.UsageError(f"--ethertype: expected one of {', '.join(sorted(roles))}, got {role!r}")
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
    """Return an option with KEY=VALUE pairs, which are separated by commas or given in repeated options.

    The command receives a mapping of keys to values. ``keys`` maps each key to its allowed values; an empty
    collection allows any value.
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

    def complete(ctx: click.Context, param: click.Parameter, begun: str) -> Any:
        from ecmproto_cli.completion import complete_keyed

        return complete_keyed(keys, begun)

    return click.option(
        *names, metavar=metavar, multiple=True, callback=read, shell_complete=complete, help=help
    )


fields_option = keyed_option(
    "-E", "settings", metavar="KEY=VALUE",
    keys={"header": ("y", "n"), "occurrence": ("f", "a"), "values": ("text", "raw")},
    help="header=y starts -T fields with a header line. With -T parquet or arrow, occurrence=f writes the "
    "first value of each field, occurrence=a writes a list of all values, which wrapped frames need "
    "(default: lists only for fields such as vlan.id), and values=raw writes addresses and CPIDs as octets "
    "and numbers.",
)  # fmt: skip
"""The option ``-E``, as in tshark; the command receives ``settings``."""


def columns_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments ``repeated`` and ``addresses`` for column writers from the settings of ``-E``."""
    return {
        "repeated": {"f": "first", "a": "all"}.get(settings.get("occurrence", ""), "list"),
        "addresses": "octets" if settings.get("values") == "raw" else "text",
    }


def timing_options(**defaults: str | None) -> Callable[[F], F]:
    """Return a decorator that adds the options ``--precise`` and ``--timing`` to a command.

    The command receives ``realtime`` and an argument for each key in ``defaults``.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def command(*, precise: bool, timing: dict[str, str], **options: Any) -> Any:
            return function(realtime=precise, **defaults | timing, **options)

        fine = keyed_option(
            "--timing", metavar="KEY=VALUE,…", keys={key: _TIMING.get(key, ()) for key in defaults},
            help=f"Set low-level timing parameters: {', '.join(defaults)} (see the pages live and "
            "interfaces).",
        )  # fmt: skip
        precise = click.option(
            "--precise",
            is_flag=True,
            help="Run with real-time priority, which needs root. Fewer frames are then late.",
        )
        decorated: Any = precise(fine(command))
        return cast("F", decorated)

    return decorate


_TIMING = {"pacing": ("rate", "even", "kernel"), "bypass": ("yes", "no")}


def options_as(function: F, options: Sequence[Callable[[F], F]], kind: type[Any], name: str) -> F:
    """Return ``function`` with options whose values are passed as one argument.

    The argument ``name`` is an object of the class ``kind``.
    """

    @functools.wraps(function)
    def wrapped(**given: Any) -> Any:
        own = {key: given.pop(key) for key in kind.__dataclass_fields__}
        return function(**given, **{name: kind(**own)})

    decorated: Any = wrapped
    for option in reversed(options):
        decorated = option(decorated)
    return cast("F", decorated)


def split_values(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the comma-separated words of an option that can be repeated."""
    return tuple(word.strip() for each in given for word in each.split(",") if word.strip())


def split_assignments(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return a mapping of names to values for an option NAME=VALUE that can be repeated."""
    assigned = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise click.BadParameter(f"expected NAME=VALUE, such as qcn.w=2, got {each!r}")
        assigned[name.strip()] = text.strip()
    return assigned


select_options = with_options(
    click.option(
        "--select", metavar="ID,…", multiple=True, callback=split_values,
        help="Apply only these rules, by family or by prefix of the id, such as qcn or QCN003.",
    ),
    click.option(
        "--ignore", metavar="NAME,…", multiple=True, callback=split_values, help="Skip these rules."
    ),
)  # fmt: skip
"""The options ``--select`` and ``--ignore``, which choose rules."""


def assigned_to(name: str, assignments: Iterable[str], names: Collection[str]) -> Iterator[str]:
    """Yield the assignments for the mechanism ``name`` among the mechanisms ``names`` of a command.

    An assignment ``NAME:PARAMETER=VALUE`` applies only to the mechanism NAME.
    """
    for assignment in assignments:
        target, colon, rest = assignment.partition(":")
        if not colon or "=" in target:
            yield assignment
        elif target == name:
            yield rest
        elif target not in names:
            from ecmproto.errors import ParameterError

            needed = f"a mechanism of this command ({', '.join(names)})"
            raise ParameterError(name="param", needed=needed, got=repr(target))


# Execution ------------------------------------------------------------------------------------------------


_LOCAL = re.compile(r"local:([1-9]\d{0,2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The values of `execution_options`: local processes or a cluster."""

    jobs: int | None
    scheduler: str | None
    tls: dict[str, str]

    def __post_init__(self) -> None:
        if self.scheduler is not None and self.jobs is not None:
            raise click.UsageError("expected --jobs or --scheduler, which has its own workers; got both")
        if self.scheduler is None and self.tls:
            raise click.UsageError("--tls needs --scheduler tls://HOST:PORT")

    def executor(self, tasks: int, notify: Callable[[str], None], *, apart: bool = False) -> Executor:
        """Return an executor for a number of tasks.

        ``notify`` is called with messages about workers. If there is only one process, the tasks run in this
        process. With ``apart``, the tasks run in a child process, so a crash does not end this process.
        """
        # the workers are child processes, which other machines cannot reach
        local = _LOCAL.fullmatch(self.scheduler or "")
        if self.scheduler is not None and not local:
            from ecmproto.executors.cluster import Cluster

            return Cluster(address=self.scheduler, notify=notify, tls=self.tls)
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
    """Return ``function`` with the options ``--jobs``, ``--scheduler`` and ``--tls``.

    The command receives ``execution``, an `Execution`.
    """
    options = [
        jobs_option,
        click.option(
            "--scheduler", metavar="ADDRESS",
            help="Run on a Dask cluster: tcp://HOST:PORT or tls://HOST:PORT; needs ecmproto[cluster]. "
            "local:4 is equivalent to --jobs 4.",
        ),
        keyed_option(
            "--tls", metavar="KEY=FILE,…", keys=dict.fromkeys(("ca", "cert", "key"), ()),
            help="Files for tls://: CA certificates (ca), the certificate (cert) and the private key (key).",
        ),
    ]  # fmt: skip
    return options_as(function, options, Execution, "execution")


def _shard(ctx: click.Context, param: click.Parameter, text: str | None) -> Shard:
    from ecmproto.executors.protocol import Shard, parse_shard

    return Shard() if text is None else parse_shard(text)


shard_option = click.option(
    "--shard", metavar="I/N", callback=_shard, help="Process only part I of N, such as 3/40."
)
"""The option ``--shard I/N``; the command receives ``shard``, a `Shard`."""
