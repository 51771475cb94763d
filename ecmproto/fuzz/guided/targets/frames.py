"""Of any octets:

- `decode_lax` never raises; `decode` raises `DecodeError` alone, and for malformed frames alone
- the frame of both encodes to the same octets, and so does the frame of its document
- its fields follow one another without gaps and cover the frame
"""

from __future__ import annotations

from ecmproto.fuzz.document_check import DocumentCheck
from ecmproto.fuzz.guided.frame_mutation import frame_mutated
from ecmproto.fuzz.guided.target import Target
from ecmproto.fuzz.kinds import template_frames
from ecmproto.fuzz.schema_check import SchemaCheck

TARGET = Target(
    subject="frames",
    checks=lambda: [SchemaCheck(), DocumentCheck()],
    instrumented=("ecmproto.codec",),
    starts=template_frames,
    mutate=frame_mutated,
)
