"""Congestion notification of 802.1Q (802.1Qau, QCN): the CN-TAG and the message (CNM)."""

from __future__ import annotations

from ecmproto.wire.formats.base import Crafting, Feedback, Formats, Layer, Limit, layer
from ecmproto.wire.formats.ethernet import MSDU
from ecmproto.wire.formats.schema import CPID, Address, Count, mac, octets, sint, uint
from ecmproto.wire.formats.summary import First, Summary

CNM_PRIORITY = 6
"""Priority of a CNM (wire-formats 1.2)."""

MAX_MSDU = 64
"""Maximum length of a CNM's Encapsulated MSDU, in octets."""


@layer("cntag", title="Congestion notification tag (CN-TAG)", source="802.1Q clause 33; wire-formats 2")
class CNTag(Layer):
    """CN-TAG, which identifies the flow of a data frame. The tag has 4 octets and follows the VLAN tags."""

    flow_id: int = uint(
        16,
        default=0,
        doc="flow, local to the source station, echoed in the CNM",
        source="S001; wire-formats 2",
    )
    etype: int = uint(
        16,
        default=0,
        doc="EtherType of the payload, or its length in octets if 1500 or less",
        source="wire-formats 1.2",
        base="hex",
        length_name="cntag.len",
    )
    counted_as = "CN-TAG"
    summary = Summary(tag="CN-TAG flow {flow_id}")
    announced_by = "cn_tag"
    next_key = "etype"


@layer("cnm", title="Congestion notification message (CNM)", source="802.1Q 33.4; wire-formats 3")
class CNM(Layer):
    """Message about a congested queue, sent to the source of a sampled frame.

    The message has 24 octets and contains up to 64 octets of the sampled frame's MSDU.
    """

    version: int = uint(4, default=0, doc="0; receivers treat any version as 0", source="802.1Q 33.4")
    reserved: int = uint(6, default=0, doc="ReservedV: 0 on transmission, ignored", source="802.1Q 33.4")
    qntz_fb: int = uint(
        6,
        default=0,
        doc="Quantized Feedback, the magnitude of the negative feedback",
        source="S001; 802.1Q 33.4",
    )
    cpid: CPID = uint(
        64, default=0, kind="cpid", base="hex", doc="congestion point identifier: MAC and local number",
        source="S001; 802.1Q 33.4",
    )  # fmt: skip
    q_offset: int = sint(
        16, default=0, unit="64 octets",
        doc="cnmQOffset = Qeq − Qlen: negative when congested (the opposite of ECM's Qoff)",
        source="S001; wire-formats 3",
    )  # fmt: skip
    q_delta: int = sint(
        16, default=0, unit="64 octets", doc="cnmQDelta = Qlen − Qlen_old: positive when growing",
        source="S001; wire-formats 3",
    )  # fmt: skip
    encap_prio: int = uint(
        3, default=0, doc="Encapsulated priority: priority of the sampled frame", source="S001; 802.1Q 33.4"
    )
    encap_reserved: int = uint(13, default=0, doc="0", source="wire-formats 3")
    encap_dst: Address = mac(
        default=bytes(6),
        doc="Encapsulated destination MAC: DA of the sampled frame",
        source="S001; 802.1Q 33.4",
    )
    msdu_length: int = uint(
        16, default=0, unit="octets", doc="Encapsulated MSDU length, 0..64", source="S001; 802.1Q 33.4"
    )
    msdu: bytes = octets(
        Count(key="msdu_length"),
        default=b"",
        doc="Encapsulated MSDU: the sampled frame from its payload EtherType or length on",
        source="S001; wire-formats 3",
    )
    role = "message"
    counted_as = "CNM"
    as_feedback = Feedback(flow_id="cntag.flow_id", quantized="qntz_fb")
    summary = Summary(
        label="CNM", detail_first=True, shown_to="encap_dst",
        detail="Fb {qntz_fb} {:flow} prio {encap_prio} "
        "QOffset {q_offset:queue} QDelta {q_delta:queue} {:cpid}",
        clauses={"flow": First(("flow {cntag.flow_id}", "no flow id"))},
    )  # fmt: skip
    announced_by = "cnm"
    # a receiver discards an Encapsulated MSDU length above 64 (wire-formats 3)
    limits = (Limit(key="msdu_length", low=0, high=MAX_MSDU),)
    shows = MSDU
    crafting = Crafting(priority=CNM_PRIORITY)

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the length of the MSDU."""
        return {"msdu_length": len(self.msdu)}
