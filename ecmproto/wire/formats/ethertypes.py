"""Map of EtherTypes to formats. The defaults are in wire-formats 1, and each EtherType can be changed."""

from __future__ import annotations

import dataclasses
import functools

from ecmproto.errors import ParameterError
from ecmproto.values import dataclass

MAX_LENGTH = 1500
"""Maximum value of the EtherType/length field that is an 802.3 length (802.3 3.2.6)."""

OFF = -2
"""Value for a format without an EtherType; the format is not decoded."""

_UNCHANGEABLE = {0x0800: "IPv4", 0x0806: "ARP", 0x86DD: "IPv6"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EtherTypes:
    """EtherType map for encoding and decoding.

    Each value is in 0x0600..0xFFFF, and no two attributes may have the same value. The EtherTypes of IPv4,
    IPv6 and ARP are reserved. Raises ParameterError for other values. Formats whose default is OFF are not
    decoded until an EtherType is set.
    """

    c_tag: int = 0x8100
    """EtherType of the customer VLAN tag (802.1Q)."""
    s_tag: int = 0x88A8
    """EtherType of the service VLAN tag (802.1Q, provider bridging)."""
    old_s_tag: int = 0x9100
    """EtherType of service VLAN tags before 0x88A8 was assigned. Such a tag is decoded like a C-TAG."""
    i_tag: int = 0x88E7
    """EtherType of the backbone service instance tag (802.1Q, PBB)."""
    cn_tag: int = 0x22E9
    """EtherType of the congestion notification tag (802.1Q)."""
    cnm: int = 0x22E7
    """EtherType of the congestion notification message (802.1Q)."""
    mac_control: int = 0x8808
    """EtherType of MAC Control, which includes PAUSE and PFC (802.3)."""
    lldp: int = 0x88CC
    """EtherType of the link layer discovery protocol (802.1AB)."""
    message: int = 0x88B5
    """EtherType of ECM, BCN, E²CM, FECN and DBP messages: local experimental 1 (this project's choice)."""
    tag: int = 0x88B6
    """EtherType of the CM-Tag, RRT tag and RD tag: local experimental 2 (this project's choice)."""
    csig: int = OFF
    """EtherType of CSIG's compact tag (draft-ravi-ippm-csig). Some switches use 0x9900."""
    key_frame: int = OFF
    """EtherType of the Arista 7150's key frames. The switch sends key frames with 0x88B5 by default."""

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
        # unpickling the default map returns the default map itself, so that identities can be compared
        return (
            "DEFAULT" if self is DEFAULT else (functools.partial(EtherTypes, **dataclasses.asdict(self)), ())
        )


def _shown(value: object) -> str:
    return f"{value:#06x}" if isinstance(value, int) else repr(value)


DEFAULT = EtherTypes()
"""Default map (wire-formats 1)."""
