"""The names of the package exist, and are loaded on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ecmproto.frames.columns


@pytest.mark.parametrize("name", ecmproto.frames.columns.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(ecmproto.frames.columns, name).__name__ == name


def test_importing_loads_neither_numba_nor_arrow() -> None:
    absent = "{'numba', 'pyarrow', 'numpy'}"
    code = f"import sys, ecmproto.frames.columns; sys.exit(bool({absent} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'read_tables'"):
        getattr(ecmproto.frames.columns, "read_tables")  # noqa: B009
