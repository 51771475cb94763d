"""Writes ``docs/licences.md``, the licences of dependencies, from their metadata: ``make docs``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("licences.md")
PROJECT = tomllib.loads((PATH.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

HEADING = """\
# Licences of dependencies

ecmproto is GPL-2.0-or-later and contains no copy of the packages in this table. pip installs the packages
separately. The licences are from each package's metadata (`make references`). A release's bill of materials
(`ecmproto-VERSION.cdx.json`, CycloneDX) also lists the packages' own dependencies, with exact versions.

| package | needed for | licence |
|---|---|---|
"""


def dependencies() -> Iterator[tuple[str, str]]:
    """Yield the name and the purpose of each direct dependency, required dependencies first."""
    lists: dict[str, list[str]] = {"everything": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    for group, texts in lists.items():
        for text in texts:
            name = re.match(r"[\w.-]+", text)
            assert name is not None
            if name[0] != "ecmproto":
                yield name[0], group if group == "everything" else f"`ecmproto[{group}]`"


def licence_of(name: str) -> str:
    """Return the licence from the metadata of an installed package."""
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return "not installed here"
    found: Any = installed.metadata
    classified = [
        each.rpartition(" :: ")[2]
        for each in found.get_all("Classifier") or ()
        if each.startswith("License ::")
    ]
    files = [path.read_text() for path in installed.files or () if path.name == "LICENSE"]
    texts = (found.get("License-Expression"), *classified, found.get("License"), *files)
    return next((text.strip().splitlines()[0] for text in texts if text), "not stated")


def text() -> str:
    """Return the page as Markdown."""
    rows = (f"| {name} | {group} | {licence_of(name)} |\n" for name, group in dependencies())
    return HEADING + "".join(rows)


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    print(f"{PATH.name}: {len(list(dependencies()))} dependencies")
