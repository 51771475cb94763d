"""Parameters of QCN.  Ranges are those of the IEEE8021-CN-MIB where it has one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ecmproto.mechanisms.parameters import Parameters, documented

SAMPLE_OCTETS = (150_000, 75_000, 50_000, 37_500, 30_000, 25_000, 21_500, 18_500)
"""Octets to the next sample for QntzFb div 8 = 0…7 when the minimum sample base is its default."""

WEIGHT_DENOMINATOR = 1024
"""w is a whole number of 1/1024: 2^-10, the MIB's least, so that every decision stays in integers."""

_MIB = "802.1Q, IEEE8021-CN-MIB"
_CHOICE = "choice (wire-formats)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionPointParameters(Parameters):
    """What a QCN congestion point is set to; one set serves every CN priority of a port.

    Raises ParameterError on a value out of its range.
    """

    qeq_octets: int = field(
        default=26_000,
        metadata=documented(
            "qeq",
            unit="octets",
            minimum=100,
            maximum=4_294_967_295,
            source=f"{_MIB} ieee8021CnCpQueueSizeSetPoint",
            doc="queue length that the congestion point steers to (Qeq)",
        ),
    )
    weight: float = field(
        default=2.0,
        metadata=documented(
            "w",
            unit="ratio",
            minimum=1 / WEIGHT_DENOMINATOR,
            maximum=1024,
            step=1 / WEIGHT_DENOMINATOR,
            source=f"{_MIB} ieee8021CnCpFeedbackWeight (its exponent, -10 to 10)",
            doc="weight of the queue's change Qdelta against its offset Qoff in the feedback",
        ),
    )
    sample_base_octets: int = field(
        default=150_000,
        metadata=documented(
            "sample_base",
            unit="octets",
            minimum=10_000,
            maximum=4_294_967_295,
            source=f"{_MIB} ieee8021CnCpMinSampleBase",
            doc="enqueued octets between two samples without congestion; all eight steps scale with it",
        ),
    )
    jitter: float = field(
        default=0.15,
        metadata=documented(
            "jitter",
            unit="ratio",
            minimum=0,
            maximum=0.5,
            source="S001 (margin of randomness 30 %: the width of the interval)",
            doc="each reload is multiplied by a number drawn uniformly from 1 ± jitter",
        ),
    )
    msdu_limit_octets: int = field(
        default=64,
        metadata=documented(
            "msdu_limit",
            unit="octets",
            minimum=0,
            maximum=64,
            source="802.1Q cnmEncapsulated MSDU; wire-formats 3",
            doc="most octets of the sampled frame's MSDU that a CNM carries",
        ),
    )
    cnm_priority: int = field(
        default=6,
        metadata=documented(
            "cnm_priority",
            unit="count",
            minimum=0,
            maximum=7,
            source="802.1Q; wire-formats 1.2",
            doc="priority of a CNM in its outermost VLAN tag",
        ),
    )
    cnm_without_cn_tag: bool = field(
        default=True,
        metadata=documented(
            "cnm_without_cn_tag",
            unit="flag",
            source=_CHOICE + " 2",
            doc="whether a sampled frame without a CN-TAG is answered by a CNM, with Flow ID 0",
        ),
    )
    cnpv: frozenset[int] = field(
        default=frozenset(range(8)),
        metadata=documented(
            "cnpv",
            unit="priorities",
            source=_CHOICE + " 9",
            doc="priorities that have a congestion point (congestion notification priority values)",
        ),
    )
