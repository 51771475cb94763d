"""Of any octets taken for a capture:

- reading raises `CaptureError` alone, and says where: within the file, behind the frames that were read
- no frame is longer than its record, or of an interface that is not described; records do not overlap
- read in small pieces it is the same capture: frames, times, interfaces and what is wrong
"""

from __future__ import annotations

from ecmproto.fuzz.capture_check import CaptureCheck
from ecmproto.fuzz.guided.octet_mutation import capture_mutated
from ecmproto.fuzz.guided.target import Target
from ecmproto.fuzz.kinds import SUBJECTS

TARGET = Target(
    subject="captures",
    checks=lambda: [CaptureCheck()],
    instrumented=("ecmproto.capture",),
    starts=SUBJECTS["captures"].corpus,
    mutate=capture_mutated,
    longest_octets=4096,
)
