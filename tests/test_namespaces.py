"""The namespaces of a test are removed, even if the test is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, requires
from tests.namespaces import PATIENCE_S, guarded

MAKES_ONE = """
import subprocess, sys, time
from tests.namespaces import guarded
with guarded(sys.argv[1]):
    subprocess.Popen(["ip", "netns", "exec", sys.argv[1], "sleep", "600"])
    print("there", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def name() -> str:
    requires("ip")
    if os.geteuid() != 0:
        pytest.skip("needs root, to make network namespaces")
    return f"ecmproto-guarded-{os.getpid()}"


def is_there(name: str) -> bool:
    return (Path("/run/netns") / name).exists()


def test_a_test_that_fails_leaves_no_namespace(name: str) -> None:
    seen = []

    def fail() -> None:
        with guarded(name):
            seen.append(is_there(name))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert seen == [True]
    assert not is_there(name)


def test_killed_test_leaves_no_namespace_or_program(name: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAKES_ONE, name], stdout=subprocess.PIPE, cwd=REPOSITORY
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"there\n"
        assert is_there(name)
        killed.kill()
        # A child process in the namespace keeps stdout open.
        killed.stdout.read()
    deadline = time.monotonic() + PATIENCE_S
    while is_there(name):
        assert time.monotonic() < deadline, "the namespace stays behind"
        time.sleep(0.05)
