"""The pages of the site, from ``docs/``, declarations, machines and notebooks."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DOCS = REPOSITORY / "docs"

PROJECT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the site that are in the root folder of the repository."""
NOT_PAGES = ("site", "notebooks")
"""Folders in ``docs/`` that are not copied as pages."""
LISTED = "papers"
"""Folder whose README lists its other pages."""
ORPHANS = "rules"
"""Folder whose pages are linked only from its README, because the navigation would be too long."""

_LINK = re.compile(r"(!?)\[([^\]]*(?:\[[^\]]*\][^\]]*)?)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_DRAWINGS = re.compile(r"^<!-- drawings: (\w+) -->$", re.MULTILINE)
_FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1`*$", re.MULTILINE | re.DOTALL)


def write_sources(folder: Path) -> None:
    """Write all source files from which Sphinx builds the site."""
    notebooks = _start_notebooks(folder / "notebooks")
    from docs.site import api, commands

    for path in sorted(DOCS.rglob("*")):
        place = path.relative_to(DOCS)
        if place.parts[0] in NOT_PAGES or path.suffix not in (".md", ".png"):
            continue
        _put(folder / place, path, f"docs/{place.as_posix()}")
    for name, page in PROJECT_PAGES.items():
        _put(folder / page, REPOSITORY / name, name)
    with (folder / LISTED / "README.md").open("a", encoding="utf-8") as listing:
        listing.write("\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n")
    for path in (folder / ORPHANS).glob("*.md"):
        if path.name != "README.md":
            path.write_text(f"---\norphan: true\n---\n\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    for made, pages in (("commands", commands.pages()), ("api", api.pages())):
        (folder / made).mkdir()
        for name, text in pages.items():
            (folder / made / name).write_text(text, encoding="utf-8")
    for running in notebooks:
        if running.wait():
            raise SystemExit(f"a notebook failed: {running.args!r}")


def _start_notebooks(folder: Path) -> list[subprocess.Popen[bytes]]:
    """Start a process for each notebook, with compiled kernels, and return the processes."""
    folder.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    return [
        subprocess.Popen([sys.executable, "-m", "docs.site.notebooks", path, folder], env=environment)
        for path in sorted((DOCS / "notebooks").glob("*.ipynb"))
    ]


def _put(target: Path, path: Path, name: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".md":
        target.write_text(site_text(path.read_text(encoding="utf-8"), name), encoding="utf-8")
    else:
        shutil.copyfile(path, target)


def site_text(text: str, name: str) -> str:
    """Return a page of the repository for the site; links to files outside the site become plain names."""

    def linked(match: re.Match[str]) -> str:
        picture, label, target, anchor = match[1], match[2], match[3], match[4] or ""
        found = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        page = page_of(found)
        if page is None:
            return label if label.startswith("`") else f"{label} (`{found}`)"
        here = page_of(name)
        assert here is not None
        return (
            f"{picture}[{_outside(label)}]({posixpath.relpath(page, posixpath.dirname(here) or '.')}{anchor})"
        )

    def _outside(label: str) -> str:
        return _LINK.sub(linked, label)

    # Fenced text is shown unchanged.
    parts, done = [], 0
    for fence in _FENCED.finditer(text):
        parts += [_LINK.sub(linked, text[done : fence.start()]), fence[0]]
        done = fence.end()
    parts.append(_LINK.sub(linked, text[done:]))
    return _DRAWINGS.sub(lambda match: drawings(match[1]), "".join(parts))


def page_of(name: str) -> str | None:
    """Return the path of a repository file in the site, or None if the file is not in the site."""
    if name in PROJECT_PAGES:
        return PROJECT_PAGES[name]
    if name.startswith("docs/") and (REPOSITORY / name).is_file() and name.split("/")[1] not in NOT_PAGES:
        return name.removeprefix("docs/")
    if name.startswith("docs/notebooks/") and name.endswith(".ipynb"):
        return name.removeprefix("docs/").replace(".ipynb", ".md")
    return name.removeprefix("docs/") if name.startswith(("docs/commands/", "docs/api/")) else None


def drawings(mechanism: str) -> str:
    """Return the state diagrams and charts of a mechanism as parts of a page."""
    from docs.site.drawing import chart, legend, state_diagram, table
    from docs.site.machines import transitions_of
    from docs.site.subjects import SUBJECTS, charts_of

    parts: list[str] = []
    for subject, found in transitions_of(SUBJECTS[mechanism]):
        title = f"{subject.title}: states and transitions"
        parts += _drawn(subject.title, state_diagram(subject.states, found, title), legend(found))
    for drawn in charts_of(mechanism):
        beside = table(drawn.heads, drawn.rows) if drawn.rows else ""
        parts += _drawn(drawn.title, chart(drawn), f"<div>{beside}</div>" if beside else "")
    return "\n".join(["```{raw} html", *parts, "```"])


def _drawn(title: str, picture: str, beside: str) -> Sequence[str]:
    return (
        '<div class="drawn">',
        f"<figure><figcaption>{escape(title)}</figcaption>{picture}</figure>",
        beside,
        "</div>",
    )
