"""Rules of ECM: what its messages say, and the CM-Tags of limited flows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ecmproto.check.rule import Family, Mask, Rows
from ecmproto.check.rules import drafts, reactions
from ecmproto.check.rules.drafts import SHOWN
from ecmproto.check.rules.malformed import malformed
from ecmproto.mechanisms.aimd.parameters import AIMDCongestionPointParameters
from ecmproto.mechanisms.api.parameters import redeclared

_ECM = drafts.Draft(prefix="ecm", message="An ECM message", source="S000 3.1; wire-formats 1.2")
_DETECTION, _REACTION = "S000 3.2; algorithms 1", "S000 3.3; algorithms 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ECMRules(reactions.Closed):
    """What the congestion points of a capture are set to."""

    qeq_octets: int = drafts.qeq("S000 3.2")
    qscale: float = redeclared(AIMDCongestionPointParameters, "qscale")
    message_priority: int = redeclared(AIMDCongestionPointParameters, "message_priority")


class _Silence(reactions.Reactions):
    """Holds what flows send behind messages that stop them against what they sent before."""

    RULE, MESSAGE, PARAMETERS = "ECM008", "ecm.cpid", ECMRules

    def strong(self, rows: Rows) -> Mask:
        """Return the ECM(0,0), which stop their flows."""
        stop: Mask = (rows["ecm.q_off"] == 0) & (rows["ecm.q_delta"] == 0)
        return stop


RULES = (
    malformed(
        "ECM",
        "a message or a tag of ECM",
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
        sentence="An ECM message's timestamp is that of the sampled frame's CM-Tag, and 0 without one.",
        why="The source measures its round trip by it; another number makes RTTavg meaningless.",
        clause="S000 3.1; wire-formats 4",
        fields=("ecm.timestamp", "ecm.unit", f"{SHOWN}eth.type"),
        optional=("ecm.payload", *(f"{SHOWN}cmtag.{name}" for name in ("cpid", "timestamp", "unit"))),
        expression=partial(drafts.copied_timestamp, "ecm"),
    ),
    _ECM.association(7, "A CM-Tag", clause=_REACTION),
    reactions.silence("ECM(0,0)", memory=_Silence, clause=_REACTION),
    _ECM.message_priority(9),
)

FAMILY = Family(name="ecm", title="ECM", parameters=ECMRules, rules=RULES)
