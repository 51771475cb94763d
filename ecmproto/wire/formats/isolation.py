"""Congestion isolation message (CIM), after IEEE 802.1Qcz.

The text of the standard was not at hand. All octets and numbers are choices of this project (wire-formats
7.2).
"""

from __future__ import annotations

from ecmproto.wire.formats.base import layer
from ecmproto.wire.formats.experimental import DEFAULT_CPID, Sampling, selector
from ecmproto.wire.formats.schema import CPID, REST, octets, uint
from ecmproto.wire.formats.summary import Summary

_CHOICE = "wire-formats 7.2 (choice)"


@layer("cim", title="Congestion isolation message (CIM)", source=_CHOICE, protocol=6)
class CIM(Sampling):
    """Message to the neighbour upstream, which isolates the flow of the sampled frame too.

    The destination address is the source of the sampled frame. The first device on the way that isolates
    flows consumes the message.
    """

    cpid: CPID = uint(
        64, default=DEFAULT_CPID, kind="cpid", base="hex",
        doc="congestion isolation point: MAC of the port and number of the queue",
    )  # fmt: skip
    priority: int = uint(3, default=0, doc="priority of the flow")
    queue: int = uint(3, default=0, doc="queue of the isolated flow")
    reserved2: int = uint(10, default=0, doc="0")
    payload: bytes = octets(REST, default=b"", doc="the sampled frame's first octets, from its DA")
    counted_as = "CIM"
    summary = Summary(label="CIM", detail_first=True, detail="priority {priority} queue {queue} {:cpid}")
    announced_by = "message"
    selected_by = (selector(6, 0),)
    showing = (0,)
