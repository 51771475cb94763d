"""Of any text taken for a specification, TOML or JSON:

- reading and building its first frames raises `SpecError`, `EncodeError` or `ParameterError` alone
- each says something, and takes time and memory in proportion
"""

from __future__ import annotations

from ecmproto.fuzz.guided.octet_mutation import text_mutated
from ecmproto.fuzz.guided.target import Target
from ecmproto.fuzz.kinds import SUBJECTS
from ecmproto.fuzz.spec_check import SpecCheck

TARGET = Target(
    subject="specs",
    checks=lambda: [SpecCheck()],
    instrumented=("ecmproto.craft", "ecmproto.units", "ecmproto.codec"),
    starts=SUBJECTS["specs"].corpus,
    mutate=text_mutated,
)
