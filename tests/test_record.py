"""Records: the types of fields that class annotations produce."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ecmproto.kernels.record import columns, new_record, new_records, record_dtype


class Good:
    count: int
    share: float
    parts: Annotated[NDArray[np.int32], (2, 3)]


class Hidden:
    base: int
    put: int


def test_annotations_become_fields() -> None:
    assert record_dtype(Good) == np.dtype([("count", "i8"), ("share", "f8"), ("parts", "i4", (2, 3))])


class Better(Good):
    more: int


def test_derived_record_has_base_fields_at_other_offsets() -> None:
    assert record_dtype(Better).names == ("count", "share", "parts", "more")
    fields, base = record_dtype(Better).fields, record_dtype(Good).fields
    assert fields is not None
    assert base is not None
    assert all(fields[name][:2] != base[name][:2] for name in base)


OUTER = """
from ecmproto.control.mechanisms.limiter import RateLimiter, leaves_ns
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import new_record

class Slot(RateLimiter):
    flow: int

@compiled
def outer(limiter: RateLimiter, now_ns: int) -> int:
    return leaves_ns(limiter, now_ns)

for kind, kernel in ((RateLimiter, leaves_ns), (Slot, outer), (RateLimiter, outer)):
    limiter = new_record(kind)
    limiter.rate_bps = 1e9
    assert kernel(limiter, 5) == 5
"""


def test_code_for_base_record_serves_derived_record(tmp_path: Path) -> None:
    (tmp_path / "outer_part.py").write_text(OUTER)
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", "import outer_part"],
        cwd=tmp_path,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0", "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_records_are_views_of_one_array() -> None:
    records = new_records(Good, 2)
    records[1].count = 7
    records[1].parts[1, 2] = 5
    assert columns(records)["count"].tolist() == [0, 7]
    assert columns(records)["parts"][1].tolist() == [[0, 0, 0], [0, 0, 5]]


def test_names_of_numpy_attributes_are_refused() -> None:
    with pytest.raises(ValueError, match="Hidden: numpy records hide fields called base, put"):
        record_dtype(Hidden)


def test_record_has_only_its_declared_attributes() -> None:
    record = new_record(Good)
    record.count, record.parts[1, 2] = 7, 5
    record.share = 0.5
    assert (record.count, record.share, record.parts.sum()) == (7, 0.5, 5)
    unknown: Any = record
    with pytest.raises(AttributeError, match="shares"):
        _ = unknown.shares
    with pytest.raises(AttributeError, match="shares"):
        unknown.shares = 1
    with pytest.raises(ValueError, match="seven"):
        unknown.count = "seven"
