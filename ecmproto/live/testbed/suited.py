"""Parameters for slow ports: the mechanisms' defaults are for 10 Gb/s."""

from __future__ import annotations

_TEN_G = 10**10
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
        return ["rp.rd=0", *_OFTEN]
    return ["rp.min_rate=1M"] if mechanism == "qcn" else []


_OFTEN = ("cp.sf=30kB", "cp.sr=9kB")
"""At a slow port 150 KB last too long between samples."""
