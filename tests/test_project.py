"""The statements of pyproject.toml on dependencies and modules are true."""

from __future__ import annotations

import os
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT: dict[str, Any] = tomllib.loads(Path(__file__).parent.parent.joinpath("pyproject.toml").read_text())


def requirements() -> list[Requirement]:
    project = PROJECT["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    lists += PROJECT["dependency-groups"].values()
    named = [Requirement(each) for texts in lists for each in texts if isinstance(each, str)]
    return [each for each in named if canonicalize_name(each.name) != "ecmproto"]


OPTIONAL = {
    Requirement(each).name
    for group in ("release", "packages")
    for each in PROJECT["dependency-groups"][group]
} | {"proselint"}
"""Packages that only `make release` installs, and a package that `make lint` uses only if it is installed."""


def bounds(requirement: Requirement) -> set[str]:
    return {bound.operator for bound in requirement.specifier}


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_dependency_without_upper_bound_took_untested_versions(requirement: Requirement) -> None:
    assert bounds(requirement) & {"<", "<="}
    if requirement.name not in OPTIONAL and (requirement.marker is None or requirement.marker.evaluate()):
        assert version(requirement.name) in requirement.specifier


def test_sibling_modules_were_allowed_to_import() -> None:
    # Colons in import-linter allow imports between siblings.
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    whole, *others = (each["layers"] for each in contracts if each["type"] == "layers")
    assert [line for layers in (whole, *others) for line in layers if ":" in line] == []
    listed = {".".join(name.strip().split(".")[:2]) for line in whole for name in line.split("|")}
    folder = Path(__file__).parent.parent / "ecmproto"
    modules = {
        path.stem for path in (*folder.glob("*.py"), *folder.glob("*/__init__.py")) if path.stem[:2] != "__"
    }
    modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert {f"ecmproto.{name}" for name in modules} <= listed


def test_tests_marked_alone_are_where_make_looks(repository: Path) -> None:
    folder = repository / "tests"
    marked = [path for path in folder.rglob("test_*.py") if "pytest.mark.alone" in path.read_text("utf-8")]
    marked.remove(Path(__file__))
    assert {path.relative_to(folder).parts[0] for path in marked} == {"kernels", "live", "testing"}


def test_bounds_are_checked_where_kernels_changed(tmp_path: Path, repository: Path) -> None:
    roles = (f"GIT_{role}_{what}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL"))
    environment = {**os.environ, **dict.fromkeys(roles, "nobody"), "GIT_CONFIG_GLOBAL": os.devnull}

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=tmp_path, env=environment, check=True, capture_output=True)

    def changed(name: str, text: str, *, main: bool = False) -> bool:
        """Commit a file on main or on a branch, and run the check."""
        (tmp_path / "ecmproto" / name).write_text(text)
        git("add", ".")
        git("commit", "-m", name)
        if main:
            git("update-ref", "refs/remotes/origin/main", "HEAD")
        asked = subprocess.run([repository / ".ci" / "kernels_changed"], cwd=tmp_path, capture_output=True)
        return asked.returncode == 0

    git("init", "-b", "branch")
    (tmp_path / "ecmproto" / "kernels").mkdir(parents=True)
    kernel = "from ecmproto.kernels.kernel import compiled\n"
    assert changed("a.py", kernel, main=True)  # no other file for the comparison
    assert not changed("b.py", "1\n")
    assert not changed("c.py", "from ecmproto import codec\n")
    assert changed("a.py", kernel + "2\n")
    assert changed("b.py", "2\n")  # an earlier commit of the branch did
    assert changed("kernels/parts.py", "", main=True)
    # On main, one of the last ten did.
    assert [changed("b.py", f"{number}\n", main=True) for number in range(10, 20)] == [True] * 9 + [False]
