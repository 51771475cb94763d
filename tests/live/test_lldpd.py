"""The edge of a host with a real LLDP agent: the edge and the agent react to each other's announcements."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ecmproto.control.mechanisms.qcn.parameters import DefenceMode
from ecmproto.tools.fuzz.checks.tshark import Sample, write_pcap
from ecmproto.wire.codec import VLAN, CNTag, Ethernet, Frame, decode
from tests.live.lldpd import Agent, lldpd
from tests.live.virtual import HOST, frame
from tests.live.wires import Wires, all_received, wires, with_tag
from tests.namespaces import PATIENCE_S
from tests.replay.many_kinds import TAGS

RECEIVER = 250
EDGE_MAC = "02:00:00:00:00:ee"
PRIORITY = 3
MASK = 1 << PRIORITY
ALTERNATE = 2
TO_HOST = frame(1, RECEIVER, head=f"8100 {PRIORITY << 13 | 5:04x} {TAGS['qcn']}")
FROM_HOST = frame(RECEIVER, 1, head=f"8100 {PRIORITY << 13 | 5:04x}")
MODES = {
    (ALTERNATE, False): DefenceMode.EDGE,
    (PRIORITY, False): DefenceMode.INTERIOR,
    (PRIORITY, True): DefenceMode.INTERIOR_READY,
}
"""Effects of each mode on the priority of received frames and on the CN-TAG of sent frames (802.1Q 33.2)."""


class Port(NamedTuple):
    """An edge between what a test sends and gets on the side of the network, and a host with lldpd."""

    net: socket.socket
    host: socket.socket
    agent: Agent

    def mode(self) -> DefenceMode | None:
        """Return the mode according to the observed effects on frames, or None if the mode changed during the
        observation.
        """
        self.net.send(TO_HOST)
        out = self._next(self.host, RECEIVER)
        self.host.send(FROM_HOST)
        into = self._next(self.net, 1)
        return MODES.get((into[VLAN].priority, CNTag in out))

    @staticmethod
    def _next(sock: socket.socket, number: int) -> Frame:
        while True:
            got = decode(with_tag(sock))
            if got[Ethernet].dst == HOST + bytes([number]):
                return got

    def becomes(self, mode: DefenceMode) -> bool:
        """Return whether the port changes to this mode before the timeout."""
        deadline = time.monotonic() + PATIENCE_S
        while self.mode() is not mode:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


@pytest.fixture
def port(tmp_path: Path) -> Iterator[Port]:
    with wires(tmp_path / "net") as net, wires(tmp_path / "host") as host:
        net.pair("net")
        net.pair("host")
        net.ip("link", "set", "dev", "host-far", "netns", host.name)
        host.ip("link", "set", "dev", "host-far", "arp", "off", "up")
        with lldpd(host.name, "host-far") as agent:
            _start(net)
            with net.socket("net-far") as before, host.socket("host-far") as behind:
                yield Port(before, behind, agent)


def _start(wired: Wires) -> None:
    wired.start(
        "edge", "--net", "net", "--host", "host", "--mac", EDGE_MAC, "--mechanism", "qcn",
        "--set", f"edge.cnpv={PRIORITY}", "-T", "ndjson", "--seed", "1",
    )  # fmt: skip


def test_the_mode_follows_the_hosts_announcement(port: Port) -> None:
    assert port.becomes(DefenceMode.EDGE)
    for cnpv, ready, mode in (
        (MASK, 0, DefenceMode.INTERIOR),
        (MASK, MASK, DefenceMode.INTERIOR_READY),
        (MASK << 1, MASK << 1, DefenceMode.EDGE),
        (0xFF, 0xFF, DefenceMode.INTERIOR_READY),
    ):
        port.agent.announce(cnpv, ready)
        assert port.becomes(mode)
        said = port.agent.sent_frames()
        while port.agent.sent_frames() < said + 2:
            time.sleep(0.1)
        assert port.mode() is mode


@pytest.mark.parametrize("how", [Agent.withdraw, Agent.end, Agent.kill])
def test_withdrawn_or_expired_announcements_end_the_mode(port: Port, how: Callable[[Agent], None]) -> None:
    port.agent.announce(MASK, MASK)
    assert port.becomes(DefenceMode.INTERIOR_READY)
    how(port.agent)
    assert port.becomes(DefenceMode.EDGE)


def neighbour(agent: Agent, value: str) -> dict[str, object]:
    """Return the agent's information once the edge has announced ``value``."""
    deadline = time.monotonic() + PATIENCE_S
    while agent.neighbour().get("unknown-tlvs", {}).get("unknown-tlv", {}).get("value") != value:
        assert time.monotonic() < deadline, agent.neighbour()
        time.sleep(0.1)
    return agent.neighbour()


def test_lldpd_decodes_the_edges_lldp(port: Port) -> None:
    for ready in (0, MASK):
        port.agent.announce(ready, ready)
        known = neighbour(port.agent, f"{MASK:02X},{ready:02X}")
        assert known["chassis"] == {"id": {"type": "mac", "value": EDGE_MAC}}
        assert known["port"] == {"id": {"type": "local", "value": "host"}, "ttl": "120"}
        assert known["unknown-tlvs"] == {
            "unknown-tlv": {"oui": "00,80,C2", "subtype": "8", "len": "2", "value": f"{MASK:02X},{ready:02X}"}
        }
    statistics = port.agent.ask("show", "statistics")
    assert statistics["rx_discarded_cnt"] == {"rx_discarded_cnt": "0"}


def test_tshark_decodes_the_edges_lldp(port: Port, tshark: str, tmp_path: Path) -> None:
    port.agent.announce(MASK, MASK)
    neighbour(port.agent, f"{MASK:02X},{MASK:02X}")
    said = [octets for octets in all_received(port.host) if octets[12:14] == b"\x88\xcc"]
    capture = tmp_path / "said.pcap"
    write_pcap(capture, [Sample(where="edge", octets=octets, original=len(octets)) for octets in said])
    masks = [f"lldp.ieee.802_1qau.{which}.prio{p}" for which in ("cnpv", "ready") for p in range(8)]
    columns = ["eth.src", "lldp.chassis.id.mac", "lldp.port.id", "lldp.time_to_live", *masks, "_ws.malformed"]
    words = [word for column in columns for word in ("-e", column)]
    shown = subprocess.run(
        [tshark, "-r", str(capture), "-T", "fields", "-E", "separator=,", *words],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    only = ",".join("1" if p == PRIORITY else "0" for p in range(8))
    assert shown.stdout.splitlines()[-1] == f"{EDGE_MAC},{EDGE_MAC},host,120,{only},{only},"
