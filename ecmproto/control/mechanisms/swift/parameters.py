"""Parameters of Swift's reaction point; ports and destinations have no parameters."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import Parameters, count, duration, ratio, redeclared
from ecmproto.control.mechanisms.hpcc.parameters import HPCCReactionPointParameters

_PAPER = "Kumar et al., SIGCOMM 2020"
_VALUE = "value: htsim"
_MAX_NS = 10**9
_MAX_CWND = 100_000
_CLOCK_NS = 16_000_000
"""Maximum timeout, so that the 24-bit time in a tag is unambiguous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwiftReactionPointParameters(Parameters):
    """Parameters of a station's reaction points, one reaction point per flow. Windows are in packets.

    Raises ParameterError for a value out of range, and for a minimum that is not below its maximum.
    """

    base_target_ns: int = duration(
        "base_target", 25_000, (1, _MAX_NS), source=f"{_PAPER} base_target, 5.1",
        doc="target delay without hops and with a large window",
    )  # fmt: skip
    hop_ns: int = duration(
        "hop", 3_000, (0, _MAX_NS), source=f"{_PAPER} ħ; {_VALUE}",
        doc="target delay that each switch on the path adds",
    )  # fmt: skip
    fs_range_ns: int = duration(
        "fs_range", 100_000, (0, _MAX_NS), source=f"{_PAPER} fs_range; {_VALUE}",
        doc="target delay that flow scaling adds at fs_min_cwnd; 0 disables flow scaling",
    )  # fmt: skip
    fs_min_cwnd: float = ratio(
        "fs_min_cwnd", 0.1, (0.001, _MAX_CWND), source=f"{_PAPER} fs_min_cwnd; {_VALUE}",
        doc="window below which flow scaling does not grow",
    )  # fmt: skip
    fs_max_cwnd: float = ratio(
        "fs_max_cwnd", 100, (0.001, _MAX_CWND), source=f"{_PAPER} fs_max_cwnd; {_VALUE}",
        doc="window from which on flow scaling adds nothing",
    )  # fmt: skip
    increase: float = ratio(
        "ai", 1, (0, 1_000), source=f"{_PAPER} ai; {_VALUE}",
        doc="packets that a round trip with a delay below the target adds to the window",
    )  # fmt: skip
    beta: float = ratio(
        "beta", 0.8, (0, 1), source=f"{_PAPER} β; {_VALUE}",
        doc="decrease of the window, relative to the excess of the delay over the target",
    )  # fmt: skip
    max_mdf: float = ratio(
        "max_mdf", 0.5, (0, 1), source=f"{_PAPER} max_mdf; {_VALUE}",
        doc="maximum decrease of the window per round trip, and the decrease after a loss",
    )  # fmt: skip
    first_cwnd: float = ratio(
        "first_cwnd", 10, (0.001, _MAX_CWND), source="choice", doc="window of a new flow"
    )
    min_cwnd: float = ratio(
        "min_cwnd", 0.001, (0.001, _MAX_CWND), source=f"{_PAPER} min_cwnd, 3.4",
        doc="minimum window. Frames of a window below 1 are spaced by more than a round trip",
    )  # fmt: skip
    max_cwnd: float = ratio(
        "max_cwnd", 1_000, (0.001, _MAX_CWND), source=f"{_PAPER} max_cwnd; {_VALUE}", doc="maximum window"
    )
    retransmit_threshold: int = count(
        "retx_reset", 5, (1, 1_000), source=f"{_PAPER} RETX_RESET_THRESHOLD; {_VALUE}",
        doc="number of consecutive time-outs that set the window to min_cwnd",
    )  # fmt: skip
    timeout_ns: int = redeclared(HPCCReactionPointParameters, "timeout_ns", within=(1_000, _CLOCK_NS))
    max_flows: int = redeclared(HPCCReactionPointParameters, "max_flows")

    relations = (("fs_min_cwnd", "less than", "fs_max_cwnd"), ("min_cwnd", "less than", "max_cwnd"))


SWIFT = Mechanism(
    name="swift",
    title="Swift: a window by the delay of acknowledgements, toward a target delay",
    source=f"{_PAPER}; htsim",
    machine="ecmproto.control.mechanisms.swift.machine:SwiftMachine",
    roles={Role.REACTION_POINT: SwiftReactionPointParameters},
)
