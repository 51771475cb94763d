"""The tests on the pages in `docs/recipes` have the documented verdicts for their device and for a bridge."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.namespaces import PATIENCE_S, Network

PAGES = sorted((Path(__file__).parents[2] / "docs" / "recipes").glob("[a-z]*.md"))
TESTER, PORTS = ("near", "far", "second"), ("p1", "p2", "p3")
DEVICE = re.compile(r"^ecmproto (live .*)$", re.MULTILINE)
MODULE = re.compile(r"^```python\n# (test_\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (test_\S+) \| (.*?) \| (.*?) \|$", re.MULTILINE)


@pytest.fixture
def ports(veth: Network) -> Network:
    """Three ports of a device, each with an interface of the tester."""
    veth.ip("link del near")
    for name, port in zip(TESTER, PORTS, strict=True):
        veth.ip(f"link add name {name} mtu 1600 type veth peer name {port} mtu 1600")
        for end in (name, port):
            veth.ip(f"link set {end} addrgenmode none")
            veth.ip(f"link set {end} arp off up")
    return veth


@contextmanager
def software(page: str) -> Iterator[None]:
    """Run the device that a page shows."""
    found = DEVICE.search(page)
    assert found is not None
    words = [sys.executable, "-m", "ecmproto_cli", *shlex.split(found[1])]
    device = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert device.stderr is not None
    try:
        assert any(" ready: " in line for line in device.stderr)
        yield
    finally:
        device.terminate()
        device.communicate(timeout=PATIENCE_S)


@contextmanager
def bridge(ports: Network) -> Iterator[None]:
    """Join the ports by a Linux bridge."""
    ports.ip("link add name bridge type bridge")
    for name in ("bridge", *PORTS):
        ports.ip(f"link set {name} addrgenmode none")
        ports.ip(f"link set {name} arp off up")
    for port in PORTS:
        ports.ip(f"link set {port} master bridge")
    yield
    ports.ip("link del bridge")


def verdicts(page: str, folder: Path) -> dict[str, str]:
    """Run the tests of a page; return the outcome of each, with the message of a failure."""
    found = MODULE.search(page)
    assert found is not None
    path, junit = folder / found[1], folder / "junit.xml"
    path.write_text(found[2])
    words = ["-p", "no:cacheprovider", "-p", "no:xdist", "--near", "near", "--far", "far"]
    words += ["--rootdir", str(folder), "--junit-xml", str(junit), "-o", "addopts=", str(path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=folder, env=os.environ,
    )  # fmt: skip
    assert junit.exists(), done.stdout + done.stderr
    return {
        case.attrib["name"]: "".join(
            f"failed: {each.attrib['message']} {each.text}"
            for each in case
            if each.tag in ("failure", "error")
        )
        or "passed"
        for case in ElementTree.parse(junit).getroot().iter("testcase")
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.parametrize("device", [pytest.param("software", marks=pytest.mark.alone), "bridge"])
def test_recipe_verdicts_equal_those_on_its_page(
    ports: Network, tmp_path: Path, page: Path, device: str
) -> None:
    text = page.read_text(encoding="utf-8")
    expected = {name: (own, other) for name, own, other in ROW.findall(text)}
    with software(text) if device == "software" else bridge(ports):
        found = verdicts(text, tmp_path)
    assert found.keys() == expected.keys()
    for name, shown in expected.items():
        outcome, _, message = shown[device == "bridge"].partition(": ")
        assert found[name].startswith(outcome), found[name]
        assert message in found[name]
