"""Builds the documentation site without a network: ``python -m docs.site [FOLDER]``.

The default folder is ``build/site``. Warnings and broken links within the site are errors.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Machines run as plain Python, so nothing is compiled.
os.environ["NUMBA_DISABLE_JIT"] = "1"

from docs.site.pages import DOCS, REPOSITORY, write_sources


def build(folder: Path) -> int:
    """Write the site to ``folder``, and return the exit code of Sphinx."""
    print("the site: its pages are written, then built, in about a minute", flush=True)
    parts = {name: folder / name for name in ("pages", "html")}
    for part in parts.values():
        shutil.rmtree(part, ignore_errors=True)
    write_sources(parts["pages"])
    options = ["-q", "-W", "--keep-going", "-E", "-j", "auto", "-b", "html", "-c", str(DOCS / "site")]
    doctrees = folder / "doctrees"
    places = ["-d", str(doctrees), str(parts["pages"]), str(parts["html"])]
    command = [sys.executable, "-m", "sphinx", *options, *places]
    ended = subprocess.run(command, check=False, cwd=REPOSITORY)
    shutil.rmtree(doctrees, ignore_errors=True)
    return ended.returncode


if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "build" / "site"
    code = build(out)
    if not code:
        print(f"{out / 'html' / 'index.html'}")
    sys.exit(code)
