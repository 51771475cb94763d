"""Inputs that are no frames, changed by the mutators of `ecmproto.fuzz.octet_cases`."""

from __future__ import annotations

from ecmproto.fuzz.dice import Dice
from ecmproto.fuzz.octet_cases import CAPTURE_MUTATORS, TEXT_MUTATORS


def capture_mutated(octets: bytes, dice: Dice) -> bytes:
    """Return a capture changed once."""
    return dice.pick(CAPTURE_MUTATORS)(octets, dice)


def text_mutated(octets: bytes, dice: Dice) -> bytes:
    """Return a text changed once."""
    return dice.pick(TEXT_MUTATORS)(octets, dice)
