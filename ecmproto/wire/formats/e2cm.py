"""IBM's E²CM: feedback and probes in one frame format (S002 "E²CM Frame Format"; wire-formats 6)."""

from __future__ import annotations

from collections.abc import Mapping

from ecmproto.wire.formats.base import Direction, Feedback, layer
from ecmproto.wire.formats.experimental import DEFAULT_CPID, Sampling, selector
from ecmproto.wire.formats.schema import CPID, Count, octets, sint, uint
from ecmproto.wire.formats.summary import Case, Summary

TYPES = {0: "BCN", 1: "BCN_MAX", 2: "BCN_ZERO", 3: "BCN_PROBE_FWD", 4: "BCN_PROBE_REV"}
BCN_TYPES = (0, 1, 2)
"""Types that congestion points send. Messages of these types contain the sampled frame; probes do not."""

PROBE_FWD, PROBE_REV = 3, 4


@layer("e2cm", title="E²CM frame", source="S002; wire-formats 6", protocol=2)
class E2CM(Sampling):
    """Feedback of a congestion point, a forward probe (FWD) or a returned probe (REV), by ``type``."""

    cpid: CPID = uint(
        64, default=DEFAULT_CPID, kind="cpid", base="hex",
        doc="congestion point's MAC and local number; in probes the flow's destination MAC and 0",
        source="S002",
    )  # fmt: skip
    q_off: int = sint(
        16,
        default=0,
        unit="64 octets",
        doc="Qoff as in ECM, positive when congested; 0 in probes",
        source="S002",
    )
    q_delta: int = sint(16, default=0, unit="64 octets", doc="Qdelta as in ECM; 0 in probes", source="S002")
    latency: int = uint(
        32, default=0, unit="ns",
        doc="FWD: the source's timestamp modulo 2^32; REV: now − timestamp modulo 2^32",
    )  # fmt: skip
    flow_id: int = uint(16, default=0, base="hex", doc="hash of source MAC, destination MAC and priority")
    throughput: int = uint(
        32, default=0, unit="kb/s", doc="service rate between two probes, measured by the destination"
    )
    payload: bytes = octets(
        Count(when=("type", BCN_TYPES)),
        default=b"",
        doc="BCN types: the sampled frame's first octets, from its DA",
        source="wire-formats 6",
    )
    counted_as = "E²CM"
    as_feedback = Feedback(types={type: TYPES[type] for type in BCN_TYPES}, flow_id="e2cm.flow_id")
    summary = Summary(
        label="E2CM", detail_first=True, detail="{type:e2cm_type} {:e2cm} flow {flow_id:hex} {:cpid}",
        clauses={
            "e2cm": Case("type", 0, max(BCN_TYPES), "{:queues}{:saturated}", Case(
                "type", PROBE_FWD, PROBE_FWD, "sent at {latency} ns",
                "latency {latency:time} throughput {throughput:capacity}",
            )),
        },
    )  # fmt: skip
    announced_by = "message"
    selected_by = tuple(selector(2, type) for type in TYPES)
    showing = BCN_TYPES

    @classmethod
    def direction_of(cls, values: Mapping[str, int | bytes]) -> Direction:
        """Return the direction of a message, depending on the type.

        A forward probe has the direction of data, a returned probe is a reply, and all other types are
        feedback.
        """
        kind = values.get("type")
        return "data" if kind == PROBE_FWD else "reply" if kind == PROBE_REV else "feedback"


def flow_id(dst: bytes, src: bytes, priority: int) -> int:
    """Return E²CM's flow id: CRC-16/CCITT-FALSE over DA, SA and one octet of priority (wire-formats 6)."""
    crc = 0xFFFF
    for octet in (*dst, *src, priority):
        crc ^= octet << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc
