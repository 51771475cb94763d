"""Machine code that a wheel brings: kernels compiled beforehand, for any processor of an architecture.

`make wheel` puts it into `FOLDER`, beside a manifest of the Python, numba and llvmlite that it is for and of
the SHA-256 digest of each file.  Loading may unpickle: the files are trusted as the modules beside them are,
but only while they are what was packed.  Whatever is for others, was changed or is missing is compiled as
ever; `Store.why_not` has the reason, which is said once.

A file is named, and begins, as one of the cache does (`ecmproto.kernels.cache`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]
FOLDER = _PACKAGE / "_prebuilt"
MANIFEST = "manifest.json"
NUMBA_SUFFIX = ".nbc"
"""Of files that numba loads; all others are for a Python and a kind of machine, whatever numba there is."""
CPU = ("generic", "")
"""The processor, and features beyond its own, that numba names for code that any runs."""


def minor(version: str) -> str:
    """Return a version to its second number: releases that differ behind it load each other's code."""
    return ".".join(version.split(".")[:2])


def here() -> dict[str, str]:
    """Return what machine code has to be made for to be loaded by this process."""
    return {"python": f"{sys.implementation.cache_tag}{sys.abiflags}", "machine": os.uname().machine}


def compilers() -> dict[str, str]:
    """Return the compilers that code for numba to load has to be made by."""
    import llvmlite
    import numba

    return {"numba": minor(numba.__version__), "llvmlite": minor(llvmlite.__version__)}


class Store:
    """A folder of machine code, with a manifest; without one, a store of nothing."""

    def __init__(self, folder: Path) -> None:
        self.why_not = ""
        """Why code here is not loaded, if there is some; a clause."""
        self._folder = folder
        self._digests: Mapping[str, str] = {}
        self._compilers: Mapping[str, str] = {}
        self._looked = False
        with suppress(FileNotFoundError):
            manifest = json.loads((folder / MANIFEST).read_bytes())
            if self._fits(manifest["for"], here()):
                self._digests, self._compilers = manifest["files"], manifest["by"]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to load."""
        return not self._digests

    def read(self, source: str, name: str) -> bytes | None:
        """Return the file ``name`` with code compiled from the file ``source``; None if it cannot be used."""
        path = _path(source, name)
        digest = self._digests.get(path)
        if digest is None or (path.endswith(NUMBA_SUFFIX) and not self._is_for_numba()):
            return None
        try:
            octets = (self._folder / path).read_bytes()
        except OSError as error:
            self.why_not = f"{self._folder / path}: {error.strerror}"
            return None
        if hashlib.sha256(octets).hexdigest() != digest:
            self.why_not = f"{self._folder / path} is not what the wheel had: its SHA-256 digest differs"
            return None
        return octets

    def _is_for_numba(self) -> bool:
        """Whether the numba here, which is imported already, loads such code; what it does not is let go."""
        if not self._looked:
            self._looked = True
            if not self._fits(self._compilers, compilers()) or not _is_for_any():
                self._digests = {
                    path: digest for path, digest in self._digests.items() if not path.endswith(NUMBA_SUFFIX)
                }
                return False
        return True

    def _fits(self, made: Mapping[str, str], needed: Mapping[str, str]) -> bool:
        for what, this in needed.items():
            if made.get(what) != this:
                self.why_not = f"the machine code of the wheel is for {what} {made.get(what)}, this is {this}"
                return False
        return True


def _is_for_any() -> bool:
    """Whether numba compiles for no processor that was asked for by name."""
    import numba

    config: Any = numba.config
    return (config.CPU_NAME or CPU[0], config.CPU_FEATURES or CPU[1]) == CPU


class Workshop(Store):
    """Where code for a wheel is made: files are read in ``done`` and ``made``, and written to ``made``."""

    def __init__(self, done: Path, made: Path) -> None:
        self.why_not = ""
        self._folders = made, done

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to load, which is not known."""
        return False

    def read(self, source: str, name: str) -> bytes | None:
        """Return a file's octets; None if there is none."""
        for folder in self._folders:
            with suppress(FileNotFoundError):
                return (folder / _path(source, name)).read_bytes()
        return None

    def write(self, source: str, name: str, octets: bytes) -> None:
        """Write a file; that of another package belongs into no wheel of this one."""
        path = _path(source, name)
        if not path.startswith(os.pardir):
            file = self._folders[0] / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(octets)


@functools.lru_cache(maxsize=1024)
def _path(source: str, name: str) -> str:
    return os.path.relpath(os.path.join(os.path.dirname(source), name), _PACKAGE)


_chosen: list[Store] = []


def store() -> Store:
    """Return what this process loads from: the installed wheel's, unless another was set."""
    if not _chosen:
        _chosen.append(Store(FOLDER))
    return _chosen[0]


def use(other: Store) -> None:
    """Load from ``other`` instead, in this process and those that it forks."""
    _chosen[:] = [other]
