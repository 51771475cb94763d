"""The pre-standard proposals as Scapy layers: ECM, enhanced BCN, E²CM, FECN and DBP, and unknown ones."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

from scapy.packet import Packet

from ecmproto.units import RATE_INFINITY
from ecmproto.wire import codec
from ecmproto.wire.formats.bcn import TYPES as BCN_NAMES
from ecmproto.wire.formats.e2cm import BCN_TYPES, PROBE_FWD, PROBE_REV
from ecmproto.wire.formats.e2cm import TYPES as E2CM_NAMES
from ecmproto.wire.layers.derived import fields_of
from ecmproto.wire.layers.parts import (
    LastLayer,
    Sampling,
    Tag,
    over_ether,
    whole_or_raw,
)


class ECM(Sampling):
    """ECM frame: the distance of a queue from its equilibrium.

    ``q_off`` is Qlen − Qeq: positive when congested, the opposite of a CNM's ``q_offset``.
    """

    name = "ECM frame"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.ECM)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return the summary: congestion point and feedback."""
        return over_ether(self.sprintf("ECM cpid=%cpid% q_off=%q_off% q_delta=%q_delta%"))


class CMTag(Tag):
    """CM-Tag with the congestion point that limits the frame; ``protocol=2`` in E²CM."""

    name = "CM-Tag"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.CMTag)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> str:
        """Return the summary: congestion point, and the type of the payload."""
        return self.sprintf("CMTag cpid=%cpid% (%etype%)")


class BCN(Sampling):
    """BCN message: feedback ``e`` (positive means increase) and the link's ``capacity`` in kb/s.

    ``type="STOP"`` (1) stops the flow.
    """

    name = "BCN message"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.BCN, type=BCN_NAMES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return the summary: congestion point and feedback."""
        return over_ether(self.sprintf("BCN %type% cpid=%cpid% e=%e% capacity=%capacity%kb/s"))


class RRTTag(Tag):
    """RRT tag with the congestion point that regulates the frame's flow."""

    name = "RRT tag"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.RRTTag)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> str:
        """Return the summary: congestion point, and the type of the payload."""
        return self.sprintf("RRTTag cpid=%cpid% (%etype%)")


class E2CM(Sampling, LastLayer):
    """E²CM frame: a congestion point's feedback or a probe, by ``type``.

    Only the BCN types have a ``sample``; padding follows a probe.  ``flow_id`` is computed by
    `ecmproto.wire.formats.e2cm.flow_id`.
    """

    name = "E²CM frame"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.E2CM, type=E2CM_NAMES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def answers(self, other: Packet) -> int:
        """Return 1 for a REV probe and the FWD probe of the same flow and CPID address (wire-formats 6)."""
        return int(
            isinstance(other, E2CM)
            and self.type == PROBE_REV
            and other.type == PROBE_FWD
            and self._flow() == other._flow()
        )

    def hashret(self) -> bytes:
        """Return the CPID's address and the flow, which match replies to probes."""
        return self._flow()

    def _flow(self) -> bytes:
        return struct.pack("!QH", self.cpid >> 16, self.flow_id)

    def encapsulated(self) -> Packet | None:
        """Return the sampled frame as far as a BCN type contains it; None for probes."""
        return super().encapsulated() if self.type in BCN_TYPES else None

    def mysummary(self) -> Any:
        """Return the summary: type, congestion point, flow, and feedback or latency."""
        if self.type in BCN_TYPES:
            shown = "E2CM %type% cpid=%cpid% flow_id=%flow_id% q_off=%q_off% q_delta=%q_delta%"
        else:
            shown = "E2CM %type% cpid=%cpid% flow_id=%flow_id% latency=%latency%ns"
        return over_ether(self.sprintf(shown))


_NAMED_RATES = {RATE_INFINITY: "infinity"}


class RDTag(Tag):
    """RD tag of a data frame, which collects the ``rate`` in kb/s allowed by the path."""

    name = "Rate-discovery tag (RD tag)"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.RDTag, rate=_NAMED_RATES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def hashret(self) -> bytes:
        """Return the rate-limited queue, as the returning frame does."""
        return struct.pack("!H", self.rlq_id)

    def mysummary(self) -> str:
        """Return the summary: queue and rate, and the type of the payload."""
        return self.sprintf("RDTag rlq_id=%rlq_id% rate=%rate% (%etype%)")


class FECNReturn(LastLayer):
    """FECN returning frame with an RD tag's rate for its source.

    Scapy's Ether lets no frame answer one of another EtherType, so compare the layers:
    ``reply[FECNReturn].answers(request[RDTag])``.
    """

    name = "FECN returning frame"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.FECNReturn, rate=_NAMED_RATES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def answers(self, other: Packet) -> int:
        """Return 1 for the RD tag of the same rate-limited queue."""
        return int(isinstance(other, RDTag) and self.rlq_id == other.rlq_id)

    def hashret(self) -> bytes:
        """Return the rate-limited queue, as the RD tag does."""
        return struct.pack("!H", self.rlq_id)

    def mysummary(self) -> Any:
        """Return the summary: queue and rate."""
        return over_ether(self.sprintf("FECNReturn rlq_id=%rlq_id% rate=%rate%"))


class DBPRateReport(LastLayer):
    """DBP rate report from a destination to each active source."""

    name = "DBP rate report"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.DBPRateReport, rate=_NAMED_RATES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return the rate."""
        return over_ether(self.sprintf("DBPRateReport rate=%rate%"))


class UnknownMessage(Packet):
    """An experimental message of an unassigned Protocol or Type; its octets are kept."""

    name = "Unknown experimental message"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.UnknownMessage)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return Protocol and Type."""
        return over_ether(self.sprintf("UnknownMessage protocol=%protocol% type=%type%"))


class UnknownTag(Packet):
    """An experimental tag of an unassigned Protocol or Type: its length is unknown, so it has all octets."""

    name = "Unknown experimental tag"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.UnknownTag)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return Protocol and Type."""
        return over_ether(self.sprintf("UnknownTag protocol=%protocol% type=%type%"))
