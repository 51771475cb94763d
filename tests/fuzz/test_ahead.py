"""Cases that another process makes are those of this one."""

from __future__ import annotations

import multiprocessing
from contextlib import closing
from itertools import islice

from ecmproto.fuzz.cases import Cases, MakingAhead
from ecmproto.fuzz.subjects import template_frames


def test_they_are_the_same_and_in_order() -> None:
    cases = Cases(template_frames(), seed=11)
    with closing(MakingAhead(cases)) as ahead:
        for start in (0, 1234):
            made = list(islice(ahead.starting_at(start), 1200))
            assert made == [cases[index].octets for index in range(start, start + 1200)]


def test_they_go_on_when_the_other_process_is_ended() -> None:
    cases = Cases(template_frames(), seed=11)
    with closing(MakingAhead(cases)) as ahead:
        made = ahead.starting_at(5)
        first = next(made)
        for process in multiprocessing.active_children():
            process.kill()
        count = 14_000
        rest = list(islice(made, count))
    assert first == cases[5].octets
    assert rest[-20:] == [cases[index].octets for index in range(5 + count - 19, 5 + count + 1)]
