"""Frames changed by their layers, for targets whose inputs are frames or batches of them."""

from __future__ import annotations

import functools

from ecmproto.codec.frame import Frame, decode_lax
from ecmproto.fuzz.dice import Dice
from ecmproto.fuzz.kinds import template_frames
from ecmproto.fuzz.layer_mutators import LAYER_MUTATORS
from ecmproto.fuzz.octet_mutators import OCTET_MUTATORS

SEPARATOR = b"\xfe\xed\xfe\xed"
"""Between the frames of a batch: found again wherever octets are put in or taken out."""
MOST_FRAMES = 12
"""Of a batch: more of them are left out."""


def frame_mutated(octets: bytes, dice: Dice) -> bytes:
    """Return a frame changed once, by its layers or as octets."""
    if octets and dice.below(4):
        change = dice.pick(LAYER_MUTATORS)
        return change(decode_lax(octets), octets, dice, _others())
    return dice.pick(OCTET_MUTATORS)(octets, dice)


def batch_of(octets: bytes) -> list[bytes]:
    """Return the batch that an input stands for."""
    return octets.split(SEPARATOR)[:MOST_FRAMES]


def batch_mutated(octets: bytes, dice: Dice) -> bytes:
    """Return a batch with a frame changed, doubled, left out, put elsewhere, or a template put in."""
    frames = batch_of(octets)
    at = dice.below(len(frames))
    match dice.below(8):
        case 0:
            frames.insert(dice.below(len(frames) + 1), frames[at])
        case 1:
            frames.pop(at)
        case 2:
            frames.insert(dice.below(len(frames)), frames.pop(at))
        case 3:
            frames.insert(at, dice.pick(template_frames()))
        case _:
            frames[at] = frame_mutated(frames[at], dice)
    return SEPARATOR.join(frames)


@functools.cache
def _others() -> tuple[Frame, ...]:
    return tuple(decode_lax(octets) for octets in template_frames())
