"""Specifications of any text, TOML or JSON: errors of specifications alone, whatever they ask for."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

from ecmproto.craft.recipe import chunks
from ecmproto.craft.spec import Reading, read_json, read_toml
from ecmproto.errors import EncodeError, ParameterError, SpecError
from ecmproto.fuzz.difference import Difference

_MOST_CHUNKS = 4


class SpecCheck:
    """Reads each item as a specification, and builds its first frames."""

    name = "specs"
    every = 1

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield errors that say nothing; others are raised."""
        for row, octets in enumerate(items):
            try:
                _build(octets)
            except (SpecError, EncodeError, ParameterError) as error:
                if not str(error).strip():
                    yield Difference(what="an error that says nothing", detail=repr(error), row=row)


def _build(octets: bytes) -> None:
    reading = Reading(random=Random(0))
    if octets.lstrip()[:1] == b"{":
        stream = io.TextIOWrapper(io.BytesIO(octets), encoding="utf-8", errors="replace")
        recipes = read_json(stream, "spec", reading)
    else:
        recipes = read_toml(io.BytesIO(octets), "spec", reading)
    for chunk in islice(chunks(recipes), _MOST_CHUNKS):
        chunk.batch()
