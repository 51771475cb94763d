"""Parameters of FECN.  Queue lengths are S003's packets of 1500 octets, in octets."""

from __future__ import annotations

from dataclasses import dataclass, field

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.mechanisms.api.parameters import Parameters, documented
from ecmproto.units import NS_PER_S

_S003 = "S003"
_CHOICE = "choice (algorithms 5)"


@dataclass(frozen=True, slots=True, kw_only=True)
class FECNCongestionPointParameters(Parameters):
    """The parameters of a switch; one set serves every output queue.

    Raises ParameterError on a value out of its range, or if Qeq is not below Qsc.
    """

    interval_ns: int = field(
        default=1_000_000,
        metadata=documented(
            "T",
            unit="ns",
            minimum=1_000,
            maximum=1_000_000_000,
            source=f"{_S003} (measurement interval)",
            doc="time between two updates of the advertised rate",
        ),
    )
    initial_sources: int = field(
        default=20,
        metadata=documented(
            "N0",
            unit="count",
            minimum=1,
            maximum=1_000_000,
            source=f"{_S003} (20 to 200; can be set to a large value)",
            doc="sources expected at start: the advertised rate and its largest increase start at C/N0",
        ),
    )
    averaging: float = field(
        default=0.5,
        metadata=documented(
            "alpha",
            unit="ratio",
            minimum=0.01,
            maximum=1,
            source=f"{_S003} enhancement 2",
            doc="weight of the rate just found against the rate two updates back",
        ),
    )
    linear: bool = field(
        default=False,
        metadata=documented(
            "linear",
            unit="flag",
            source=f"{_S003} enhancement 1 (recommends the hyperbolic one)",
            doc="whether queue control is linear (slope k) instead of hyperbolic (a, b); both end at c",
        ),
    )
    steepness_above: float = field(
        default=1.1,
        metadata=documented(
            "a",
            unit="ratio",
            minimum=1,
            maximum=100,
            source=f"{_S003} enhancement 1",
            doc="a of the hyperbolic queue control, for queues above Qeq",
        ),
    )
    steepness_below: float = field(
        default=1.002,
        metadata=documented(
            "b",
            unit="ratio",
            minimum=1,
            maximum=100,
            source=f"{_S003} enhancement 1",
            doc="b of the hyperbolic queue control, for queues up to Qeq",
        ),
    )
    least_control: float = field(
        default=0.1,
        metadata=documented(
            "c",
            unit="ratio",
            minimum=0.001,
            maximum=1,
            source=f"{_S003} enhancement 1",
            doc="least value of the queue control",
        ),
    )
    slope: float = field(
        default=0.1,
        metadata=documented(
            "k",
            unit="ratio",
            minimum=0,
            maximum=100,
            source=_CHOICE,
            doc="k of the linear queue control",
        ),
    )
    qeq_octets: int = field(
        default=24_000,
        metadata=documented(
            "qeq",
            unit="octets",
            minimum=64,
            maximum=4_294_967_295,
            source=f"{_S003} (16 packets, algorithms 5)",
            doc="queue length that the switch steers to (Qeq)",
        ),
    )
    qsc_octets: int = field(
        default=120_000,
        metadata=documented(
            "qsc",
            unit="octets",
            minimum=64,
            maximum=4_294_967_295,
            source=f"{_S003} (80 packets, algorithms 5)",
            doc="queue length above which the largest increase shrinks (Qsc)",
        ),
    )
    least_load: float = field(
        default=0.001,
        metadata=documented(
            "rho_min",
            unit="ratio",
            minimum=1e-9,
            maximum=1,
            source=_CHOICE,
            doc="least effective load factor ρ that the rate is divided by",
        ),
    )
    least_rate_bps: int = field(
        default=100_000,
        metadata=documented(
            "r_min",
            unit="bit/s",
            minimum=1_000,
            maximum=1_000_000_000,
            source=_CHOICE,
            doc="least advertised rate",
        ),
    )
    least_increase_bps: int = field(
        default=1_000_000,
        metadata=documented(
            "dr_min",
            unit="bit/s",
            minimum=1_000,
            maximum=1_000_000_000,
            source=_CHOICE,
            doc="least value of the largest increase ΔR",
        ),
    )
    increase_growth: float = field(
        default=1.414,
        metadata=documented(
            "dr_up",
            unit="ratio",
            minimum=1,
            maximum=10,
            source=f"{_S003} enhancement 3",
            doc="ΔR is multiplied by it at an update below Qeq (λ)",
        ),
    )
    increase_decay: float = field(
        default=0.707,
        metadata=documented(
            "dr_down",
            unit="ratio",
            minimum=0.01,
            maximum=1,
            source=f"{_S003} enhancement 3",
            doc="ΔR is multiplied by it at an update above Qsc",
        ),
    )
    random_phase: bool = field(
        default=False,
        metadata=documented(
            "random_phase",
            unit="flag",
            source=_CHOICE,
            doc="whether updates start at a random phase instead of at multiples of T; rates stay fair, but "
            "converge more slowly, and frames may be lost",
        ),
    )

    def __post_init__(self) -> None:
        """Check every field, and Qeq against Qsc; raises ParameterError."""
        Parameters.__post_init__(self)
        if self.qeq_octets >= self.qsc_octets:
            raise ParameterError(
                name="qsc",
                needed=f"more than qeq ({self.qeq_octets} octets)",
                got=f"{self.qsc_octets} octets",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParameters(Parameters):
    """The parameters of a source that is told its rates; one set serves all its rate-limited queues.

    Raises ParameterError on a value out of its range.
    """

    initial_sources: int = field(
        default=20,
        metadata=documented(
            "N0",
            unit="count",
            minimum=1,
            maximum=1_000_000,
            source=f"{_S003} (20 to 200; can be set to a large value)",
            doc="sources expected at start: a queue starts at the link rate divided by it",
        ),
    )
    idle_ns: int = field(
        default=2_000_000,
        metadata=documented(
            "idle",
            unit="ns",
            minimum=1_000,
            maximum=10_000_000_000,
            source="choice (algorithms 5: 2T)",
            doc="a queue that was empty for this time starts anew, at the link rate divided by N0",
        ),
    )
    least_rate_bps: int = field(
        default=100_000,
        metadata=documented(
            "r_min",
            unit="bit/s",
            minimum=1_000,
            maximum=1_000_000_000,
            source=_CHOICE,
            doc="least rate of a queue, whatever it is told",
        ),
    )
    queues: int = field(
        default=1_024,
        metadata=documented(
            "queues",
            unit="count",
            minimum=1,
            maximum=65_535,
            source="choice (the RLQ-ID has 16 bits)",
            doc="rate-limited queues of a source; flows beyond them share the last one",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FECNReactionPointParameters(SourceParameters):
    """The parameters of a FECN source.  Raises ParameterError on a value out of its range."""

    tag_interval_ns: int = field(
        default=1_000_000,
        metadata=documented(
            "tau",
            unit="ns",
            minimum=1_000,
            maximum=1_000_000_000,
            source=f"{_S003} enhancement 5 (τ = T)",
            doc="a queue tags a frame when this time has passed since its last tag",
        ),
    )
    frames_per_tag: int = field(
        default=0,
        metadata=documented(
            "tag_frames",
            unit="count",
            minimum=0,
            maximum=1_000_000,
            source=f"{_S003} (overhead: every n-th packet)",
            doc="a queue tags its first and then every n-th frame, whatever the time; 0 tags by time",
        ),
    )
    random_phase: bool = field(
        default=False,
        metadata=documented(
            "random_phase",
            unit="flag",
            source=_CHOICE,
            doc="whether a queue's first tag comes at a random time within τ instead of with its first frame "
            "(S003's sources start on a multiple of T); rates stay fair, but converge more slowly, and "
            "frames may be lost",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FECNEdgeParameters(Parameters):
    """The parameters of an edge receiver.  Raises ParameterError on a value out of its range."""

    return_priority: int = field(
        default=7,
        metadata=documented(
            "return_priority",
            unit="count",
            minimum=0,
            maximum=7,
            source="wire-formats 1.2 (choice)",
            doc="priority of a returning frame in its outermost VLAN tag",
        ),
    )


_INTERVAL_BITS = 600_000
"""What the measurement interval holds at a slow port: fifty full frames, lest it count clumps."""
_LEAST_INTERVAL_NS = 1_000_000


def _low_rate(rate_bps: int) -> list[str]:
    interval_ns = max(_LEAST_INTERVAL_NS, _INTERVAL_BITS * NS_PER_S // rate_bps)
    return [f"cp.T={interval_ns}ns", f"rp.tau={interval_ns}ns", f"rp.idle={2 * interval_ns}ns"]


FECN = Mechanism(
    name="fecn",
    title="Forward Explicit Congestion Notification",
    source="S003 (Jiang, Jain and So-In, IEEE 802.1au, March 2007)",
    machine="ecmproto.mechanisms.fecn.messages:FECNMachine",
    low_rate=_low_rate,
    roles={
        Role.CONGESTION_POINT: FECNCongestionPointParameters,
        Role.REACTION_POINT: FECNReactionPointParameters,
        Role.EDGE: FECNEdgeParameters,
    },
)
