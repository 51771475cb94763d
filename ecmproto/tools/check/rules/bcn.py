"""Rules for the contents of enhanced BCN messages, and for the RRT tags of limited flows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ecmproto.control.mechanisms.api.parameters import redeclared
from ecmproto.control.mechanisms.bcn.parameters import BCNCongestionPointParameters
from ecmproto.tools.check.keyed import Pairs
from ecmproto.tools.check.rule import Family, Int64, Judged, Mask, Rows
from ecmproto.tools.check.rules import drafts, intervals, reactions
from ecmproto.tools.check.rules.malformed import malformed
from ecmproto.units import QUEUE_UNIT_OCTETS

_BCN = drafts.Draft(prefix="bcn", message="a BCN message", source="S004 IV B; wire-formats 1.2")
_STOP = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BCNRules(intervals.Sampling):
    """Settings of the BCN congestion points in a capture."""

    qeq_octets: int = drafts.qeq("S004 IV A")
    weight: float = redeclared(BCNCongestionPointParameters, "weight")
    message_priority: int = redeclared(BCNCongestionPointParameters, "message_priority")


def _feedback(rows: Rows, parameters: BCNRules) -> Judged:
    e, is_stop = rows["bcn.e"], rows["bcn.type"] == _STOP
    maximum = int((1 + 2 * parameters.weight) * parameters.qeq_octets) // 64
    beyond = (np.abs(e) > maximum) & (maximum > 0)

    allowed = f"a value from -{maximum} to {maximum} other than 0" if maximum else "a value other than 0"
    return Judged((e == 0) | beyond, "the feedback e is out of range", e, allowed, about=~is_stop)


def _capacity(rows: Rows, parameters: BCNRules) -> Judged:
    return Judged(
        rows["bcn.capacity"] == 0, "the link capacity in the message is invalid", 0, "more than 0 kb/s"
    )


class _Silence(reactions.Reactions):
    """A comparison of the octets that flows send before and after STOP messages (BCN007)."""

    RULE, MESSAGE, PARAMETERS = "BCN007", "bcn.cpid", BCNRules

    def strong(self, rows: Rows) -> Mask:
        stop: Mask = rows["bcn.type"] == _STOP
        return stop


class _Intervals(intervals.DraftIntervals):
    """A comparison of the octets between two BCN messages with the sampling interval (BCN009)."""

    RULE, PREFIX, FIELDS, PARAMETERS = "BCN009", "bcn", ("e", "type"), BCNRules
    GROWN_BY = ("qeq", "w")
    GROWTH = (
        "The rule calculates the maximum growth of the queue from e, bcn.w and bcn.qeq. With bcn.qeq=0, the "
        "calculation uses 24 kB."
    )

    def grown(self, pairs: Pairs) -> Int64:
        """Return the maximum growth of the queue for e = −(Qoff + w·Qdelta), which assumes an empty queue."""
        octets = (1 - pairs.now[:, 5]) * QUEUE_UNIT_OCTETS + self._qeq_octets
        grown: Int64 = (octets / (1 + self._parameters.weight)).astype(np.int64)
        return grown

    def is_judged(self, pairs: Pairs) -> Mask:
        """Return a mask of the messages that are neither STOP nor saturated."""
        maximum = int((1 + 2 * self._parameters.weight) * self._qeq_octets) // QUEUE_UNIT_OCTETS
        judged: Mask = (pairs.now[:, 6] != _STOP) & (pairs.now[:, 5] > -maximum)
        return judged

    @property
    def _qeq_octets(self) -> int:
        return int(self._parameters.qeq_octets) or BCNCongestionPointParameters().qeq_octets


RULES = (
    malformed(
        "BCN",
        "A BCN message or tag",
        ("bcn", "rrttag"),
        right=("bcn.cpid",),
        clause="S004 IV B, IV C; wire-formats 5",
    ),
    _BCN.reserved_bits(("version", "q", "reserved"), clause="S004 IV B (Figure 2); wire-formats 1.1, 5"),
    _BCN.to_source(),
    _BCN.sampled_frame(clause="S004 IV A; wire-formats 1.2"),
    _BCN.rule(
        4,
        name="feedback",
        sentence="The feedback e of a normal BCN message is not 0 and is within ±(1 + 2w)·Qeq.",
        why="A congestion point sends no message if e is 0. A congestion point also limits both parts of e, "
        "the queue offset and the queue change. The rule checks the range of e only with --set bcn.qeq. The "
        "rule ignores STOP messages.",
        clause="S004 IV D, IV E; algorithms 2",
        fields=("bcn.e", "bcn.type"),
        parameters=("qeq", "w"),
        expression=_feedback,
    ),
    _BCN.rule(
        5,
        name="capacity",
        sentence="The link capacity in a BCN message is not 0.",
        why="A source increases its rate in proportion to the link capacity in the message. With a link "
        "capacity of 0, the source's rate never recovers.",
        clause="S004 IV B; wire-formats 5",
        fields=("bcn.capacity",),
        expression=_capacity,
    ),
    _BCN.association(6, "an RRT tag", clause="S004 IV C, IV E; algorithms 2"),
    reactions.silence("a STOP message", memory=_Silence, clause="S004 IV B; algorithms 2"),
    _BCN.message_priority(8),
    intervals.sampling_interval(_Intervals, clause="S004 IV A; S000 3.2; algorithms 1, 2"),
)

FAMILY = Family(name="bcn", title="Enhanced BCN", parameters=BCNRules, rules=RULES)
