"""Ways to spoil a frame without knowing what its octets mean."""

from __future__ import annotations

from ecmproto.fuzz.dice import Dice

JUMBO_OCTETS = 9216
_LONGEST_PART = 16
_EDGES = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xfe", b"\xff")


def flip_bit(octets: bytes, dice: Dice) -> bytes:
    """Flip one bit."""
    bit = dice.below(8 * len(octets))
    return _with(octets, bit // 8, octets[bit // 8] ^ 1 << bit % 8) if octets else octets


def flip_octet(octets: bytes, dice: Dice) -> bytes:
    """Flip all bits of an octet."""
    at = dice.below(len(octets))
    return _with(octets, at, octets[at] ^ 0xFF) if octets else octets


def set_edge(octets: bytes, dice: Dice) -> bytes:
    """Fill up to four octets with a boundary value."""
    start = dice.below(len(octets))
    count = min(dice.between(1, 4), len(octets) - start)
    return octets[:start] + dice.pick(_EDGES) * count + octets[start + count :]


def set_random(octets: bytes, dice: Dice) -> bytes:
    """Replace a stretch by random octets."""
    start, stop = _stretch(octets, dice)
    return octets[:start] + dice.octets(stop - start) + octets[stop:]


def add_small(octets: bytes, dice: Dice) -> bytes:
    """Add a small number to a 16-bit word: off by one is where lengths go wrong."""
    if len(octets) < 2:
        return octets
    at = dice.below(len(octets) - 1)
    word = int.from_bytes(octets[at : at + 2]) + dice.pick((-4, -2, -1, 1, 2, 4))
    return octets[:at] + (word & 0xFFFF).to_bytes(2, "big") + octets[at + 2 :]


def take_out(octets: bytes, dice: Dice) -> bytes:
    """Take a stretch out."""
    start, stop = _stretch(octets, dice)
    return octets[:start] + octets[stop:]


def put_in(octets: bytes, dice: Dice) -> bytes:
    """Put random octets in."""
    start = dice.below(len(octets) + 1)
    return octets[:start] + dice.octets(dice.between(1, _LONGEST_PART)) + octets[start:]


def double(octets: bytes, dice: Dice) -> bytes:
    """Write a stretch twice."""
    start, stop = _stretch(octets, dice)
    return octets[:stop] + octets[start:]


def cut_off(octets: bytes, dice: Dice) -> bytes:
    """Cut the end off: a runt."""
    return octets[: dice.below(len(octets))]


def run_on(octets: bytes, dice: Dice) -> bytes:
    """Make the frame longer, now and then a jumbo."""
    more = dice.between(1, 64) if dice.below(4) else max(0, JUMBO_OCTETS - len(octets) - dice.below(8))
    return octets + (bytes(more) if dice.chance(2) else dice.octets(more))


OCTET_MUTATORS = (
    flip_bit, flip_octet, set_edge, set_random, add_small, take_out, put_in, double, cut_off, run_on,
)  # fmt: skip


def _with(octets: bytes, at: int, value: int) -> bytes:
    return octets[:at] + bytes((value,)) + octets[at + 1 :]


def _stretch(octets: bytes, dice: Dice) -> tuple[int, int]:
    start = dice.below(len(octets) + 1)
    return start, min(len(octets), start + dice.between(1, _LONGEST_PART))
