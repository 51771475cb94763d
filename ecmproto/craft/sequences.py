"""All sequences by name."""

from __future__ import annotations

from ecmproto.codec.document import nearest
from ecmproto.craft.cnd_boundary import CND_BOUNDARY
from ecmproto.craft.floods import CN_TAG_SWEEP, CNM_FLOOD
from ecmproto.craft.sequence import Sequence
from ecmproto.errors import SpecError

SEQUENCES: dict[str, Sequence] = {each.name: each for each in (CNM_FLOOD, CN_TAG_SWEEP, CND_BOUNDARY)}


def sequence_named(name: str) -> Sequence:
    """Return the sequence of this name; SpecError with the nearest otherwise."""
    if name not in SEQUENCES:
        raise SpecError(
            where="frame", needed="the name of a layer or of a sequence", got=repr(name),
            hint=nearest(name, SEQUENCES),
        )  # fmt: skip
    return SEQUENCES[name]
