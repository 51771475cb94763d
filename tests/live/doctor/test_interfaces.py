"""Findings about interfaces and their settings."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ecmproto.control.live import doctor
from ecmproto.control.live.doctor import Diagnosis, examine, mended, of_neighbours
from ecmproto.errors import InterfaceError
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux import interface
from ecmproto.frames.capture.linux.interface import interface_facts
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from tests.capture.linux.traffic import frame, received, send
from tests.namespaces import FAR, NEAR, Network


def found(name: str) -> dict[str, Diagnosis]:
    return {check.name: check for check in examine([name]) if check.subject == name}


def test_findings_of_a_veth_include_commands(veth: Network) -> None:
    checks = found(NEAR)
    assert checks["link"].state == "ok"
    assert checks["link"].text == "up, 10 Gb/s (veth)"
    assert checks["mtu"].text == (
        "MTU 1500: 1500 octets, a VLAN tag and our longest tag need 1556; frames go without tags"
    )
    assert checks["mtu"].commands == ("ip link set dev near mtu 1600",)
    assert checks["tso"].commands == ("ethtool -K near tso off",)
    assert {name for name, check in checks.items() if check.state == "finding"} == {"mtu", "tso", "gso", "tx"}
    assert checks["pause"].state == "ok"


def test_all_findings_of_a_veth_can_be_fixed(veth: Network) -> None:
    after = [mended(check) for check in found(NEAR).values()]
    assert {check.name for check in after if check.state == "fixed"} == {"mtu", "tso", "gso", "tx"}
    again = found(NEAR)
    assert {check.state for check in again.values()} <= {"ok", "note"}
    assert interface_facts(NEAR).mtu_octets == 1600
    assert found(FAR)["tso"].state == "finding", "the other end is another interface"


def test_the_longest_tagged_frame_passes_after_fixing(veth: Network) -> None:
    for name in (NEAR, FAR):
        for check in found(name).values():
            mended(check)
    longest = frame("8100600a88b6", 14 + doctor.PAYLOAD_OCTETS + doctor.TAG_OCTETS)
    with FrameReceiver(FAR) as receiver:
        send([longest], NEAR)
        assert received(receiver, 1) == [longest]


def test_default_mtu_drops_the_longest_tagged_frame(veth: Network) -> None:
    octets = 14 + doctor.PAYLOAD_OCTETS + doctor.TAG_OCTETS
    with FrameSender(NEAR) as sender:
        batch = Batch.from_frames([frame("8100600a88b6", octets)])
        sender.send(batch.buffer, batch.offset, batch.captured)
        assert (sender.sent, sender.refused) == (0, 1)


def test_offload_findings_agree_with_ethtool(veth: Network, needs: object) -> None:
    assert callable(needs)
    program = needs("ethtool")
    names = {
        "tso": "tcp-segmentation-offload",
        "gso": "generic-segmentation-offload",
        "rxvlan": "rx-vlan-offload",
    }
    names |= {"gro": "generic-receive-offload", "lro": "large-receive-offload", "tx": "tx-checksumming"}
    names |= {"rx": "rx-checksumming", "txvlan": "tx-vlan-offload"}
    for change in ("gro on", "tso off", "rxvlan off", "tx off"):
        subprocess.run([program, "-K", NEAR, *change.split()], check=True)
        told = subprocess.run([program, "-k", NEAR], check=True, capture_output=True, text=True).stdout
        lines = dict(line.split(": ", 1) for line in told.splitlines()[1:] if ": " in line)
        for offload in interface.OFFLOADS:
            assert interface.is_on(NEAR, offload) is lines[names[offload.keyword]].startswith("on")


def test_a_down_link_is_a_finding(veth: Network) -> None:
    veth.unplug(FAR)
    assert found(NEAR)["link"].text == "no link: no cable, or the other end is down"
    down = found(FAR)["link"]
    assert (down.state, down.commands) == ("finding", ("ip link set dev far up",))
    assert mended(down) == down, "not ours to do"


def test_all_interfaces_up_are_checked_by_default(veth: Network) -> None:
    assert {check.subject for check in examine()} == {"system", NEAR, FAR}
    veth.ip(f"link set {FAR} down")
    assert {check.subject for check in examine()} == {"system", NEAR}


def test_an_unknown_interface_is_an_error(veth: Network) -> None:
    with pytest.raises(InterfaceError, match="did you mean 'near'"):
        list(examine(["nera"]))


def test_missing_capability_is_reported_when_fixing(veth: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    checks = found(NEAR)
    monkeypatch.setattr("fcntl.ioctl", refuse)
    after = {name: mended(check) for name, check in checks.items()}
    assert after["mtu"].state == "finding"
    assert after["mtu"].refusal == "near: expected an MTU of 1600, got a process without CAP_NET_ADMIN"
    assert after["tso"].refusal == (
        "near: expected TCP segmentation offload off, got a process without CAP_NET_ADMIN"
    )


class Card:
    """Answers as the driver of a network card with flow control does."""

    def flow_control(self, name: str) -> interface.FlowControl:
        return interface.FlowControl(negotiated=True, receive=True, transmit=False)

    def driver_statistics(self, name: str) -> dict[str, int]:
        return {"rx_pause": 7, "tx_pause": 0, "rx_packets": 99, "rx_pfc_prio3": 2}

    def driver(self, name: str) -> str:
        return "ixgbe"


def test_pause_check_names_the_drivers_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("flow_control", "driver_statistics", "driver"):
        monkeypatch.setattr(doctor, name, getattr(Card(), name))
    (check,) = [check for check in doctor.of_interface(interface_facts("lo")) if check.name == "pause"]
    assert check.state == "note"
    assert check.text == (
        "PAUSE: obeyed on, sent off, negotiated on; network cards consume PAUSE and PFC frames, so no "
        "capture shows them; counters: rx_pause 7, rx_pfc_prio3 2"
    )
    assert check.commands == (
        "ethtool -S lo | grep -iE 'pause|pfc'",
        "dcb pfc show dev lo",
        "ethtool -A lo autoneg off rx off tx off",
    )


def test_missing_pause_counters_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, answer in (("flow_control", None), ("driver_statistics", {}), ("driver", None)):
        monkeypatch.setattr(doctor, name, lambda _, answer=answer: answer)
    (check,) = [check for check in doctor.of_interface(interface_facts("lo")) if check.name == "pause"]
    assert check.text.endswith("and the driver does not count them")


def test_counters_of_a_driver_are_read(veth: Network) -> None:
    counters = interface.driver_statistics(NEAR)
    index = int(subprocess.run(
        veth.command("cat", f"/sys/class/net/{FAR}/ifindex"), check=True, capture_output=True
    ).stdout)  # fmt: skip
    assert counters["peer_ifindex"] == index
    assert interface.driver(NEAR) == "veth"
    assert interface.speed_bps(NEAR) == 10**10
    assert interface.driver_statistics("lo") == {}


def test_the_neighbour_is_shown_from_lldp(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    line = "lldppfc enable=8 willing=1 lldpets per0=60 per3=40 prio3=3 tsa0=2 tsa3=2"
    with FrameSender(FAR) as sender, ThreadPoolExecutor() as pool:
        running = pool.submit(lambda: list(of_neighbours([NEAR], 60 * 10**9)))
        batch = Batch.from_frames([encode(build(line))])
        while not running.done():
            sender.send(batch.buffer, batch.offset, batch.captured)
            time.sleep(0.05)
    (check,) = running.result()
    assert (check.subject, check.name, check.state) == (NEAR, "neighbour", "ok")
    assert "PFC 3, willing" in check.text
    assert "ETS 0-2,4-7 60 %; 3 40 %" in check.text
    assert run(["doctor", "-i", NEAR, "--neighbours", "300ms"]) == 1
    assert "no LLDP from the other end in 300 ms" in capsys.readouterr().out
