"""Makes a release in ``dist/`` from the last commit: sdist, wheel, checksums, and a bill of materials.

Everything is built twice, in two folders, once from the commit and once from the sdist, and must be the same
octet for octet.  Then each is installed in an empty environment, where the demo must run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path

from ecmproto._version import __version__

REPOSITORY = Path(__file__).resolve().parent.parent
DIST = REPOSITORY / "dist"
SPECIFICATION = "1.6"
"""Of CycloneDX."""


class ReleaseError(Exception):
    """Something that a release needs does not hold."""


def main() -> int:
    """Make a release; return 0, or 1 with a sentence on stderr that says what is wrong."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            _release(Path(folder))
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _release(work: Path) -> None:
    if _git("status", "--porcelain"):
        raise ReleaseError("needed a work tree without changes: what is released is the last commit")
    environment = os.environ | {"SOURCE_DATE_EPOCH": _git("log", "-1", "--format=%ct")}
    environment.pop("PYTHONPATH", None)
    first, second = work / "first", work / "second"
    _say("building from the last commit, and from the sdist")
    source = exported(work / "source")
    _build(source, first, "--sdist", "--wheel", environment=environment)
    (sdist,) = first.glob("*.tar.gz")
    _build(unpacked(sdist, work / "unpacked"), second, "--sdist", "--wheel", environment=environment)
    made = digests(first)
    if made != digests(second):
        raise ReleaseError(f"two builds differ: {made} and {digests(second)}")
    _build_with_machine_code(source, work / "prebuilt", first, environment)
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(first, DIST)
    artifacts = sorted(DIST.iterdir())
    _say("twine check")
    _python("-m", "twine", "check", "--strict", *map(str, artifacts))
    for artifact in artifacts:
        _try(artifact, work / f"env-{artifact.name}")
    _bill_of_materials(work / f"env-{artifacts[-1].name}")
    sums = [f"{digest}  {name}\n" for name, digest in sorted(digests(DIST).items())]
    (DIST / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    print("".join(sums), end="")
    headings = [
        line for line in (REPOSITORY / "CHANGELOG.md").read_text("utf-8").splitlines() if line[:3] == "## "
    ]
    if not headings[0].startswith(f"## {__version__} ") or "unreleased" in headings[0]:
        print(f"release: warning: CHANGELOG.md begins with {headings[0]!r}, the version is {__version__}",
              file=sys.stderr)  # fmt: skip


def exported(folder: Path) -> Path:
    """Return a folder with the files of the last commit."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def unpacked(sdist: Path, folder: Path) -> Path:
    """Return the folder, below ``folder``, of an sdist's files, without the metadata that it adds to them."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    (source / "PKG-INFO").unlink()
    return source


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by its name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def _build(source: Path, out: Path, *what: str, environment: Mapping[str, str]) -> None:
    _python("-m", "build", *what, "--outdir", str(out), str(source), environment=environment)


def _build_with_machine_code(source: Path, code: Path, out: Path, environment: Mapping[str, str]) -> None:
    """Build the wheel for this Python and architecture that has the kernels compiled, which takes minutes."""
    _say("a wheel with machine code")
    packages = os.pathsep.join([str(source), str(source / "cli")])
    compiling = {**environment, "PYTHONPATH": packages}
    _python("-m", "ecmproto_cli.prebuilding", str(code), environment=compiling)
    _build(source, out, "--wheel", environment={**environment, "ECMPROTO_PREBUILT": str(code)})


def _try(artifact: Path, folder: Path) -> None:
    """Install an artifact in an empty environment and run what it brings."""
    _say(f"{artifact.name} in an empty environment")
    venv.create(folder, with_pip=True)
    home = folder / "home"
    home.mkdir()
    alone = {
        "PATH": f"{folder / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
    }
    registry = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))
    }
    for command in (
        ["python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(artifact)],
        ["python", "-m", "pip", "check"],
        ["ecmproto", "demo"],
    ):
        subprocess.run(command, cwd=home, env=alone | registry, check=True, stdout=sys.stderr)
    said = subprocess.run(
        ["ecmproto", "--version"], cwd=home, env=alone, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    if said != f"ecmproto {__version__}\n":
        raise ReleaseError(f"{artifact.name}: needed version {__version__}, got {said!r}")
    for place in ("share/man/man1/ecmproto.1", "share/bash-completion/completions/ecmproto"):
        if not (folder / place).is_file():
            raise ReleaseError(f"{artifact.name}: {place} was not installed")


def _bill_of_materials(environment: Path) -> None:
    """Write what an installed wheel consists of, licences included, in CycloneDX's JSON."""
    _say("bill of materials")
    python = str(environment / "bin" / "python")
    leftover = ["-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip"]
    subprocess.run([python, *leftover], check=False, stderr=subprocess.DEVNULL)
    project = environment / "pyproject.toml"
    declared = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    project.write_text(
        declared.replace('dynamic = ["version"]', f'version = "{__version__}"'), encoding="utf-8"
    )
    _python(
        "-m", "cyclonedx_py", "environment", "--pyproject", str(project),
        "--output-reproducible", "--spec-version", SPECIFICATION, "--validate",
        "--output-file", str(DIST / f"ecmproto-{__version__}.cdx.json"), python,
    )  # fmt: skip


def _python(*words: str, environment: Mapping[str, str] | None = None) -> None:
    subprocess.run([sys.executable, *words], cwd=REPOSITORY, env=environment, check=True, stdout=sys.stderr)


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def _say(sentence: str) -> None:
    print(f"release: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
