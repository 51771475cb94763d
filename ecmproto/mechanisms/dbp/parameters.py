"""Parameters of DBP: FECN's switch and source with the reports' interval, and the destination's own."""

from __future__ import annotations

from dataclasses import dataclass, field

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.mechanisms.api.parameters import Parameters, documented
from ecmproto.mechanisms.fecn.parameters import FECNCongestionPointParameters, SourceParameters

_S002 = "S002 (M. Seaman's proposal; 10 ms here)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DBPCongestionPointParameters(FECNCongestionPointParameters):
    """The parameters of a switch: FECN's, with T at 10 ms.

    Raises ParameterError on a value out of its range, or if Qeq is not below Qsc.
    """

    interval_ns: int = field(
        default=10_000_000,
        metadata=documented(
            "T",
            unit="ns",
            minimum=1_000,
            maximum=1_000_000_000,
            source="S002; algorithms 5",
            doc="time between two updates of the advertised rate",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DBPReactionPointParameters(SourceParameters):
    """The parameters of a source: FECN's, without those of tagging.

    Raises ParameterError on a value out of its range.
    """

    idle_ns: int = field(
        default=20_000_000,
        metadata=documented(
            "idle",
            unit="ns",
            minimum=1_000,
            maximum=10_000_000_000,
            source="choice (algorithms 5: 2T)",
            doc="a queue that was empty for this time starts anew, at the link rate divided by N0",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DBPEdgeParameters(Parameters):
    """The parameters of a destination.

    Raises ParameterError on a value out of its range, or if sources would be forgotten between two reports.
    """

    report_interval_ns: int = field(
        default=10_000_000,
        metadata=documented(
            "report_interval",
            unit="ns",
            minimum=1_000,
            maximum=1_000_000_000,
            source=_S002,
            doc="time between two rate reports to an active source",
        ),
    )
    active_ns: int = field(
        default=20_000_000,
        metadata=documented(
            "active",
            unit="ns",
            minimum=1_000,
            maximum=10_000_000_000,
            source="algorithms 5",
            doc="a source is active if data came from it within this time",
        ),
    )
    sources: int = field(
        default=1_024,
        metadata=documented(
            "sources",
            unit="count",
            minimum=1,
            maximum=1_000_000,
            source="choice",
            doc="sources that a destination can report to; others get no reports",
        ),
    )
    report_priority: int = field(
        default=7,
        metadata=documented(
            "report_priority",
            unit="count",
            minimum=0,
            maximum=7,
            source="wire-formats 1.2 (choice)",
            doc="priority of a rate report in its outermost VLAN tag",
        ),
    )
    random_phase: bool = field(
        default=False,
        metadata=documented(
            "random_phase",
            unit="flag",
            source="choice (algorithms 5)",
            doc="whether reports start at a random phase instead of at multiples of their interval",
        ),
    )

    def __post_init__(self) -> None:
        """Check every field, and the two times against each other; raises ParameterError."""
        Parameters.__post_init__(self)
        if self.active_ns < self.report_interval_ns:
            raise ParameterError(
                name="active",
                needed=f"at least report_interval ({self.report_interval_ns} ns)",
                got=f"{self.active_ns} ns",
            )


DBP = Mechanism(
    name="dbp",
    title="Destination-based probing: rate reports on the way back",
    source="S002 (M. Seaman's proposal), with the switch of S003",
    machine="ecmproto.mechanisms.dbp.machine:DBPMachine",
    roles={
        Role.CONGESTION_POINT: DBPCongestionPointParameters,
        Role.REACTION_POINT: DBPReactionPointParameters,
        Role.EDGE: DBPEdgeParameters,
    },
)
