"""``ecmproto doctor``: check whether this machine can send and receive frames."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

import click

from ecmproto.errors import counted
from ecmproto_cli.errors import FINDINGS
from ecmproto_cli.options import form_option
from ecmproto_cli.terminal import echo, paint

if TYPE_CHECKING:
    from ecmproto.control.live.doctor import Diagnosis

SCHEMA = "ecmproto/doctor/1"
_STYLES = {"ok": "dim", "note": "name", "finding": "error", "fixed": "tag"}


@click.command()
@click.option(
    "-i", "--interface", "interfaces", metavar="IF", multiple=True,
    help="Check this interface, even if it is down (default: all Ethernet interfaces that are up).",
)  # fmt: skip
@click.option("--apply", is_flag=True, help="Correct the MTU and offloads.")
@click.option(
    "--neighbours", "wait", metavar="TIME",
    help="Wait this long, such as 35s, for LLDP on each interface, and show what the other end advertises.",
)  # fmt: skip
@form_option("text", "json", help="Format of the report.")
def command(interfaces: tuple[str, ...], apply: bool, wait: str | None, form: str) -> int:
    """Check this machine's capabilities, programs, links, MTU, offloads and flow control.

    Each finding names a function that will not work, and the command that fixes it. Exits with 1 if there
    are findings.

    \b
    ecmproto doctor
    ecmproto doctor -i eth0 --apply
    ecmproto doctor -i eth0 --neighbours 35s
    """
    from ecmproto.control.live.doctor import examine, mended, of_neighbours
    from ecmproto.units import parse_time

    wait_ns = 0 if wait is None else parse_time(wait)
    checks = list(examine(interfaces))
    if wait_ns:
        names = dict.fromkeys(check.subject for check in checks if check.name == "link")
        checks = sorted(
            [*checks, *of_neighbours(list(names), wait_ns)], key=lambda check: _position(check, names)
        )
    if apply:
        checks = [mended(check) for check in checks]
    echo(json.dumps(_document(checks), indent=2) if form == "json" else _table(checks), wrap=form != "json")
    findings = sum(check.state == "finding" for check in checks)
    if findings:
        echo(f"ecmproto: {counted(findings, 'finding')}", err=True)
    return FINDINGS if findings else 0


def _position(check: Diagnosis, names: dict[str, None]) -> int:
    """Return the sort key of a check: -1 for the system, or the index of the interface in ``names``."""
    return list(names).index(check.subject) if check.subject in names else -1


def _table(checks: list[Diagnosis]) -> str:
    lines = []
    for subject, group in groupby(checks, lambda check: check.subject):
        lines.append(paint(subject, "title"))
        for check in group:
            lines.append(f"  {paint(check.state.ljust(7), _STYLES[check.state])}  {check.text}")
            if check.refusal:
                lines.append(f"  {' ' * 7}  not fixed: {check.refusal}")
            if check.state in ("note", "finding"):
                lines += [f"  {' ' * 7}    {paint(command, 'dim')}" for command in check.commands]
    return "\n".join(lines)


def _document(checks: list[Diagnosis]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "checks": [
            {
                "subject": check.subject,
                "name": check.name,
                "state": check.state,
                "told": check.text,
                "commands": list(check.commands),
                "refusal": check.refusal,
            }
            for check in checks
        ],
    }
