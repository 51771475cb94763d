"""Cases that are no frames: captures, filters and specifications, spoilt by their own mutators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ecmproto.errors import ParameterError
from ecmproto.fuzz.cases import Case, digest_of
from ecmproto.fuzz.dice import Dice
from ecmproto.fuzz.octet_mutators import OCTET_MUTATORS

OctetMutator = Callable[[bytes, Dice], bytes]

_MOST_MUTATIONS = 4
LONGEST_OCTETS = 1 << 16
"""No case is longer."""

_WORDS_32 = (0, 1, 3, 4, 8, 12, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)
_WORDS_16 = (0, 1, 2, 9, 0x7FFF, 0x8000, 0xFFFF)
_SIGNS = b"()[]{}<>=!&|~\"'\\.,:/-+*#0123456789 \n"


def set_word(octets: bytes, dice: Dice) -> bytes:
    """Set an aligned word of 32 or 16 bits, in either byte order: lengths, counts, kinds of blocks."""
    size, words = (4, _WORDS_32) if dice.chance(2) else (2, _WORDS_16)
    if len(octets) < size:
        return octets
    at = dice.below(len(octets) // size) * size
    return octets[:at] + dice.pick(words).to_bytes(size, dice.pick(("big", "little"))) + octets[at + size :]


def take_out_words(octets: bytes, dice: Dice) -> bytes:
    """Take aligned words out, so that what is left is read at other places."""
    at = dice.below(len(octets) // 4 + 1) * 4
    return octets[:at] + octets[at + 4 * dice.between(1, 8) :]


def repeat(octets: bytes, dice: Dice) -> bytes:
    """Write the whole twice: a second header where none belongs."""
    return octets + octets


def put_sign(octets: bytes, dice: Dice) -> bytes:
    """Put signs of the language in, now and then very many of one."""
    at = dice.below(len(octets) + 1)
    sign = bytes((dice.pick(_SIGNS),))
    return octets[:at] + sign * (1 if dice.below(8) else dice.between(2, 2_000)) + octets[at:]


def move_word(octets: bytes, dice: Dice) -> bytes:
    """Take a word out and put it elsewhere."""
    words = octets.split(b" ")
    words.insert(dice.below(len(words)), words.pop(dice.below(len(words))))
    return b" ".join(words)


def double_word(octets: bytes, dice: Dice) -> bytes:
    """Write a word twice."""
    words = octets.split(b" ")
    at = dice.below(len(words))
    return b" ".join([*words[: at + 1], *words[at:]])


def set_number(octets: bytes, dice: Dice) -> bytes:
    """Put a number of boundary size in."""
    number = (1 << dice.pick((0, 1, 8, 16, 31, 32, 53, 63, 64, 128))) - dice.below(2)
    at = dice.below(len(octets) + 1)
    return octets[:at] + (b"-" if dice.chance(4) else b"") + b"%d" % number + octets[at + dice.below(4) :]


CAPTURE_MUTATORS: tuple[OctetMutator, ...] = (*OCTET_MUTATORS, set_word, set_word, take_out_words, repeat)
TEXT_MUTATORS: tuple[OctetMutator, ...] = (*OCTET_MUTATORS, put_sign, move_word, double_word, set_number)


class OctetCases:
    """All cases of a seed over a corpus of octet strings, as `Cases` of frames are."""

    def __init__(self, corpus: Sequence[bytes], mutators: Sequence[OctetMutator], *, seed: int) -> None:
        if seed < 0:
            raise ParameterError(name="seed", needed="0 or more", got=str(seed))
        self.seed = seed
        self.corpus = digest_of(corpus)
        """Tells this corpus from others."""
        self._corpus = tuple(corpus) or (b"",)
        self._mutators = tuple(mutators)

    def __getitem__(self, index: int) -> Case:
        """Return case ``index``, 0 or more."""
        dice = Dice(self.seed, index)
        source = dice.below(len(self._corpus))
        octets = self._corpus[source]
        done = []
        if dice.chance(8):
            other = dice.pick(self._corpus)
            octets = octets[: dice.below(len(octets) + 1)] + other[dice.below(len(other) + 1) :]
            done.append("splice")
        for _ in range(dice.between(1, _MOST_MUTATIONS)):
            mutate = dice.pick(self._mutators)
            octets = mutate(octets, dice)[:LONGEST_OCTETS]
            done.append(mutate.__name__)
        return Case(seed=self.seed, index=index, octets=octets, source=source, mutations=tuple(done))

    def starting_at(self, index: int) -> Iterator[Case]:
        """Yield every case from ``index`` on, without end."""
        while True:
            yield self[index]
            index += 1
