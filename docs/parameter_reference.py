"""Writes ``docs/parameters.md`` from the declarations of all mechanisms' parameters: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.control.mechanisms.registry import MECHANISMS

PATH = Path(__file__).with_name("parameters.md")

HEADING = """\
# Parameter reference

<!-- From the declarations in ecmproto/control/mechanisms/, by `make references`. -->

This page lists the parameters of every mechanism by role: `cp` is the congestion point, `rp` the reaction
point, and `edge` the edge. The option `--set NAME=VALUE` sets a parameter. If two roles have a parameter of
the same name, `--set ROLE.NAME=VALUE` selects the role. Values are checked alone and against other
parameters when you set them. [Sources](sources.md) lists S001 and the other documents.
[Algorithms](algorithms.md) describes the effects of the parameters.
"""

ROLES = {
    Role.CONGESTION_POINT: "Congestion point",
    Role.REACTION_POINT: "Reaction point",
    Role.EDGE: "Edge",
}


def text() -> str:
    """Return the reference as Markdown."""
    return "\n".join([HEADING, *map(_mechanism, MECHANISMS)])


def _mechanism(mechanism: Mechanism) -> str:
    parts = [f"## {mechanism.title}\n\n`{mechanism.name}` — {mechanism.source}\n"]
    for role, heading in ROLES.items():
        if role in mechanism.roles:
            parts.append(f"### {heading}\n\n{_table(mechanism.role(role))}\n")
    return "\n".join(parts)


def _table(parameters: type[Parameters]) -> str:
    described = parameters.describe()
    if not described:
        return "No parameters."
    defaults = parameters().as_text()
    lines = ["| parameter | default | range | meaning | source |", "|---|---|---|---|---|"]
    for each in described:
        cells = (f"`{each.name}`", defaults[each.name], each.range_text, each.doc, each.source)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    print(f"{PATH.name}: {len(MECHANISMS)} mechanisms")
