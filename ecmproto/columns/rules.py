"""What the walk over frames knows of a format besides its schema: what it refuses and what follows it.

The formats say this in Python (`Layer.check`, `Layer.following`), which kernels cannot call.  A format whose
methods are its own and that stands in no table here is no worse off than slow: the one-frame decoder walks
the frames that have it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from ecmproto.formats.base import Layer
from ecmproto.formats.cn import CNM, MAX_MSDU
from ecmproto.formats.ethernet import SLL, SLL2, SNAP
from ecmproto.formats.experimental import MIN_SAMPLED_OCTETS, Proposed, Sampling
from ecmproto.formats.ip import AH, EXTENSIONS, TCP, UDP, FragmentHeader, IPv4, IPv6
from ecmproto.formats.lldp import TLV, CongestionNotificationTLV
from ecmproto.formats.registry import FORMATS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """The field ``key`` is in ``low`` to ``high``."""

    key: str
    low: int
    high: int


WITHIN: Mapping[type[Layer], tuple[Within, ...]] = {
    CNM: (Within(key="msdu_length", low=0, high=MAX_MSDU),),
    IPv4: (Within(key="version", low=4, high=4), Within(key="ihl", low=5, high=15)),
    IPv6: (Within(key="version", low=6, high=6),),
    AH: (Within(key="length", low=1, high=255),),
    TCP: (Within(key="data_offset", low=5, high=15),),
    CongestionNotificationTLV: (Within(key="length", low=6, high=6),),
}
"""What formats refuse, in the order in which they look."""

LEAST_SAMPLE: Mapping[type[Layer], int] = dict.fromkeys(
    (cls for cls in FORMATS if issubclass(cls, Sampling)), MIN_SAMPLED_OCTETS
)
"""The least octets of the variable field on the wire, where there is to be one."""

NOTHING, ANNOUNCED, DATA, COOKED, IPV4, IPV6, EXTENSION, FRAGMENT, TLVS, CN_TLV, SNAPPED, UNKNOWN = range(12)
"""What may follow a format; IPV4 also stands for the check of its total length."""

FOLLOWED: Final[Mapping[type[Layer], int]] = {
    SLL: COOKED, SLL2: COOKED, IPv4: IPV4, IPv6: IPV6, TCP: DATA, UDP: DATA, TLV: TLVS,
    CongestionNotificationTLV: CN_TLV, **dict.fromkeys(EXTENSIONS.values(), EXTENSION),
    FragmentHeader: FRAGMENT, SNAP: SNAPPED,
}  # fmt: skip


def followed_by(cls: type[Layer]) -> int:
    """Return what may follow a format; UNKNOWN where only its own methods know."""
    if cls.check is not Layer.check and cls not in WITHIN and cls not in LEAST_SAMPLE:
        return UNKNOWN
    if cls.otherwise is not None and not issubclass(cls, Proposed):
        return UNKNOWN
    if cls in FOLLOWED:
        return FOLLOWED[cls]
    if cls.following is not Layer.following:
        return UNKNOWN
    return ANNOUNCED if cls.next_key else NOTHING
