"""Of any text taken for a display filter:

- compiling raises `FilterError` alone, which points into the text
- of a frame of each kind it selects by columns the same as frame by frame
"""

from __future__ import annotations

from ecmproto.fuzz.filter_check import FilterCheck
from ecmproto.fuzz.guided.octet_mutation import text_mutated
from ecmproto.fuzz.guided.target import Target
from ecmproto.fuzz.kinds import SUBJECTS, template_frames

TARGET = Target(
    subject="filters",
    checks=lambda: [FilterCheck(template_frames())],
    instrumented=("ecmproto.filter", "ecmproto.columns.selection", "ecmproto.columns.relations"),
    starts=SUBJECTS["filters"].corpus,
    mutate=text_mutated,
    longest_octets=256,
)
