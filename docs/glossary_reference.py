"""Writes ``docs/glossary.md`` from the words that ``ecmproto help`` finds: ``make references``."""

from __future__ import annotations

from pathlib import Path

from ecmproto_cli.finding import glossary

PATH = Path(__file__).with_name("glossary.md")
HEADING = """\
# Glossary

<!-- From cli/ecmproto_cli/glossary.toml, by `make references`. -->

Words of network engineers, and their names in ecmproto. `ecmproto help WORD` finds each, also by synonyms.

| word | also | here | meaning | code |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    lines = []
    for term in glossary():
        cells = (term.name, ", ".join(term.also), term.here, term.meaning, f"`{term.file}`")
        lines.append(f"| {' | '.join(cells)} |\n")
    return HEADING + "".join(lines)


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
    print(f"{PATH.name}: {len(glossary())} words")
