"""Parameters of an E²CM congestion point and of its edge receiver: S002's "Simulation Setup & Parameters"."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.aimd import parameters as aimd
from ecmproto.mechanisms.aimd.parameters import UNSET, WEIGHT_DENOMINATOR, SamplingParameters
from ecmproto.mechanisms.parameters import Parameters, documented
from ecmproto.units import format_octets

S002 = "S002 Simulation Setup & Parameters"
QEQ_OCTETS = 75_000
LARGEST_SAMPLING_OCTETS = 256_000


def redeclared(
    base: type[Parameters], attribute: str, default: Any, source: str = S002, **changes: Any
) -> Any:
    """Return the field ``attribute`` of ``base`` with another default, source and whatever else changes."""
    (inherited,) = [one for one in fields(base) if one.name == attribute]
    metadata = dict(inherited.metadata)
    ((key, documentation),) = metadata.items()
    return field(default=default, metadata={key: documentation | {"source": source} | changes})


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionPointParameters(aimd.CongestionPointParameters):
    """What an E²CM congestion point is set to: ECM's parameters with S002's values, and its own.

    Raises ParameterError on values that do not go together.
    """

    fixed_octets: int = redeclared(
        aimd.CongestionPointParameters,
        "fixed_octets",
        75_000,
        doc="fixed part of the sampling interval of frames without CM-Tag",
    )
    qeq_octets: int = redeclared(aimd.CongestionPointParameters, "qeq_octets", QEQ_OCTETS)
    qmc_octets: int = redeclared(
        aimd.CongestionPointParameters,
        "qmc_octets",
        280_000,
        doc="threshold above which BCN_MAX is sent; 0 turns it off",
    )
    qsc_octets: int = redeclared(
        aimd.CongestionPointParameters,
        "qsc_octets",
        0,
        doc="threshold above which BCN_ZERO is sent; 0 turns it off",
    )
    tagged_fixed_octets: int = field(
        default=15_000,
        metadata=documented(
            "tagged_sf",
            unit="octets",
            minimum=0,
            maximum=LARGEST_SAMPLING_OCTETS,
            source=S002,
            doc="fixed part of the sampling interval of rate-limited frames, which are counted by themselves",
        ),
    )
    tagged_random_octets: int = field(
        default=UNSET,
        metadata=documented(
            "tagged_sr",
            unit="octets",
            minimum=0,
            maximum=64_000,
            source="algorithms §1",
            doc="half the width of its random part, at most tagged_sf; by default 0.3·tagged_sf; with "
            "tagged_sf=0 the interval is random alone, from 0 to tagged_sr",
        ),
    )
    q_bit: bool = field(
        default=False,
        metadata=documented(
            "q_bit",
            unit="flag",
            source="S000 3.2.1 (experimental feature)",
            doc="whether a message says that Qdelta is saturated",
        ),
    )
    increase_signals: bool = field(
        default=True,
        metadata=documented(
            "increase_signals",
            unit="flag",
            source="S002 E²CM Principles (potential optimization: bridges do not send increase signals)",
            doc="whether messages whose feedback is positive are sent: probes raise the rate as well",
        ),
    )
    weight: float = field(
        default=2.0,
        metadata=documented(
            "w",
            unit="ratio",
            minimum=1 / WEIGHT_DENOMINATOR,
            maximum=8,
            step=1 / WEIGHT_DENOMINATOR,
            source=S002,
            doc="weight of Qdelta in the sign of the feedback, where increase signals are not sent",
        ),
    )

    def __post_init__(self) -> None:
        """Check the fields and their relations; raises ParameterError."""
        if self.tagged_random_octets is UNSET and isinstance(self.tagged_fixed_octets, int):
            object.__setattr__(self, "tagged_random_octets", min(self.tagged_fixed_octets * 3 // 10, 64_000))
        aimd.CongestionPointParameters.__post_init__(self)
        if self.tagged_random_octets > self.tagged_fixed_octets > 0:
            raise ParameterError(
                name="tagged_sr",
                needed=f"at most tagged_sf ({format_octets(self.tagged_fixed_octets)})",
                got=f"{self.tagged_random_octets} octets",
            )

    def tagged_sampling(self) -> SamplingParameters:
        """Return the sampling of rate-limited frames."""
        return SamplingParameters(
            fixed_octets=self.tagged_fixed_octets,
            random_octets=self.tagged_random_octets,
            oversampling_shift=self.oversampling_shift,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeParameters(Parameters):
    """What an E²CM edge receiver is set to."""

    max_flows: int = field(
        default=4_096,
        metadata=documented(
            "max_flows",
            unit="count",
            minimum=1,
            maximum=65_536,
            source="choice",
            doc="flows that are measured at a time; probes of others are answered without a throughput",
        ),
    )
    reply_priority: int = field(
        default=7,
        metadata=documented(
            "reply_priority",
            unit="count",
            minimum=0,
            maximum=7,
            source="wire-formats 1.2",
            doc="priority of a probe's reply in its outermost VLAN tag",
        ),
    )
