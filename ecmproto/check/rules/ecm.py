"""Rules of ECM: what its messages say, and the CM-Tags of limited flows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ecmproto.check.rule import SENDER, Family, Mask, Rows, Rule, congestion_point
from ecmproto.check.rules import drafts, reactions
from ecmproto.mechanisms.aimd.parameters import AIMDCongestionPointParameters
from ecmproto.mechanisms.api.parameters import octets, redeclared

_ON = ("ecm.cpid",)
_CPID = congestion_point("ecm.cpid")
_BITS = ("version", "reserved", "reserved2")
LARGEST_QEQ = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ECMRules(reactions.Closed):
    """What the congestion points of a capture are set to."""

    qeq_octets: int = octets(
        "qeq", 0, (0, LARGEST_QEQ), source="S000 3.2",
        doc="queue length that the congestion points steer to; 0: not known, any that a field can hold",
    )  # fmt: skip
    qscale: float = redeclared(AIMDCongestionPointParameters, "qscale")


class _Silence(reactions.Reactions):
    """Holds what flows send behind messages that stop them against what they sent before."""

    RULE, MESSAGE, PARAMETERS = "ECM008", "ecm.cpid", ECMRules

    def strong(self, rows: Rows) -> Mask:
        """Return the ECM(0,0), which stop their flows."""
        stop: Mask = (rows["ecm.q_off"] == 0) & (rows["ecm.q_delta"] == 0)
        return stop


RULES = (
    Rule(
        id="ECM001",
        name="version and reserved bits",
        sentence="An ECM message's Version and reserved bits are 0.",
        why="Receivers ignore them, so nothing else tells of a sender that writes something there.",
        clause="S000 3.1; wire-formats 1.1, 4",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=tuple(f"ecm.{name}" for name in _BITS),
        expression=partial(drafts.reserved_bits, "ecm", _BITS),
    ),
    Rule(
        id="ECM002",
        name="to the source",
        sentence="An ECM message goes to the source of the frame that it shows.",
        why="Another station has no limiter for the flow, and a group is no source.",
        clause="S000 3.1; wire-formats 1.2",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("eth.dst", f"{drafts.SHOWN}eth.src"),
        expression=partial(drafts.to_source, "ecm"),
    ),
    Rule(
        id="ECM003",
        name="what is sampled",
        sentence="An ECM message is never caused by a CNM, a message, MAC Control or a link-local frame.",
        why="Feedback on feedback slows nothing down and adds to the congestion that it reports.",
        clause="S000 3.2; wire-formats 1.2",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=drafts.SAMPLED_FIELDS,
        optional=(f"{drafts.SHOWN}vlan.etype",),
        expression=partial(drafts.sampled_frame, "ecm"),
    ),
    Rule(
        id="ECM004",
        name="saturation",
        sentence="Qoff is at most Qeq, Qdelta at most twice that, and the Q bit says that Qdelta is.",
        why="Both are clamped before they are scaled, so that one message never slows a source down "
        "further than the gain allows for. With --param ecm.qeq the limits are exact; without, they "
        "are those of the fields, and a Q bit whose Qdelta is less than twice the offset is found all "
        "the same.",
        clause="S000 3.2; algorithms 1",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("ecm.q_off", "ecm.q_delta", "ecm.q"),
        parameters=("qeq", "qscale"),
        expression=partial(drafts.within_limits, "ecm"),
    ),
    Rule(
        id="ECM005",
        name="suppression",
        sentence="A Qoff below 0 is told only to flows whose CM-Tag has this congestion point's CPID.",
        why="Where the queue is short there is nothing to tell to a source that is not limited, or "
        "limited for another congestion point. Judged where the message shows enough of the sampled "
        "frame for its tag to be seen; an offset of 0 may be one of up to 63 octets, and is not "
        "judged.",
        clause="S000 3.2; algorithms 1",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("ecm.q_off", f"{drafts.SHOWN}eth.type"),
        optional=("ecm.payload", f"{drafts.SHOWN}cmtag.cpid"),
        expression=partial(drafts.suppressed, "ecm"),
    ),
    Rule(
        id="ECM006",
        name="timestamp of the CM-Tag",
        sentence="An ECM message's timestamp is that of the sampled frame's CM-Tag, and 0 without one.",
        why="The source measures its round trip by it; another number makes RTTavg meaningless.",
        clause="S000 3.1; wire-formats 4",
        severity="error",
        subject=_CPID,
        on=_ON,
        fields=("ecm.timestamp", "ecm.unit", f"{drafts.SHOWN}eth.type"),
        optional=(
            "ecm.payload",
            f"{drafts.SHOWN}cmtag.cpid",
            f"{drafts.SHOWN}cmtag.timestamp",
            f"{drafts.SHOWN}cmtag.unit",
        ),
        expression=partial(drafts.copied_timestamp, "ecm"),
    ),
    Rule(
        id="ECM007",
        name="association",
        sentence="A CM-Tag's CPID is that of a congestion point that told the flow's source before.",
        why="A limiter is associated with the congestion point whose message made it or last slowed it "
        "down. Judged for flows that the capture shows without this tag first, of stations that get "
        "messages in it.",
        clause="S000 3.3; algorithms 1",
        severity="error",
        subject=SENDER,
        on=(),
        optional=drafts.ASSOCIATION_FIELDS,
        memory=drafts.Associations,
    ),
    Rule(
        id="ECM008",
        name="silence",
        sentence="A flow is silent behind ECM(0,0).",
        why="The source stops for a drawn time and restarts at a hundredth of its rate or so. Compared "
        "are the octets that the flow sends in the 0.2 ms before such a message with those of the 0.2 "
        "ms that begin 0.1 ms behind it, summed over all of them: it is not even a tenth less in a "
        "finding. Judged are flows with three or more, in captures in which another flow stops (an "
        "open loop has none), or with --param ecm.closed=yes.",
        clause="S000 3.3; algorithms 1",
        severity="error",
        subject=SENDER,
        on=(),
        optional=reactions.FIELDS,
        parameters=("closed",),
        memory=_Silence,
    ),
)

FAMILY = Family(name="ecm", title="ECM", parameters=ECMRules, rules=RULES)
