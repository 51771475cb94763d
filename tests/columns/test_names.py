"""The names of the package are there, and loaded only when used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ecmproto.columns


@pytest.mark.parametrize("name", ecmproto.columns.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(ecmproto.columns, name).__name__ == name


def test_importing_loads_neither_numba_nor_arrow() -> None:
    code = "import sys, ecmproto.columns; sys.exit(bool({'numba', 'pyarrow', 'numpy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_other_names_are_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'read_tables'"):
        ecmproto.columns.read_tables  # noqa: B018
