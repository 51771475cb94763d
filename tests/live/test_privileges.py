"""Dropping root privileges: devices work without root afterwards, and cannot regain root."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ecmproto.control.mechanisms.pause.congestion_point import Signal
from ecmproto.control.mechanisms.pause.messages import pause_frame
from ecmproto_cli.main import run
from tests.live.test_reaction_point import cnm
from tests.live.virtual import HOST, frame
from tests.live.wires import Wires, all_received, until, wires
from tests.namespaces import PATIENCE_S

RECEIVER = 250
WATCHED = """
import os, sys
given_up = []
change = os.setresuid

def setresuid(*numbers):
    change(*numbers)
    given_up.append(True)

def watch(event, arguments):
    loads = event == "import" and arguments[0] not in sys.modules
    if given_up and (loads or event in ("open", "os.listdir")):
        os.write(2, f"LOADED {event} {arguments[0]}\\n".encode())

os.setresuid = setresuid
sys.addaudithook(watch)
from ecmproto_cli.main import main
main()
"""
LLDP = (
    bytes.fromhex("0180c200000e") + HOST + bytes.fromhex("77 88cc 0207 04020000000077 0403 077777 0602 0078")
).ljust(60, b"\0")
TYPES = ("88b50700", "88b50100", "88b50010", "88b60001", "89e90000", "86dd6000", "08004500")


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wires]:
    with wires(tmp_path) as made:
        yield made


def frames_of_all_kinds(end: int) -> list[bytes]:
    """Return frames that may come to a device from the hosts, where ``end`` is 0, and from the network."""
    sender, receiver = (1, RECEIVER) if end == 0 else (RECEIVER, 1)
    kinds = [frame(sender, receiver, 1400, number=n) for n in range(40)]
    kinds += [frame(sender, receiver, 300, head="81006005"), cnm(40, flow_id=3), LLDP]
    kinds += [pause_frame(Signal(enabled, 30), src=HOST + b"\xfa") for enabled in (0xFF, 1)]
    kinds += [HOST + b"\x01" + HOST + b"\x77" + bytes.fromhex(head).ljust(60, b"\0") for head in TYPES]
    return kinds


def metrics(wired: Wires) -> str:
    """Return the contents of the device's endpoint."""
    fetch = "from urllib.request import urlopen; print(urlopen('http://127.0.0.1:9177/').read().decode())"
    return subprocess.run(
        ["ip", "netns", "exec", wired.name, sys.executable, "-c", fetch],
        stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S,
    ).stdout  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        "cp --in a --out b --rate 5M --mechanism dbp --flow-control pfc -T ndjson",
        "cp --in a --out b --rate 5M --mechanism qcn",
        "rp --host a --net b --mechanism e2cm --speed 50M -T ndjson --vlan 5",
        "edge --host a --net b --mechanism qcn --set edge.cnpv=3 -T ndjson",
        "edge --host a --net b --mechanism e2cm --vlan 5",
    ],
)
def test_nothing_is_loaded_once_root_is_given_up(wired: Wires, words: str) -> None:
    """A virtual environment in a home folder that only its owner may read is unusable for other users."""
    for name in ("a", "b"):
        wired.pair(name)
    wired.ip("link", "set", "dev", "lo", "up")
    more = ["--user", "nobody", "--seed", "1", "--prometheus", "9177"]
    program = wired.start(*words.split(), *more, python=["-c", WATCHED])
    with wired.socket("a-far") as one, wired.socket("b-far") as two:
        for _ in range(3):
            for end, sock in enumerate((one, two)):
                for octets in frames_of_all_kinds(end):
                    sock.send(octets)
            all_received(two, silence_s=0.3)
    assert 'ecmproto_link_gone{interface="a"} 0.0' in metrics(wired)
    wired.ip("link", "del", "dev", "a")
    # The device searches for an interface immediately after it disappears.
    until(lambda: 'ecmproto_link_gone{interface="a"} 1.0' in metrics(wired))
    program.terminate()
    out, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, err
    assert out
    assert "LOADED" not in err


def test_a_device_keeps_no_root_privileges(wired: Wires) -> None:
    for name in ("a", "b"):
        wired.pair(name)
    program = wired.start("cp", "--in", "a", "--out", "b", "--speed", "1G", "--user", "nobody")
    lines = Path(f"/proc/{program.pid}/status").read_text(encoding="ascii").splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    assert {int(status[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert status["NoNewPrivs"] == "1"
    nobody = pwd.getpwnam("nobody")
    assert status["Uid"].split() == [str(nobody.pw_uid)] * 4
    assert status["Gid"].split() == [str(nobody.pw_gid)] * 4
    assert not status["Groups"].split()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to open packet sockets")
def test_an_unknown_user_is_refused_before_compiling(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["live", "cp", "--in", "lo", "--out", "no-such-interface", "--speed", "1M", "--user", "nobdy"]
    assert run(words) == 2
    assert "user: expected a user of this system, got 'nobdy'" in capsys.readouterr().err
