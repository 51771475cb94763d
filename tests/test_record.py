"""State records: what class annotations become."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest
from numpy.typing import NDArray

from ecmproto.record import columns, new_records, record_dtype


class Good:
    count: int
    share: float
    parts: Annotated[NDArray[np.int32], (2, 3)]


class Hidden:
    base: int
    put: int


def test_annotations_become_fields() -> None:
    assert record_dtype(Good) == np.dtype([("count", "i8"), ("share", "f8"), ("parts", "i4", (2, 3))])


def test_records_are_views_of_one_array() -> None:
    records = new_records(Good, 2)
    records[1].count = 7
    records[1].parts[1, 2] = 5
    assert columns(records)["count"].tolist() == [0, 7]
    assert columns(records)["parts"][1].tolist() == [[0, 0, 0], [0, 0, 5]]


def test_names_that_numpy_would_hide_are_refused() -> None:
    with pytest.raises(ValueError, match="Hidden: numpy records hide fields called base, put"):
        record_dtype(Hidden)
