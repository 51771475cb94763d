"""Cases that another process makes are those of this one."""

from __future__ import annotations

from contextlib import closing
from itertools import islice

from ecmproto.fuzz.ahead import MakingAhead
from ecmproto.fuzz.cases import Cases
from ecmproto.fuzz.kinds import template_frames


def test_they_are_the_same_and_in_order() -> None:
    cases = Cases(template_frames(), seed=11)
    with closing(MakingAhead(cases)) as ahead:
        for start in (0, 1234):
            made = list(islice(ahead.starting_at(start), 100))
            assert made == [cases[index].octets for index in range(start, start + 100)]
