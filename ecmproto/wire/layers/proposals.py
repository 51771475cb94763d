"""Scapy layers for the pre-standard proposals: ECM, enhanced BCN, E²CM, FECN, DBP, and unknown messages."""

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
    """ECM frame, which contains the distance of a queue from the equilibrium.

    ``q_off`` is Qlen − Qeq, positive when congested. A CNM's ``q_offset`` has the opposite sign.
    """

    name = "ECM frame"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.ECM)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return the congestion point and the feedback as summary."""
        return over_ether(self.sprintf("ECM cpid=%cpid% q_off=%q_off% q_delta=%q_delta%"))


class CMTag(Tag):
    """CM-Tag, which names the congestion point that limits the frame's rate. E²CM uses ``protocol=2``."""

    name = "CM-Tag"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.CMTag)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> str:
        """Return the congestion point and the payload's type as summary."""
        return self.sprintf("CMTag cpid=%cpid% (%etype%)")


class BCN(Sampling):
    """BCN message with the feedback ``e`` (positive means increase) and the link's ``capacity`` in kb/s.

    ``type="STOP"`` (1) stops the flow.
    """

    name = "BCN message"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.BCN, type=BCN_NAMES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return the congestion point and the feedback as summary."""
        return over_ether(self.sprintf("BCN %type% cpid=%cpid% e=%e% capacity=%capacity%kb/s"))


class RRTTag(Tag):
    """RRT tag, which names the congestion point that regulates the frame's flow."""

    name = "RRT tag"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.RRTTag)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> str:
        """Return the congestion point and the payload's type as summary."""
        return self.sprintf("RRTTag cpid=%cpid% (%etype%)")


class E2CM(Sampling, LastLayer):
    """E²CM frame: the feedback of a congestion point or a probe, depending on ``type``.

    Only the BCN types have a ``sample``; padding follows a probe. `ecmproto.wire.formats.e2cm.flow_id`
    computes ``flow_id``.
    """

    name = "E²CM frame"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.E2CM, type=E2CM_NAMES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def answers(self, other: Packet) -> int:
        """Return 1 if a REV probe has the flow and CPID address of FWD probe ``other`` (wire-formats 6)."""
        return int(
            isinstance(other, E2CM)
            and self.type == PROBE_REV
            and other.type == PROBE_FWD
            and self._flow() == other._flow()
        )

    def hashret(self) -> bytes:
        """Return the CPID's address and the flow, which are the same in a probe and the reply."""
        return self._flow()

    def _flow(self) -> bytes:
        return struct.pack("!QH", self.cpid >> 16, self.flow_id)

    def encapsulated(self) -> Packet | None:
        """Return the part of the sampled frame in the message, or ``None`` for a probe."""
        return super().encapsulated() if self.type in BCN_TYPES else None

    def mysummary(self) -> Any:
        """Return the type, congestion point, flow, and feedback or latency as summary."""
        if self.type in BCN_TYPES:
            shown = "E2CM %type% cpid=%cpid% flow_id=%flow_id% q_off=%q_off% q_delta=%q_delta%"
        else:
            shown = "E2CM %type% cpid=%cpid% flow_id=%flow_id% latency=%latency%ns"
        return over_ether(self.sprintf(shown))


_NAMED_RATES = {RATE_INFINITY: "infinity"}


class RDTag(Tag):
    """RD tag of a data frame. The ``rate`` is the rate in kb/s that the path allows."""

    name = "Rate-discovery tag (RD tag)"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.RDTag, rate=_NAMED_RATES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def hashret(self) -> bytes:
        """Return the rate-limited queue, which the returning frame also contains."""
        return struct.pack("!H", self.rlq_id)

    def mysummary(self) -> str:
        """Return the queue, the rate and the payload's type as summary."""
        return self.sprintf("RDTag rlq_id=%rlq_id% rate=%rate% (%etype%)")


class FECNReturn(LastLayer):
    """FECN returning frame, which returns the rate of an RD tag to the source.

    In Scapy, a frame under Ether never answers a frame of another EtherType. Compare the layers instead:
    ``reply[FECNReturn].answers(request[RDTag])``.
    """

    name = "FECN returning frame"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.FECNReturn, rate=_NAMED_RATES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def answers(self, other: Packet) -> int:
        """Return 1 if ``other`` is an RD tag with the same rate-limited queue."""
        return int(isinstance(other, RDTag) and self.rlq_id == other.rlq_id)

    def hashret(self) -> bytes:
        """Return the rate-limited queue, which the RD tag also contains."""
        return struct.pack("!H", self.rlq_id)

    def mysummary(self) -> Any:
        """Return the queue and the rate as summary."""
        return over_ether(self.sprintf("FECNReturn rlq_id=%rlq_id% rate=%rate%"))


class DBPRateReport(LastLayer):
    """DBP rate report from a destination to each active source."""

    name = "DBP rate report"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.DBPRateReport, rate=_NAMED_RATES)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return the rate as summary."""
        return over_ether(self.sprintf("DBPRateReport rate=%rate%"))


class UnknownMessage(Packet):
    """Experimental message with an unassigned Protocol or Type, whose octets are stored."""

    name = "Unknown experimental message"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.UnknownMessage)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return Protocol and Type as summary."""
        return over_ether(self.sprintf("UnknownMessage protocol=%protocol% type=%type%"))


class UnknownTag(Packet):
    """Experimental tag with an unassigned Protocol or Type.

    The length of the tag is unknown, so the tag contains all remaining octets.
    """

    name = "Unknown experimental tag"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.UnknownTag)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return Protocol and Type as summary."""
        return over_ether(self.sprintf("UnknownTag protocol=%protocol% type=%type%"))
