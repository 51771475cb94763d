"""Parameters of HPCC's reaction point; ports and destinations have no parameters."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import (
    MOST_OCTETS,
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
        doc="utilisation that a window aims at, of the busiest link on the path",
    )  # fmt: skip
    base_rtt_ns: int = duration(
        "base_rtt", 13_000, (1, _MAX_NS), source=f"{_PAPER} T (its simulations)",
        doc="round-trip time of the longest idle path; the first window is the link's rate times it",
    )  # fmt: skip
    max_stage: int = count(
        "max_stage", 5, (0, 1_000), source=f"{_PAPER} maxStage",
        doc="additive increases in a row before the window again follows the measured utilisation",
    )  # fmt: skip
    increase_octets: int = octets(
        "w_ai", 80, (0, MOST_OCTETS), source=f"{_PAPER} W_AI",
        doc="octets that each update adds to the window",
    )  # fmt: skip
    min_rate_bps: int = rate(
        "min_rate", 100 * 10**6, (1, _MAX_BPS), source=_SIMULATOR,
        doc="floor of a flow's rate; its window's floor is this rate times base_rtt",
    )  # fmt: skip
    timeout_ns: int = duration(
        "timeout", 1_000_000, (1_000, _MAX_NS), source="choice",
        doc="time without an acknowledgement after which all octets in flight count as lost",
    )  # fmt: skip
    max_flows: int = count(
        "max_flows", 256, (1, 4096), source="choice",
        doc="flows of a station with a window of their own; further ones share the last",
    )  # fmt: skip


HPCC = Mechanism(
    name="hpcc",
    title="High precision congestion control: a window by the records of every hop (INT)",
    source=f"{_PAPER}; {_SIMULATOR}",
    machine="ecmproto.control.mechanisms.hpcc.machine:HPCCMachine",
    roles={Role.REACTION_POINT: HPCCReactionPointParameters},
)
