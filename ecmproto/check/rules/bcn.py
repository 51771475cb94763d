"""Rules of enhanced BCN: what its messages say, and the RRT tags of limited flows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ecmproto.check.rule import SENDER, Family, Judged, Mask, Rows, Rule, congestion_point
from ecmproto.check.rules import drafts, reactions
from ecmproto.check.rules.ecm import LARGEST_QEQ
from ecmproto.mechanisms.api.parameters import octets, redeclared
from ecmproto.mechanisms.bcn.parameters import BCNCongestionPointParameters

_ON = ("bcn.cpid",)
_CPID = congestion_point("bcn.cpid")
_BITS = ("version", "q", "reserved")
_STOP = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BCNRules(reactions.Closed):
    """What the congestion points of a capture are set to."""

    qeq_octets: int = octets(
        "qeq", 0, (0, LARGEST_QEQ), source="S004 III",
        doc="queue length that the congestion points steer to; 0: not known",
    )  # fmt: skip
    weight: float = redeclared(BCNCongestionPointParameters, "weight")


def _feedback(rows: Rows, parameters: BCNRules) -> Judged:
    e, is_stop = rows["bcn.e"], rows["bcn.type"] == _STOP
    most = int((1 + 2 * parameters.weight) * parameters.qeq_octets) // 64
    beyond = (np.abs(e) > most) & (most > 0)

    def what(row: int) -> str:
        return f"e beyond ±(1 + 2w)·Qeq, {most}" if beyond[row] else "a message that says nothing, e = 0"

    return Judged((e == 0) | beyond, what, e, about=~is_stop)


def _capacity(rows: Rows, parameters: BCNRules) -> Judged:
    return Judged(rows["bcn.capacity"] == 0, "a link of no capacity", 0, "kb/s above 0")


class _Silence(reactions.Reactions):
    """Holds what flows send behind messages that stop them against what they sent before."""

    RULE, MESSAGE, PARAMETERS = "BCN007", "bcn.cpid", BCNRules

    def strong(self, rows: Rows) -> Mask:
        """Return the STOP messages."""
        stop: Mask = rows["bcn.type"] == _STOP
        return stop


RULES = (
    Rule(
        id="BCN001",
        name="version and reserved bits",
        sentence="A BCN message's Version, Q and reserved bits are 0.",
        why="Receivers ignore them, so nothing else tells of a sender that writes something there.",
        clause="S004 Figure 2; wire-formats 1.1, 5",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=tuple(f"bcn.{name}" for name in _BITS),
        expression=partial(drafts.reserved_bits, "bcn", _BITS),
    ),
    Rule(
        id="BCN002",
        name="to the source",
        sentence="A BCN message goes to the source of the frame that it shows.",
        why="Another station has no regulator for the flow, and a group is no source.",
        clause="S004 III; wire-formats 1.2",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("eth.dst", f"{drafts.SHOWN}eth.src"),
        expression=partial(drafts.to_source, "bcn"),
    ),
    Rule(
        id="BCN003",
        name="what is sampled",
        sentence="A BCN message is never caused by a CNM, a message, MAC Control or a link-local frame.",
        why="Feedback on feedback slows nothing down and adds to the congestion that it reports.",
        clause="S004 III; wire-formats 1.2",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=drafts.SAMPLED_FIELDS,
        optional=(f"{drafts.SHOWN}vlan.etype",),
        expression=partial(drafts.sampled_frame, "bcn"),
    ),
    Rule(
        id="BCN004",
        name="feedback",
        sentence="A normal BCN message says something: e is not 0, and at most (1 + 2w)·Qeq.",
        why="e = 0 is not sent, and both parts of e are clamped. The upper limit is judged with --param "
        "bcn.qeq.",
        clause="S004 III; algorithms 2",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("bcn.e", "bcn.type"),
        parameters=("qeq", "w"),
        expression=_feedback,
    ),
    Rule(
        id="BCN005",
        name="capacity",
        sentence="A BCN message's capacity is that of a link: above 0.",
        why="The source scales its increase with it: with 0 it never recovers.",
        clause="S004 IV; wire-formats 5",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("bcn.capacity",),
        expression=_capacity,
    ),
    Rule(
        id="BCN006",
        name="association",
        sentence="An RRT tag's CPID is that of a congestion point that told the flow's source before.",
        why="A regulator is associated with the congestion point whose message made it or last slowed it "
        "down. Judged for flows that the capture shows without this tag first, of stations that get "
        "messages in it.",
        clause="S004 III; algorithms 2",
        severity="error",
        subject=SENDER,
        on=(),
        optional=drafts.ASSOCIATION_FIELDS,
        memory=drafts.Associations,
    ),
    Rule(
        id="BCN007",
        name="silence",
        sentence="A flow is silent behind a STOP message.",
        why="The source stops for a drawn time and restarts at a hundredth of its rate or so. Compared "
        "are the octets that the flow sends in the 0.2 ms before such a message with those of the 0.2 "
        "ms that begin 0.1 ms behind it, summed over all of them: it is not even a tenth less in a "
        "finding. Judged are flows with three or more, in captures in which another flow stops (an "
        "open loop has none), or with --param bcn.closed=yes.",
        clause="S004 III; algorithms 2",
        severity="error",
        subject=SENDER,
        on=(),
        optional=reactions.FIELDS,
        parameters=("closed",),
        memory=_Silence,
    ),
)

FAMILY = Family(name="bcn", title="Enhanced BCN", parameters=BCNRules, rules=RULES)
