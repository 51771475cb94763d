"""Numbers for keys: exact, in order, bounded."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.stats.tally import NO_NUMBER, Numbering

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.lists(st.tuples(INT64 | st.integers(0, 2), st.integers(0, 2)), max_size=40)


@given(keys=KEYS, cut=st.integers(0, 40), most=st.integers(1, 20))
def test_as_a_dictionary(keys: list[tuple[int, int]], cut: int, most: int) -> None:
    numbering, numbers = Numbering(most), []
    for part in (keys[:cut], keys[cut:]):
        rows = np.array(part, np.int64).reshape(-1, 2)
        numbers += numbering.numbers(rows[:, 0], rows[:, 1]).tolist()
    known = {key: number for number, key in enumerate([*dict.fromkeys(keys)][:most])}
    assert numbers == [known.get(key, NO_NUMBER) for key in keys]
    assert numbering.count == len(known)
    assert numbering.left_out == numbers.count(NO_NUMBER)
    assert numbering.low.tolist() == [key[0] % (1 << 64) for key in known]
    assert numbering.high.tolist() == [key[1] for key in known]
