"""Parameters of HPCC's reaction point; ports and destinations have no parameters."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import (
    MAX_OCTETS,
    Parameters,
    count,
    duration,
    octets,
    rate,
    ratio,
)

_PAPER = "Li et al., SIGCOMM 2019"
_SIMULATOR = "HPCC's public simulator"
_MAX_BPS = 4_294_967_295 * 10**6
_MAX_NS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class HPCCReactionPointParameters(Parameters):
    """Parameters of a station's reaction points, one reaction point per flow."""

    eta: float = ratio(
        "eta", 0.95, (0.01, 1), source=f"{_PAPER} η",
        doc="target utilisation of the busiest link on the path",
    )  # fmt: skip
    base_rtt_ns: int = duration(
        "base_rtt", 13_000, (1, _MAX_NS), source=f"{_PAPER} T (its simulations)",
        doc="round-trip time of the longest idle path. The first window is the link's rate multiplied by "
        "this time",
    )  # fmt: skip
    max_stage: int = count(
        "max_stage", 5, (0, 1_000), source=f"{_PAPER} maxStage",
        doc="number of consecutive additive increases after which the window again follows the measured "
        "utilisation",
    )  # fmt: skip
    increase_octets: int = octets(
        "w_ai", 80, (0, MAX_OCTETS), source=f"{_PAPER} W_AI",
        doc="octets that each update adds to the window",
    )  # fmt: skip
    min_rate_bps: int = rate(
        "min_rate", 100 * 10**6, (1, _MAX_BPS), source=_SIMULATOR,
        doc="minimum rate of a flow. The minimum window is this rate multiplied by base_rtt",
    )  # fmt: skip
    timeout_ns: int = duration(
        "timeout", 1_000_000, (1_000, _MAX_NS), source="choice",
        doc="if no acknowledgement arrives for this time, all octets in flight are treated as lost",
    )  # fmt: skip
    max_flows: int = count(
        "max_flows", 256, (1, 4096), source="choice",
        doc="number of flows of a station that have their own window. Further flows share the last window",
    )  # fmt: skip


HPCC = Mechanism(
    name="hpcc",
    title="High precision congestion control: a window by the records of every hop (INT)",
    source=f"{_PAPER}; {_SIMULATOR}",
    machine="ecmproto.control.mechanisms.hpcc.machine:HPCCMachine",
    roles={Role.REACTION_POINT: HPCCReactionPointParameters},
)
