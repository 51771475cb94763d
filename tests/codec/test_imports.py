"""Imports: neither Scapy nor numba is imported, and construct is imported only for schemas."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("ecmproto", ("scapy", "numba", "numpy", "construct", "hypothesis")),
        ("ecmproto.wire.codec", ("scapy", "numba", "numpy", "construct", "hypothesis")),
        ("ecmproto.wire.codec.document", ("scapy", "numba", "numpy", "construct", "hypothesis")),
    ],
)
def test_importing_does_not_import(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_public_names_exist() -> None:
    import ecmproto
    import ecmproto.wire.codec

    for name in ecmproto.__all__:
        assert getattr(ecmproto, name) is not None
    assert set(ecmproto.wire.codec.__all__) <= set(ecmproto.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ecmproto.nothing  # noqa: B018 (what must fail)
