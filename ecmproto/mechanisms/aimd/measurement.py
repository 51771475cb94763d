"""How far a queue is from its equilibrium and where it is going (S000 3.2; algorithms §1, CP 2 and 4)."""

from __future__ import annotations

from ecmproto.kernel import inlined
from ecmproto.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR, CongestionPointParameters
from ecmproto.mechanisms.aimd.sampling import OFF_OCTETS
from ecmproto.units import QUEUE_UNIT_OCTETS


class Thresholds:
    """A record."""

    qeq_octets: int
    qmc_octets: int
    """Or OFF_OCTETS."""
    qsc_octets: int
    """Or OFF_OCTETS."""
    qscale_8: int
    """Qscale in 1/8."""


def set_thresholds(record: Thresholds, parameters: CongestionPointParameters) -> None:
    """Fill ``record``."""
    record.qeq_octets = parameters.qeq_octets
    record.qmc_octets = parameters.qmc_octets or OFF_OCTETS
    record.qsc_octets = parameters.qsc_octets or OFF_OCTETS
    record.qscale_8 = int(parameters.qscale * WEIGHT_DENOMINATOR)


@inlined
def clamped(value: int, limit: int) -> int:
    """Return ``value`` within ±``limit``."""
    return max(-limit, min(limit, value))


@inlined
def offset_octets(thresholds: Thresholds, qlen_octets: int) -> int:
    """Return Qoff = Qlen − Qeq within ±Qeq; S000's pseudo-code forgets the upper bound, its text does not."""
    return clamped(qlen_octets - thresholds.qeq_octets, thresholds.qeq_octets)


@inlined
def delta_octets(thresholds: Thresholds, qlen_octets: int, qlen_old_octets: int) -> int:
    """Return Qdelta = Qlen − Qlen at the previous sample, within ±2·Qeq."""
    return clamped(qlen_octets - qlen_old_octets, 2 * thresholds.qeq_octets)


@inlined
def scaled_units(thresholds: Thresholds, octets: int) -> int:
    """Return ``octets`` times Qscale in units of 64 octets, truncated toward zero (wire-formats 1.2)."""
    return truncated_quotient(octets * thresholds.qscale_8, WEIGHT_DENOMINATOR * QUEUE_UNIT_OCTETS)


@inlined
def truncated_quotient(numerator: int, denominator: int) -> int:
    """Return the quotient truncated toward zero; ``denominator`` > 0."""
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)
