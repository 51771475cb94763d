"""Parameters of PAUSE and PFC, and S003's rule of thumb for XOFF and XON thresholds and buffers.

On a port of a replay or of ``live cp``, thresholds that are not assigned come from
`ecmproto.engine.port.fitting_thresholds`, which fits them to the port's buffer, not from these defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ecmproto.errors import ParameterError
from ecmproto.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.mechanisms.api.parameters import Parameters, documented
from ecmproto.units import NS_PER_S

_SECTION = "algorithms §6"
_S002 = "S002 Simulation Setup & Parameters"
_LARGEST_OCTETS = 10**9
_OCTET_BITS = 8
_ALL = frozenset(range(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParameters(Parameters):
    """The parameters of sending PAUSE: its XOFF and XON thresholds.

    Raises ParameterError on a value out of its range, or a low mark above the high one.
    """

    high_octets: int = field(
        default=280_000,
        metadata=documented(
            "high",
            unit="octets",
            minimum=1,
            maximum=_LARGEST_OCTETS,
            source=_S002,
            doc="occupancy above which XOFF is sent (S003: 2 RTT; S004: Qst)",
        ),
    )
    low_octets: int = field(
        default=260_000,
        metadata=documented(
            "low",
            unit="octets",
            minimum=0,
            maximum=_LARGEST_OCTETS,
            source=_S002,
            doc="occupancy at or below which XON is sent (S003: 1 RTT)",
        ),
    )
    pause_on: str = field(
        default="input",
        metadata=documented(
            "pause_on",
            unit="choice",
            choices=("input", "output"),
            source=f"{_SECTION}: per input in S002, on the output queue in S003 and S004",
            doc="whose occupancy the marks are of: one input's, which is stopped, or an output queue's, and "
            "all that feed it are stopped",
        ),
    )
    pause_quanta: int = field(
        default=0xFFFF,
        metadata=documented(
            "pause_quanta",
            unit="count",
            minimum=2,
            maximum=0xFFFF,
            source=_SECTION,
            doc="the time that an XOFF carries; it is refreshed after half of it",
        ),
    )

    def __post_init__(self) -> None:
        """Check every field, and the thresholds against one another."""
        # Not super(): a slotted dataclass is another class than the one super() would find.
        Parameters.__post_init__(self)
        if self.low_octets > self.high_octets:
            raise ParameterError(
                name="low", needed=f"at most high, {self.high_octets} octets", got=f"{self.low_octets} octets"
            )

    @property
    def classes(self) -> frozenset[int]:
        """Return the classes that are stopped separately: with PAUSE one for the whole link, class 0."""
        return frozenset({0})


@dataclass(frozen=True, slots=True, kw_only=True)
class PFCGenerationParameters(GenerationParameters):
    """The parameters of sending PFC: the thresholds hold for each priority by itself."""

    priorities: frozenset[int] = field(
        default=_ALL,
        metadata=documented(
            "priorities",
            unit="priorities",
            source="802.3 Annex 31D; wire-formats 8",
            doc="priorities that are stopped before they lose frames",
        ),
    )

    @property
    def classes(self) -> frozenset[int]:
        """Return the classes that are stopped separately: with PFC each priority that takes part."""
        return self.priorities


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseReactionParameters(Parameters):
    """The parameters of obeying PAUSE: there are none."""

    @property
    def priorities(self) -> frozenset[int]:
        """Return all priorities: PAUSE stops every one."""
        return _ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class PFCReactionParameters(Parameters):
    """The parameters of obeying PFC."""

    priorities: frozenset[int] = field(
        default=_ALL,
        metadata=documented(
            "priorities",
            unit="priorities",
            source="802.3 Annex 31D; wire-formats 8",
            doc="priorities whose times are obeyed; those of others are counted and ignored",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOfThumb:
    """Thresholds and buffer by S003 ("Minimum Buffering Required w Pause"), in octets."""

    high_octets: int
    """2 RTT: as far above the low mark as the low mark is above 0."""
    low_octets: int
    """1 RTT: the queue does not run empty after an XON."""
    buffer_octets: int
    """3 RTT: nothing is lost after an XOFF."""


def rule_of_thumb(*, rate_bps: int, rtt_ns: int) -> RuleOfThumb:
    """Return S003's thresholds and buffer for a link of ``rate_bps`` with a round trip of ``rtt_ns``.

    What the link carries in one, two and three round trips, each rounded up to whole octets.  Raises
    ParameterError unless both are positive.
    """
    if rate_bps <= 0:
        raise ParameterError(name="rate", needed="a positive rate", got=f"{rate_bps} bit/s")
    if rtt_ns <= 0:
        raise ParameterError(name="rtt", needed="a positive time", got=f"{rtt_ns} ns")
    one, two, three = (
        -(-round_trips * rate_bps * rtt_ns // (_OCTET_BITS * NS_PER_S)) for round_trips in (1, 2, 3)
    )
    return RuleOfThumb(high_octets=two, low_octets=one, buffer_octets=three)


PAUSE = Mechanism(
    name="pause",
    title="PAUSE: stop the whole link (802.3 Annex 31B)",
    source="802.3 Annex 31B; S002, S003 and S004; algorithms §6",
    machine="ecmproto.mechanisms.pause.messages:PauseMachine",
    roles={
        Role.CONGESTION_POINT: GenerationParameters,
        Role.REACTION_POINT: PauseReactionParameters,
    },
)

PFC = Mechanism(
    name="pfc",
    title="Priority-based flow control: stop priorities one by one (802.3 Annex 31D)",
    source="802.3 Annex 31D; algorithms §6",
    machine="ecmproto.mechanisms.pause.messages:PFCMachine",
    roles={
        Role.CONGESTION_POINT: PFCGenerationParameters,
        Role.REACTION_POINT: PFCReactionParameters,
    },
)
