"""Rules of QCN: what a CNM says, to whom it goes, and when the next one comes.

Numbers in a CNM are cut to 64 octets, each by itself, so every comparison allows what that may hide.
"""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.check.rule import PRIORITY_FIELDS, Family, Judged, Rows, Rule, congestion_point
from ecmproto.mechanisms.api.parameters import Parameters, redeclared
from ecmproto.mechanisms.qcn.parameters import QCNCongestionPointParameters

_CNM = ("cnm.cpid",)


@dataclass(frozen=True, slots=True, kw_only=True)
class QCNRules(Parameters):
    """What the congestion points of a capture are set to."""

    qeq_octets: int = redeclared(QCNCongestionPointParameters, "qeq_octets")
    weight: float = redeclared(QCNCongestionPointParameters, "weight")
    cnm_priority: int = redeclared(QCNCongestionPointParameters, "cnm_priority")


_CPID = congestion_point("cnm.cpid")


def _version(cnms: Rows, parameters: QCNRules) -> Judged:
    version, reserved, low = cnms["cnm.version"], cnms["cnm.reserved"], cnms["cnm.encap_reserved"]

    def found(row: int) -> str:
        return f"Version {version[row]}, ReservedV {reserved[row]}, encapsulated reserved {low[row]}"

    wrong = (version != 0) | (reserved != 0) | (low != 0)
    return Judged(wrong, "Version and reserved bits are not 0", found, "0")


def _priority(cnms: Rows, parameters: QCNRules) -> Judged:
    wrong = cnms.priority != parameters.cnm_priority
    return Judged(wrong, "another priority", cnms.priority, parameters.cnm_priority, about=cnms.is_tagged)


RULES = (
    Rule(
        id="QCN001",
        name="version and reserved bits",
        sentence="A CNM's Version and reserved bits are 0.",
        why="Receivers ignore them, so nothing else tells of a sender that writes something there.",
        clause="802.1Q 33.4; wire-formats 3",
        severity="error",
        subject=_CPID,
        on=_CNM,
        fields=("cnm.version", "cnm.reserved", "cnm.encap_reserved"),
        expression=_version,
    ),
    Rule(
        id="QCN002",
        name="priority of CNMs",
        sentence="A tagged CNM has the priority of CNMs, 6 unless configured.",
        why="A CNM in a congested priority waits behind the frames that it is to slow down.",
        clause="802.1Q 32.2.3 (cngCnmTransmitPriority); wire-formats 1.2",
        severity="warning",
        subject=_CPID,
        on=_CNM,
        optional=PRIORITY_FIELDS,
        parameters=("cnm_priority",),
        expression=_priority,
    ),
)

FAMILY = Family(name="qcn", title="QCN", parameters=QCNRules, rules=RULES)
