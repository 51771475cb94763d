"""Rows as octets, and in files that may be cut short."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import OutputError, SpecError
from ecmproto.executors.rows import RowStore, framed, octets_at, pack, unframed, unpack

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: key[:1] != "$"), inner),
)  # fmt: skip


@given(st.dictionaries(st.text().filter(lambda key: key[:1] != "$"), plain))
def test_plain_data_comes_back(value: dict[str, Any]) -> None:
    assert unpack(pack(value)) == value


def test_arrays_come_back_with_their_types() -> None:
    given = {
        "whole": np.arange(6, dtype=">u2").reshape(2, 3)[:, ::2],
        "records": np.array([(1, b"ab")], dtype=[("n", "<i8"), ("name", "S2")]),
        "none": np.zeros((0, 4), np.float32),
        "nan": np.array([math.nan]),
        "one": np.int64(7),
    }
    found = unpack(pack({"inside": [given]}))["inside"][0]
    for name in ("whole", "records", "none", "nan"):
        np.testing.assert_array_equal(found[name], given[name])
        assert found[name].dtype == np.asarray(given[name]).dtype
    assert found["one"] == 7


@pytest.mark.parametrize(
    "value",
    [
        {1: 2},
        {"a": {"$array": "0"}},
        {"a": math.nan},
        {"a": object()},
        {"a": np.array([object()])},
        {"a": {1}},
    ],
)
def test_what_is_no_plain_data_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        pack(value)


def test_messages_stand_one_behind_the_other() -> None:
    assert list(unframed(framed(iter([b"", b"a" * 300, b"b"])))) == [b"", b"a" * 300, b"b"]


# Files ----------------------------------------------------------------------------------------------------


def add(path: Path, *rows: dict[str, Any]) -> None:
    with RowStore(path) as store:
        for row in rows:
            store.add(row["digest"], pack(row))


def test_rows_are_there_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    add(path, {"digest": "a", "y": 1}, {"digest": "b", "array": np.arange(3), "octets": b"\0\n"})
    add(path, {"digest": "c"}, {"digest": "a", "y": 2})
    store = RowStore(path)
    assert list(store) == ["a", "b", "c"]
    assert store["a"] == {"digest": "a", "y": 2}
    assert store["b"]["array"].tolist() == [0, 1, 2]
    assert store["b"]["octets"] == b"\0\n"
    assert path.read_bytes().count(b"\n") == 4
    assert "d" not in store
    with pytest.raises(KeyError):
        store["d"]


@pytest.mark.parametrize("rest", [b'{"digest": "c", "y"', b"\0" * 40, b"\0" * 40 + b"\n", b"x"])
def test_what_was_cut_short_is_taken_off(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "rows.ndjson"
    add(path, {"digest": "a"}, {"digest": "b"})
    whole = path.read_bytes()
    path.write_bytes(whole + rest)
    assert list(RowStore(path)) == ["a", "b"]
    assert path.read_bytes() == whole


def test_a_row_without_its_arrays_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    add(path, {"digest": "a", "array": np.arange(3)}, {"digest": "b", "text": '{"$array": "0"}'})
    (tmp_path / "rows.ndjson.arrays" / "a" / "a.npz").unlink()
    store = RowStore(path)
    assert list(store) == ["b"]
    assert store["b"]["text"] == '{"$array": "0"}'


def test_what_a_killed_process_left_is_removed_in_time(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    add(path, {"digest": "ab1", "array": np.arange(3)})
    old, new = (tmp_path / "rows.ndjson.arrays" / "ab" / f".ab2.npz.{name}" for name in ("old", "new"))
    old.touch()
    os.utime(old, (0, 0))
    new.touch()
    assert list(RowStore(path)) == ["ab1"]
    assert (old.exists(), new.exists()) == (False, True)


def test_octets_are_read_by_who_is_told_where_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    add(Path("rows.ndjson"), {"digest": "a", "array": np.arange(3), "state": b"\0{}"})
    place = RowStore(Path("rows.ndjson")).place_of("a", "state")
    monkeypatch.chdir(Path("/"))
    assert octets_at(unpack(pack({"states": [place]}))["states"][0]) == b"\0{}"
    (tmp_path / "rows.ndjson.arrays" / "a" / "a.npz").unlink()
    with pytest.raises(OSError, match=r"a\.npz"):
        octets_at(place)


def test_files_joined_are_a_file(tmp_path: Path) -> None:
    add(tmp_path / "1", {"digest": "a", "y": 1})
    add(tmp_path / "2", {"digest": "b", "y": 2})
    (tmp_path / "whole").write_bytes((tmp_path / "1").read_bytes() + (tmp_path / "2").read_bytes())
    assert [RowStore(tmp_path / "whole")[key]["y"] for key in "ab"] == [1, 2]


def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n")
    with pytest.raises(SpecError, match="line 1"):
        RowStore(path)
    assert path.read_text() == "buy milk\n"


def test_a_key_names_no_other_folder(tmp_path: Path) -> None:
    with RowStore(tmp_path / "rows") as store, pytest.raises(SpecError):
        store.add("../a", pack({"digest": "../a", "array": np.arange(3)}))
    assert not (tmp_path / "a.npz").exists()


def test_a_full_disk_leaves_whole_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows"
    add(path, {"digest": "a"})
    write = os.write
    with RowStore(path) as store:
        monkeypatch.setattr(os, "write", lambda file, octets: write(file, octets[:5]))
        with pytest.raises(OutputError, match="room"):
            store.add("b", pack({"digest": "b"}))
        monkeypatch.undo()
        store.add("c", pack({"digest": "c"}))
    assert list(RowStore(path)) == ["a", "c"]
