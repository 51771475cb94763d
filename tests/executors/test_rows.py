"""Rows as octets, and in files that may be truncated."""

from __future__ import annotations

import io
import math
import os
import zipfile
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import OutputError, SpecError
from ecmproto.executors.rows import RowStore, octets_at, pack, unpack

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: key[:1] != "$"), inner),
)  # fmt: skip


@given(st.dictionaries(st.text().filter(lambda key: key[:1] != "$"), plain))
def test_plain_data_survives_packing(value: dict[str, Any]) -> None:
    assert unpack(pack(value)) == value


def test_arrays_survive_packing_with_types() -> None:
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
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        pack(value)


# Files ----------------------------------------------------------------------------------------------------


def add(path: Path, *rows: dict[str, Any]) -> None:
    with RowStore(path) as store:
        for row in rows:
            store.add(row["digest"], pack(row))


def test_rows_are_stored_and_replaced_by_key(tmp_path: Path) -> None:
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
def test_cut_tail_is_replaced_by_next_row(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "rows.ndjson"
    add(path, {"digest": "a"}, {"digest": "b"})
    whole = path.read_bytes()
    path.write_bytes(whole + rest)
    assert list(RowStore(path)) == ["a", "b"]
    assert path.read_bytes() == whole + rest  # looking changes nothing
    add(path, {"digest": "c"})
    assert path.read_bytes() == whole + b'{"digest": "c"}\n'


def test_row_without_its_arrays_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    add(path, {"digest": "a", "array": np.arange(3)}, {"digest": "b", "text": '{"$array": "0"}'})
    (tmp_path / "rows.ndjson.arrays" / "a" / "a.npz").unlink()
    store = RowStore(path)
    assert list(store) == ["b"]
    assert store["b"]["text"] == '{"$array": "0"}'


def test_stale_partial_arrays_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    add(path, {"digest": "ab1", "array": np.arange(3)})
    old, new = (tmp_path / "rows.ndjson.arrays" / "ab" / f".ab2.npz.{name}" for name in ("old", "new"))
    old.touch()
    os.utime(old, (0, 0))
    new.touch()
    assert list(RowStore(path)) == ["ab1"]
    assert (old.exists(), new.exists()) == (False, True)


def test_stored_octets_are_readable_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    add(Path("rows.ndjson"), {"digest": "a", "array": np.arange(3), "state": b"\0{}"})
    position = RowStore(Path("rows.ndjson")).position_of("a", "state")
    monkeypatch.chdir(Path("/"))
    assert octets_at(unpack(pack({"states": [position]}))["states"][0]) == b"\0{}"
    (tmp_path / "rows.ndjson.arrays" / "a" / "a.npz").unlink()
    with pytest.raises(OSError, match=r"a\.npz"):
        octets_at(position)


def test_files_joined_are_a_file(tmp_path: Path) -> None:
    add(tmp_path / "1", {"digest": "a", "y": 1})
    add(tmp_path / "2", {"digest": "b", "y": 2})
    (tmp_path / "whole").write_bytes((tmp_path / "1").read_bytes() + (tmp_path / "2").read_bytes())
    assert [RowStore(tmp_path / "whole")[key]["y"] for key in "ab"] == [1, 2]


@pytest.mark.parametrize(
    "content",
    [
        b"buy milk\n",
        b"buy milk",
        b"\xd4\xc3\xb2\xa1\x02\0\x04\0" + bytes(16),
        b'{"digest": "a"',
        b"[" * 100_000 + b"\n",
        b'{"digest": ["a"]}\n',
        b'{"digest": "a", "y": ' + b"1" * 5000 + b"}\n",
    ],
    ids=["line", "no newline", "capture", "no complete row", "nested", "list as digest", "long number"],
)
def test_foreign_file_is_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=r"notes\.txt"):
        RowStore(path)
    assert path.read_bytes() == content


def test_rows_are_in_regular_files_only(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk")
    (tmp_path / "link").symlink_to("notes.txt")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises(SpecError, match="regular file"):
            RowStore(tmp_path / name)
    assert (tmp_path / "notes.txt").read_text() == "buy milk"


def test_arrays_are_not_written_through_links(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "rows.ndjson.arrays").symlink_to("elsewhere")
    with pytest.raises(SpecError, match="links"):
        add(tmp_path / "rows.ndjson", {"digest": "a", "array": np.arange(3)})
    assert not list((tmp_path / "elsewhere").iterdir())


class Squared(TypedDict):
    digest: str
    y: int


@given(st.dictionaries(st.sampled_from(["digest", "y", "z"]), plain))
def test_rows_of_another_type_are_refused(tmp_path_factory: pytest.TempPathFactory, row: Any) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.ndjson"
    path.write_bytes(pack({**row, "digest": "a"})[8:].partition(b"PK\3\4")[0] + b"\n")
    store = RowStore(path, Squared)
    if set(row) - {"digest"} == {"y"} and type(row["y"]) is int and abs(row["y"]) < 1 << 63:
        assert store["a"] == {"digest": "a", "y": row["y"]}
    elif "a" in store:
        with pytest.raises(SpecError, match="a"):
            store["a"]


def zipped(kind: int, *arrays: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as file:
        for name, octets in arrays:
            file.writestr(name, octets)
    return stream.getvalue()


def npy(shape: str, dtype: str = "|u1") -> bytes:
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"no arrays",
        zipped(zipfile.ZIP_DEFLATED, ("0.npy", npy("(1000000,)") + bytes(1_000_000))),
        zipped(zipfile.ZIP_STORED, ("0.npy", npy(f"({1 << 60},)"))),
        zipped(zipfile.ZIP_STORED, ("0.npy", npy("(8,)", "|O") + bytes(64))),
        zipped(zipfile.ZIP_STORED, ("0.npy", b"\x93NUMPY\7\0")),
        zipped(zipfile.ZIP_STORED, ("1.npy", npy("(0,)"))),
    ],
    ids=["nothing", "text", "compressed", "larger than the file", "objects", "version", "another name"],
)
def test_malformed_arrays_are_refused(tmp_path: Path, octets: bytes) -> None:
    path = tmp_path / "rows.ndjson"
    add(path, {"digest": "a", "state": b"\0{}"})
    (tmp_path / "rows.ndjson.arrays" / "a" / "a.npz").write_bytes(octets)
    store = RowStore(path)
    with pytest.raises(SpecError, match="arrays"):
        store["a"]
    with pytest.raises(SpecError, match="arrays"):
        octets_at(store.position_of("a", "state"))


def test_key_cannot_name_another_folder(tmp_path: Path) -> None:
    with RowStore(tmp_path / "rows") as store, pytest.raises(SpecError):
        store.add("../a", pack({"digest": "../a", "array": np.arange(3)}))
    assert not (tmp_path / "a.npz").exists()


def test_a_full_disk_leaves_whole_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows"
    add(path, {"digest": "a"})
    write = os.write
    with RowStore(path) as store:
        monkeypatch.setattr(os, "write", lambda file, octets: write(file, octets[:5]))
        with pytest.raises(OutputError, match="space for a row"):
            store.add("b", pack({"digest": "b"}))
        monkeypatch.undo()
        store.add("c", pack({"digest": "c"}))
    assert list(RowStore(path)) == ["a", "c"]
