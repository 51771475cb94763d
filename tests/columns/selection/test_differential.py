"""Vectorised filters select the same frames as an evaluation frame by frame."""

from __future__ import annotations

import dataclasses
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import selection
from ecmproto.frames.columns.extraction import SHARED_FRAMES as SHARED_WORK
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.filter import Filter, compile_filter
from ecmproto.frames.filter.evaluation import values_of
from ecmproto.frames.filter.fields import Test, Value, find
from ecmproto.tools.fuzz.strategies import arbitrary_octets, frames, mutated, octets_of, truncated
from tests.columns.selection.reference import Sample, samples
from tests.columns.spoilt import INTERFACES, spoilt_batch
from tests.columns.test_extraction import BUNDLED
from tests.conftest import SHARED_CAPTURES
from tests.filter.drawn_filters import LAYERS, Drawer
from tests.filter.drawn_tests import TESTS
from tests.filter.test_drawn import TEXTS, attempt
from tests.filter.test_meaning import CASES
from tests.filter.test_meaning import FRAMES as MEANING_FRAMES

FRAMES = int(os.environ.get("ECMPROTO_SELECTION_FRAMES", "60"))
FILTERS = int(os.environ.get("ECMPROTO_SELECTION_FILTERS", "15"))
"""The number of frames per capture, and the number of drawn filters. Long runs set higher numbers."""

SPOILT = Sample(spoilt_batch(random.Random(5), 300), INTERFACES)
_NAMES = (
    *("frame.number", "frame.len", "frame.cap_len", "frame.time_epoch", "frame.interface_id"),
    *("eth.dst", "eth.src", "eth.addr", "eth.type", "eth.len", "vlan.id", "vlan.priority", "vlan.etype"),
    *("cntag.flow_id", "cnm.qntz_fb", "cnm.cpid", "ip.addr", "ip.src", "ip.len", "ipv6.addr"),
    *("udp.port", "tcp.flags", "arp.src.hw_mac", "macc.opcode", "lldp.tlv.type", "lldp.tlv.len"),
    *("encapsulated.ip.src", "encapsulated.vlan.id"),
)


@given(TESTS)
def test_drawn_tests_of_spoilt_frames(test: Test) -> None:
    SPOILT.check(test)


@given(TEXTS)
def test_random_filters_agree_with_the_reference(text: str) -> None:
    compiled = attempt(text)
    if isinstance(compiled, Filter):
        SPOILT.check(compiled.test)


@given(TESTS)
def test_a_few_values_at_a_time(test: Test) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selection, "AT_ONCE", 3)
        SPOILT.check(test)


_WHOLE = st.one_of(octets_of(frames()), mutated(), arbitrary_octets())
_DRAWN = st.lists(st.one_of(_WHOLE.map(lambda octets: (octets, len(octets))), truncated()), max_size=6)


@given(_DRAWN, st.lists(TESTS, min_size=1, max_size=3), st.data())
def test_drawn_tests_of_drawn_frames(
    drawn: list[tuple[bytes, int]], tests: list[Test], data: st.DataObject
) -> None:
    batch = Batch.from_frames(
        [octets for octets, _ in drawn],
        original=[original for _, original in drawn],
        interface=[data.draw(st.integers(0, len(INTERFACES) - 1)) for _ in drawn],
    )
    sample = Sample(batch, INTERFACES)
    for test in tests:
        sample.check(test)


MEANT = dataclasses.replace(
    Batch.from_frames(
        [frame.octets for frame in MEANING_FRAMES],
        time_ns=[frame.time_ns or 0 for frame in MEANING_FRAMES],
        interface=[frame.interface_id for frame in MEANING_FRAMES],
    ),
    timed=np.array([frame.time_ns is not None for frame in MEANING_FRAMES]),
)


@pytest.mark.parametrize("text", CASES)
def test_filters_select_the_expected_frames(text: str) -> None:
    filter = compile_filter(text)
    assert (MEANT.numbers[selected(MEANT, filter)] + 1).tolist() == CASES[text]
    SPOILT.check(filter.test)


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_bundled_captures(path: Path) -> None:
    (sample,) = samples([path], FRAMES)
    _check_drawn(sample, FILTERS)


@pytest.mark.skipif(not SHARED_CAPTURES.is_dir(), reason="the collection of real captures is not here")
def test_real_captures() -> None:
    paths = [
        path for path in sorted(SHARED_CAPTURES.rglob("*")) if path.suffix in (".pcap", ".pcapng", ".cap")
    ]
    compared = 0
    for sample in samples(paths, FRAMES):
        _check_drawn(sample, FILTERS)
        compared += len(sample.batch)
    assert compared


def _check_drawn(sample: Sample, count: int) -> None:
    """Check filters over values that the frames have, or others where they have none."""
    pool = {name: _values(sample, name) or _values(SPOILT, name) for name in _NAMES}
    drawer = Drawer(pool, seed=len(sample.batch))
    drawn = [compile_filter(drawer.filter()) for _ in range(count)]
    layers = [
        compile_filter(layer) for layer in (*LAYERS, "cnm", "encapsulated", "encapsulated.vlan", "data")
    ]
    held = [sample.check(filter.test) for filter in drawn + layers]
    assert any(held)


def _values(sample: Sample, name: str) -> list[Value]:
    field = find(name)
    assert field is not None
    read = values_of(field)
    return sorted({value for record in sample.records for value in read(record)})


def test_two_threads_select_the_same() -> None:
    batch = spoilt_batch(random.Random(6), 400).select(np.arange(SHARED_WORK + 100) % 400)
    filters = (
        "vlan.id == 5 or ip",
        "ip contains 00:01",
        "encapsulated.eth.src[0] == 02",
        "frame.len > 60 and cnm",
    )
    with ThreadPoolExecutor(1) as pool:
        for text in filters:
            filter = compile_filter(text)
            alone = selected(batch, filter, interfaces=INTERFACES)
            assert 0 < alone.sum() < len(alone)
            assert (selected(batch, filter, interfaces=INTERFACES, pool=pool) == alone).all()
            assert (alone == alone[np.arange(len(alone)) % 400]).all()
