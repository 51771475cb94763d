"""The cases of a campaign: randomly mutated frames or octets, each reproducible from its seed and index.

>>> cases = Cases(corpus, seed=7)
>>> cases[123].octets           # equal in every run
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import multiprocessing
import random
import signal
from collections.abc import Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from ecmproto.errors import ParameterError
from ecmproto.tools.fuzz.mutators import JUMBO_OCTETS, LAYER_MUTATORS, OCTET_MUTATORS, OctetMutator, put_in
from ecmproto.wire.codec.frame import Frame, decode_lax
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

_MAX_MUTATIONS = 4
_TRIES = 8
_WHOLLY_RANDOM_OF = 50
_RANDOM_OCTETS = 160
LONGEST_FRAME_OCTETS = 2 * JUMBO_OCTETS
"""Maximum length of a case in octets."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FuzzCase:
    """A frame for a test, with the steps that created the frame."""

    seed: int
    index: int
    octets: bytes
    source: int
    """Index of the original frame in the corpus; −1 for a random frame without an original."""
    mutations: tuple[str, ...]
    """Names of the applied mutators, in order."""


_DIGEST_CHARACTERS = 16


def digest_of(items: Sequence[bytes]) -> str:
    """Return a short digest of a corpus."""
    sums = b"".join(hashlib.sha256(octets).digest() for octets in items)
    return hashlib.sha256(sums).hexdigest()[:_DIGEST_CHARACTERS]


_INDEX_BITS = 64


def random_of(seed: int, index: int) -> random.Random:
    """Return the random number generator of a case. The numbers are equal in Python 3.11 to 3.14."""
    return random.Random(seed << _INDEX_BITS | index)


class CaseSource:
    """The endless sequence of cases from a seed and a corpus. Raises ParameterError for a negative seed."""

    def __init__(self, corpus: Sequence[bytes], *, seed: int) -> None:
        if seed < 0:
            raise ParameterError(name="seed", needed="0 or more", got=str(seed))
        self.seed = seed
        self.corpus: str = digest_of(corpus)
        """The digest that identifies the corpus."""
        self.unspoilt: tuple[bytes, ...] = tuple(corpus)
        """The octets of the corpus without mutations."""

    def __getitem__(self, index: int) -> FuzzCase:
        """Return the case with the index ``index``, which is 0 or more."""
        raise NotImplementedError

    def starting_at(self, index: int) -> Iterator[FuzzCase]:
        """Yield every case from ``index`` without end."""
        while True:
            yield self[index]
            index += 1


class Cases(CaseSource):
    """Cases that are mutated frames."""

    def __init__(self, corpus: Sequence[bytes], *, seed: int, ethertypes: EtherTypes = DEFAULT) -> None:
        super().__init__(corpus, seed=seed)
        self._ethertypes = ethertypes
        self._frames = tuple(decode_lax(octets, ethertypes=ethertypes) for octets in self.unspoilt)

    def __reduce__(self) -> tuple[object, ...]:
        # decoding the corpus again is faster than sending decoded frames
        return functools.partial(Cases, self.unspoilt, seed=self.seed, ethertypes=self._ethertypes), ()

    def __getitem__(self, index: int) -> FuzzCase:
        """Return the case with the index ``index``, which is 0 or more."""
        rng = random_of(self.seed, index)
        if not self.unspoilt or not rng.randrange(_WHOLLY_RANDOM_OF):
            octets = rng.randbytes(rng.randrange(_RANDOM_OCTETS + 1))
            return FuzzCase(seed=self.seed, index=index, octets=octets, source=-1, mutations=("random",))
        source = rng.randrange(len(self.unspoilt))
        octets = self.unspoilt[source]
        done: list[str] = []
        for _ in range(1 + min(rng.randrange(_MAX_MUTATIONS), rng.randrange(_MAX_MUTATIONS))):
            octets, name = self._mutated(octets, source if not done else -1, rng)
            done.append(name)
        return FuzzCase(seed=self.seed, index=index, octets=octets, source=source, mutations=tuple(done))

    def _mutated(self, octets: bytes, source: int, rng: random.Random) -> tuple[bytes, str]:
        """Return ``octets`` after a mutation, and the name of the mutator.

        ``source`` is the corpus index of a frame that is not mutated yet, and −1 for other octets.
        """
        for _ in range(_TRIES):
            if octets and rng.getrandbits(1):
                change = rng.choice(LAYER_MUTATORS)
                spoilt = change(self._frame(octets, source), octets, rng, self._frames)
                name = change.__name__
            else:
                spoil = rng.choice(OCTET_MUTATORS)
                spoilt, name = spoil(octets, rng), spoil.__name__
            if spoilt != octets:
                return spoilt[:LONGEST_FRAME_OCTETS], name
        return put_in(octets, rng), put_in.__name__

    def _frame(self, octets: bytes, source: int) -> Frame:
        return self._frames[source] if source >= 0 else decode_lax(octets, ethertypes=self._ethertypes)

    def __iter__(self) -> Iterator[FuzzCase]:
        """Yield every case from index 0 without end."""
        return self.starting_at(0)


