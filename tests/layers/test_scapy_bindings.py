"""Bindings of Scapy layers are explicit, repeatable and reversible."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from scapy.config import conf
from scapy.layers.inet import IP
from scapy.layers.l2 import ARP, GRE, LLC, SNAP, CookedLinux, Dot1AD, Dot1AH, Dot1Q, Dot3, Ether
from scapy.packet import Packet, Raw

from ecmproto.wire.codec import VLAN, EtherTypes, decode
from ecmproto.wire.layers import (
    CNM,
    ECM,
    PFC,
    CMTag,
    CNTag,
    LLDPCongestionNotification,
    bind,
    bound,
    bound_ethertypes,
    unbind,
)
from ecmproto.wire.layers.bindings import LAYERS

SCAPYS: tuple[type[Packet], ...] = (
    Ether,
    Dot1Q,
    Dot1AD,
    Dot1AH,
    Dot3,
    LLC,
    SNAP,
    GRE,
    CookedLinux,
    ARP,
    IP,
    Raw,
    Packet,
)
OTHER = EtherTypes(
    c_tag=0x9200, s_tag=0x9201, i_tag=0x9202, cn_tag=0x9203, cnm=0x9204, mac_control=0x9205, lldp=0x9206,
    message=0x9207, tag=0x9208,
)  # fmt: skip


def tables() -> list[Any]:
    """Everything of Scapy's that binding could change, by value."""
    classes: list[type[Packet]] = [*SCAPYS, *LAYERS.values()]
    return [
        [(cls, list(cls.payload_guess), dict(getattr(cls, "_overload_fields"))) for cls in classes],  # noqa: B009
        dict(conf.neighbor.resolvers),
    ]


@pytest.fixture(autouse=True)
def nothing_bound() -> None:
    assert bound_ethertypes() is None


def test_unbinding_restores_scapys_tables() -> None:
    before = tables()
    bind()
    assert tables() != before
    unbind()
    assert tables() == before


def test_binding_and_unbinding_are_idempotent() -> None:
    before = tables()
    unbind()
    assert tables() == before
    bind()
    once = tables()
    bind()
    assert tables() == once
    unbind()
    unbind()
    assert tables() == before


def test_binding_another_map_replaces_the_first() -> None:
    before = tables()
    bind()
    first = tables()
    bind(OTHER)
    assert bound_ethertypes() == OTHER
    bind()
    assert tables() == first
    unbind()
    assert tables() == before


def test_a_changed_map_is_honoured_building_and_dissecting() -> None:
    packets = [
        Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / layers
        for layers in (
            Dot1Q() / CNTag() / CNM(), Dot1AD() / Dot1Q() / ECM(sample=bytes(24)), PFC(),
            LLDPCongestionNotification(), CMTag() / IP(src="10.0.0.1", dst="10.0.0.2"),
            Dot1AD() / Dot1AH() / Ether(dst="02:00:00:00:00:04", src="02:00:00:00:00:03") / CNTag() / PFC(),
        )
    ]  # fmt: skip
    with bound(OTHER):
        for packet in packets:
            rebuilt = eval(packet.command())
            octets = bytes(rebuilt)
            assert octets[12] == 0x92
            assert Ether(octets).layers() == packet.layers()
            values = decode(octets, ethertypes=OTHER).layers
            assert all(type(value).__name__ != "Data" for value in values)
    assert Ether(octets).layers() == [Ether, Raw]


def test_old_service_tag_is_read_as_vlan_tag() -> None:
    octets = bytes.fromhex("020000000002020000000001" + "91006005" + "81000007" + "22e90001" + "0000")
    with bound():
        assert Ether(octets).layers() == [Ether, Dot1Q, Dot1Q, CNTag]
    assert VLAN in decode(octets)


def test_a_binding_made_meanwhile_survives() -> None:
    before = list(Ether.payload_guess)
    mine = ({"type": 0x4242}, Raw)
    bind()
    Ether.payload_guess = [*Ether.payload_guess, mine]
    unbind()
    assert Ether.payload_guess == [*before, mine]
    Ether.payload_guess = before


def test_bound_restores_previous_bindings() -> None:
    with bound():
        inside = tables()
        with bound(OTHER):
            assert bound_ethertypes() == OTHER
        assert tables() == inside
        with bound():
            assert tables() == inside
        assert tables() == inside
    with pytest.raises(ZeroDivisionError), bound():
        _ = 1 / 0
    assert bound_ethertypes() is None


def run(code: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_importing_binds_nothing() -> None:
    run(
        "from scapy.config import conf; conf.route_autoload = conf.route6_autoload = False\n"
        "from scapy.layers.l2 import Ether, Dot1Q, Dot1AD, conf\n"
        "def seen(): return [(c.payload_guess, c._overload_fields) for c in (Ether, Dot1Q, Dot1AD)], "
        "dict(conf.neighbor.resolvers)\n"
        "before = seen()\n"
        "import ecmproto.wire.layers\n"
        "assert seen() == before\n"
    )


def test_importing_reads_no_routes_or_contribs() -> None:
    run(
        "import ecmproto.wire.layers, sys\n"
        "from scapy.config import conf\n"
        "assert conf.route.routes == [], conf.route\n"
        "loaded = [m for m in sys.modules if m == 'scapy.all' or m.startswith('scapy.contrib')]\n"
        "assert not loaded, loaded\n"
    )


def test_settings_of_a_loaded_scapy_are_kept() -> None:
    run(
        "from scapy.config import conf\n"
        "import scapy.route\n"
        "import ecmproto.wire.layers\n"
        "assert conf.route_autoload and conf.route6_autoload\n"
    )


def test_contrib_bindings_come_second_and_are_restored() -> None:
    run(
        "import ecmproto.wire.layers as ours\n"
        "ours.bind()\n"
        "import scapy.contrib.lldp as lldp, scapy.contrib.mac_control as mac\n"
        "from scapy.layers.l2 import Ether, Dot1Q\n"
        "frame = bytes(Ether(dst=b'\\2'*6, src=b'\\2'*6)/ours.PFC.pausing({3: 9})) + bytes(26)\n"
        "tagged = bytes(Ether(dst=b'\\2'*6, src=b'\\2'*6)/Dot1Q()/ours.LLDPTLV()) + bytes(40)\n"
        "for again in range(2):\n"
        "    assert Ether(frame)[ours.PFC].time3 == 9\n"
        "    assert ours.LLDPTLV in Ether(tagged)\n"
        "    ours.unbind()\n"
        "    assert mac.MACControl in Ether(frame) and ours.PFC not in Ether(frame)\n"
        "    ours.bind()\n"
    )
