"""Released files: sdist and wheel have the right contents and are reproducible."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from release import differences, digests, unpacked

from docs.licences import PATH, dependencies
from docs.manual import files
from ecmproto._version import __version__
from ecmproto_cli.commands.demo import captures_folder

EPOCH = "1700000000"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def sources(repository: Path, folder: Path) -> list[str]:
    """Copy the files in git, with changes of the work tree; without git, all except leftovers."""
    if (repository / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=repository, check=True, capture_output=True, text=True
        ).stdout.split("\0")
        names = [name for name in listed if name and (repository / name).is_file()]
    else:
        left = re.compile(
            r"(^|/)(\.venv|__pycache__|build|dist|PKG-INFO|\.\w+_cache|\.hypothesis|\.coverage.*)(/|$)"
        )
        found = (path for path in repository.rglob("*") if path.is_file())
        names = [name for path in found if not left.search(name := path.relative_to(repository).as_posix())]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, folder / name)
    return names


def build(source: Path, out: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(out)]
    environment = ENVIRONMENT | {"SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)


def test_artifacts_are_complete_and_reproducible_from_sdist(repository: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    names = sources(repository, source)
    build(source, tmp_path / "first")
    (sdist,), (wheel,) = ((tmp_path / "first").glob(f"*.{kind}") for kind in ("tar.gz", "whl"))
    assert (sdist.name, wheel.name) == (
        f"ecmproto-{__version__}.tar.gz",
        f"ecmproto-{__version__}-py3-none-any.whl",
    )

    inner = unpacked(sdist, tmp_path / "unpacked")
    held = {path.relative_to(inner).as_posix() for path in inner.rglob("*") if path.is_file()}
    assert held == set(names)  # the tests, and all that they need

    build(inner, tmp_path / "second")
    assert digests(tmp_path / "second") == digests(tmp_path / "first")

    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
        packed = archive.namelist()
    shared = f"ecmproto-{__version__}.data/data/"
    assert {name.removeprefix(shared) for name in packed if name.startswith(shared)} == {
        place for place, _ in files()
    }
    modules = {name for name in names if name.startswith("ecmproto/")}
    modules |= {name.removeprefix("cli/") for name in names if name.startswith("cli/")}
    captures = {path.name for path in captures_folder().iterdir() if ".pcap" in path.name} | {"MANIFEST.toml"}
    modules |= {f"ecmproto_cli/captures/{name}" for name in captures}
    assert {name for name in packed if not name.startswith(f"ecmproto-{__version__}.")} == modules

    run_from(tmp_path / "installed", tmp_path)


def run_from(installed: Path, folder: Path) -> None:
    """Run the wheel's own packages, with none of the sources in sight."""
    environment = ENVIRONMENT | {"PYTHONPATH": str(installed)}

    def said(*words: str) -> str:
        command = [sys.executable, "-m", "ecmproto", *words]
        return subprocess.run(
            command, cwd=folder, env=environment, check=True, capture_output=True, text=True
        ).stdout

    assert said("--version") == f"ecmproto {__version__}\n"
    assert said("demo", "-w", "pcaps").endswith(" captures in pcaps\n")
    assert said("dissect", "-r", "pcaps/mixed.pcap", "-c", "1").count("\n") == 1
    where = "import ecmproto, ecmproto_cli; print(ecmproto.__file__, ecmproto_cli.__file__)"
    shown = subprocess.run(
        [sys.executable, "-c", where], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert shown.count(str(installed)) == 2


def test_differences_between_builds_are_named(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, held in (
        (first, {"same": "1", "code": "1"}),
        (second, {"same": "1", "code": "2", "more": "3"}),
    ):
        folder.mkdir()
        (folder / "same.tar.gz").write_bytes(b"same")
        with zipfile.ZipFile(folder / "x.whl", "w") as file:
            for name, text in held.items():
                file.writestr(zipfile.ZipInfo(name), text)
    assert list(differences(first, first)) == []
    assert list(differences(first, second)) == ["x.whl", "code", "more"]
    (second / "same.tar.gz").unlink()
    assert list(differences(second, first)) == ["same.tar.gz", "x.whl", "code", "more"]


def test_version_is_written_only_once(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "ecmproto/_version.py"
    for name in ("CITATION.cff", "ecmproto/__init__.py", "docs/manual.py", "Makefile"):
        assert __version__ not in (repository / name).read_text(encoding="utf-8"), name


def test_declared_python_versions_are_tested(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    promised = [each.rpartition(" ")[2] for each in project["classifiers"] if "Python :: 3." in each]
    workflow = (repository / ".github/workflows/ci.yml").read_text()
    assert workflow.count(f"python: {promised}".replace("'", '"')) == 1
    assert project["requires-python"] == f">={promised[0]}"
    assert f'which: oldest, python: "{promised[0]}"' in workflow
    assert f'which: newest, python: "{promised[-1]}"' in workflow


def test_licences_are_listed_of_every_dependency() -> None:
    page = PATH.read_text(encoding="utf-8")
    assert all(f"\n| {name} | {group} | " in page for name, group in dependencies()), "make docs"
    assert "not stated" not in page
    assert "not installed here" not in page
