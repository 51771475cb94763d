"""Writes ``docs/rules/`` with a page for each rule of `ecmproto check` and a list of rules: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from ecmproto.tools.check import listed
from ecmproto.tools.check.reference import as_markdown
from ecmproto.tools.check.registry import FAMILIES

FOLDER = Path(__file__).with_name("rules")

HEADING = """\
# Rules

<!-- From the rules in ecmproto/tools/check/rules/, by `make references`. -->

This page lists the rules of `ecmproto check`. [Checking captures](../check.md) explains how to use the
rules, and how to write your own rules.
"""


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    lines = [HEADING]
    made = {}
    for family in FAMILIES:
        lines += [f"## {family.title}", "", "| rule | severity | requirement |", "|---|---|---|"]
        for rule in family.rules:
            lines.append(f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.sentence} |")
            made[f"{rule.id}.md"] = as_markdown(rule, family)
        lines.append("")
    return {"README.md": "\n".join(lines), **made}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    listed.PATH.write_text(listed.as_json(), encoding="utf-8")
    print(f"{FOLDER.name}/: {len(made) - 1} rules")
