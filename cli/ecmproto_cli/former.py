"""Former names of commands and options, and hints on options of other programs.

A former name is accepted for one version, and causes a hint.
"""

from __future__ import annotations

import click

from ecmproto.values import dataclass

GROUP_OPTIONS = ("--color", "--ethertype", "--order")
"""Options of the program that may also follow a command."""


@dataclass(frozen=True, slots=True)
class Former:
    """A former name that is still accepted for one version.

    ``commands`` lists the commands that accept the name. ``now`` is the present text; ``{}`` in this text is
    replaced by the value of the former option.
    """

    commands: str
    name: str
    now: str


FORMER = (
    Former("replay check fleet live", "--param", "--set"),
    Former("live fuzz", "--time", "--duration"),
    Former("live", "--stats-interval", "--interval"),
    Former("live", "--every", "--interval"),
    Former("live", "--rotate-size", "-b filesize:{}"),
    Former("live", "--rotate-time", "-b duration:{}"),
    Former("live.monitor", "--keep", "-b files:{}"),
    Former("live", "--snap", "--snaplen"),
    Former("live.testbed", "--keep", "-w"),
    Former("live.testbed", "--topology", "--spec"),
    Former("live.rp", "--queue", "--rp-queue"),
    Former("live.rp live.edge", "--link-rate", "--speed"),
    Former("replay live", "--link-rate", "--link-speed"),
    Former("replay live stats fleet units.pause units.headroom units.bdp units.frame", "--rate", "--speed"),
    Former("units", "--interface", "--interface-delay"),
    Former("send", "--speed", "--rate"),
    Former("send", "--expect", "--receive"),
    Former("send", "--expect-from", "--received"),
    Former("send", "--expect-near", "--sent"),
    Former("craft", "--expect", "--expectations"),
    Former("craft", "--interval", "--rate"),
    Former("live send", "--realtime", "--precise"),
    Former("live send", "--spin", "--timing spin={}"),
    Former("live", "--coalesce", "--timing coalesce={}"),
    Former("live", "--cpu", "--timing cpu={}"),
    Former("send", "--pacing", "--timing pacing={}"),
    Former("send", "--bypass", "--timing bypass=yes"),
    Former("lab.run", "--capture", "{}"),
    Former("lab.run", "--rate", "--set topology.rate={}"),
    Former("lab.run", "--buffer", "--set topology.buffer={}"),
    Former("replay diff browse live.monitor", "--inner", ""),
    Former("lab.run", "--outer", "--set flow.capture_outer=true"),
    Former("lab", "--html", "--report"),
    Former("lab", "--figure", "--report"),
    Former("lab fleet fuzz", "--out", "-w"),
    Former("fleet", "--plan", "--dry-run"),
    Former("check fleet", "--mechanism", "--select"),
    Former("demo", "--captures", "-w"),
    Former("dissect", "--header", "-E header=y"),
    Former("dissect fleet", "--first", "-E occurrence=f"),
    Former("dissect fleet", "--list", "-E occurrence=a"),
    Former("dissect fleet", "--text", "-E values=text"),
    Former("dissect fleet", "--raw", "-E values=raw"),
    Former("replay send stats fleet live doctor", "-T table", "-T text"),
    Former("replay", "--params", "ecmproto fields {}"),
    Former("doctor", "--fix", "--apply"),
    Former("units.feedback", "--rate", "--limiter-rate"),
    Former("units.feedback", "--gd", "--set gd={}"),
    Former("units.feedback", "--qeq", "--set qeq={}"),
    Former("units.feedback", "--w", "--set w={}"),
    Former("lab fleet", "--tls-ca-file", "--tls ca={}"),
    Former("lab fleet", "--tls-cert", "--tls cert={}"),
    Former("lab fleet", "--tls-key", "--tls key={}"),
    Former("", "schema", "fields"),
    Former("", "-V", "--version"),
)

HABITS = {
    "-D": "interfaces: ecmproto doctor",
    "-f": "use a display filter instead of a capture filter: -Y FILTER, applied by the kernel where possible",
    "-s": "to truncate frames: ecmproto edit --snaplen N, ecmproto live monitor --snaplen N",
    "-z": "statistics: ecmproto stats",
    "-E": "fields with a header line: ecmproto dissect -T fields -E header=y -e FIELD",
    "-a": "to stop: -c N after frames, --duration TIME in live monitor",
    "-b": "rotating files: ecmproto live monitor -w FILE -b filesize:100MB -b files:10",
    "-t": "times as fields: ecmproto dissect -e frame.time_relative -e frame.time_delta -e frame.time_epoch",
    "-o": "preferences: --ethertype ROLE=VALUE before the command",
    "-R": "a read filter: -Y FILTER",
    "-q": "statistics without frames: ecmproto stats",
}
"""Options of tshark and tcpdump that ecmproto does not have, and the equivalent options of ecmproto."""


def present(args: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments with present names, and hints for the former names in ``args``.

    Options of the program are moved to the front.
    """
    ends = args.index("--") if "--" in args else len(args)
    arguments = [word for word in args[:2] if not word.startswith("-")]
    paths = {"", arguments[0] if arguments else "", ".".join(arguments)}
    group: list[str] = []
    remaining: list[str] = []
    hints: list[str] = []
    queue = list(args[:ends])
    while queue:
        word = queue.pop(0)
        name, equals, value = word.partition("=")
        if name in GROUP_OPTIONS:
            group += [word] if equals or not queue else [word, queue.pop(0)]
            continue
        if (
            word == "-n"
            and arguments
            and arguments[0] in ("dissect", "browse", "live", "stats", "check", "edit")
        ):
            continue  # ecmproto never resolves names, so the option has no effect
        former = _former(paths, name, bool(equals), queue, first=not remaining)
        if former is None:
            remaining.append(word)
            continue
        if former.now.startswith("ecmproto "):
            raise click.UsageError(f"{former.name} is now {former.now.format('MECHANISM')}")
        if not former.now:
            hints.append(f"{former.name} is the default")
            continue
        hints.append(f"{former.name} is now {former.now.replace('={}', '=…').replace(':{}', ':…')}")
        if " " in former.name:
            queue.pop(0)
        if "{}" not in former.now:
            *now, last = former.now.split(" ")
            remaining += [*now, last + equals + value]
        elif equals or queue:
            remaining += former.now.format(value if equals else queue.pop(0)).split(" ", 1)
        else:
            remaining.append(word)
    return [*group, *remaining, *args[ends:]], hints


def _former(paths: set[str], name: str, valued: bool, queue: list[str], *, first: bool) -> Former | None:
    """Return the declaration of a former name, or None if the command has no such former name."""
    for each in FORMER:
        option, _, value = each.name.partition(" ")
        fits = not paths.isdisjoint(each.commands.split(" ")) if each.commands else first
        if option == name and fits and (not value or (bool(queue) and not valued and queue[0] == value)):
            return each
    return None
