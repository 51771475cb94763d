"""Cases depend only on the seed and the index, whether this process or another process generates them."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections import Counter
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.errors import DecodeError, ParameterError
from ecmproto.frames.capture import open_capture
from ecmproto.tools.fuzz.cases import LONGEST_FRAME_OCTETS, Cases, PrefetchedCases
from ecmproto.tools.fuzz.mutators import LAYER_MUTATORS, OCTET_MUTATORS
from ecmproto.tools.fuzz.strategies import arbitrary_octets
from ecmproto.tools.fuzz.subjects import template_frames
from ecmproto.wire.codec import VLAN, CNTag, Data, Ethernet, Frame, decode, decode_lax, encode

PCAPS = Path(__file__).parents[2] / "pcaps"
NAMES = {mutator.__name__ for mutator in (*OCTET_MUTATORS, *LAYER_MUTATORS)}


def corpus() -> list[bytes]:
    with open_capture(str(PCAPS / "mixed.pcap")) as reader:
        return [octets for batch in reader for octets in batch.frames()]


def test_case_depends_on_seed_and_index_only() -> None:
    cases, again = Cases(corpus(), seed=7), Cases(corpus(), seed=7)
    forwards = list(islice(cases, 200))
    assert [again[index] for index in reversed(range(200))] == forwards[::-1]
    assert list(islice(cases.starting_at(50), 10)) == forwards[50:60]
    assert [case.index for case in forwards] == list(range(200))
    assert list(islice(Cases(corpus(), seed=8), 200)) != forwards


def test_cases_are_the_same_in_every_release() -> None:
    frame = encode(
        Frame(layers=(Ethernet(), VLAN(id=5, priority=3), CNTag(flow_id=7), Data(data=bytes(60)))), fix=True
    )
    digest = hashlib.sha256(b"".join(case.octets for case in islice(Cases([frame], seed=1), 500)))
    assert digest.hexdigest() == "ee31c8c0c287dd20ebe5d88253fddf89d6c050aa255c09447e5d3a80cf00efa5"


def test_every_mutator_is_used() -> None:
    done = Counter(name for case in islice(Cases(corpus(), seed=1), 4_000) for name in case.mutations)
    assert set(done) == NAMES | {"random"}
    assert min(done.values()) > 20


def test_a_mutation_changes_the_frame() -> None:
    frames = corpus()
    for case in islice(Cases(frames, seed=3), 2_000):
        if len(case.mutations) == 1 and case.source >= 0:
            assert case.octets != frames[case.source]
        assert len(case.octets) <= LONGEST_FRAME_OCTETS


def test_cases_reach_deep_tag_stacks_jumbos_and_runts() -> None:
    found = list(islice(Cases(corpus(), seed=2), 4_000))
    depths = [len(decode_lax(case.octets).layers) for case in found]
    assert 500 < max(depths) < 2_400
    assert max(len(case.octets) for case in found) > 9_000
    assert min(len(case.octets) for case in found) < 14


def test_many_cases_are_malformed_and_many_are_not() -> None:
    refused = 0
    for case in islice(Cases(corpus(), seed=5), 1_000):
        try:
            decode(case.octets)
        except DecodeError:
            refused += 1
    assert 100 < refused < 900


def test_an_empty_corpus_gives_random_octets() -> None:
    found = list(islice(Cases([], seed=1), 50))
    assert {case.mutations for case in found} == {("random",)}
    assert len({case.octets for case in found}) > 40


def test_seeds_are_not_negative() -> None:
    with pytest.raises(ParameterError, match="seed"):
        Cases([], seed=-1)


@settings(max_examples=200, deadline=None)
@given(st.lists(arbitrary_octets(), min_size=1, max_size=4), st.integers(0, 2**70), st.integers(0, 2**40))
def test_any_octets_can_be_a_corpus(frames: list[bytes], seed: int, index: int) -> None:
    case = Cases(frames, seed=seed)[index]
    assert case.mutations
    decode_lax(case.octets)


def test_prefetched_cases_equal_cases_in_order() -> None:
    cases = Cases(template_frames(), seed=11)
    with closing(PrefetchedCases(cases)) as ahead:
        for start in (0, 1234):
            made = list(islice(ahead.starting_at(start), 1200))
            assert made == [cases[index].octets for index in range(start, start + 1200)]


def test_prefetching_survives_its_killed_process() -> None:
    cases = Cases(template_frames(), seed=11)
    with closing(PrefetchedCases(cases)) as ahead:
        made = ahead.starting_at(5)
        first = next(made)
        for process in multiprocessing.active_children():
            process.kill()
        count = 14_000
        rest = list(islice(made, count))
    assert first == cases[5].octets
    assert rest[-20:] == [cases[index].octets for index in range(5 + count - 19, 5 + count + 1)]
