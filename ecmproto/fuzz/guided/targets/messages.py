"""Of any octets that reach a reaction point (CNM, ECM, BCN, E²CM, FECN, DBP, PAUSE, PFC, or none of them):

- hearing raises nothing; a refusal is counted, once
- what is heard fits a message of the mechanism, and is heard by nobody whom it is not for
- heeded again and again, timers expiring in between, it leaves every rate between 0 and the link's
"""

from __future__ import annotations

from ecmproto.fuzz.guided.frame_mutation import frame_mutated
from ecmproto.fuzz.guided.target import Target
from ecmproto.fuzz.kinds import template_frames
from ecmproto.fuzz.message_check import MessageCheck

TARGET = Target(
    subject="messages",
    checks=lambda: [MessageCheck()],
    instrumented=("ecmproto.mechanisms", "ecmproto.codec"),
    starts=template_frames,
    mutate=frame_mutated,
)
