"""Parameters of PAUSE and PFC.

On a port of a replay or of ``live cp``, `engine.port.fitting_thresholds` computes thresholds from the port's
buffer. The defaults of this module do not apply there.
"""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import (
    Parameters,
    choice,
    count,
    octets,
    priority_set,
    redeclared,
)

_SECTION = "algorithms §6"
_S002 = "S002 Simulation Setup & Parameters"
_LARGEST_OCTETS = 10**9
_ALL = frozenset(range(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParameters(Parameters):
    """Parameters of a port that sends PAUSE, with the XOFF and XON thresholds.

    Raises ParameterError for a value out of range, and for an XON threshold above the XOFF threshold.
    """

    high_octets: int = octets(
        "high", 280_000, (1, _LARGEST_OCTETS), source=_S002,
        doc="occupancy above which XOFF is sent (S003: 2 RTT; S004: Qst)",
    )  # fmt: skip
    low_octets: int = octets(
        "low", 260_000, (0, _LARGEST_OCTETS), source=_S002,
        doc="occupancy at or below which XON is sent (S003: 1 RTT)",
    )  # fmt: skip
    pause_on: str = choice(
        "pause_on", "input", ("input", "output"),
        source=f"{_SECTION}: per input in S002, on the output queue in S003 and S004",
        doc="whether the thresholds apply to the frames of each input, which is then paused, or to an "
        "output queue, whose inputs are then all paused",
    )  # fmt: skip
    pause_quanta: int = count(
        "pause_quanta", 0xFFFF, (2, 0xFFFF), source=_SECTION,
        doc="pause time in an XOFF. The XOFF is repeated after half of this time",
    )  # fmt: skip

    relations = (("low", "at most", "high"),)

    @property
    def classes(self) -> frozenset[int]:
        """Return the classes that the port stops separately: with PAUSE, only class 0 for the whole link."""
        return frozenset({0})


@dataclass(frozen=True, slots=True, kw_only=True)
class PFCGenerationParameters(GenerationParameters):
    """Parameters of a port that sends PFC; the thresholds apply to each priority separately."""

    priorities: frozenset[int] = priority_set(
        "priorities", _ALL, source="802.3 Annex 31D; wire-formats 8",
        doc="priorities that are paused before frames are lost",
    )  # fmt: skip

    @property
    def classes(self) -> frozenset[int]:
        """Return the classes that the port stops separately: with PFC, each participating priority."""
        return self.priorities


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseReactionParameters(Parameters):
    """Parameters of a station that obeys PAUSE; the class has no fields."""

    @property
    def priorities(self) -> frozenset[int]:
        """Return all priorities, since PAUSE stops every priority."""
        return _ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class PFCReactionParameters(Parameters):
    """Parameters of a station that obeys PFC."""

    priorities: frozenset[int] = redeclared(
        PFCGenerationParameters, "priorities",
        doc="priorities whose pause times are obeyed; pause times of other priorities are counted and "
        "ignored",
    )  # fmt: skip


PAUSE = Mechanism(
    name="pause",
    title="PAUSE: stop the whole link (802.3 Annex 31B)",
    source="802.3 Annex 31B; S002, S003 and S004; algorithms §6",
    machine="ecmproto.control.mechanisms.pause.machine:PauseMachine",
    roles={
        Role.CONGESTION_POINT: GenerationParameters,
        Role.REACTION_POINT: PauseReactionParameters,
    },
)

PFC = Mechanism(
    name="pfc",
    title="Priority-based flow control: stop priorities one by one (802.3 Annex 31D)",
    source="802.3 Annex 31D; algorithms §6",
    machine="ecmproto.control.mechanisms.pause.machine:PFCMachine",
    roles={
        Role.CONGESTION_POINT: PFCGenerationParameters,
        Role.REACTION_POINT: PFCReactionParameters,
    },
)
