"""The pytest plugin: a test file that runs through a bridge, and fails if the device fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.namespaces import FAR, NEAR, PATIENCE_S, Network

OTHER, DISTANT = "other", "distant"
TESTS = """
import pytest


def test_frames_are_forwarded(capture, send):
    with capture() as captured:
        send("eth dst=02:00:00:00:00:07 ip udp dstport=9", count=20)
    assert captured.count("udp.dstport == 9") == 20


def test_a_storm_holds(storm, send):
    with storm("pfc prio3=65535", speed="100M"):
        assert send("cnm qntz_fb=40", count=5).frames == 5


def test_pauses_are_not_forwarded(storm):
    with storm("pfc prio3=65535", speed="100M", at="distant"):
        pass


@pytest.mark.interfaces(far="nowhere")
def test_an_interface_that_is_missing(capture):
    with capture():
        pass


def test_rules(capture, send, check):
    with capture() as captured:
        send("eth dst=02:00:00:00:00:09 cnm qntz_fb=40 version=1", count=1)
    check(captured, "QCN")


def test_a_sequence(expect):
    expect("cnd-boundary", settle="10ms", rate="1000pps")
"""


@pytest.fixture
def bridge(veth: Network) -> Network:
    """A Linux bridge between the near and the distant interface."""
    veth.ip(f"link add name {OTHER} type veth peer name {DISTANT}")
    veth.ip("link add name bridge type bridge")
    for name in (OTHER, DISTANT, "bridge"):
        veth.ip(f"link set {name} addrgenmode none")
        veth.ip(f"link set {name} arp off up")
    for name in (FAR, OTHER):
        veth.ip(f"link set {name} master bridge")
    return veth


def test_a_file_of_tests_runs_through_a_bridge(bridge: Network, tmp_path: Path) -> None:
    path, junit = tmp_path / "test_switch.py", tmp_path / "junit.xml"
    path.write_text(TESTS)
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "no:ecmproto", "-p", "ecmproto.tools.testing.plugin",
            "-p", "no:cacheprovider", "-q", "--near", NEAR, "--far", DISTANT, "--ecmproto-seed", "5",
            "--rootdir", str(tmp_path), "--junit-xml", str(junit), "-o", "junit_family=xunit1", str(path),
        ],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=tmp_path,
    )  # fmt: skip
    cases = {case.attrib["name"]: case for case in ElementTree.parse(junit).getroot().iter("testcase")}
    failures = {
        name: found.attrib["message"]
        for name, case in cases.items()
        for found in case.iter()
        if found.tag in ("failure", "error")
    }
    assert set(failures) == {
        "test_pauses_are_not_forwarded", "test_an_interface_that_is_missing", "test_rules", "test_a_sequence",
    }, done.stdout  # fmt: skip
    assert "no frame came that pauses it" in failures["test_pauses_are_not_forwarded"]
    assert "nowhere" in failures["test_an_interface_that_is_missing"]
    assert "QCN0" in failures["test_rules"]
    assert "frame 1: " in failures["test_rules"]
    assert "CN-TAG" in failures["test_a_sequence"], "a bridge does not strip it"
    properties = {each.attrib["name"]: each.attrib["value"] for each in cases["test_rules"].iter("property")}
    assert properties.keys() == {"ecmproto", "seed", "interface near", "interface far"}
    assert (properties["seed"], properties["interface far"]) == ("5", DISTANT)
