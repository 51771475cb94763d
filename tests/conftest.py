"""Common fixtures and hooks for all tests, and the Hypothesis profile."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.namespaces import Network

CI = bool(os.environ.get("CI"))
# On a busy machine, commands report progress, which tests do not expect.
os.environ["ECMPROTO_PROGRESS"] = "0"
REPOSITORY = Path(__file__).resolve().parent.parent
SHARED_CAPTURES = REPOSITORY.parent / "shared" / "captures"

# During collection, garbage collection is rare, because it would take a third of the time.
THRESHOLDS = gc.get_threshold()
gc.set_threshold(50_000, 20, 20)

# There are no deadlines, because machines differ. In CI, the examples are always the same.
settings.register_profile(
    "ecmproto",
    deadline=None,
    max_examples=30,
    derandomize=CI,
    database=None if CI else settings.default.database if settings.default else None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("ecmproto"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ecmproto"))


THOROUGH = (
    "check/test_clean.py",
    "cli/test_fuzz_send.py",
    "cli/test_kernel_steps.py",
    "cli/test_send_storm.py",
    "codec/test_tshark_oracle.py",
    "craft/test_switch_tests.py",
    "docs/test_site.py",
    "executors/test_cluster.py",
    "executors/test_killed.py",
    "filter/test_tshark_oracle.py",
    "fleet/test_cluster.py",
    "fuzz/guided/test_campaign.py",
    "fuzz/strategies/test_shrinking.py",
    "fuzz/strategies/test_strategies.py",
    "fuzz/test_agreement.py",
    "fuzz/test_target.py",
    "interop/test_lua_thorough.py",
    "kernels/test_cache.py",
    "kernels/test_library.py",
    "live/test_closed_loop.py",
    "live/test_expectations.py",
    "live/test_endurance.py",
    "live/test_interfaces.py",
    "live/test_lldpd.py",
    "live/test_mishaps.py",
    "live/test_port.py",
    "live/test_privileges.py",
    "live/test_prometheus.py",
    "live/test_reaction_point.py",
    "live/test_testbed.py",
    "mechanisms/test_parameter_effects.py",
    "pcaps/test_manifest.py",
    "release/test_artifacts.py",
)
"""Slow test files, which `make test-all` runs and `make test` does not run."""


def is_thorough(path: Path) -> bool:
    """Return whether a test file takes long."""
    return path.relative_to(Path(__file__).parent).as_posix() in THOROUGH


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of a test file whose tests are all deselected by markers, because imports take long."""
    if collection_path.suffix != ".py":
        return None
    left_out = "not thorough" if is_thorough(collection_path) else "thorough"
    return True if left_out in str(config.option.markexpr).split(" and ") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in files that take long."""
    for item in items:
        if is_thorough(item.path):
            item.add_marker(pytest.mark.thorough)


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def requires(program: str) -> str:
    """Return the path of a system program.

    If the program is missing, the test is skipped; under ``CI=true``, the test fails.
    """
    path = shutil.which(program)
    if path is None:
        why = f"{program} is not installed: nothing to compare with"
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    return path


@pytest.fixture
def veth() -> Iterator[Network]:
    """A network namespace with a veth pair, in which the test runs."""
    from tests.namespaces import network

    with network() as made:
        yield made


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root folder of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def tshark() -> str:
    """The path of tshark, from `requires`."""
    return requires("tshark")


@pytest.fixture(scope="session")
def needs() -> Callable[[str], str]:
    """The function `requires`, for tests that cannot import the function."""
    return requires