LONGEST_INPUT_OCTETS = 1 << 16
"""Maximum length of a case in octets."""


class OctetCases(CaseSource):
    """Cases that are mutated octet strings."""

    def __init__(self, corpus: Sequence[bytes], mutators: Sequence[OctetMutator], *, seed: int) -> None:
        super().__init__(corpus, seed=seed)
        self.unspoilt = self.unspoilt or (b"",)
        self._mutators = tuple(mutators)

    def __getitem__(self, index: int) -> FuzzCase:
        """Return the case with the index ``index``, which is 0 or more."""
        rng = random_of(self.seed, index)
        source = rng.randrange(len(self.unspoilt))
        octets = self.unspoilt[source]
        done = []
        if not rng.randrange(8):
            other = rng.choice(self.unspoilt)
            octets = octets[: rng.randrange(len(octets) + 1)] + other[rng.randrange(len(other) + 1) :]
            done.append("splice")
        for _ in range(rng.randint(1, _MAX_MUTATIONS)):
            mutate = rng.choice(self._mutators)
            octets = mutate(octets, rng)[:LONGEST_INPUT_OCTETS]
            done.append(mutate.__name__)
        return FuzzCase(seed=self.seed, index=index, octets=octets, source=source, mutations=tuple(done))


_TOGETHER = 32
"""Number of cases per write to the pipe."""
_FIRST = 1000
"""Number of cases that are created before the first case is used."""
_PIPE_OCTETS = 1 << 20
"""Size of the pipe in octets, for thousands of cases while the sending process is not scheduled."""
_END_SECONDS = 5.0


class PrefetchedCases:
    """The octets of ``cases``, created in advance by another process. The caller must call `close`."""

    def __init__(self, cases: Cases) -> None:
        self._cases = cases
        self._process: BaseProcess | None = None

    def starting_at(self, index: int) -> Iterator[bytes]:
        """Yield the octets of every case from ``index`` without end. Earlier iterators stop."""
        self.close()
        context = multiprocessing.get_context("spawn")
        receiving, sending = context.Pipe(duplex=False)
        with contextlib.suppress(ImportError, OSError):
            import fcntl  # F_SETPIPE_SZ exists only in Linux

            fcntl.fcntl(sending.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_OCTETS)
        self._process = context.Process(target=_make, args=(self._cases, index, sending), daemon=True)
        self._process.start()
        sending.close()
        with receiving, contextlib.suppress(EOFError, OSError):
            while True:
                made = receiving.recv()
                yield from made
                index += len(made)
        # the other process was ended from outside
        yield from _octets(self._cases, index)

    def close(self) -> None:
        """End the process that creates the cases."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(_END_SECONDS)
            self._process = None


def _octets(cases: Cases, index: int) -> Iterator[bytes]:
    return (case.octets for case in cases.starting_at(index))


def _make(cases: Cases, index: int, sending: Connection) -> None:
    """Send the octets of cases to a pipe until the pipe is closed."""
    # the receiving process handles interrupts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    made = _octets(cases, index)
    with contextlib.suppress(BrokenPipeError):
        sending.send(list(islice(made, _FIRST)))
        while True:
            sending.send(list(islice(made, _TOGETHER)))
