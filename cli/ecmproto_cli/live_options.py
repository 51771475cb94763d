"""Options that the live devices share, each defined once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ecmproto_cli.options import TIME, F, color_option, ethertype_option

if TYPE_CHECKING:
    from ecmproto.codec import EtherTypes

_PRIORITY = "ecmproto.vlan_priority"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How a device is to run, besides what it is."""

    form: str
    """table or ndjson."""
    stats_interval: str | None
    time: str | None
    prometheus: str | None
    user: str | None
    coalesce: str
    realtime: bool
    seed: int | None
    ethertypes: EtherTypes


_OPTIONS = (
    click.option(
        "--param", "assignments", metavar="[ROLE.]NAME=VALUE", multiple=True,
        help="A parameter of the mechanism, as in qeq=33kB or rp.gd=0.01.",
    ),
    click.option(
        "-T", "form", type=click.Choice(["table", "ndjson"]), default="table",
        help="How to report: a table at the end, or a JSON document a line.",
    ),
    click.option(
        "--stats-interval", type=TIME,
        help="Report so often.  [default: 1s with -T ndjson, else at the end alone]",
    ),
    click.option("--time", type=TIME, help="Stop after this time.  [default: at SIGINT or SIGTERM]"),
    click.option(
        "--prometheus", metavar="[HOST:]PORT",
        help="Serve counters and gauges at this port: to this machine alone where no host is given.",
    ),
    click.option("--user", metavar="NAME", help="Become this user once the interfaces are open."),
    click.option(
        "--coalesce", type=TIME, default="0", show_default=True,
        help="Wait so long for more whenever something is due: takes less of the processor.",
    ),
    click.option("--realtime", is_flag=True, help="Run before all ordinary processes; needs root."),
    click.option("--seed", type=click.IntRange(min=0), help="Seed of all that is drawn.  [default: drawn]"),
    ethertype_option,
    color_option,
)  # fmt: skip


def running_options(function: F) -> F:
    """``--param``, ``-T``, ``--time`` and the others that each device has; for `running`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def running(options: dict[str, Any]) -> Running:
    """Take what `running_options` brought out of ``options``, but for ``assignments``."""
    return Running(**{name: options.pop(name) for name in Running.__dataclass_fields__})


def vlan_options(function: F) -> F:
    """``--vlan`` and ``--prio``; the command gets ``vlan``, the control information of a C-TAG, or None."""
    function = click.option(
        "--prio", type=click.IntRange(0, 7), default=0, show_default=True, is_eager=True,
        expose_value=False, callback=_keep_priority, help="Priority in the tag that --vlan puts on.",
    )(function)  # fmt: skip
    return click.option(
        "--vlan", type=click.IntRange(0, 4094), metavar="ID", callback=_vlan_control,
        help="Put a VLAN tag on the host's frames that have none, and take it off frames to the host.",
    )(function)  # fmt: skip


def _keep_priority(ctx: click.Context, param: click.Parameter, priority: int) -> None:
    ctx.meta[_PRIORITY] = priority


def _vlan_control(ctx: click.Context, param: click.Parameter, identifier: int | None) -> int | None:
    return None if identifier is None else ctx.meta[_PRIORITY] << 13 | identifier
