"""Writes ``docs/glossary.md`` from the glossary of ``ecmproto help``: ``make references``."""

from __future__ import annotations

from pathlib import Path

from ecmproto_cli.finding import glossary

PATH = Path(__file__).with_name("glossary.md")
HEADING = """\
# Glossary

<!-- From cli/ecmproto_cli/glossary.toml, by `make references`. -->

This page lists standard terms and the corresponding names in ecmproto. The command `ecmproto help WORD`
finds terms, also by synonyms.

| term | also | in ecmproto | meaning | code |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the page as Markdown."""
    lines = []
    for term in glossary():
        cells = (term.name, ", ".join(term.also), term.here, term.meaning, f"`{term.file}`")
        lines.append(f"| {' | '.join(cells)} |\n")
    return HEADING + "".join(lines)


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
    print(f"{PATH.name}: {len(glossary())} terms")
