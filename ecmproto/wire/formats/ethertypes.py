"""The map of EtherTypes to formats: the defaults of wire-formats 1, all of them changeable."""

from __future__ import annotations

import dataclasses
import functools

from ecmproto.errors import ParameterError
from ecmproto.values import dataclass

MAX_LENGTH = 1500
"""The maximum EtherType/length value that is an 802.3 length (802.3 3.2.6)."""

OFF = -2
"""The value of a role without an assigned EtherType, whose format is not decoded."""

_UNCHANGEABLE = {0x0800: "IPv4", 0x0806: "ARP", 0x86DD: "IPv6"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EtherTypes:
    """The EtherType map that every function which encodes or decodes accepts.

    Each value is in 0x0600..0xFFFF, no two roles may share one, and IPv4, IPv6 and ARP keep theirs;
    ParameterError otherwise.  A role that is OFF by default has none until it is given one.
    """

    c_tag: int = 0x8100
    """Customer VLAN tag (802.1Q)."""
    s_tag: int = 0x88A8
    """Service VLAN tag (802.1Q, provider bridging)."""
    old_s_tag: int = 0x9100
    """Service VLAN tag before 0x88A8 was assigned; read like a C-TAG."""
    i_tag: int = 0x88E7
    """Backbone service instance tag (802.1Q, PBB)."""
    cn_tag: int = 0x22E9
    """Congestion notification tag (802.1Q)."""
    cnm: int = 0x22E7
    """Congestion notification message (802.1Q)."""
    mac_control: int = 0x8808
    """MAC Control: PAUSE and PFC (802.3)."""
    lldp: int = 0x88CC
    """Link layer discovery (802.1AB)."""
    message: int = 0x88B5
    """Messages of ECM, BCN, E²CM, FECN and DBP: local experimental 1 (this project's choice)."""
    tag: int = 0x88B6
    """CM-Tag, RRT tag and RD tag: local experimental 2 (this project's choice)."""
    csig: int = OFF
    """CSIG's compact tag (draft-ravi-ippm-csig), without an assigned one; some switches use 0x9900."""
    key_frame: int = OFF
    """Key frames of the Arista 7150; it sends them with 0x88B5 unless it is set to another one."""

    def __post_init__(self) -> None:
        roles = dict(_UNCHANGEABLE)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is OFF and field.default is OFF:
                continue
            if not isinstance(value, int) or not 0x0600 <= value <= 0xFFFF:
                raise ParameterError(
                    name=f"ethertype {field.name}", needed="0x0600..0xffff", got=_shown(value)
                )
            if value in roles:
                raise ParameterError(
                    name=f"ethertype {field.name}",
                    needed="a value no other role has",
                    got=f"{value:#06x}, which is {roles[value]}'s",
                )
            roles[value] = field.name

    def __reduce__(self) -> str | tuple[object, ...]:
        # in another process the default is the default itself too, so that its identity can be compared
        return (
            "DEFAULT" if self is DEFAULT else (functools.partial(EtherTypes, **dataclasses.asdict(self)), ())
        )


def _shown(value: object) -> str:
    return f"{value:#06x}" if isinstance(value, int) else repr(value)


DEFAULT = EtherTypes()
"""The map of wire-formats 1."""
