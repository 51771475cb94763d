"""DCBX together with a real LLDP agent, which sends and receives the TLVs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ecmproto.frames.capture import Batch
from ecmproto.frames.stats import Accumulator
from ecmproto.tools.craft import build
from ecmproto.wire.codec import Frame, Layer, decode, encode
from ecmproto.wire.formats.dcbx import (
    CEE,
    CEEPFC,
    Application,
    Applications,
    CEEApplication,
    CEEApplications,
    ETSConfiguration,
    PFCConfiguration,
)
from tests.live.lldpd import Agent, lldpd
from tests.live.wires import Socket, wires
from tests.namespaces import PATIENCE_S

LLDP = b"\x88\xcc"
QAZ: tuple[tuple[Layer, ...], ...] = (
    (ETSConfiguration(per0=60, per3=40, prio3=3, tsa0=2, tsa3=2),),
    (PFCConfiguration(willing=1, enable=8),),
    (Applications(), Application(priority=3, protocol=4791)),
)
OF_CEE: tuple[Layer, ...] = (
    CEE(), CEEPFC(willing=1, enable=8), CEEApplications(), CEEApplication(protocol=0x8906, priorities=8)
)  # fmt: skip


class Link(NamedTuple):
    """A link whose far end has the agent."""

    near: Socket
    agent: Agent

    def heard(self, *formats: type[Layer]) -> bytes:
        """Return the agent's next LLDP frame with all of some formats."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            octets = self.near.recv(2000)
            if octets[12:14] == LLDP and all(cls in decode(octets) for cls in formats):
                return octets
        raise AssertionError(formats)


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    with wires(tmp_path) as wired:
        wired.pair("net")
        with wired.socket("net") as near, lldpd(wired.name, "net-far") as agent:
            yield Link(near, agent)


def carried(tlv: tuple[Layer, ...]) -> tuple[bytes, int, bytes]:
    """The OUI, subtype and information of a TLV."""
    octets = b"".join(value.build() for value in built(tlv).layers)
    return octets[2:5], octets[5], octets[6:]


def built(tlv: tuple[Layer, ...]) -> Frame:
    frame = decode(encode(*build("lldp").layers[:4], *tlv))
    return Frame(layers=frame.layers[4 : 4 + len(tlv)])


def test_tlvs_sent_by_lldpd_are_decoded(link: Link) -> None:
    for tlv in (*QAZ, OF_CEE):
        link.agent.carry(*carried(tlv))
    octets = link.heard(ETSConfiguration, PFCConfiguration, Application, CEEPFC, CEEApplication)
    counts = Accumulator()
    counts.add(Batch.from_frames([octets]))
    (one,) = counts.result().neighbours
    assert one.dialects == ("802.1Qaz", "CEE")
    assert (one.pfc_text, one.ets_text) == ("3, willing", "0-2,4-7 60 %; 3 40 %")
    assert one.applications_text == "udp port 4791: 3; port 35078: 3"
    assert decode(octets).error is None
    assert encode(decode(octets)) == octets


def test_lldpd_accepts_crafted_tlvs(link: Link) -> None:
    link.heard()
    sent = encode(build("lldppfc enable=8 willing=1 lldpapp lldpapp.entry priority=3 protocol=4791"))
    deadline = time.monotonic() + PATIENCE_S
    while not link.agent.neighbour():
        assert time.monotonic() < deadline
        link.near.send(sent)
        time.sleep(0.1)
    tlvs = link.agent.neighbour()["unknown-tlvs"]["unknown-tlv"]
    assert [(each["oui"], each["subtype"], each["value"]) for each in tlvs] == [
        ("00,80,C2", "11", "88,08"), ("00,80,C2", "12", "00,63,12,B7")
    ]  # fmt: skip
