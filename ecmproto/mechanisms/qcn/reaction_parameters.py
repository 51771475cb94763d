"""Parameters of a QCN reaction point.  Ranges are those of the IEEE8021-CN-MIB where it has one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.parameters import Parameters, documented
from ecmproto.units import format_rate

_MIB = "802.1Q, IEEE8021-CN-MIB"
_MBPS = 10**6
_MOST = 4_294_967_295
"""The largest value of the MIB's 32-bit objects."""


PSEUDOCODE, STANDARD = "pseudocode", "standard"
"""The two published readings of the rate increase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactionPointParameters(Parameters):
    """What the reaction points of a QCN station are set to.

    Raises ParameterError on a value out of its range, and when the minimum rate is above the maximum.
    """

    byte_reset_octets: int = field(
        default=150_000,
        metadata=documented(
            "byte_reset",
            unit="octets",
            minimum=1,
            maximum=_MOST,
            source=f"S001 BC_LIMIT; {_MIB} ieee8021CnRpgByteReset",
            doc="octets that a limiter sends in one stage of its byte counter",
        ),
    )
    time_reset_ns: int = field(
        default=15_000_000,
        metadata=documented(
            "time_reset",
            unit="ns",
            minimum=1_000,
            maximum=_MOST * 10**6,
            source=f"S001 TIMER_PERIOD; {_MIB} ieee8021CnRpgTimeReset (whole ms; shorter ones are a choice)",
            doc="time of one stage of a limiter's timer",
        ),
    )
    threshold: int = field(
        default=5,
        metadata=documented(
            "threshold",
            unit="count",
            minimum=1,
            maximum=_MOST,
            source=f"S001 FAST_RECOVERY_TH; {_MIB} ieee8021CnRpgThreshold",
            doc="stage of a counter that ends its share in fast recovery",
        ),
    )
    ai_rate_bps: int = field(
        default=5 * _MBPS,
        metadata=documented(
            "ai_rate",
            unit="bit/s",
            minimum=_MBPS,
            maximum=_MOST * _MBPS,
            source=f"S001 R_AI; {_MIB} ieee8021CnRpgAiRate",
            doc="what active increase adds to the target rate",
        ),
    )
    hai_rate_bps: int = field(
        default=50 * _MBPS,
        metadata=documented(
            "hai_rate",
            unit="bit/s",
            minimum=_MBPS,
            maximum=_MOST * _MBPS,
            source=f"S001 R_HAI; {_MIB} ieee8021CnRpgHaiRate",
            doc="what hyper-active increase adds to the target rate, times its step",
        ),
    )
    gd: float = field(
        default=1 / 128,
        metadata=documented(
            "gd",
            unit="ratio",
            minimum=2**-31,
            maximum=1,
            source=f"S001 GD; {_MIB} ieee8021CnRpgGd (its exponent, 7)",
            doc="gain of the decrease: the share of the rate that one unit of Quantized Feedback takes",
        ),
    )
    largest_decrease: float = field(
        default=0.5,
        metadata=documented(
            "largest_decrease",
            unit="ratio",
            minimum=0,
            maximum=0.99,
            source=f"{_MIB} ieee8021CnRpgMinDecFac (what is left, in percent)",
            doc="largest share of the rate that one CNM takes",
        ),
    )
    min_rate_bps: int = field(
        default=10 * _MBPS,
        metadata=documented(
            "min_rate",
            unit="bit/s",
            minimum=_MBPS,
            maximum=_MOST * _MBPS,
            source=f"S001 MIN_RATE; {_MIB} ieee8021CnRpgMinRate, whose default is 5 Mb/s",
            doc="floor of a limiter's rate",
        ),
    )
    max_rate_bps: int = field(
        default=0,
        metadata=documented(
            "max_rate",
            unit="bit/s",
            minimum=0,
            maximum=_MOST * _MBPS,
            source=f"{_MIB} ieee8021CnRpgMaxRate",
            doc="rate at which a limiter starts and is released; 0, and anything above it, is the link's",
        ),
    )
    max_rps: int = field(
        default=100,
        metadata=documented(
            "max_rps",
            unit="count",
            minimum=1,
            maximum=100,
            source=f"{_MIB} ieee8021CnRpPortPriMaxRps",
            doc="flows that get a limiter of their own; those beyond share one more",
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
            doc="each reload is multiplied by a number drawn uniformly from 1 ± jitter (not if standard)",
        ),
    )
    variant: str = field(
        default=PSEUDOCODE,
        metadata=documented(
            "variant",
            unit="choice",
            choices=(PSEUDOCODE, STANDARD),
            source="algorithms 3: the published pseudo-code, the state diagram of 802.1Q",
            doc="which published reading; standard: threshold reached counts as past it, hyper step one "
            "more, halving in hyper only, no jitter",
        ),
    )

    def __post_init__(self) -> None:
        """Check every field and the order of the rates; raises ParameterError."""
        Parameters.__post_init__(self)
        if self.max_rate_bps:
            check_rates(self.min_rate_bps, self.max_rate_bps)

    @property
    def standard(self) -> bool:
        """Whether the variant is that of 802.1Q's state diagram."""
        return self.variant == STANDARD

    def highest_rate_bps(self, link_rate_bps: int) -> int:
        """Return the maximum rate on a link; raises ParameterError if the minimum is above it."""
        highest_bps = min(self.max_rate_bps or link_rate_bps, link_rate_bps)
        check_rates(self.min_rate_bps, highest_bps)
        return highest_bps


def check_rates(min_rate_bps: int, max_rate_bps: int) -> None:
    """Raise ParameterError unless the minimum rate is at most the maximum."""
    if min_rate_bps > max_rate_bps:
        raise ParameterError(
            name="min_rate",
            needed=f"at most the maximum rate, {format_rate(max_rate_bps)}",
            got=format_rate(min_rate_bps),
        )
