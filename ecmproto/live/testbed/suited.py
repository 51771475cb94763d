"""Parameters for slow ports: the mechanisms' defaults are for 10 Gb/s."""

from __future__ import annotations

from ecmproto.units import NS_PER_S

_TEN_G = 10**10
_INTERVAL_BITS = 600_000
"""What FECN's measurement interval holds: fifty full frames, else it counts clumps, not a rate."""
_LEAST_INTERVAL_NS = 1_000_000
_RU_SHARE = 0.0004
"""Ru as a share of the port's rate: 4 Mb/s at 10 Gb/s (S004)."""
_LEAST_RU_BPS = 1_000_000
_GI = 4 * 64 / 1500
"""S004's Gi, a unit of 64 octets."""


def suited(mechanism: str, rate_bps: int) -> list[str]:
    """Return assignments that let ``mechanism`` settle at a port of ``rate_bps`` as it does at 10 Gb/s.

    Ru is 0.0004·C; where its range ends above that, the gain that it is multiplied with is less.
    """
    if rate_bps >= _TEN_G:
        return []
    if mechanism == "ecm":
        gi = _GI * _RU_SHARE * rate_bps / _LEAST_RU_BPS
        return ["rp.ru=1M", f"rp.gi={gi:.6f}", "rp.floor=1M", "rp.td=10ms", *_OFTEN, "cp.qsc=0"]
    if mechanism == "bcn":
        return ["rp.td=10ms", *_OFTEN]
    if mechanism == "e2cm":
        return [*_QUICK_SAMPLES, *_QUICK_GAINS, *_PROBES_RAISE]
    if mechanism == "fecn":
        interval_ns = max(_LEAST_INTERVAL_NS, _INTERVAL_BITS * NS_PER_S // rate_bps)
        return [f"cp.T={interval_ns}ns", f"rp.tau={interval_ns}ns", f"rp.idle={2 * interval_ns}ns"]
    return list(_QCN) if mechanism == "qcn" else []


_OFTEN = ("cp.sf=30kB", "cp.sr=9kB")
"""At a slow port 150 KB last too long between samples."""
_QUICK_SAMPLES = (
    "cp.sf=15kB", "cp.sr=4500B", "cp.tagged_sf=9kB", "cp.tagged_sr=2700B", "rp.probe_octets=30kB",
)  # fmt: skip
_QUICK_GAINS = ("rp.gi=0.1", "rp.flow_gi=0.5", "rp.flow_gd=0.5")
"""Both gains are shares of the rate a message: at a slow port there are few messages in a second."""
_PROBES_RAISE = ("cp.increase_signals=off", "rp.flow_qeq=25kB")
"""Messages that raise rates are most of them, and keep devices busy; what three flows are given is Qeq."""
_QCN = ("rp.min_rate=1M", "rp.ai_rate=1M", "rp.hai_rate=5M", "cp.sample_base=50kB")
