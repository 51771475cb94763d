"""Of any batch of frames:

- every field of every frame, and of the frame that a message shows, has in the columns the values that the
  one-frame decoder gives, in the same order, and no others
- a frame's fields do not depend on the frames beside it
"""

from __future__ import annotations

from itertools import pairwise

from ecmproto.fuzz.column_check import ColumnCheck
from ecmproto.fuzz.guided.frame_mutation import SEPARATOR, batch_mutated, batch_of
from ecmproto.fuzz.guided.target import Target
from ecmproto.fuzz.kinds import template_frames


def _pairs() -> list[bytes]:
    frames = template_frames()
    return [SEPARATOR.join(pair) for pair in pairwise(frames)]


TARGET = Target(
    subject="frames",
    checks=lambda: [ColumnCheck()],
    instrumented=("ecmproto.batch", "ecmproto.codec"),
    starts=_pairs,
    mutate=batch_mutated,
    items=batch_of,
)
