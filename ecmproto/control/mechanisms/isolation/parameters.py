"""Parameters of congestion isolation; hosts have no parameters."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import MAX_OCTETS, Parameters, count, duration, octets
from ecmproto.errors import ParameterError

_CHOICE = "choice"
_MAX_NS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationPointParameters(Parameters):
    """Parameters of a port that isolates flows.

    Raises ParameterError for a value out of range, and unless the isolated queue is below the priority.
    """

    priority: int = count(
        "priority", 3, (1, 7), source=_CHOICE, doc="priority of the flows that the port may isolate"
    )
    queue: int = count(
        "queue", 1, (0, 6), source=_CHOICE,
        doc="queue of isolated flows, a lower priority that no other flow may use",
    )  # fmt: skip
    threshold_octets: int = octets(
        "threshold", 30_000, (1, MAX_OCTETS), source=_CHOICE,
        doc="queue length above which flows are isolated. The port starts to count the octets of flows at "
        "half this length",
    )  # fmt: skip
    flow_octets: int = octets(
        "flow_octets", 10_000, (0, MAX_OCTETS), source=_CHOICE,
        doc="minimum number of counted octets of an isolated flow, which protects slower flows",
    )  # fmt: skip
    interval_ns: int = duration(
        "interval", 100_000, (1, _MAX_NS), source=_CHOICE,
        doc="minimum time between two messages about a flow to the same neighbour",
    )  # fmt: skip
    hold_ns: int = duration(
        "hold", 300_000, (1, _MAX_NS), source=_CHOICE,
        doc="minimum time for which a flow stays isolated, from its isolation or from the neighbour's last "
        "message",
    )  # fmt: skip
    max_flows: int = count(
        "max_flows", 64, (1, 4096), source=_CHOICE,
        doc="maximum number of flows that a port counts or isolates at the same time",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ParameterError for a value out of range, and unless the queue is below the priority."""
        # Not super(): a slotted dataclass differs from the class that super() would use.
        Parameters.__post_init__(self)
        if self.queue >= self.priority:
            needed = f"a queue below priority {self.priority}"
            raise ParameterError(name="queue", needed=needed, got=str(self.queue))

    @property
    def isolation(self) -> tuple[int, int] | None:
        """Return the priority whose flows ports isolate, and the queue of isolated flows."""
        return self.priority, self.queue


ISOLATION = Mechanism(
    name="isolation",
    title="Congestion isolation: flows that congest a port wait in a queue of their own",
    source="IEEE 802.1Qcz; rules and octets: choice",
    machine="ecmproto.control.mechanisms.isolation.machine:IsolationMachine",
    roles={Role.CONGESTION_POINT: IsolationPointParameters},
)
