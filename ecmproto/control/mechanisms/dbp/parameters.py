"""Parameters of DBP. The switch and the source have the parameters of FECN with changed defaults."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import Parameters, count, duration, redeclared
from ecmproto.control.mechanisms.fecn.parameters import FECNCongestionPointParameters, SourceParameters

_S002 = "S002 (M. Seaman's proposal; 10 ms here)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DBPCongestionPointParameters(FECNCongestionPointParameters):
    """Parameters of a switch, which are the parameters of FECN with T = 10 ms.

    Raises ParameterError for a value out of range, and if Qeq is not below Qsc.
    """

    interval_ns: int = redeclared(
        FECNCongestionPointParameters, "interval_ns", 10_000_000, source="S002; algorithms 5"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DBPReactionPointParameters(SourceParameters):
    """Parameters of a source, which are the parameters of FECN without tagging.

    Raises ParameterError for a value out of range.
    """

    idle_ns: int = redeclared(SourceParameters, "idle_ns", 20_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class DBPEdgeParameters(Parameters):
    """Parameters of a destination.

    Raises ParameterError for a value out of range, and if a source would expire between two reports.
    """

    report_interval_ns: int = duration(
        "report_interval", 10_000_000, (1_000, 1_000_000_000), source=_S002,
        doc="time between two rate reports to an active source",
    )  # fmt: skip
    active_ns: int = duration(
        "active", 20_000_000, (1_000, 10_000_000_000), source="algorithms 5",
        doc="time for which a source is active after its last data frame",
    )  # fmt: skip
    sources: int = count(
        "sources", 1_024, (1, 1_000_000), source="choice",
        doc="number of sources to which a destination can report; further sources get no reports",
    )  # fmt: skip
    report_priority: int = count(
        "report_priority", 7, (0, 7), source="wire-formats 1.2 (choice)",
        doc="priority of a rate report in its outermost VLAN tag",
    )  # fmt: skip
    random_phase: bool = redeclared(
        FECNCongestionPointParameters, "random_phase",
        doc="whether reports start at a random phase instead of at multiples of their interval",
    )  # fmt: skip

    relations = (("active", "at least", "report_interval"),)


DBP = Mechanism(
    name="dbp",
    title="Destination-based probing: rate reports on the return path",
    source="S002 (M. Seaman's proposal), with the switch of S003",
    machine="ecmproto.control.mechanisms.dbp.machine:DBPMachine",
    roles={
        Role.CONGESTION_POINT: DBPCongestionPointParameters,
        Role.REACTION_POINT: DBPReactionPointParameters,
        Role.EDGE: DBPEdgeParameters,
    },
)
