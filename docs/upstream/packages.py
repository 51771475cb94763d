"""Builds Conda and Debian packages of the last commit: ``python -m docs.upstream.packages FOLDER``.

The Conda recipe is rendered, and the Debian package is built. Both are checked. If a program is missing, its
check is reported as not done. The dependencies are declared in the files, and this machine needs only the
dependencies of the build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from docs.upstream.generate import FOLDER
from ecmproto._version import __version__

_PYTHON_MIN = "3.11"
_UPLOADER = "no-human-maintainers,initial-upload-closes-no-bugs"
"""Lintian tags for parts that the uploader adds: a name, and the number of the bug that announces the
package.
"""


def main(folder: Path) -> int:
    """Build and check the packages, and return 0, or 1 if a package has a fault."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], FOLDER.parents[1])
    (sdist,) = folder.glob("*.tar.gz")
    try:
        _conda(sdist, folder / "conda")
        _debian(sdist, folder / "debian")
    except subprocess.CalledProcessError as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    return 0


def _conda(sdist: Path, folder: Path) -> None:
    """Write the Conda recipe next to its source, and render the recipe."""
    folder.mkdir()
    shutil.copy(sdist, folder)
    text = (FOLDER / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    recipe = folder / "recipe.yaml"
    recipe.write_text(text.replace("VERSION", __version__).replace("SHA256", digest), encoding="utf-8")
    try:
        from rattler_build import Stage0Recipe, VariantConfig
    except ImportError:
        _not_done("the conda recipe is not rendered: py-rattler-build is not installed")
        return
    for each in Stage0Recipe.from_file(recipe).render(VariantConfig({"python_min": [_PYTHON_MIN]})):
        print(f"{recipe}: {each.recipe.package.name} {each.recipe.package.version}, rendered")


def _debian(sdist: Path, folder: Path) -> None:
    """Build the Debian package, and check the package with lintian."""
    if not shutil.which("dpkg-buildpackage"):
        _not_done("no Debian package: dpkg-buildpackage is not installed")
        return
    version = __version__.replace(".dev", "~dev")
    folder.mkdir()
    shutil.copy(sdist, folder / f"ecmproto_{version}.orig.tar.gz")
    _run(["tar", "xf", sdist], folder)
    source = folder / sdist.name.removesuffix(".tar.gz")
    shutil.copytree(FOLDER / "debian", source / "debian")
    (source / "debian" / "changelog").write_text(
        f"ecmproto ({version}-1) UNRELEASED; urgency=medium\n\n  * New upstream version.\n\n"
        f" -- Debian Python Team <team+python@tracker.debian.org>  {format_datetime(datetime.now(UTC))}\n",
        encoding="utf-8",
    )
    # -d, because a stable release has older versions of dependencies
    environment = os.environ | {
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PATH": f"/usr/sbin:{os.defpath}",
    }
    _run(["dpkg-buildpackage", "-us", "-uc", "-d"], source, environment)
    if not shutil.which("lintian"):
        _not_done("the Debian package is not checked: lintian is not installed")
        return
    _run(
        ["lintian", "--fail-on", "error,warning", "--suppress-tags", _UPLOADER, *folder.glob("*.changes")],
        folder,
    )
    print(f"{folder}: built, checked by lintian")


def _not_done(text: str) -> None:
    print(f"*** NOT DONE: {text}", file=sys.stderr)


def _run(command: list[str | Path], folder: Path, environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=folder, env=environment, check=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
