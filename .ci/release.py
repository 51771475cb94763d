"""Creates a release in ``dist/`` from the last commit: sdist, wheels, checksums, and a bill of materials.

All packages are built twice in two folders, once from the commit and once from the sdist. Both builds must be
equal, octet for octet, so kernels are compiled twice. Each package is then installed in an empty environment.
There, the demo must run without a compiler, and with only one empty writable folder. The wheel with the
kernel library must run without numba, without a home folder, and without memory that is both writable and
executable. All other packages run with numba.
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
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.firstminute import closed
from ecmproto._version import __version__

REPOSITORY = Path(__file__).resolve().parent.parent
DIST = REPOSITORY / "dist"
HARDENED = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""PR_SET_MDWE, for a command: memory that was written to is not executed."""
SPECIFICATION = "1.6"
"""Version of CycloneDX."""


class ReleaseError(Exception):
    """Something that a release needs does not hold."""


def main() -> int:
    """Make a release; return 0, or 1 with a sentence on stderr that names the fault."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            _release(Path(folder))
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _release(work: Path) -> None:
    if _git("status", "--porcelain"):
        raise ReleaseError("expected a work tree without changes: what is released is the last commit")
    environment = os.environ | {"SOURCE_DATE_EPOCH": _git("log", "-1", "--format=%ct")}
    environment.pop("PYTHONPATH", None)
    first, second = work / "first", work / "second"
    _say("building from the last commit")
    _build_all(exported(work / "source"), first, work / "kernels.so", environment)
    (sdist,) = first.glob("*.tar.gz")
    _say("building from the sdist")
    _build_all(unpacked(sdist, work / "unpacked"), second, work / "kernels again.so", environment)
    differing = list(differences(first, second))
    if differing:
        raise ReleaseError(f"two builds differ in {', '.join(differing)}")
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
    """Return the folder with an sdist's files below ``folder``, without the metadata that the sdist adds."""
    with tarfile.open(sdist) as archive:
        # older releases of 3.11 have no filter
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    (source,) = folder.iterdir()
    (source / "PKG-INFO").unlink()
    return source


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by its name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def differences(first: Path, second: Path) -> Iterator[str]:
    """Yield the names of files that differ between two folders or are missing from one folder.

    For wheels, the names include the wheel.
    """
    one, other = digests(first), digests(second)
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) == other.get(name):
            continue
        yield name
        if name in one and name in other and name.endswith(".whl"):
            with zipfile.ZipFile(first / name) as a, zipfile.ZipFile(second / name) as b:
                held = set(a.namelist()) & set(b.namelist())
                yield from sorted(each for each in held if a.read(each) != b.read(each))
                yield from sorted(set(a.namelist()) ^ set(b.namelist()))


def _build_all(source: Path, out: Path, library: Path, environment: Mapping[str, str]) -> None:
    """Build sdist and wheel, and the wheel for this platform that has the library of kernels.

    To compile the kernels takes minutes.
    """
    _build(source, out, "--sdist", "--wheel", environment=environment)
    packages = os.pathsep.join([str(source), str(source / "cli")])
    compiling = {**environment, "PYTHONPATH": packages}
    # where it runs is the first place of modules
    _python("-m", "ecmproto_cli.prebuilding", str(library), environment=compiling, folder=source)
    _build(source, out, "--wheel", environment={**environment, "ECMPROTO_LIBRARY": str(library)})


def _build(source: Path, out: Path, *what: str, environment: Mapping[str, str]) -> None:
    _python("-m", "build", *what, "--outdir", str(out), str(source), environment=environment)


def _try(artifact: Path, folder: Path) -> None:
    """Install an artifact in an empty environment and run its programs without other packages."""
    _say(f"{artifact.name} in an empty environment")
    venv.create(folder, with_pip=True)
    home = folder.with_name(f"{folder.name}-home")
    home.mkdir()
    environment = {"PATH": str(folder / "bin"), "HOME": str(home), "LANG": "C.UTF-8"}
    pip: list[str | Path] = [folder / "bin" / "python", "-m", "pip"]
    quiet = ["--quiet", "--disable-pip-version-check"]
    installing = {**os.environ, "HOME": str(home)}
    installing.pop("PYTHONPATH", None)
    has_library = "manylinux" in artifact.name
    wanted = str(artifact) if has_library else f"{artifact}[jit]"
    subprocess.run([*pip, "install", *quiet, wanted], env=installing, check=True, stdout=sys.stderr)
    subprocess.run([*pip, "check"], env=installing, check=True, stdout=sys.stderr)

    compiled = home / "compiled"
    alone = {**environment, "TMPDIR": str(home), "NUMBA_CACHE_DIR": str(compiled)}
    subprocess.run(["chmod", "-R", "a-w", folder], check=True)
    command: list[str | Path] = [*closed(folder), folder / "bin" / "ecmproto"]
    if has_library:
        command[-1:] = [folder / "bin" / "python", "-c", HARDENED, command[-1]]
        del alone["HOME"]
    subprocess.run([*command, "demo"], cwd=home, env=alone, check=True, stdout=sys.stderr)
    said = subprocess.run(
        [*command, "--version"], cwd=home, env=alone, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)
    if said != f"ecmproto {__version__}\n":
        raise ReleaseError(f"{artifact.name}: expected version {__version__}, got {said!r}")
    kernels = sorted(path.name for path in compiled.rglob("*.n?c"))
    if bool(kernels) == has_library:
        raise ReleaseError(
            f"{artifact.name}: the demo compiled {', '.join(kernels) or 'nothing, which leaves what it ran'}"
        )
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


def _python(*words: str, environment: Mapping[str, str] | None = None, folder: Path = REPOSITORY) -> None:
    subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=True, stdout=sys.stderr)


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def _say(sentence: str) -> None:
    print(f"release: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
