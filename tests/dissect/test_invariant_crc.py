"""Lines and documents of RoCE packets with a wrong invariant CRC."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ecmproto.frames.capture import Batch
from ecmproto.frames.dissect import form
from ecmproto.frames.dissect.fields import Csv
from ecmproto.frames.dissect.form import Listing, records
from ecmproto.frames.dissect.json import NdJson
from ecmproto.frames.dissect.lines import Lines
from ecmproto.frames.dissect.tree import Trees
from ecmproto.wire.formats.infiniband import CRC_STATUS
from tests.check.planting import LINKS, frame

GOOD = frame("ip bth data data=00010203")
BAD = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
BATCH = Batch.from_frames([GOOD, BAD, GOOD[:-2]], original=[len(GOOD)] * 3)


def texts(form: Listing, *, whole: bool) -> list[str]:
    """Return the text of each frame, from the whole batch or from single frames."""
    if whole:
        return b"".join(map(bytes, form.batch(BATCH, LINKS))).decode().splitlines()
    return [form.record(record).rstrip("\n") for record in records(BATCH, LINKS)]


@pytest.mark.parametrize("whole", [True, False])
def test_a_spoilt_invariant_crc_shows_in_the_line(whole: bool) -> None:
    lines = texts(Lines(), whole=whole)
    assert ["[ICRC bad]" in line for line in lines] == [False, True, False]


@pytest.mark.parametrize("whole", [True, False])
def test_a_spoilt_invariant_crc_shows_in_the_document(whole: bool) -> None:
    documents = [json.loads(text) for text in texts(NdJson(), whole=whole)]
    assert [document.get("icrc") for document in documents] == [None, "bad", None]


@pytest.mark.parametrize("listing", [Lines, Trees, NdJson, lambda: Csv([CRC_STATUS])])
def test_bad_packets_are_written_in_batches(
    listing: Callable[[], Listing], monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [GOOD, BAD, GOOD[:-2]] * 16
    batch = Batch.from_frames(frames, original=[len(GOOD)] * len(frames))
    single = listing()
    expected = [single.among_others(record) for record in records(batch, LINKS)]
    monkeypatch.setattr(form, "records", lambda part, *_, **__: pytest.fail(f"{len(part)} frames one by one"))
    assert b"".join(map(bytes, listing().batch(batch, LINKS))).decode() == "".join(expected)
