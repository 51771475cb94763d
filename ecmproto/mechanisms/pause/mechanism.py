"""PAUSE and PFC as the registry knows them."""

from __future__ import annotations

from ecmproto.mechanisms.mechanism import Mechanism, Role, RolePart
from ecmproto.mechanisms.pause.parameters import (
    GenerationParameters,
    PauseReactionParameters,
    PFCGenerationParameters,
    PFCReactionParameters,
)

_GENERATION = "ecmproto.mechanisms.pause.generation"
_REACTION = "ecmproto.mechanisms.pause.reaction"

PAUSE = Mechanism(
    name="pause",
    title="PAUSE: stop the whole link (802.3 Annex 31B)",
    source="802.3 Annex 31B; S002, S003 and S004; algorithms §6",
    machine="ecmproto.mechanisms.pause.machine:PauseMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(parameters=GenerationParameters, module=_GENERATION),
        Role.REACTION_POINT: RolePart(parameters=PauseReactionParameters, module=_REACTION),
    },
)

PFC = Mechanism(
    name="pfc",
    title="Priority-based flow control: stop priorities one by one (802.3 Annex 31D)",
    source="802.3 Annex 31D; algorithms §6",
    machine="ecmproto.mechanisms.pause.machine:PFCMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(parameters=PFCGenerationParameters, module=_GENERATION),
        Role.REACTION_POINT: RolePart(parameters=PFCReactionParameters, module=_REACTION),
    },
)
