"""IBM's E²CM as a Scapy layer: feedback and probes in one frame format."""

from __future__ import annotations

import struct
from typing import Any

from scapy.fields import ConditionalField, IntField, SignedShortField, XShortField, XStrField
from scapy.packet import Packet

from ecmproto.formats.e2cm import BCN_TYPES, PROBE_FWD, PROBE_REV, TYPES
from ecmproto.formats.experimental import DEFAULT_CPID
from ecmproto.layers.fields import CPIDField, word
from ecmproto.layers.sample import Sampling
from ecmproto.layers.whole import LastLayer, over_ether, whole_or_raw


class E2CM(Sampling, LastLayer):
    """E²CM frame: a congestion point's feedback or a probe, as ``type`` says.

    Only the BCN types have a ``sample``; what follows a probe is padding.  ``flow_id`` is computed by
    `ecmproto.formats.e2cm.flow_id`.
    """

    name = "E²CM frame"
    fields_desc = [
        *word(protocol=2, types=TYPES),
        CPIDField("cpid", DEFAULT_CPID),
        SignedShortField("q_off", 0),
        SignedShortField("q_delta", 0),
        IntField("latency", 0),
        XShortField("flow_id", 0),
        IntField("throughput", 0),
        ConditionalField(XStrField("sample", b""), lambda pkt: pkt.type in BCN_TYPES),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def answers(self, other: Packet) -> int:
        """A REV probe answers the FWD probe of the same flow and CPID address (wire-formats 6)."""
        return int(
            isinstance(other, E2CM)
            and self.type == PROBE_REV
            and other.type == PROBE_FWD
            and self._flow() == other._flow()
        )

    def hashret(self) -> bytes:
        """By the CPID's address and the flow, by which a source matches replies."""
        return self._flow()

    def _flow(self) -> bytes:
        return struct.pack("!QH", self.cpid >> 16, self.flow_id)

    def encapsulated(self) -> Packet | None:
        """Return the sampled frame as far as a BCN type shows it; None for probes."""
        return super().encapsulated() if self.type in BCN_TYPES else None

    def mysummary(self) -> Any:
        """Which frame, whose flow, and what it measured or asks for."""
        if self.type in BCN_TYPES:
            shown = "E2CM %type% cpid=%cpid% flow_id=%flow_id% q_off=%q_off% q_delta=%q_delta%"
        else:
            shown = "E2CM %type% cpid=%cpid% flow_id=%flow_id% latency=%latency%ns"
        return over_ether(self.sprintf(shown))
