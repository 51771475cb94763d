"""Rules for the contents of ECM messages, and for the CM-Tags of limited flows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ecmproto.control.mechanisms.aimd.parameters import AIMDCongestionPointParameters
from ecmproto.control.mechanisms.api.parameters import redeclared
from ecmproto.tools.check.keyed import Pairs
from ecmproto.tools.check.rule import Family, Int64, Mask, Rows
from ecmproto.tools.check.rules import drafts, intervals, reactions
from ecmproto.tools.check.rules.drafts import SHOWN
from ecmproto.tools.check.rules.malformed import malformed
from ecmproto.units import QUEUE_UNIT_OCTETS

_ECM = drafts.Draft(prefix="ecm", message="an ECM message", source="S000 3.1; wire-formats 1.2")
_DETECTION, _REACTION = "S000 3.2; algorithms 1", "S000 3.3; algorithms 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ECMRules(intervals.Sampling):
    """Settings of the ECM congestion points in a capture."""

    qeq_octets: int = drafts.qeq("S000 3.2")
    qscale: float = redeclared(AIMDCongestionPointParameters, "qscale")
    message_priority: int = redeclared(AIMDCongestionPointParameters, "message_priority")


class _Silence(reactions.Reactions):
    """A comparison of the octets that flows send before and after ECM(0,0) messages."""

    RULE, MESSAGE, PARAMETERS = "ECM008", "ecm.cpid", ECMRules

    def strong(self, rows: Rows) -> Mask:
        """Return the ECM(0,0) messages, which stop their flows."""
        stop: Mask = (rows["ecm.q_off"] == 0) & (rows["ecm.q_delta"] == 0)
        return stop


class _Intervals(intervals.DraftIntervals):
    """A comparison of the octets between two ECM messages with the sampling interval."""

    RULE, PREFIX, FIELDS, PARAMETERS = "ECM010", "ecm", ("q_off", "q_delta"), ECMRules
    GROWN_BY = ("qscale",)

    def grown(self, pairs: Pairs) -> Int64:
        """Return the Qdelta of each message, rounded up."""
        octets = (pairs.now[:, 6] + 1) * QUEUE_UNIT_OCTETS / self._parameters.qscale
        grown: Int64 = octets.astype(np.int64)
        return grown

    def is_judged(self, pairs: Pairs) -> Mask:
        """Return a mask of the messages that are neither ECM(0,0) nor saturated."""
        q_off, q_delta = pairs.now[:, 5], pairs.now[:, 6]
        judged: Mask = (q_delta <= 0) & (q_off != 0) | (q_delta > 0) & (np.abs(q_delta - 2 * q_off) > 1)
        return judged


RULES = (
    malformed(
        "ECM",
        "An ECM message or tag",
        ("expmsg", "exptag", "ecm", "cmtag"),
        right=("ecm.cpid",),
        clause="S000 3.1; wire-formats 1.1, 4",
    ),
    _ECM.reserved_bits(("version", "reserved", "reserved2"), clause="S000 3.1; wire-formats 1.1, 4"),
    _ECM.to_source(),
    _ECM.sampled_frame(clause="S000 3.2; wire-formats 1.2"),
    _ECM.within_limits(clause=_DETECTION),
    _ECM.suppressed(clause=_DETECTION),
    _ECM.rule(
        6,
        name="timestamp of the CM-Tag",
        sentence="An ECM message has the timestamp of the sampled frame's CM-Tag, or timestamp 0 if the "
        "sampled frame has no CM-Tag.",
        why="The source calculates the average round-trip time (RTTavg) from the returned timestamp and "
        "unit. A wrong timestamp or unit makes RTTavg meaningless. The rule applies to messages that contain "
        "enough of the sampled frame to show a CM-Tag.",
        clause="S000 3.1; wire-formats 4",
        fields=("ecm.timestamp", "ecm.unit", f"{SHOWN}eth.type"),
        optional=("ecm.payload", *(f"{SHOWN}cmtag.{name}" for name in ("cpid", "timestamp", "unit"))),
        expression=partial(drafts.copied_timestamp, "ecm"),
    ),
    _ECM.association(7, "a CM-Tag", clause=_REACTION),
    reactions.silence("an ECM(0,0) message", memory=_Silence, clause=_REACTION),
    _ECM.message_priority(9),
    intervals.sampling_interval(_Intervals, clause=_DETECTION),
)

FAMILY = Family(name="ecm", title="ECM", parameters=ECMRules, rules=RULES)
